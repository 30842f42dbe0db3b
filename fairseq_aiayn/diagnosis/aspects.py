"""The aspects in which a training is compared with the paper, and what a difference costs.

`judge` yields them in the order in which a run is made: training (section 5), model (section 3),
averaging, search and BLEU (section 6.1). Batch, updates and learning rate are judged together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.paper import ADAM, OWN, PARSING, ROWS, TABLE_3, Row, learning_rate
from fairseq_aiayn.runs.logs import as_number
from fairseq_aiayn.settings import (
    ENCODER_AND_DECODER,
    PARSING_TASK,
    SIDES,
    TOLERANCE,
    USUAL_MAX_TOKENS,
    averaged_of,
    decoding,
    is_about,
    option,
    task_of,
    vocabulary_of,
)

__all__ = ["Weight"]


class Weight(IntEnum):
    """How much a difference is expected to cost or gain; the heaviest comes first."""

    LARGE = 4  # 1 BLEU or more
    MEDIUM = 3  # 0.3 to 1 BLEU
    UNKNOWN = 2  # its effect on BLEU after a whole training has not been measured
    SMALL = 1  # less than 0.3 BLEU
    NONE = 0  # as in the paper, or of no effect


@dataclass(frozen=True)
class Finding:
    """What the paper did, what a training did, and what follows."""

    paper: str
    here: str
    weight: Weight = Weight.NONE
    effect: str = ""  # with its source; empty if this is as in the paper
    change: str = ""  # what to type instead

    @property
    def differs(self) -> bool:
        """Return whether the training differs from the paper."""
        return bool(self.effect)


LARGE, MEDIUM, UNKNOWN, SMALL, NONE = Weight
Here = str | Literal[True] | None  # what a training had: True, what the paper has; None, not known
Findings = Iterator[tuple[str, Finding | None]]  # by aspect; None if no file says what was so


def judge(run: Evidence, row: Row, is_transformer: bool) -> Findings:
    """Yield how a training compares with a row; of another model, only that it is another."""
    yield from _kind(run, row)
    if is_transformer:
        for judged in (_training, _regularization, _model, _evaluation):
            yield from judged(run, row)


def compare(
    paper: str, here: Here, effect: str, change: str = "", weight: Weight = UNKNOWN
) -> Finding | None:
    """Return what a training had beside what the paper has, and what follows if that differs."""
    if here is None:
        return None
    if here is True or here == paper:
        return Finding(paper, paper)
    return Finding(paper, here, weight, effect, change)


def as_text(number: float | None) -> str | None:
    """Return a number as findings show it."""
    return None if number is None else f"{number:,g}"


def unless_stocks(run: Evidence, part: str, stocks: str) -> Here:
    """Return what stock fairseq's part does; this plugin's does as the paper."""
    here: dict[bool | None, Here] = {True: True, False: stocks, None: None}
    return here[run.is_ours(part)]


def bleu_gain(worse: str, better: str) -> float:
    """Return how much higher the BLEU is that the paper prints for the second row."""
    return (ROWS[better].published.bleu or 0) - (ROWS[worse].published.bleu or 0)


ROW_D = "(Table 3, row D)"
CONSTANTS = "Adam, β1 {}, β2 {}, ε {}"
OF_TINY = "after 1,450 updates of tiny (docs/results.md#ablation_tiny)"


def _kind(run: Evidence, row: Row) -> Findings:
    here: Here = run.is_transformer or run.text("arch")
    effect = "another architecture, which is not judged further"
    change = f"--arch {row.arch}"
    yield "architecture", compare("Transformer with self-attention", here, effect, change)
    here = run.is_ours("task") is not None or run.text("task")
    yield "task", compare("one pair of languages", here, "another task")
    here = run.begun_from or "restore_file" in run.options or None
    effect = "the parameters are those of another model"
    yield "beginning", compare("initial values", here, effect)


def _training(run: Evidence, row: Row) -> Findings:
    yield "batch", _batch(run, row)
    here = unless_stocks(run, "task", "by source length")
    effect = f"fewer tokens a batch; BLEU 22.03 ± 0.42, not 23.17 ± 0.49, {OF_TINY}"
    paper = "pairs of nearly one length on both sides"
    yield "batches", compare(paper, here, effect, f"--task {task_of(row)}")
    yield "updates", _updates(run, row)
    yield "learning rate", _rate(run, row)
    here = as_text(run.number("warmup_updates"))
    effect = "negligible, or crucial where it prevents divergence (tensor2tensor#991)"
    yield "warm-up", compare(f"{row.warmup:,}", here, effect, f"--warmup-updates {row.warmup}")
    here = run.text("optimizer")
    if run.is_ours("optimizer") is not None and (betas := run.text("adam_betas")) is not None:
        numbers = [*map(as_number, re.findall(r"[\d.e-]+", betas)), run.number("adam_eps")]
        is_known = len(numbers) == 3 and None not in numbers
        here = CONSTANTS.format(*numbers) if is_known else None
    paper = CONSTANTS.format(ADAM.beta_1, ADAM.beta_2, ADAM.epsilon)
    change = f"--optimizer adam --adam-betas {ADAM.beta_1},{ADAM.beta_2} --adam-eps {ADAM.epsilon}"
    yield "Adam", compare(paper, here, "another optimizer, or other constants", change)
    here = as_text(run.number("clip_norm"))
    yield "clipping", compare("0", here, "the paper has no clipping", "--clip-norm 0")
    here = run.is_ours("optimizer") or as_text(run.number("weight_decay"))
    yield "weight decay", compare("0", here, "the paper has none", "--weight-decay 0")


def _regularization(run: Evidence, row: Row) -> Findings:
    # A parser's dropout was chosen on section 22, and is not printed
    dropout, of_attention = (
        as_text(rate) if row.shared_vocabulary or rate == 0 else None
        for rate in map(run.number, ("dropout", "attention_dropout"))
    )
    weight, effect = MEDIUM, "another regularization"
    if dropout == "0":
        weight, effect = LARGE, f"{bleu_gain('d_drop0', 'base'):.1f} BLEU less for base {ROW_D}"
    yield "dropout", compare(f"{row.P_drop:g}", dropout, effect, f"--dropout {row.P_drop}", weight)
    effect = "the paper has none in attention weights"
    yield "attention dropout", compare("0", of_attention, effect, "--attention-dropout 0")
    rate = run.number("relu_dropout") or run.number("activation_dropout")
    here: Here = run.is_ours("arch") or as_text(rate)
    effect = "the paper has none within the feed-forward network"
    change = "--activation-dropout 0 --relu-dropout 0"
    yield "activation dropout", compare("0", here, effect, change)
    criterion, here = run.text("criterion"), as_text(run.number("label_smoothing"))
    effect = "another loss: perplexities do not compare either"
    if criterion and run.is_ours("criterion") is None:
        here = "0" if criterion == "cross_entropy" else criterion
    if here == "0":
        effect = f"{bleu_gain('d_ls0', 'base'):.1f} BLEU less for base {ROW_D}"
    change = f"--criterion label_smoothed_cross_entropy --label-smoothing {row.epsilon_ls}"
    yield "label smoothing", compare(f"{row.epsilon_ls:g}", here, effect, change, MEDIUM)
    here = "--amp" if run.is_on("amp") else "fp16" in run.options or None
    effect = "fairseq divides gradients by the loss scale twice"
    yield "precision", compare("without --amp", here, effect, "leave --amp out")


# --- batch, updates and learning rate (sections 5.1 to 5.3), which are judged together ----------

FULL = 0.75  # a batch has fewer target tokens than --max-tokens, which counts padding
HALF = 0.5
SENTENCES = ("batch_size", "max_sentences")  # of a batch, at most; since fairseq 0.10, and before
OF_A_SENTENCE = 28  # tokens, about the mean of WMT14 in subwords
FALLING = 0.01  # bits per token
SAME_RATE = 0.05  # peaks within 5% of the paper's count as equal
RECIPE = "a known good recipe (Ott et al. 2018)"
OUR_RATE = "aiayn_inverse_sqrt"
SMALL_BATCH = "base had BLEU 26.57 on one GPU, 25.15 with 3,072 tokens (tensor2tensor#129)"
UPDATES = "base: 27.0 after 100,000, 27.4 after 200,000, 27.5 after 300,000 (tensor2tensor#444)"
EARLY = "fewer than this, which costs little where the development loss no longer falls"


def _tokens(run: Evidence) -> tuple[float, str, int]:
    """Return the target tokens per update (0 if unknown), their source, and the number of GPUs."""
    gpus = int(run.gpus or run.number("distributed_world_size") or 1)
    if run.tokens_per_update:
        return run.tokens_per_update, "the log", gpus
    max_tokens = run.number("max_tokens") or 0
    sentences = next(filter(None, map(run.number, SENTENCES)), 0)
    limits = (
        (max_tokens, f"--max-tokens {max_tokens:g}"),
        (sentences * OF_A_SENTENCE, f"--batch-size {sentences:g}"),
    )
    limit, source = min((pair for pair in limits if pair[0]), default=(0, ""))
    every = int(run.number("update_freq") or 1)
    return limit * gpus * every, f"{source}, {gpus} GPUs, --update-freq {every}", gpus


def _batch(run: Evidence, row: Row) -> Finding | None:
    tokens, source, gpus = _tokens(run)
    if not tokens:
        return None
    ratio = tokens / row.batch_tokens
    here: Here = FULL <= ratio <= 1 + TOLERANCE or f"{tokens:,.0f}, by {source}"
    weight, known = LARGE if ratio < HALF else MEDIUM, SMALL_BATCH
    if ratio > 1:
        weight, known = UNKNOWN, "it needs a higher learning rate"
        if 1 - SAME_RATE <= (_rate_ratio(run, row) or 0) <= ratio:
            weight, known = NONE, f"with its rate {RECIPE}"
    change = _as_batch(run, row, gpus)
    if any(map(run.number, SENTENCES)):
        change += ", without --batch-size"
    paper = f"about {row.batch_tokens:,} target tokens per update"
    return compare(paper, here, f"{ratio:.2f} of this batch; {known}", change, weight)


def _as_batch(run: Evidence, row: Row, gpus: int) -> str:
    """Return options that give the row's batch; where --max-tokens left pairs out, they fit, if
    need be on fewer GPUs."""
    usual, longest = run.number("max_tokens") or USUAL_MAX_TOKENS, 1
    for value, needed in (one.limits.get("--max-tokens", (0, 0)) for one in run.left_out):
        if value:
            longest = needed or 2 * value
            usual = max(USUAL_MAX_TOKENS, longest)
    used = max(1, min(gpus, row.batch_tokens // longest))
    every = math.ceil(row.batch_tokens / (used * usual))
    every = max(1, min(every, row.batch_tokens // (used * longest)))
    tokens = max(longest, math.ceil(row.batch_tokens / used / every))
    options = f"--max-tokens {tokens} --update-freq {every}"
    return f"{options}, on {used} GPUs" if used < gpus else options


def _updates(run: Evidence, row: Row) -> Finding | None:
    """Judge the updates, of a running training those asked for; a larger batch needs fewer."""
    is_done = run.is_finished is not False
    updates = run.updates if is_done else run.number("max_update")
    if not updates:
        return None
    size, ratio = _tokens(run)[0] / row.batch_tokens, updates / row.steps
    sees_as_much = ratio < 1 and ratio * size >= 1 - TOLERANCE
    is_same = abs(ratio - 1) <= TOLERANCE or sees_as_much
    here: Here = is_same or f"{updates:,.0f}{'' if is_done else ' asked for'}"
    weight = LARGE if ratio * max(1, size) < HALF else MEDIUM
    effect = f"{'fewer' if ratio < 1 else 'more'} than this; {UPDATES}"
    change = f"--max-update {row.steps}{' --max-epoch 0' if run.number('max_epoch') else ''}"
    if ratio < 1 and (patience := run.number("patience") or 0) > 0:
        weight, effect = UNKNOWN, f"{EARLY}; --patience {patience:g} may have ended it"
        change = "--patience -1"
    elif ratio < 1 and still_falls(run) is False:
        weight, effect = UNKNOWN, f"{EARLY}, as here"
    return compare(f"{row.steps:,}", here, effect, change, weight)


def still_falls(run: Evidence) -> bool | None:
    """Return whether the development loss fell in the last fifth; None if that is not known."""
    losses = run.curves.get("development loss", {})
    points = {update: value for update, value in losses.items() if math.isfinite(value)}
    last = max(points, default=0)
    before = [value for update, value in points.items() if update <= 0.8 * last]
    return min(before) - points[last] > FALLING if before else None


def _peak(row: Row) -> float:
    return learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor)


def _rate(run: Evidence, row: Row) -> Finding | None:
    """Judge the learning rate after the warm-up; a larger batch may have a higher one."""
    paper = f"Equation 3, {_peak(row):.3g} at its peak"
    schedule, ratio = run.text("lr_scheduler"), _rate_ratio(run, row)
    change = f"--lr-scheduler inverse_sqrt --lr {_peak(row):.9g}, or --lr-scheduler {OUR_RATE}"
    if schedule not in (None, "inverse_sqrt", OUR_RATE):
        return compare(paper, schedule, "another schedule", change, LARGE)
    if ratio is None:
        return None
    name = "lr_factor" if schedule == OUR_RATE else "lr"
    given = f"{schedule}, {option(name)} {run.number(name) or 1:g}"
    here: Here = abs(ratio - 1) <= SAME_RATE or given
    effect = f"{ratio:.2f} of the paper's rate after the warm-up"
    if 1 < ratio <= _tokens(run)[0] / row.batch_tokens:
        return compare(paper, here, f"{effect}; with its batch {RECIPE}", weight=NONE)
    weight = UNKNOWN if HALF <= ratio <= 1 / HALF else LARGE
    return compare(paper, here, effect, change, weight)


def _rate_ratio(run: Evidence, row: Row) -> float | None:
    """Return the rate after the warm-up over the paper's; a longer warm-up has a lower peak."""
    schedule, rate = run.text("lr_scheduler"), run.number("lr")
    if schedule == OUR_RATE:
        return (run.number("lr_factor") or 1.0) / row.lr_factor
    if schedule != "inverse_sqrt" or not rate:
        return None
    return rate / _peak(row) * math.sqrt((run.number("warmup_updates") or row.warmup) / row.warmup)


# --- the model (section 3) ----------------------------------------------------------------------

SIZE_SYMBOLS = (*ENCODER_AND_DECODER.values(), "d_k", "d_v")
NORMS = tuple(f"{side}_normalize_before" for side in SIDES)
LEARNED = {"learned_positions": "both", **{f"{side}_learned_pos": side for side in SIDES}}
SINUSOIDS = "sinusoids interleaved, from position 0"
STOCKS_SINUSOIDS = "sinusoids concatenated, other wavelengths, from position 2"
SHARED = {
    "share_all_embeddings": "both embeddings and the projection",
    "share_decoder_input_output_embed": "target embedding and projection",
    "untied_embeddings": "none",
}


def _model(run: Evidence, row: Row) -> Findings:
    yield "sizes", _sizes(run, row)
    is_known = run.is_ours("arch") or all(name in run.options for name in NORMS)
    here: Here = "before each sub-layer" if any(map(run.is_on, NORMS)) else is_known or None
    effect = "worse on WMT14 en-de, easier without warm-up (Nguyen and Salazar 2019)"
    change = "leave --encoder-normalize-before and --decoder-normalize-before out"
    yield "norms", compare("after each sub-layer", here, effect, change)
    here = unless_stocks(run, "arch", "1e-5")
    yield "ε of LayerNorm", compare("1e-6", here, "not measured")
    yield "positions", _positions(run, row)
    name = "share_all_embeddings" if row.shared_vocabulary else "share_decoder_input_output_embed"
    on = next((text for name, text in SHARED.items() if run.is_on(name)), None)
    default = "none" if any(name in run.options for name in SHARED) else None
    here = on or run.is_ours("arch") or default  # our model shares what its row shares
    effect = "more parameters than the paper's model"
    yield "shared matrices", compare(SHARED[name], here, effect, option(name))
    vocabulary = vocabulary_of(row, run.corpus)
    effect = "another text or number of merges: perplexities per piece do not compare"
    change = f"subword-nmt learn-bpe --total-symbols -s {vocabulary}"
    is_papers = row in (*OWN, PARSING) or is_about(run.vocabulary or 0, vocabulary)
    here = is_papers or f"{run.vocabulary:,} types" if run.vocabulary else None
    yield "vocabulary", compare(f"about {vocabulary:,}", here, effect, change)
    # Stock fairseq has this scheme since March 2020, and the option since October 2020
    is_new = run.is_ours("arch") is False and "batch_size" in run.options
    scheme = run.text("initialization") or ("fairseq" if is_new else None)
    here = None if run.begun_from else scheme
    effect = f"perplexity 9.49 (fairseq), 10.19 (tensor2tensor), 10.27 (0.9) {OF_TINY}"
    yield "initial values", compare(row.initialization, here, effect)
    here = run.is_ours("arch") or run.text("activation_fn")
    yield "activation", compare("relu", here, "another network", "--activation-fn relu")


def row_sizes(row: Row) -> str:
    """Return the sizes of a row by the paper's symbols."""
    return ", ".join(f"{symbol} {getattr(row, symbol)}" for symbol in SIZE_SYMBOLS)


def run_sizes(run: Evidence) -> str | None:
    """Return the sizes of encoder and decoder, once if they are the same."""
    sides = []
    for side in SIDES:
        given = [run.number(f"{side}_{name}") or 0 for name in ENCODER_AND_DECODER]
        if not all(given):
            return None
        of_a_head = given[1] // given[3]
        values = [*given, *(run.number(name) or of_a_head for name in ("d_k", "d_v"))]
        sides.append(
            ", ".join(f"{name} {n:g}" for name, n in zip(SIZE_SYMBOLS, values, strict=True))
        )
    return " / ".join(dict.fromkeys(sides))


def _sizes(run: Evidence, row: Row) -> Finding | None:
    here, weight, effect = run_sizes(run), UNKNOWN, "another model"
    same = next((other for other in TABLE_3 if row_sizes(other) == here), None)
    if same and same.published.bleu and row.published.bleu:
        gain = bleu_gain(row.name, same.name)
        weight = LARGE if abs(gain) >= 1 else MEDIUM
        effect = f"the size of row {same.name}: {gain:+.1f} BLEU (Table 3)"
    return compare(row_sizes(row), here, effect, f"--arch {row.arch}", weight)


def _positions(run: Evidence, row: Row) -> Finding | None:
    paper = "learned" if row.learned_positions else SINUSOIDS
    if run.is_on("no_token_positional_embeddings"):
        change = "leave --no-token-positional-embeddings out"
        effect = "the model does not see the order of words"
        return compare(paper, "none", effect, change, LARGE)
    here, weight = None, SMALL
    effect = f"{bleu_gain('base', 'e_learned'):+.1f} BLEU if learned (row E)"
    if sides := [side for name, side in LEARNED.items() if run.is_on(name)]:
        here = "learned" if len(sides) > 1 or "both" in sides else f"learned ({sides[0]} only)"
    elif run.is_ours("arch"):
        here = SINUSOIDS
    elif any(name in run.options for name in LEARNED):
        here, weight = STOCKS_SINUSOIDS, UNKNOWN
        effect = f"BLEU 23.11 ± 0.75, not 23.17 ± 0.49, {OF_TINY}"
    return compare(paper, here, effect, f"--arch {row.arch}", weight)


# --- averaging, search and BLEU (section 6.1) ---------------------------------------------------

NEWSTEST2014 = 3_003  # sentences
STOCKS_MULTIPLE = 8  # stock fairseq's default of --required-batch-size-multiple
OF_SACREBLEU = {"13a": 27.52, "intl": 28.33}  # the authors' base model, by tokenizers


def _evaluation(run: Evidence, row: Row) -> Findings:
    search, task = decoding(row), f"--task {task_of(row)}"
    averaged = averaged_of(row, run.search.get("gen_subset"))
    effect = "checkpoints; averaging gains up to 1 BLEU, mostly less (tensor2tensor#317)"
    change = f"aiayn average --last {averaged}"
    here: Here = as_text(run.averaged)
    yield "averaging", compare(f"{averaged}", here, effect, change, MEDIUM)
    for name, key, papers in (("beam", "beam", search.beam), ("α", "lenpen", search.alpha)):
        here, change = as_text(as_number(run.search.get(key))), f"--{key} {papers}"
        yield name, compare(f"{papers}", here, "another search", change, SMALL)
    paper = "by log P / ((5 + |Y|)/6)^α, until no open hypothesis can win any more"
    here = unless_stocks(run, "search", "by log P / |Y|^α, until k hypotheses are finished")
    effect = "α means something else; BLEU moved by 0.1 (results.md#multi30k_published)"
    yield "length penalty and end", compare(paper, here, effect, task, SMALL)
    paper = f"1 x the sentence's own input + {search.extra_length}"
    effect = "longer outputs are cut, or a translation depends on its batch"
    change = f"{task} --max-len-a 1 --max-len-b {search.extra_length}"
    yield "longest output", compare(paper, _longest_output(run), effect, change)
    effect, change = "it is another test set", "--required-batch-size-multiple 1"
    yield "test set", compare("every sentence", _test_set(run), effect, change, SMALL)
    effect = "BLEU of byte pairs or word pieces is far higher than BLEU of words"
    change = "--post-process subword_nmt or sentencepiece"
    here = _scored_text(run, row)
    yield "text that is scored", compare("words", here, effect, change, LARGE)
    yield "BLEU", _bleu(run)


def _longest_output(run: Evidence) -> str | None:
    a, b = (as_number(run.search.get(name)) for name in ("max_len_a", "max_len_b"))
    if a is None or b is None:
        return None
    whose = "the sentence's own" if run.is_ours("search") else "the batch's longest"
    return f"{b:g} tokens" if a == 0 else f"{a:g} x {whose} input + {b:g}"


def _test_set(run: Evidence) -> Here:
    """Return what was left out by the numbers of sentences, or may have been by the options."""
    done = run.translated or 0
    everything = done + run.missing
    if (run.corpus or "").startswith("wmt14_") and run.search.get("gen_subset") == "test":
        everything = max(everything, NEWSTEST2014)
    if 0 < done < everything:
        return f"{done:,} of {everything:,} sentences"
    default = {True: 1, False: STOCKS_MULTIPLE, None: 0}[run.is_ours("search")]
    multiple = int(as_number(run.search.get("required_batch_size_multiple")) or default)
    if multiple < 2 or done == NEWSTEST2014:
        return multiple == 1 or done == NEWSTEST2014 or None
    return f"up to {multiple - 1} sentences fewer: batches in multiples of {multiple}"


def _scored_text(run: Evidence, row: Row) -> Here:
    """Return of what text BLEU is; a parser is scored by its trees and has no BLEU."""
    given = [run.search[name] for name in ("post_process", "remove_bpe") if name in run.search]
    is_parser = not row.shared_vocabulary or run.search.get("task") == PARSING_TASK
    if is_parser or (run.has_subwords is None and not given):
        return None
    has_subwords = not any(given) if run.has_subwords is None else run.has_subwords
    return "as pieces" if has_subwords else True


def _bleu(run: Evidence) -> Finding | None:
    """Judge a signature of sacreBLEU or of `aiayn bleu`, or a line of fairseq's."""
    if run.signature is None:
        return None
    paper = "cased, of Moses tokens; German: ASCII quotes, split compounds"
    parts = dict(re.findall(r"([a-z]+)[:.]([^|+ ]+)", run.signature))
    tokens = parts.get("tok", "")
    if tokens.startswith("sacremoses-"):
        is_papers = not tokens.endswith("-de") or parts.get("quotes") == "ascii"
        here: Here = is_papers or run.signature
        return compare(paper, here, "Unicode quotes are kept", "aiayn bleu --quotes ascii")
    effect = "BLEU without the splitting is 0.7 to 1 lower"
    if tokens in OF_SACREBLEU:
        effect = f"the authors' base model has {OF_SACREBLEU[tokens]} and by their script 29.02"
    if parts.get("case") == "lc":
        effect += "; without case 0.5 higher"
    effect = f"for English-German, {effect} (tensor2tensor#317)"
    return compare(paper, run.signature, effect, "aiayn bleu", LARGE)
