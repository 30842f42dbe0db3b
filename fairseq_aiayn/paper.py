"""Every number of "Attention Is All You Need" (Vaswani et al., 2017), as data.

A row of Table 3 differs from BASE only in the cells that the table prints. A value that the paper
leaves open is marked "not stated"; docs/deviations.md gives the reasons for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf


@dataclass(frozen=True)
class Published:
    """The published results of a row: development perplexity, BLEU and millions of parameters from
    Table 3, and the hours of training from section 5.2."""

    ppl: float | None = None
    bleu: float | None = None
    parameters: float | None = None
    hours: float | None = None


@dataclass(frozen=True)
class Row:
    """One model of the paper and its training regime, in the symbols of Table 3."""

    name: str
    N: int
    d_model: int
    d_ff: int
    h: int
    d_k: int
    d_v: int
    P_drop: float
    epsilon_ls: float
    steps: int
    learned_positions: bool = False
    shared_vocabulary: bool = True  # section 3.4 needs it; parsing separates words and trees
    warmup: int = 4000  # section 5.3
    lr_factor: float = 1.0  # multiplies Equation 3, which has none
    batch_tokens: int = 25_000  # section 5.1: approximate, source and target tokens each
    checkpoint_updates: int = 1_500  # section 6.1: ten minutes at the step time of section 5.2
    averaged: int = 1  # section 6.1: checkpoints averaged; 1 = none
    initialization: str = "tensor2tensor"  # not stated; a scheme of nn/initialization.py
    published: Published = Published()

    @property
    def arch(self) -> str:
        """Name of the row as fairseq's --arch."""
        return f"aiayn_{self.name}"


BASE = Row(
    name="base",
    N=6,
    d_model=512,
    d_ff=2048,
    h=8,
    d_k=64,
    d_v=64,
    P_drop=0.1,
    epsilon_ls=0.1,
    steps=100_000,
    averaged=5,
    published=Published(4.92, 25.8, 65, hours=12),
)
VARIATION = replace(BASE, averaged=1)  # Table 3: "no checkpoint averaging"

# Table 3, rows (A): heads and their sizes at constant computation
A_H1 = replace(VARIATION, name="a_h1", h=1, d_k=512, d_v=512, published=Published(5.29, 24.9))
A_H4 = replace(VARIATION, name="a_h4", h=4, d_k=128, d_v=128, published=Published(5.00, 25.5))
A_H16 = replace(VARIATION, name="a_h16", h=16, d_k=32, d_v=32, published=Published(4.91, 25.8))
A_H32 = replace(VARIATION, name="a_h32", h=32, d_k=16, d_v=16, published=Published(5.01, 25.4))
# (B): the key size
B_DK16 = replace(VARIATION, name="b_dk16", d_k=16, published=Published(5.16, 25.1, 58))
B_DK32 = replace(VARIATION, name="b_dk32", d_k=32, published=Published(5.01, 25.4, 60))
# (C): the size of the model
C_N2 = replace(VARIATION, name="c_n2", N=2, published=Published(6.11, 23.7, 36))
C_N4 = replace(VARIATION, name="c_n4", N=4, published=Published(5.19, 25.3, 50))
C_N8 = replace(VARIATION, name="c_n8", N=8, published=Published(4.88, 25.5, 80))
C_DMODEL256 = replace(
    VARIATION, name="c_dmodel256", d_model=256, d_k=32, d_v=32, published=Published(5.75, 24.5, 28)
)
C_DMODEL1024 = replace(
    VARIATION,
    name="c_dmodel1024",
    d_model=1024,
    d_k=128,
    d_v=128,
    published=Published(4.66, 26.0, 168),
)
C_DFF1024 = replace(VARIATION, name="c_dff1024", d_ff=1024, published=Published(5.12, 25.4, 53))
C_DFF4096 = replace(VARIATION, name="c_dff4096", d_ff=4096, published=Published(4.75, 26.2, 90))
# (D): dropout and label smoothing
D_DROP0 = replace(VARIATION, name="d_drop0", P_drop=0.0, published=Published(5.77, 24.6))
D_DROP02 = replace(VARIATION, name="d_drop02", P_drop=0.2, published=Published(4.95, 25.5))
D_LS0 = replace(VARIATION, name="d_ls0", epsilon_ls=0.0, published=Published(4.67, 25.3))
D_LS02 = replace(VARIATION, name="d_ls02", epsilon_ls=0.2, published=Published(5.47, 25.7))
# (E): learned positions instead of sinusoids
E_LEARNED = replace(
    VARIATION, name="e_learned", learned_positions=True, published=Published(4.92, 25.7)
)

BIG = replace(
    BASE,
    name="big",
    d_model=1024,
    d_ff=4096,
    h=16,
    P_drop=0.3,
    steps=300_000,
    checkpoint_updates=600,
    averaged=20,
    published=Published(4.33, 26.4, 213, hours=3.5 * 24),
)
# Section 6.1. The hours are those that section 5.2 gives for "the big models".
BIG_EN_FR = replace(
    BIG, name="big_en_fr", P_drop=0.1, published=Published(hours=BIG.published.hours)
)

# Section 6.3: all other parameters are those of the English-to-German base model. d_k and d_v are
# not stated; they are d_model / h as in section 3.2.2. warmup is not stated; it is 16,000 in the
# paper's own code.
PARSING = replace(
    BASE,
    name="parsing",
    N=4,
    d_model=1024,
    d_k=128,
    d_v=128,
    shared_vocabulary=False,
    warmup=16_000,
    published=Published(),
)

TABLE_3_A = (A_H1, A_H4, A_H16, A_H32)
TABLE_3_B = (B_DK16, B_DK32)
TABLE_3_C = (C_N2, C_N4, C_N8, C_DMODEL256, C_DMODEL1024, C_DFF1024, C_DFF4096)
TABLE_3_D = (D_DROP0, D_DROP02, D_LS0, D_LS02)
TABLE_3 = (BASE, *TABLE_3_A, *TABLE_3_B, *TABLE_3_C, *TABLE_3_D, E_LEARNED, BIG)
BEYOND_TABLE_3 = (BIG_EN_FR, PARSING)  # sections 6.1 and 6.3


@dataclass(frozen=True)
class Adam:
    """The optimizer of section 5.3."""

    beta_1: float = 0.9
    beta_2: float = 0.98
    epsilon: float = 1e-9


ADAM = Adam()


@dataclass(frozen=True)
class Decoding:
    """The beam search of sections 6.1 and 6.3; an output is at most `extra_length` tokens longer
    than the input."""

    beam: int
    alpha: float
    extra_length: int


TRANSLATION = Decoding(beam=4, alpha=0.6, extra_length=50)
PARSING_DECODING = Decoding(beam=21, alpha=0.3, extra_length=300)

PAIRS_EN_DE = 4_500_000  # section 5.1, about
VOCABULARY_EN_DE = 37_000  # section 5.1, byte-pair encoding shared by both languages
VOCABULARY_EN_FR = 32_000  # section 5.1, word pieces
VOCABULARY_WSJ = 16_000  # section 6.3, WSJ only
VOCABULARY_SEMI_SUPERVISED = 32_000  # section 6.3

TRAINING_GPU = "P100"  # section 5.2
TRAINING_GPUS = 8
SUSTAINED_TFLOPS = {"K80": 2.8, "K40": 3.7, "M40": 6.0, "P100": 9.5}  # section 6.1, footnote 5


@dataclass(frozen=True)
class PublishedModel:
    """A row of Table 2: BLEU on newstest2014 and training cost in FLOPs; None = not printed."""

    model: str
    bleu_en_de: float | None = None
    bleu_en_fr: float | None = None
    flops_en_de: float | None = None
    flops_en_fr: float | None = None


TABLE_2 = (
    PublishedModel("ByteNet", 23.75),
    PublishedModel("Deep-Att + PosUnk", None, 39.2, None, 1.0e20),
    PublishedModel("GNMT + RL", 24.6, 39.92, 2.3e19, 1.4e20),
    PublishedModel("ConvS2S", 25.16, 40.46, 9.6e18, 1.5e20),
    PublishedModel("MoE", 26.03, 40.56, 2.0e19, 1.2e20),
    PublishedModel("Deep-Att + PosUnk ensemble", None, 40.4, None, 8.0e20),
    PublishedModel("GNMT + RL ensemble", 26.30, 41.16, 1.8e20, 1.1e21),
    PublishedModel("ConvS2S ensemble", 26.36, 41.29, 7.7e19, 1.2e21),
    PublishedModel("Transformer (base)", 27.3, 38.1, 3.3e18),
    PublishedModel("Transformer (big)", 28.4, 41.8, 2.3e19),  # section 6.1's text: 41.0 for en-fr
)


@dataclass(frozen=True)
class PublishedParser:
    """A row of Table 4: F1 on section 23 of the WSJ."""

    parser: str
    training: str
    f1: float


WSJ_ONLY, SEMI_SUPERVISED = "WSJ only, discriminative", "semi-supervised"
TRANSFORMER_PARSER = "Transformer (4 layers)"
TABLE_4 = (
    PublishedParser("Vinyals & Kaiser et al. (2014)", WSJ_ONLY, 88.3),
    PublishedParser("Petrov et al. (2006)", WSJ_ONLY, 90.4),
    PublishedParser("Zhu et al. (2013)", WSJ_ONLY, 90.4),
    PublishedParser("Dyer et al. (2016)", WSJ_ONLY, 91.7),
    PublishedParser(TRANSFORMER_PARSER, WSJ_ONLY, 91.3),
    PublishedParser("Zhu et al. (2013)", SEMI_SUPERVISED, 91.3),
    PublishedParser("Huang & Harper (2009)", SEMI_SUPERVISED, 91.3),
    PublishedParser("McClosky et al. (2006)", SEMI_SUPERVISED, 92.1),
    PublishedParser("Vinyals & Kaiser et al. (2014)", SEMI_SUPERVISED, 92.1),
    PublishedParser(TRANSFORMER_PARSER, SEMI_SUPERVISED, 92.7),
    PublishedParser("Luong et al. (2015)", "multi-task", 93.0),
    PublishedParser("Dyer et al. (2016)", "generative", 93.3),
)

# This project's own small rows

# For the demo and the tests: small enough to learn from 20,000 short sentences on two CPU cores.
TINY = replace(
    BASE,
    name="tiny",
    N=3,
    d_model=256,
    d_ff=1024,
    h=4,
    steps=1_450,
    warmup=1_000,
    batch_tokens=768,
    checkpoint_updates=50,
    initialization="fairseq",
    published=Published(),
)

# The text-only Transformer-Tiny of "Good for Misconceived Reasons" (Wu et al., ACL 2021)
# for Multi30k, a result obtained with stock fairseq. An epoch has about 60 of its batches.
MULTI30K_TINY = replace(
    BASE,
    name="multi30k_tiny",
    N=4,
    d_model=128,
    d_ff=256,
    h=4,
    d_k=32,
    d_v=32,
    P_drop=0.3,
    steps=8_000,
    warmup=2_000,
    lr_factor=2.53,  # a peak of 0.005
    batch_tokens=8_192,
    checkpoint_updates=60,
    averaged=10,
    initialization="fairseq",
    published=Published(),
)

# For the demo: 17,000 short sentences in four passes, which take minutes on a CPU.
DEMO = replace(
    MULTI30K_TINY,
    name="demo",
    P_drop=0.1,
    steps=1_600,
    warmup=1_000,
    lr_factor=1.0,
    batch_tokens=768,
    checkpoint_updates=50,
    averaged=5,
)

# For parsing with 10,000 trees and more that are made of them, such as GUM's (see --augment of
# recipes/wsj_parsing).
PARSING_TINY = replace(
    MULTI30K_TINY,
    name="parsing_tiny",
    P_drop=0.1,
    shared_vocabulary=False,
    steps=40_000,
    warmup=1_000,
    lr_factor=0.5,  # a peak of 0.0014
    batch_tokens=2_048,
    checkpoint_updates=920,
    averaged=5,
)

OWN = (TINY, MULTI30K_TINY, DEMO, PARSING_TINY)
ROWS: dict[str, Row] = {row.name: row for row in (*TABLE_3, *BEYOND_TABLE_3, *OWN)}


def find_row(name: str) -> Row:
    """Return a row by `name`, which may begin with aiayn_ as an --arch does.

    Raises ValueError if there is no such row.
    """
    row = ROWS.get(name.removeprefix("aiayn_"))
    if row is None:
        nearest = get_close_matches(name.removeprefix("aiayn_"), ROWS, 1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"the rows are {', '.join(ROWS)}"
        raise ValueError(f"unknown row {name!r}: {hint}")
    return row


def learning_rate(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Return Equation 3, factor · d_model^−0.5 · min(step^−0.5, step · warmup^−1.5).

    Steps count from 1. The rate rises linearly for `warmup` steps to factor · (d_model ·
    warmup)^−0.5, then falls with the inverse square root of the step. Raises ValueError for a step,
    d_model or warmup below 1, or a factor that is not a positive number.
    """
    for name, value in (("step", step), ("d_model", d_model), ("warmup", warmup)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1 in Equation 3, got {value}")
    if not 0 < factor < inf:
        raise ValueError(f"the learning-rate factor must be a positive number, got {factor}")
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
