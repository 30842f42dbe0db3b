"""What tests of several recipes need: stand-ins for fairseq's commands, a small corpus."""

import pytest
from recipe_runs import Corpus, make_corpus, with_stand_ins


@pytest.fixture(scope="module")
def tools(tmp_path_factory) -> dict[str, str]:
    """Variables with which a recipe finds stand-ins for fairseq's commands."""
    return with_stand_ins(tmp_path_factory.mktemp("stand_ins") / "bin")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    """A miniature of WMT14 English-German."""
    return make_corpus("wmt14_en_de", tmp_path_factory.mktemp("mirror"), "de", 30)
