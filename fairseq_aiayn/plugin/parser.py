"""A trained parser (section 6.3): from words to the symbols of a linearized tree."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils
from torch import Tensor

from fairseq_aiayn.corpus.pieces import sentence_pieces
from fairseq_aiayn.plugin.guards.error_messages import explained
from fairseq_aiayn.plugin.model import AiaynModel
from fairseq_aiayn.plugin.parsing_task import AiaynParsingConfig, AiaynParsingTask
from fairseq_aiayn.treebank.linearization import require_words, source_text

PIECES = "pieces.model"  # in the directory of the binarized data that was cut with it


class Parser:
    """A model with its dictionaries and its word pieces."""

    def __init__(
        self,
        task: AiaynParsingTask,
        model: AiaynModel,
        cut: Callable[[str], str],
        beam: int,
        device: str,
    ):
        """Raises ValueError for a beam or a dictionary with which no search is possible."""
        self.source, self.target = task.source_dictionary, task.target_dictionary
        self.model = model.to(device).eval()
        self.cut = cut
        self.generator = task.build_generator([model], Namespace(beam=beam))
        self.device = device

    def symbols(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Parse a batch of sentences, given as lists of words; return the symbols of the best
        output of each, as the model wrote them.

        Raises ValueError for words that cannot be part of a tree.
        """
        if not sentences:
            return []
        for words in sentences:
            require_words(words)
        src_tokens = data_utils.collate_tokens(
            [self.encode(words) for words in sentences],
            self.source.pad(),
            left_pad=True,
        )
        sample = {
            "net_input": {"src_tokens": src_tokens},
            "words": torch.tensor([len(words) for words in sentences]),
        }
        if self.device != "cpu":
            sample = utils.move_to_cuda(sample)
        found = self.generator.generate([self.model], sample)
        return [
            [self.target[token] for token in hypotheses[0]["tokens"][:-1].tolist()]
            for hypotheses in found
        ]

    def encode(self, words: Sequence[str]) -> Tensor:
        """Return the numbers of a sentence's pieces and of the end token, [S]."""
        pieces = self.cut(source_text(words)).split(" ")
        return torch.tensor([*map(self.source.index, pieces), self.source.eos()])


def load_parser(checkpoint: Path, data: Path, beam: int, constrained: bool, cpu: bool) -> Parser:
    """Load a checkpoint, and the dictionaries and word pieces of the data that it was trained on.

    Raises OSError or ValueError, with the name of the file, if a file is missing or unusable.
    """
    cut = sentence_pieces(data / PIECES)
    task = AiaynParsingTask.setup_task(AiaynParsingConfig(data=str(data), constrained=constrained))
    with explained():
        (model,), _ = checkpoint_utils.load_model_ensemble([str(checkpoint)], task=task)
    device = "cuda" if torch.cuda.is_available() and not cpu else "cpu"
    return Parser(task, model, cut, beam, device)
