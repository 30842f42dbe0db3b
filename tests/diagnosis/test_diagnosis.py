"""diagnosis/: where a training differs from the paper. Its options are fairseq's own parse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from trainings import STOCK, defaults, evidence, stock_words

from fairseq_aiayn.diagnosis.aspects import ASPECTS, Weight
from fairseq_aiayn.diagnosis.diagnosis import as_json, diagnose, fairseq_defaults, unequal_aspects
from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import BASE, BIG, PARSING, ROWS, Row
from fairseq_aiayn.settings import task_of, train_flags

DOCS = Path(__file__).parents[2] / "docs"
# What stock fairseq cannot do otherwise, with any options
STOCKS_OWN = {"positions", "projections", "spread of the smoothing", "initial values", "batches"}


def differing(found: Evidence, row: Row | None = None) -> set[str]:
    return set(unequal_aspects([diagnose(found, row)]))


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_row_as_aiayn_flags_gives_it_differs_in_nothing(row):
    """Breaks if an aspect judges by other numbers than those of paper.py and paper.py."""
    words = ["--distributed-world-size", "8", *train_flags(row, gpus=8)]
    found = evidence(words, task_of(row))
    assert diagnose(found).row is row
    assert differing(found) == set()
    assert not diagnose(found).other_options


@pytest.mark.parametrize(
    ("name", "as_stocks"),
    [
        ("base", set()),
        ("big", set()),
        ("c_n2", set()),
        ("e_learned", {"positions"}),
        ("tiny", {"initial values"}),
        ("parsing", set()),
    ],
)
def test_a_row_in_stock_fairseq_differs_in_what_no_option_changes(name, as_stocks):
    row = ROWS[name]
    found = evidence([*stock_words(row)])
    assert differing(found, row) == STOCKS_OWN - as_stocks
    assert not diagnose(found).other_options


def test_rows_are_recognized_by_their_sizes():
    big = evidence(["--arch", "transformer_wmt_en_de_big", *STOCK])
    assert diagnose(big).row.name == "big"
    french = evidence(["--arch", "transformer_vaswani_wmt_en_fr_big", *STOCK])
    assert diagnose(french).row.name == "big_en_fr"
    assert diagnose(evidence(["--arch", "transformer_iwslt_de_en", *STOCK])).row is BASE
    without = evidence([*stock_words(), "--dropout", "0.0"])
    assert diagnose(without).row is BASE, "and not Table 3's row without dropout"
    assert diagnose(evidence([*stock_words(ROWS["parsing_tiny"])])).row.name == "parsing_tiny"


@pytest.mark.parametrize(
    ("changed", "aspect", "weight"),
    [
        (["--distributed-world-size", "1"], "batch", Weight.LARGE),
        (["--lr", "0.0001"], "learning rate", Weight.LARGE),
        (["--warmup-updates", "400"], "warm-up", Weight.UNKNOWN),
        (["--adam-betas", "(0.9, 0.999)"], "Adam", Weight.UNKNOWN),
        (["--clip-norm", "0.1"], "clipping", Weight.UNKNOWN),
        (["--weight-decay", "0.0001"], "weight decay", Weight.UNKNOWN),
        (["--dropout", "0.0"], "dropout", Weight.LARGE),
        (["--attention-dropout", "0.1"], "other dropout", Weight.UNKNOWN),
        (["--label-smoothing", "0.0"], "label smoothing", Weight.MEDIUM),
        (["--encoder-layers", "2", "--decoder-layers", "2"], "sizes", Weight.LARGE),
        (["--encoder-normalize-before"], "norms", Weight.UNKNOWN),
        (["--no-token-positional-embeddings"], "positions", Weight.LARGE),
        (["--activation-fn", "gelu"], "activation", Weight.UNKNOWN),
    ],
)
def test_each_difference_is_found(changed, aspect, weight):
    usual = differing(evidence([*stock_words()]), BASE)
    found = diagnose(evidence([*stock_words(), *changed]), BASE)
    assert found.findings[aspect].weight is weight
    assert found.findings[aspect].change
    assert set(unequal_aspects([found])) - usual <= {aspect, "learning rate"}
    assert aspect in unequal_aspects([found])


@pytest.mark.parametrize(
    ("option", "value", "aspect", "weight"),
    [
        ("lr_scheduler", "fixed", "learning rate", Weight.LARGE),
        ("optimizer", "sgd", "Adam", Weight.LARGE),
        ("criterion", "cross_entropy", "label smoothing", Weight.MEDIUM),
        ("share_all_embeddings", False, "shared matrices", Weight.UNKNOWN),
    ],
)
def test_another_part_of_fairseq_is_found(option, value, aspect, weight):
    found = evidence([*stock_words()])
    found = replace(found, options={**found.options, option: value})
    one = diagnose(found, BASE).findings[aspect]
    assert one.differs and one.weight is weight


def test_another_vocabulary_and_no_averaging_are_found():
    found = evidence([*stock_words()], vocabulary=37_000, averaged=5)
    assert differing(found, BASE) == STOCKS_OWN
    assert differing(replace(found, vocabulary=8_000), BASE) == STOCKS_OWN | {"vocabulary"}
    assert differing(replace(found, averaged=1), BASE) == STOCKS_OWN | {"averaging"}


@pytest.mark.parametrize(
    ("row", "subset", "averaged"),
    [
        ("base", "valid", 1),
        ("big", "valid", 1),
        ("base", "test", 5),
        ("big", None, 20),
        ("tiny", "valid", 5),
        ("parsing", "valid", 5),
    ],
)
def test_table_3_averages_no_checkpoints(row, subset, averaged):
    """It is of the development set; rows that are not in it average the same on every set."""
    found = evidence([*stock_words(ROWS[row])], subset=subset, averaged=averaged)
    assert not diagnose(found, ROWS[row]).findings["averaging"].differs
    other = diagnose(replace(found, averaged=3), ROWS[row]).findings["averaging"]
    mean = f"aiayn average --last {averaged}"
    assert other.differs
    assert other.change == (mean if averaged > 1 else "the last checkpoint itself")


def test_a_longer_warm_up_with_the_same_rate_after_it_is_one_difference():
    """The peak is then lower by √(4,000/16,000)."""
    words = [*stock_words(), "--warmup-updates", "16000", "--lr", "0.000349385622"]
    assert differing(evidence(words), BASE) - STOCKS_OWN == {"warm-up"}


def test_the_batch_is_that_of_the_log_and_its_options_are_those_of_the_row():
    found = evidence([*stock_words(), "--max-tokens", "4096"], tokens_per_update=3_512.0, gpus=1)
    one = diagnose(found, BASE).findings["batch"]
    assert one.here == "3,512, by the log"
    assert one.change == "--max-tokens 4096 --update-freq 6"
    assert one.effect.startswith("0.14 of this batch")
    full = replace(found, tokens_per_update=23_000.0)
    assert not diagnose(full, BASE).findings["batch"].differs


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ({"max_sentences": 32, "max_tokens": 25_000}, "--batch-size 32"),  # before fairseq 0.10
        ({"max_sentences": 32, "max_tokens": None}, "--batch-size 32"),
        ({"batch_size": 32, "max_tokens": 25_000}, "--batch-size 32"),
        ({"batch_size": "32", "max_tokens": 25_000}, "--batch-size 32"),
        ({"batch_size": 8_000, "max_tokens": 2_000}, "--max-tokens 2000"),
    ],
)
def test_a_batch_is_bounded_by_tokens_and_by_sentences(given, here):
    words = [*stock_words(), "--distributed-world-size", "1", "--update-freq", "1"]
    found = evidence(words)
    found = replace(found, options={**found.options, **given})
    batch = diagnose(found, BASE).findings["batch"]
    assert batch.weight is Weight.LARGE and here in batch.here
    assert batch.change.endswith("without --batch-size")
    logged = diagnose(replace(found, tokens_per_update=24_000.0), BASE)
    assert not logged.findings["batch"].differs, "a log's statistics decide"


def test_sentences_that_make_the_papers_batch_are_no_difference():
    """900 sentences of about 28 tokens are 25,000."""
    found = evidence([*stock_words(), "--update-freq", "1", "--distributed-world-size", "1"])
    given = {"batch_size": 900, "max_tokens": None}
    assert (
        not diagnose(replace(found, options={**found.options, **given}), BASE)
        .findings["batch"]
        .differs
    )


def test_a_limit_on_epochs_is_not_silent():
    assert diagnose(evidence([*stock_words(), "--max-epoch", "3"])).other_options == {
        "max_epoch": 3
    }


@pytest.mark.parametrize(
    ("updates", "weight"), [(30_000, Weight.LARGE), (70_000, Weight.MEDIUM), (98_000, None)]
)
def test_a_training_far_too_short_is_a_difference(updates, weight):
    one = diagnose(evidence([*stock_words()], updates=updates), BASE).findings["updates"]
    assert (one.weight if one.differs else None) is weight


def test_a_training_that_patience_may_have_ended_is_not_called_too_short():
    words = [*stock_words(), "--patience", "10"]
    one = diagnose(evidence(words, updates=30_000), BASE).findings["updates"]
    assert (one.weight, one.change) == (Weight.UNKNOWN, "--patience -1")
    assert "--patience 10 may have ended it" in one.effect
    assert not diagnose(evidence(words, updates=100_000), BASE).findings["updates"].differs
    longer = diagnose(evidence(words, updates=300_000), BASE).findings["updates"]
    assert longer.change == "--max-update 100000"


def test_a_parsers_dropout_is_chosen():
    """Breaks if the dropout of section 6.3 is called a difference."""
    words = [*stock_words(), "--dropout", "0.3", "--attention-dropout", "0.3"]
    parser = diagnose(evidence(words), PARSING).findings
    assert not parser["dropout"].differs and not parser["other dropout"].differs
    inside = diagnose(evidence([*words, "--activation-dropout", "0.1"]), PARSING).findings
    assert inside["other dropout"].change == "--activation-dropout 0"
    assert diagnose(evidence([*words, "--dropout", "0"]), PARSING).findings["dropout"].differs
    assert differing(evidence(words), BASE) >= {"dropout", "other dropout"}


def test_a_parser_is_told_to_share_what_its_row_shares():
    words = list(stock_words(PARSING))
    words.remove("--share-decoder-input-output-embed")
    one = diagnose(evidence(words), PARSING).findings["shared matrices"]
    assert one.differs and one.change == "--share-decoder-input-output-embed"
    found = evidence([*stock_words()])
    found = replace(found, options={**found.options, "share_all_embeddings": False})
    change = diagnose(found, BASE).findings["shared matrices"].change
    assert change.startswith("--share-all-embeddings, with")


def test_left_out_updates_weigh_by_their_share():
    half = evidence([*stock_words(), "--fp16"], updates=1_000, overflows=5)
    assert diagnose(half, BASE).findings["precision"].weight is Weight.SMALL
    often = diagnose(replace(half, overflows=100), BASE).findings["precision"]
    assert (often.weight, often.here) == (Weight.MEDIUM, "fp16, 100 updates left out")
    stopped = diagnose(replace(half, gave_up_scaling=True), BASE).findings["precision"]
    assert (stopped.weight, stopped.here) == (Weight.LARGE, "fp16, minimum loss scale reached")


SEARCH = {"task": "translation", "beam": 5, "lenpen": 1.0, "max_len_a": 0.0, "max_len_b": 200}
SEARCH |= {"required_batch_size_multiple": 8, "post_process": None}
OURS = {"task": "aiayn_translation", "beam": 4, "lenpen": 0.6, "max_len_a": 1, "max_len_b": 50}
OURS |= {"post_process": "subword_nmt"}
OF_THE_SEARCH = {"beam", "α", "length penalty", "end of the search", "longest output", "test set"}


def searched(search: dict, **known: object) -> Evidence:
    return evidence([*stock_words()], search=search, **known)


def test_each_difference_of_the_search_is_found():
    found = differing(searched(SEARCH), BASE)
    assert found == STOCKS_OWN | OF_THE_SEARCH | {"text that is scored"}
    assert differing(searched(OURS, translated=3_003, averaged=5), BASE) == STOCKS_OWN


def test_a_parsers_pieces_are_not_judged():
    """Its words are joined when its trees are read, and it has no BLEU."""
    search = {"task": "aiayn_parsing", "beam": 21, "lenpen": 0.3}
    assert "text that is scored" in diagnose(searched(search), PARSING).not_known
    assert "text that is scored" in diagnose(searched(search), BASE).not_known
    assert "text that is scored" in diagnose(searched(SEARCH), PARSING).not_known


def test_a_parser_is_given_the_task_that_searches_for_trees():
    found = diagnose(searched(SEARCH), PARSING).findings
    changes = {found[name].change for name in ("length penalty", "end of the search", "batches")}
    assert changes == {"--task aiayn_parsing"}
    longest = found["longest output"].change
    assert longest == "--task aiayn_parsing --max-len-a 1 --max-len-b 300"


def test_the_longest_output_of_stocks_search_depends_on_the_batch():
    stocks = diagnose(searched(SEARCH | {"max_len_a": 1.2}), BASE).findings["longest output"]
    assert "depends on the batch" in stocks.effect
    same = diagnose(searched(SEARCH), BASE).findings["longest output"]
    assert same.here == "200", "no batch has a say in it"
    ours = diagnose(searched(OURS | {"max_len_a": 1.2}), BASE).findings["longest output"]
    assert ours.here == "1.2 x the sentence's own input + 50"
    assert "batch" not in ours.effect


def test_sentences_missing_from_the_test_set_are_counted():
    whole = diagnose(searched(SEARCH, translated=3_003), BASE).findings["test set"]
    assert not whole.differs, "nothing is missing, whatever the batches"
    known = {"corpus": "wmt14_en_de", "subset": "test"}
    short = diagnose(searched(OURS, translated=3_000, **known)).findings["test set"]
    assert short.differs and short.here == "3,000 sentences of newstest2014's 3,003"


@pytest.mark.parametrize(
    ("corpus", "subset"),
    [("wmt14_en_de", "valid"), ("multi30k_en_de", "test"), ("wmt14_en_de", None), (None, "test")],
)
def test_another_set_has_not_lost_sentences_of_newstest2014(corpus, subset):
    """newstest2013, on which Table 3 evaluates, has 3,000 sentences."""
    found = searched(OURS, translated=3_000, corpus=corpus, subset=subset)
    assert not diagnose(found).findings["test set"].differs


@pytest.mark.parametrize(
    ("task", "given", "multiple"),
    [
        ("translation", {}, 8),
        ("translation", {"required_batch_size_multiple": 16}, 16),
        ("translation", {"required_batch_size_multiple": 1}, None),
        ("aiayn_translation", {}, None),
        ("aiayn_translation", {"required_batch_size_multiple": "4"}, 4),
    ],
)
def test_batches_in_multiples_can_leave_sentences_out(task, given, multiple):
    one = diagnose(searched({"task": task, **given}, translated=990)).findings["test set"]
    if multiple is None:
        assert not one.differs
    else:
        assert one.here == f"990 sentences, batches in multiples of {multiple}"
        assert one.effect == f"up to {multiple - 1} sentences are left out"
        assert one.change == "--required-batch-size-multiple 1"


@pytest.mark.parametrize(
    ("signature", "figure"),
    [
        ("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0", "27.52"),
        ("BLEU+case.mixed+numrefs.1+smooth.exp+tok.intl+version.1.2.17", "28.33"),
        ("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0", "without case 0.5 higher"),
        ("BLEU4 = 27.30, 58.6/33.1", "0.7 to 1 lower"),
        ("case:mixed|tok:sacremoses-0.2-de|compounds:split|smooth:none", "24.29 with quotes kept"),
        ("case:mixed|tok:sacremoses-0.2-de|compounds:split|quotes:ascii|smooth:none", None),
        ("case:mixed|tok:sacremoses-0.2-fr|compounds:kept|smooth:none", None),
    ],
)
def test_a_score_of_another_bleu_says_by_how_much_it_differs(signature, figure):
    one = diagnose(evidence([*stock_words()], signature=signature), BASE).findings["BLEU"]
    assert one.differs is (figure is not None)
    assert (figure or "") in one.effect


def test_only_german_has_compounds_and_quotes_of_the_paper():
    split = "tok:sacremoses-0.2-de|compounds:split"
    for french in (
        evidence([*stock_words()], signature="tok:sacremoses-0.2-fr|compounds:kept"),
        searched(OURS | {"target_lang": "fr"}, signature="tok:13a"),
        evidence([*stock_words(), "--target-lang", "fr"], signature="tok:13a"),
    ):
        assert diagnose(french).findings["BLEU"].paper == "cased, of Moses tokens"
    german = diagnose(evidence([*stock_words()], signature=split)).findings["BLEU"]
    assert german.paper.endswith("quotes as ASCII, German compounds split")
    assert (german.weight, german.change) == (Weight.UNKNOWN, "aiayn bleu --quotes ascii")


def test_what_costs_most_comes_first_and_what_is_not_known_is_said():
    found = diagnose(evidence([*stock_words(), "--dropout", "0.0", "--clip-norm", "1"]), BASE)
    weights = [one.weight for one in found.findings.values() if one.differs]
    assert weights == sorted(weights, reverse=True)
    assert {"averaging", "beam", "BLEU", "updates"} <= set(found.not_known)
    assert json.loads(json.dumps(as_json(found)))["findings"]["dropout"]["weight"] == "large"


class Watched(Mapping):
    """Options that remember which were asked for."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options, self.asked = options, set()

    def __getitem__(self, name: str) -> object:
        self.asked.add(name)
        return self.options[name]

    def __contains__(self, name: object) -> bool:
        self.asked.add(name)
        return name in self.options

    def __iter__(self) -> Iterator[str]:
        return iter(self.options)

    def __len__(self) -> int:
        return len(self.options)


def test_aspects_declare_the_options_that_they_read():
    """What is declared is not listed as an option that nothing judges."""
    for aspect in ASPECTS:
        options = Watched(evidence([*stock_words()]).options)
        aspect.judge(replace(evidence([*stock_words()]), options=options), BIG)
        assert options.asked - {"arch", "task"} <= set(aspect.options), aspect.name


def test_options_that_nothing_judges_are_listed():
    found = evidence([*stock_words(), "--encoder-layerdrop", "0.2", "--ignore-prefix-size", "5"])
    options = {**found.options, "new_idea": 3, "another": None}
    found = replace(found, options=options)
    others = {"encoder_layerdrop": 0.2, "ignore_prefix_size": 5, "new_idea": 3}
    assert diagnose(found).other_options == others
    assert fairseq_defaults() == json.loads(json.dumps(defaults()))


def test_figures_of_the_ablation_are_those_of_the_results():
    """Breaks if docs/results.md is measured anew and the texts here stay behind."""
    table = (DOCS / "results.md").read_text(encoding="utf-8")
    rows = {
        "sinusoids": "stock's sinusoids",
        "order": "stock's order of batches",
        "fairseq": "feed-forward network as torch.nn.Linear draws it (`fairseq`)",
        "tensor2tensor": "W^Q of the encoder-decoder attention drawn apart (`tensor2tensor`)",
        "ours": "ours, `fairseq-0.9`",
    }
    cells = {
        name: re.search(rf"\| {re.escape(row)} +\| +([\d.]+) ± [\d.]+ \| +([\d.]+)", table)
        for name, row in rows.items()
    }
    figure = {name: found[1] for name, found in cells.items()}
    bleu = {name: found[2] for name, found in cells.items()}
    found = diagnose(evidence([*stock_words()]), BASE).findings
    assert f"{figure['sinusoids']} against {figure['ours']}" in found["positions"].effect
    assert f"{bleu['order']} against {bleu['ours']}" in found["batches"].effect
    drawn = found["initial values"].effect
    assert all(figure[name] in drawn for name in ("fairseq", "tensor2tensor", "ours"))
