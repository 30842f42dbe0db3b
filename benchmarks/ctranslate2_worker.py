"""A worker that translates the test set with CTranslate2, with one of our checkpoints.

    python benchmarks/ctranslate2_worker.py cpu CHECKPOINT DATA MAX_TOKENS LENGTH

LENGTH is that of every translation without its end; 0 lets the model end it. The answer has the
numbers of sentences and tokens, and the rates of the search alone, as fairseq-generate prints them.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import ctranslate2
import torch
from fairseq.data import Dictionary, data_utils
from turn_taking import Channel

from fairseq_aiayn.inference.ctranslate2 import write_ctranslate2
from fairseq_aiayn.inference.export import of_checkpoint
from fairseq_aiayn.inference.folder import TextProcessing
from fairseq_aiayn.paper import TRANSLATION

LONGEST = 250  # tokens, if the model ends translations: the recipes' longest sentences


def test_sources(data: Path, source: str, target: str) -> list[list[str]]:
    """Return the pieces of the test set's sources, without their end."""
    dictionary = Dictionary.load(str(data / f"dict.{source}.txt"))
    prefix = data / f"test.{source}-{target}.{source}"
    sentences = data_utils.load_indexed_dataset(str(prefix), dictionary)
    return [[dictionary[token] for token in tokens[:-1]] for tokens in sentences]


def main() -> None:
    channel = Channel()
    device, checkpoint, data, max_tokens, length = sys.argv[1:]
    model = of_checkpoint(Path(checkpoint), Path(data), TextProcessing("none"), None)
    with TemporaryDirectory() as work:
        folder = Path(work) / "model"
        write_ctranslate2(model, "float32", folder)
        threads = torch.get_num_threads()
        engine = ctranslate2.Translator(str(folder), device, intra_threads=threads)
    sources = test_sources(Path(data), model.config.source_lang, model.config.target_lang)
    started = time.monotonic()
    found = engine.translate_batch(
        sources,
        max_batch_size=int(max_tokens),
        batch_type="tokens",
        beam_size=TRANSLATION.beam,
        length_penalty=TRANSLATION.alpha,
        min_decoding_length=int(length) or 1,
        max_decoding_length=int(length) or LONGEST,
    )
    seconds = time.monotonic() - started
    tokens = sum(len(one.hypotheses[0]) + 1 for one in found)  # each with its end
    channel.answer(
        {
            "sentences": len(found),
            "tokens": tokens,
            "sentences_per_second": len(found) / seconds,
            "tokens_per_second": tokens / seconds,
        }
    )


if __name__ == "__main__":
    main()
