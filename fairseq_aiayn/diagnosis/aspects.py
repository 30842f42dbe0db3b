"""The aspects in which a training is compared with the paper, and what a difference costs.

ASPECTS, at the end, is a table in the order in which a run is made: training (section 5), model
(section 3), averaging, search and BLEU (section 6.1). `judge` compares one. Batch, updates and
learning rate are judged together, by functions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

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
Cost = tuple[Weight, str]  # what a difference costs, and its effect in words
Reading = Callable[[Evidence, Row], Any]
OTHER = "any other value"


class Aspect(NamedTuple):
    """One line of the table; texts may name {row} and, of the row, its {task} and {search}. `here`
    returns what the training had, alone or with weight, effect and change; True if it is as in the
    paper, and None if no file says it."""

    name: str
    paper: str | Reading
    here: Reading
    cost: Cost | Mapping[object, Cost] = (NONE, "")  # or by what is here
    change: str = ""  # what to type instead


def judge(aspect: Aspect, run: Evidence, row: Row) -> Finding | None:
    """Compare a training with a row in one aspect; None if no file says what the training had."""
    here = aspect.here(run, row)
    if here is None:
        return None
    names = {"row": row, "task": task_of(row), "search": decoding(row), "adam": ADAM}
    names["vocabulary"] = vocabulary_of(row, run.corpus)
    names["shared"] = option([*SHARING][0 if row.shared_vocabulary else 1])
    paper = aspect.paper(run, row) if callable(aspect.paper) else aspect.paper.format(**names)
    if isinstance(here, tuple):
        return Finding(paper, *here)
    if not isinstance(here, bool | str):
        here, paper = f"{here:,g}", f"{as_number(paper):,g}"
    if here is True or here == paper:
        return Finding(paper, paper)
    costs = aspect.cost if isinstance(aspect.cost, Mapping) else {OTHER: aspect.cost}
    weight, effect = costs.get(here) or costs[OTHER]
    return Finding(paper, here, weight, effect, aspect.change.format(**names, paper=paper))


def number(name: str, argument: str, paper: str, cost: Any, here: Reading | None = None) -> Aspect:
    """Return the aspect of an option that is a number; the change is to give the paper's."""
    read = here or (lambda run, row: run.number(argument))
    return Aspect(name, paper, read, cost, f"{option(argument)} {paper}")


def choice(name: str, part: str, ours: str, stocks: str, cost: Cost, change: str = "") -> Aspect:
    """Return an aspect in which this plugin's part is as the paper, and stock fairseq's is not."""
    here = {True: True, False: stocks, None: None}
    return Aspect(name, ours, lambda run, row: here[run.is_ours(part)], cost, change)


def bleu_gain(worse: str, better: str) -> float:
    """Return how much higher the BLEU is that the paper prints for the second row."""
    return (ROWS[better].published.bleu or 0) - (ROWS[worse].published.bleu or 0)


# --- batch, updates and learning rate (sections 5.1 to 5.3), which are judged together ----------

FULL = 0.75  # the target tokens of a batch are fewer than its --max-tokens: padding counts
HALF = 0.5
SENTENCES = ("batch_size", "max_sentences")  # of a batch, at most; since fairseq 0.10, and before
OF_A_SENTENCE = 28  # tokens, about the mean of WMT14 in subwords
FALLING = 0.01  # bits per token
SAME_RATE = 0.05  # a peak no further from the paper's is the same
RECIPE = "a known good recipe (Ott et al. 2018)"
OUR_RATE = "aiayn_inverse_sqrt"
SMALL_BATCH = "base had BLEU 26.57 on one GPU, 25.15 with 3,072 tokens (tensor2tensor#129)"
UPDATES = "base: 27.0 after 100,000, 27.4 after 200,000, 27.5 after 300,000 (tensor2tensor#444)"
EARLY = "fewer than this, which costs little where the development loss no longer falls"


def _tokens(run: Evidence) -> tuple[float, str, int]:
    """Return an update's target tokens, 0 if they are not known; what says so, the log's statistics
    or else the limits of a batch; and the GPUs."""
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


def _batch(run: Evidence, row: Row) -> Any:
    """Judge an update's target tokens."""
    tokens, source, gpus = _tokens(run)
    ratio = tokens / row.batch_tokens
    if not tokens or FULL <= ratio <= 1 + TOLERANCE:
        return True if tokens else None
    weight = LARGE if ratio < HALF else MEDIUM if ratio < 1 else UNKNOWN
    known = SMALL_BATCH if ratio < 1 else "it needs a higher learning rate"
    if ratio > 1 and 1 - SAME_RATE <= (_rate_ratio(run, row) or 0) <= ratio:
        weight, known = NONE, f"with its rate {RECIPE}"
    change = _as_batch(run, row, gpus)
    change += ", without --batch-size" * any(map(run.number, SENTENCES))
    return f"{tokens:,.0f}, by {source}", weight, f"{ratio:.2f} of this batch; {known}", change


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
    return f"--max-tokens {tokens} --update-freq {every}" + f", on {used} GPUs" * (used < gpus)


def _updates(run: Evidence, row: Row) -> Any:
    """Judge the updates, of a running training those asked for; a larger batch needs fewer."""
    is_done = run.is_finished is not False
    updates = run.updates if is_done else run.number("max_update")
    if not updates:
        return None
    size, ratio = _tokens(run)[0] / row.batch_tokens, updates / row.steps
    if abs(ratio - 1) <= TOLERANCE or ratio < 1 - TOLERANCE <= ratio * size:
        return True
    here = f"{updates:,.0f}" + " asked for" * (not is_done)
    change = f"--max-update {row.steps}" + " --max-epoch 0" * bool(run.number("max_epoch"))
    if ratio < 1 and (patience := run.number("patience") or 0) > 0:
        why = f"{EARLY}; --patience {patience:g} may have ended it"
        return here, UNKNOWN, why, "--patience -1"
    if ratio < 1 and still_falls(run) is False:
        return here, UNKNOWN, f"{EARLY}, as here", change
    weight = LARGE if ratio * max(1, size) < HALF else MEDIUM
    return here, weight, f"{'fewer' if ratio < 1 else 'more'} than this; {UPDATES}", change


def still_falls(run: Evidence) -> bool | None:
    """Return whether the development loss fell in the last fifth; None if that is not known."""
    losses = run.curves.get("development loss", {})
    points = {update: value for update, value in losses.items() if math.isfinite(value)}
    last = max(points, default=0)
    before = [value for update, value in points.items() if update <= 0.8 * last]
    return min(before) - points[last] > FALLING if before else None


def _peak(row: Row) -> float:
    return learning_rate(row.warmup, row.d_model, row.warmup, row.lr_factor)


def _rate(run: Evidence, row: Row) -> Any:
    """Judge the learning rate after the warm-up; a larger batch may have a higher one."""
    schedule, ratio = run.text("lr_scheduler"), _rate_ratio(run, row)
    change = f"--lr-scheduler inverse_sqrt --lr {_peak(row):.9g}, or --lr-scheduler {OUR_RATE}"
    if schedule not in (None, "inverse_sqrt", OUR_RATE):
        return schedule, LARGE, "another schedule", change
    if ratio is None or abs(ratio - 1) <= SAME_RATE:
        return None if ratio is None else True
    name = "lr_factor" if schedule == OUR_RATE else "lr"
    here = f"{schedule}, {option(name)} {run.number(name) or 1:g}"
    effect = f"{ratio:.2f} of the paper's rate after the warm-up"
    if 1 < ratio <= _tokens(run)[0] / row.batch_tokens:
        return here, NONE, f"{effect}; with its batch {RECIPE}"
    return here, UNKNOWN if HALF <= ratio <= 1 / HALF else LARGE, effect, change


def _rate_ratio(run: Evidence, row: Row) -> float | None:
    """Return the rate after the warm-up over the paper's; a longer warm-up has a lower peak."""
    schedule, rate = run.text("lr_scheduler"), run.number("lr")
    if schedule == OUR_RATE:
        return (run.number("lr_factor") or 1.0) / row.lr_factor
    if schedule != "inverse_sqrt" or not rate:
        return None
    return rate / _peak(row) * math.sqrt((run.number("warmup_updates") or row.warmup) / row.warmup)


# --- what else has more than one option or form -------------------------------------------------

SYMBOLS = (*ENCODER_AND_DECODER.values(), "d_k", "d_v")
NORMS = tuple(f"{side}_normalize_before" for side in SIDES)
LEARNED = {"learned_positions": "both", **{f"{side}_learned_pos": side for side in SIDES}}
SINUSOIDS = "sinusoids interleaved, from position 0"
STOCKS_SINUSOIDS = "sinusoids concatenated, other wavelengths, from position 2"
SHARING = {
    "share_all_embeddings": "both embeddings and the projection",
    "share_decoder_input_output_embed": "target embedding and projection",
    "untied_embeddings": "none",
}
NEWSTEST2014 = 3_003  # sentences
STOCKS_MULTIPLE = 8  # stock fairseq's default of --required-batch-size-multiple
OF_TINY = "after 1,450 updates of tiny (docs/results.md#ablation_tiny)"
OF_SACREBLEU = {"13a": 27.52, "intl": 28.33}  # the authors' base model, by tokenizers


def _adam(run: Evidence, row: Row) -> str | None:
    betas, optimizer = run.text("adam_betas"), run.text("optimizer")
    if run.is_ours("optimizer") is None or betas is None:
        return optimizer
    numbers = (*map(as_number, re.findall(r"[\d.e-]+", betas)), run.number("adam_eps"))
    return None if None in numbers else "Adam, β1 {}, β2 {}, ε {}".format(*numbers)


def _chosen(name: str) -> Reading:
    """Return the reading of a dropout; a parser's was chosen on section 22, and is not printed."""
    return lambda run, row: (
        run.number(name) if row.shared_vocabulary or run.number(name) == 0 else None
    )


def _smoothing(run: Evidence, row: Row) -> object:
    criterion = run.text("criterion")
    if criterion and run.is_ours("criterion") is None:
        return 0.0 if criterion == "cross_entropy" else criterion
    return run.number("label_smoothing")


def row_sizes(row: Row) -> str:
    """Return the sizes of a row by the paper's symbols."""
    return ", ".join(f"{symbol} {getattr(row, symbol)}" for symbol in SYMBOLS)


def run_sizes(run: Evidence) -> str | None:
    """Return the sizes of encoder and decoder, once if they are the same."""
    sides = []
    for side in SIDES:
        given = [run.number(f"{side}_{name}") or 0 for name in ENCODER_AND_DECODER]
        if not all(given):
            return None
        of_a_head = given[1] // given[3]
        values = [*given, *(run.number(name) or of_a_head for name in ("d_k", "d_v"))]
        sides.append(", ".join(f"{name} {n:g}" for name, n in zip(SYMBOLS, values, strict=True)))
    return " / ".join(dict.fromkeys(sides))


def _sizes(run: Evidence, row: Row) -> Any:
    here = run_sizes(run)
    same = next((other for other in TABLE_3 if row_sizes(other) == here), None)
    if here in (None, row_sizes(row)) or not (same and same.published.bleu and row.published.bleu):
        return here
    gain = bleu_gain(row.name, same.name)
    effect = f"the size of row {same.name}: {gain:+.1f} BLEU (Table 3)"
    return here, LARGE if abs(gain) >= 1 else MEDIUM, effect, f"--arch {row.arch}"


def _norms(run: Evidence, row: Row) -> object:
    is_known = run.is_ours("arch") or all(name in run.options for name in NORMS)
    return "before each sub-layer" if any(map(run.is_on, NORMS)) else is_known or None


def _positions(run: Evidence, row: Row) -> object:
    if run.is_on("no_token_positional_embeddings"):
        effect = "the model does not see the order of words"
        return "none", LARGE, effect, "leave --no-token-positional-embeddings out"
    sides = [side for name, side in LEARNED.items() if run.is_on(name)]
    if sides:
        return "learned" if len(sides) > 1 or "both" in sides else f"learned ({sides[0]} only)"
    is_known = any(name in run.options for name in LEARNED)
    return SINUSOIDS if run.is_ours("arch") else STOCKS_SINUSOIDS if is_known else None


def _sharing(run: Evidence, row: Row) -> object:
    """Return which matrices are one; our model shares what its row shares."""
    on = [text for name, text in SHARING.items() if run.is_on(name)]
    default = "none" if any(name in run.options for name in SHARING) else None
    return on[0] if on else run.is_ours("arch") or default


def _initial_values(run: Evidence, row: Row) -> str | None:
    """Return the scheme; stock fairseq's since March 2020 is known by an option of October 2020."""
    is_new = run.is_ours("arch") is False and "batch_size" in run.options
    return None if run.begun_from else run.text("initialization") or ("fairseq" if is_new else None)


def _longest_output(run: Evidence, row: Row) -> str | None:
    a, b = (as_number(run.search.get(name)) for name in ("max_len_a", "max_len_b"))
    if a is None or b is None:
        return None
    whose = "the sentence's own" if run.is_ours("search") else "the batch's longest"
    return f"{b:g} tokens" if a == 0 else f"{a:g} x {whose} input + {b:g}"


def _test_set(run: Evidence, row: Row) -> object:
    """Return what was left out by the numbers of sentences, or may have been by the options."""
    done, is_wmt14 = run.translated or 0, (run.corpus or "").startswith("wmt14_")
    everything = max(
        done + run.missing, NEWSTEST2014 * (is_wmt14 and run.search.get("gen_subset") == "test")
    )
    default = {True: 1, False: STOCKS_MULTIPLE, None: 0}[run.is_ours("search")]
    multiple = int(as_number(run.search.get("required_batch_size_multiple")) or default)
    if 0 < done < everything:
        return f"{done:,} of {everything:,} sentences"
    if multiple < 2 or done == NEWSTEST2014:
        return multiple == 1 or done == NEWSTEST2014 or None
    return f"up to {multiple - 1} sentences fewer: batches in multiples of {multiple}"


def _scored_text(run: Evidence, row: Row) -> object:
    """Return of what text BLEU is; a parser is scored by its trees and has no BLEU."""
    given = [run.search[name] for name in ("post_process", "remove_bpe") if name in run.search]
    is_parser = not row.shared_vocabulary or run.search.get("task") == PARSING_TASK
    if is_parser or (run.has_subwords is None and not given):
        return None
    has_subwords = not any(given) if run.has_subwords is None else run.has_subwords
    return "as pieces" if has_subwords else True


def _bleu(run: Evidence, row: Row) -> Any:
    """Judge a signature of sacreBLEU or of `aiayn bleu`, or a line of fairseq's."""
    if run.signature is None:
        return None
    parts = dict(re.findall(r"([a-z]+)[:.]([^|+ ]+)", run.signature))
    tokens = parts.get("tok", "")
    if tokens.startswith("sacremoses-"):
        is_papers = not tokens.endswith("-de") or parts.get("quotes") == "ascii"
        kept = (run.signature, UNKNOWN, "Unicode quotes are kept", "aiayn bleu --quotes ascii")
        return is_papers or kept
    effect = "BLEU without the splitting is 0.7 to 1 lower"
    if tokens in OF_SACREBLEU:
        effect = f"the authors' base model has {OF_SACREBLEU[tokens]} and by their script 29.02"
    effect += "; without case 0.5 higher" * (parts.get("case") == "lc")
    return run.signature, LARGE, f"for English-German, {effect} (tensor2tensor#317)", "aiayn bleu"


# --- the table ----------------------------------------------------------------------------------

# fmt: off
ASPECTS = (
    Aspect("architecture", "Transformer with self-attention",
           lambda run, row: run.is_transformer or run.text("arch"),
           (UNKNOWN, "another architecture, which is not judged further"), "--arch {row.arch}"),
    Aspect("task", "one pair of languages",
           lambda run, row: run.is_ours("task") is not None or run.text("task"),
           (UNKNOWN, "another task")),
    Aspect("beginning", "initial values",
           lambda run, row: run.begun_from or "restore_file" in run.options or None,
           (UNKNOWN, "the parameters are those of another model")),
    Aspect("batch", "about {row.batch_tokens:,} target tokens per update", _batch),
    choice("batches", "task", "pairs of nearly one length on both sides", "by source length",
           (UNKNOWN, f"fewer tokens a batch; BLEU 22.03 ± 0.42, not 23.17 ± 0.49, {OF_TINY}"),
           "--task {task}"),
    Aspect("updates", "{row.steps:,}", _updates),
    Aspect("learning rate", lambda run, row: f"Equation 3, {_peak(row):.3g} at its peak", _rate),
    number("warm-up", "warmup_updates", "{row.warmup}",
           (UNKNOWN, "negligible, or crucial where it prevents divergence (tensor2tensor#991)")),
    Aspect("Adam", "Adam, β1 {adam.beta_1}, β2 {adam.beta_2}, ε {adam.epsilon}", _adam,
           (UNKNOWN, "another optimizer, or other constants"),
           "--optimizer adam --adam-betas {adam.beta_1},{adam.beta_2} --adam-eps {adam.epsilon}"),
    number("clipping", "clip_norm", "0", (UNKNOWN, "the paper has no clipping")),
    number("weight decay", "weight_decay", "0", (UNKNOWN, "the paper has none"),
           lambda run, row: 0.0 if run.is_ours("optimizer") else run.number("weight_decay")),
    number("dropout", "dropout", "{row.P_drop}",
           {"0": (LARGE, f"{bleu_gain('d_drop0', 'base'):.1f} BLEU less for base (Table 3, row D)"),
            OTHER: (MEDIUM, "another regularization")}, _chosen("dropout")),
    number("attention dropout", "attention_dropout", "0",
           (UNKNOWN, "the paper has none in attention weights"), _chosen("attention_dropout")),
    Aspect("activation dropout", "0",
           lambda run, row: (run.number("relu_dropout") or run.number("activation_dropout")
                             if not run.is_ours("arch") else True),
           (UNKNOWN, "the paper has none within the feed-forward network"),
           "--activation-dropout 0 --relu-dropout 0"),
    Aspect("label smoothing", "{row.epsilon_ls}", _smoothing,
           {"0": (MEDIUM, f"{bleu_gain('d_ls0', 'base'):.1f} BLEU less for base (Table 3, row D)"),
            OTHER: (MEDIUM, "another loss: perplexities do not compare either")},
           "--criterion label_smoothed_cross_entropy --label-smoothing {row.epsilon_ls}"),
    Aspect("precision", "without --amp",
           lambda run, row: "--amp" if run.is_on("amp") else "fp16" in run.options or None,
           (UNKNOWN, "fairseq divides gradients by the loss scale twice"), "leave --amp out"),
    Aspect("sizes", lambda run, row: row_sizes(row), _sizes,
           (UNKNOWN, "another model"), "--arch {row.arch}"),
    Aspect("norms", "after each sub-layer", _norms,
           (UNKNOWN, "worse on WMT14 en-de, easier without warm-up (Nguyen and Salazar 2019)"),
           "leave --encoder-normalize-before and --decoder-normalize-before out"),
    choice("ε of LayerNorm", "arch", "1e-6", "1e-5", (UNKNOWN, "not measured")),
    Aspect("positions", lambda run, row: "learned" if row.learned_positions else SINUSOIDS,
           _positions,
           {STOCKS_SINUSOIDS: (UNKNOWN, f"BLEU 23.11 ± 0.75, not 23.17 ± 0.49, {OF_TINY}"),
            OTHER: (SMALL, f"{bleu_gain('base', 'e_learned'):+.1f} BLEU if learned (row E)")},
           "--arch {row.arch}"),
    Aspect("shared matrices",
           lambda run, row: [*SHARING.values()][0 if row.shared_vocabulary else 1], _sharing,
           (UNKNOWN, "more parameters than the paper's model"), "{shared}"),
    Aspect("vocabulary", "about {vocabulary:,}",
           lambda run, row: run.vocabulary and (row in (*OWN, PARSING) or (
               is_about(run.vocabulary, vocabulary_of(row, run.corpus))
               or f"{run.vocabulary:,} types")),
           (UNKNOWN, "another text or number of merges: perplexities per piece do not compare"),
           "subword-nmt learn-bpe --total-symbols -s {vocabulary}"),
    Aspect("initial values", "{row.initialization}", _initial_values,
           (UNKNOWN, f"perplexity 9.49 (fairseq), 10.19 (tensor2tensor), 10.27 (0.9) {OF_TINY}")),
    Aspect("activation", "relu",
           lambda run, row: run.is_ours("arch") or run.text("activation_fn"),
           (UNKNOWN, "another network"), "--activation-fn relu"),
    Aspect("averaging", lambda run, row: str(averaged_of(row, run.search.get("gen_subset"))),
           lambda run, row: run.averaged,
           (MEDIUM, "checkpoints; averaging gains up to 1 BLEU, mostly less (tensor2tensor#317)"),
           "aiayn average --last {paper}"),
    number("beam", "beam", "{search.beam}", (SMALL, "another search"),
           lambda run, row: as_number(run.search.get("beam"))),
    number("α", "lenpen", "{search.alpha}", (SMALL, "another search"),
           lambda run, row: as_number(run.search.get("lenpen"))),
    choice("length penalty and end", "search",
           "by log P / ((5 + |Y|)/6)^α, until no open hypothesis can win any more",
           "by log P / |Y|^α, until k hypotheses are finished",
           (SMALL, "α means something else; BLEU moved by 0.1 (results.md#multi30k_published)"),
           "--task {task}"),
    Aspect("longest output", "1 x the sentence's own input + {search.extra_length}",
           _longest_output,
           (UNKNOWN, "longer outputs are cut, or a translation depends on its batch"),
           "--task {task} --max-len-a 1 --max-len-b {search.extra_length}"),
    Aspect("test set", "every sentence", _test_set, (SMALL, "it is another test set"),
           "--required-batch-size-multiple 1"),
    Aspect("text that is scored", "words", _scored_text,
           (LARGE, "BLEU of byte pairs or word pieces is far higher than BLEU of words"),
           "--post-process subword_nmt or sentencepiece"),
    Aspect("BLEU", "cased, of Moses tokens; German: ASCII quotes, split compounds", _bleu),
)
