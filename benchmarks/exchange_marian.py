"""Compare transformers' MarianMTModel with `aiayn translate` on a test set: probabilities, outputs,
BLEU.

    aiayn export RUN --output FOLDER
    aiayn export FOLDER --to marian --output MARIAN
    python benchmarks/exchange_marian.py FOLDER MARIAN --source SOURCE --reference REFERENCE
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from sacrebleu.metrics import BLEU

from fairseq_aiayn.files.parallel_text import read_lines
from fairseq_aiayn.messages import script
from fairseq_aiayn.model_folder.translator import Translator, load
from fairseq_aiayn.model_folder.vocabulary import END

COMMANDS = [line.strip() for line in __doc__.splitlines() if line.startswith("    ")]
BATCH = 32  # sentences
PACKAGES = ("fairseq-aiayn", "torch", "transformers", "sacrebleu")


def main() -> None:
    with script(__doc__) as parser:
        parser.add_argument("folder", type=Path)
        parser.add_argument("marian", type=Path)
        parser.add_argument("--source", type=Path, required=True)
        parser.add_argument("--reference", type=Path, required=True)
        options = parser.parse_args()
        sources, references = (list(read_lines(one)) for one in (options.source, options.reference))
        print(json.dumps(comparison(options.folder, options.marian, sources, references), indent=2))


def comparison(folder: Path, marian: Path, sources: list[str], references: list[str]) -> dict:
    """Return the figures and what they must be traced back to."""
    translator, code = load(folder, "cpu"), code_of(marian)
    model, bleu = code["model"], BLEU()
    ours = translator.translate(sources)
    exact = in_batches(code["translate"], sources)
    differences = {"epsilon 1e-6": largest_difference(translator, model, sources)}
    model.generation_config.length_penalty = float(translator.config.search.alpha)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    differences["as loaded, epsilon 1e-5"] = largest_difference(translator, model, sources)
    loaded = in_batches(code["translate"], sources)
    sides = {
        "aiayn translate": ours,
        "transformers, the code in README.md": exact,
        "transformers, as loaded": loaded,
    }
    score = {name: bleu.corpus_score(one, [references]).score for name, one in sides.items()}
    return {
        "commands": COMMANDS,
        "packages": {name: version(name) for name in PACKAGES},
        "sentences": len(sources),
        "largest difference of log p, 100 sentences, all types": differences,
        "sacreBLEU": score,
        "signature": str(bleu.get_signature()),
        "outputs that are not those of aiayn translate": {
            name: sum(map(str.__ne__, ours, one)) for name, one in sides.items()
        },
    }


def code_of(marian: Path) -> dict:
    """Run the code of the directory's README.md; return its names."""
    lines = (marian / "README.md").read_text(encoding="utf-8").splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "readme.py"
        path.write_text(code.replace("THIS_FOLDER", str(marian)), encoding="utf-8")
        return runpy.run_path(str(path))


def in_batches(translate: Callable[[list[str]], list[str]], sources: Sequence[str]) -> list[str]:
    """Translate sentences in batches of similar lengths."""
    order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    found: dict[int, str] = {}
    for first in range(0, len(order), BATCH):
        places = order[first : first + BATCH]
        found |= zip(places, translate([sources[place] for place in places]), strict=True)
    return [found[place] for place in range(len(sources))]


@torch.no_grad()
def largest_difference(translator: Translator, model: torch.nn.Module, sources: list[str]) -> float:
    """Return the largest difference of log P(next token), over all types, along translations."""
    largest = 0.0
    for source, found in zip(sources[:100], translator.search(sources[:100]), strict=True):
        read = torch.tensor(translator.tokens([source]))
        written = torch.tensor([[END, *translator.target.numbers(found[0].pieces)[:-1]]])
        ours = translator.transformer(read, written).log_softmax(-1)
        theirs = model(read, decoder_input_ids=written).logits.log_softmax(-1)
        largest = max(largest, (ours - theirs).abs().max().item())
    return largest


if __name__ == "__main__":
    main()
