"""A worker that translates as often as it is ordered to, by fairseq-generate or by CTranslate2.

    python benchmarks/translating_worker.py cpu fairseq-generate DATA OPTIONS...
    python benchmarks/translating_worker.py cpu ctranslate2 CHECKPOINT DATA LENGTH MAX_TOKENS

Each order is to translate the test set, in LENGTH tokens a sentence. The answer has the sentences
per second of the search alone, as fairseq-generate prints them, and the process's peak memory.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from turn_taking import Channel, Watch, find_device

TRANSLATED = re.compile(r"Translated .* \(([\d,.]+) sentences/s, ")


class Rates(logging.Handler):
    """The sentences per second of the lines that fairseq-generate logs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the figure of such a line."""
        if match := TRANSLATED.match(record.getMessage()):
            self.found.append(float(match[1].replace(",", "")))


def fairseq_generate(words: list[str]) -> Callable[[], float]:
    """Return a function that runs the command once and returns sentences per second."""
    from fairseq_cli.generate import cli_main

    rates = Rates()
    logging.getLogger("fairseq_cli.generate").addHandler(rates)
    sys.argv = ["fairseq-generate", *words]

    def translate() -> float:
        cli_main()
        return rates.found[-1]

    return translate


def ctranslate2(words: list[str]) -> Callable[[], float]:
    """Return a function that translates once and returns sentences per second."""
    from ctranslate2 import Translator

    from fairseq_aiayn.inference.description import TextProcessing
    from fairseq_aiayn.inference.export import Checkpoint
    from fairseq_aiayn.inference.folder import write_folder
    from fairseq_aiayn.paper import TRANSLATION

    checkpoint, data, length, max_tokens = words
    model = Checkpoint(Path(checkpoint), Path(data), TextProcessing("none"), None).read()
    sources = test_sources(Path(data), model.config.source_lang, model.config.target_lang)
    with TemporaryDirectory() as work:
        write_folder(model, Path(work) / "model", for_ctranslate2=True)
        threads = torch.get_num_threads()
        engine = Translator(str(Path(work) / "model" / "ctranslate2"), intra_threads=threads)

    def translate() -> float:
        started = time.monotonic()
        engine.translate_batch(
            sources,
            max_batch_size=int(max_tokens),
            batch_type="tokens",
            beam_size=TRANSLATION.beam,
            length_penalty=TRANSLATION.alpha,
            min_decoding_length=int(length),
            max_decoding_length=int(length),
        )
        return len(sources) / (time.monotonic() - started)

    return translate


def test_sources(data: Path, source: str, target: str) -> list[list[str]]:
    """Return the pieces of the test set's sources, without their end."""
    from fairseq.data import Dictionary, data_utils

    dictionary = Dictionary.load(str(data / f"dict.{source}.txt"))
    prefix = data / f"test.{source}-{target}.{source}"
    sentences = data_utils.load_indexed_dataset(str(prefix), dictionary)
    return [[dictionary[token] for token in tokens[:-1]] for tokens in sentences]


def main() -> None:
    channel = Channel()
    device, engine, *words = sys.argv[1:]
    engines = {"fairseq-generate": fairseq_generate, "ctranslate2": ctranslate2}
    translate = engines[engine](words)
    while True:
        channel.order()
        watch = Watch(find_device(device))
        rate = translate()
        channel.answer({**watch.read(), "sentences_per_second": rate})


if __name__ == "__main__":
    main()
