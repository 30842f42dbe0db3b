"""Small random models with the files that a folder is made of."""

import contextlib
import io
import json
from argparse import Namespace
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from building import dictionary
from checkpoint_states import state_of
from fairseq.data import Dictionary
from subword_nmt.learn_bpe import learn_bpe

from fairseq_aiayn.corpus.moses import moses_tokenizer
from fairseq_aiayn.corpus.subwords import byte_pairs
from fairseq_aiayn.inference.description import Model, TextProcessing
from fairseq_aiayn.inference.export import Checkpoint
from fairseq_aiayn.inference.folder import write_folder
from fairseq_aiayn.paper import ROWS
from fairseq_aiayn.plugin.model import AiaynModel, apply_row
from fairseq_aiayn.plugin.translation import AiaynTranslationConfig, AiaynTranslationTask

SENTENCES = (
    "The cat's hat isn't here, is it?",
    'A well-known "quote" (in brackets) costs 3.5% & more.',
    "Mr. Smith saw 1,000 houses in the U.S. on Monday; he left...",
    "the cat saw the hat",
    "Naïve café: <b>bold</b> text!",
)
SIZES = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24}
SIZES |= {"encoder_attention_heads": 2, "d_k": 8, "d_v": 8}
SIZES |= {"max_source_positions": 1024, "max_target_positions": 1024}
SHARED = "all embeddings shared"
KINDS = {  # what each kind of model has beside the sizes
    SHARED: {},
    "target embeddings shared": {"share_decoder_input_output_embed": True},
    "no embeddings shared": {"untied_embeddings": True},
    "learned positions": {"learned_positions": True}
    | {"max_source_positions": 80, "max_target_positions": 85},
    "keys unlike values": {"d_k": 6, "d_v": 3},
    "parser": {"arch": "aiayn_parsing_tiny", "task": "aiayn_parsing"},
}
SEPARATE = ("target embeddings shared", "no embeddings shared", "parser")  # vocabularies


@dataclass(frozen=True)
class Small:
    """A model of the plugin, its task, its checkpoint and the other files of its training."""

    model: AiaynModel
    task: AiaynTranslationTask
    checkpoint: Path
    data: Path
    codes: Path

    def read(self, pieces: str = "byte_pairs") -> Model:
        """The model as it is in the checkpoint."""
        return Checkpoint(self.checkpoint, self.data, TextProcessing(pieces), self.codes).read()

    def export(self, path: Path, precision: str = "float32", for_ctranslate2: bool = False) -> Path:
        """Write the model as a folder."""
        model = self.read()
        model = replace(model, config=replace(model.config, precision=precision))
        write_folder(model, path, for_ctranslate2)
        return path


def small_model(root: Path, kind: str = SHARED, **sizes: int) -> Small:
    """Make a model of one of KINDS, with sharp output distributions, in an empty directory."""
    codes, data = root / "codes", root / "bin"
    data.mkdir(parents=True)
    write_codes(codes)
    options = {"arch": "aiayn_tiny", "task": "aiayn_translation", **SIZES, **KINDS[kind], **sizes}
    languages = ("words", "tree") if kind == "parser" else ("en", "de")
    source = target = dictionary_of(codes, SENTENCES)
    if kind in SEPARATE:
        target = dictionary_of(codes, SENTENCES[:3])
    if kind == "parser":
        target = dictionary(("(NP", ")NP", "(S", ")S", "DT", "NN", "VB"))
    for language, types in zip(languages, (source, target), strict=True):
        types.save(str(data / f"dict.{language}.txt"))
    task = AiaynTranslationTask(AiaynTranslationConfig(), source, target)
    torch.manual_seed(1)
    args = Namespace(**options, source_lang=languages[0], target_lang=languages[1])
    apply_row(ROWS[options["arch"].removeprefix("aiayn_")], args)
    model = AiaynModel.build_model(args, task).eval()
    with torch.no_grad():
        model.decoder.stack.projection.weight *= 3.0
    torch.save(state_of(model.state_dict(), 7, args=args), root / "checkpoint.pt")
    return Small(model, task, root / "checkpoint.pt", data, codes)


def small_run(exp: Path) -> Path:
    """Make what a recipe leaves: data with a note of its text, and the run that is returned."""
    small, run, inside = small_model(exp), exp / "tiny-1", "checkpoints/checkpoint_last.pt"
    (run / inside).parent.mkdir(parents=True)
    small.checkpoint.rename(run / inside)
    small.codes.rename(small.data / "codes")
    note = {"pieces": "byte_pairs", "normalize": False, "lowercase": True}
    (small.data / "text.json").write_text(json.dumps(note))
    (small.data / "sha256").write_text("0ff  -\n")
    (run / "model.json").write_text(json.dumps({"checkpoint": inside, "data": "../bin"}))
    settings = {"system": "aiayn", "corpus": "invented", "text_sha256": "0ff"}
    (run / "training.json").write_text(json.dumps(settings))
    return run


def write_codes(path: Path) -> None:
    """Learn a few byte pairs of the sentences."""
    tokenize = moses_tokenizer("en", normalize=False)
    with path.open("w") as file, contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(io.StringIO("\n".join(map(tokenize, SENTENCES))), file, 40)


def dictionary_of(codes: Path, sentences: tuple[str, ...]) -> Dictionary:
    """Return fairseq's dictionary of the pieces of sentences."""
    tokenize, segment = moses_tokenizer("en", normalize=False), byte_pairs(codes)
    made = dictionary(p for sentence in sentences for p in segment(tokenize(sentence)).split())
    made.finalize()
    return made
