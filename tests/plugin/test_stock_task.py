"""An aiayn model under --task translation: fairseq's own search, with its alignments and with
dropout."""

from types import SimpleNamespace

import pytest
import torch
from building import dictionaries_task, dictionary, sharp_model
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_aiayn.attention_maps.weights import all_attention_weights
from fairseq_aiayn.paper import TINY
from fairseq_aiayn.plugin.model import AiaynModel

WORDS = dictionary(f"w{word}" for word in range(12))
SOURCE = torch.tensor([[1, 7, 5, 2], [6, 4, 8, 2]])
SAMPLE = {"net_input": {"src_tokens": SOURCE, "src_lengths": torch.tensor([3, 4])}}


def translate(model: AiaynModel, **options: object) -> list[list[dict]]:
    """The hypotheses that fairseq-generate --task translation finds with these options."""
    generation = GenerationConfig(beam=2, max_len_b=6, **options)
    model.prepare_for_inference_(SimpleNamespace(generation=generation))
    task = TranslationTask(TranslationConfig(), WORDS, WORDS)
    generator = task.build_generator([model], generation)
    return generator.generate([model], SAMPLE)


def build_model(**rates: float) -> AiaynModel:
    sizes = {"encoder_layers": 2, "encoder_ffn_embed_dim": 32, "d_v": 4}
    return sharp_model(dictionaries_task(WORDS), TINY, 1, 3.0, **sizes, **rates)


def test_alignments_are_where_the_last_layer_attends_to() -> None:
    """As for the stock model. Breaks if padding, a single head or another layer is taken."""
    model = build_model()
    for source, hypotheses in zip(SOURCE, translate(model, print_alignment="soft"), strict=True):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            weights = all_attention_weights(model.transformer, source, tokens.roll(1))["cross"]
            expected = weights[-1].mean(dim=0)[:, source != WORDS.pad()]
            found = torch.tensor([[float(p) for p in row] for row in hypothesis["alignment"]])
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rate", ["dropout", "attention_dropout"])
def test_retained_dropout_is_that_of_the_training(rate: str) -> None:
    """Breaks if --retain-dropout changes nothing, or if dropout stays on without it."""
    rates = {"dropout": 0.0, "attention_dropout": 0.0, rate: 0.5}
    for retains in (True, False):
        model = build_model(**rates)
        scores = [translate(model, retain_dropout=retains)[0][0]["score"].item() for _ in range(3)]
        assert (len(set(scores)) == 3) == retains


def test_dropout_is_retained_in_the_whole_model() -> None:
    with pytest.raises(ValueError, match="--retain-dropout-modules"):
        translate(build_model(), retain_dropout=True, retain_dropout_modules=["TransformerDecoder"])
