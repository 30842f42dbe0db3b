"""The aspects in which a training is compared with the paper, and what a difference costs.

`judge` yields them in the order in which a run is made: training (section 5), model (section 3),
averaging, search and BLEU (section 6.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from fairseq_aiayn.diagnosis.evidence import FILTERED, NEWSTEST2014, Evidence, as_text
from fairseq_aiayn.diagnosis.findings import PLUGIN, SEARCH, Finding, Here, Weight, compare, whole
from fairseq_aiayn.diagnosis.regime import OUR_RATE, judge_regime
from fairseq_aiayn.paper import ADAM, OWN, PARSING, ROWS, TABLE_3, Row
from fairseq_aiayn.runs.logs import as_number
from fairseq_aiayn.settings import (
    ENCODER_AND_DECODER,
    SIDES,
    averaged_of,
    decoding,
    is_about,
    option,
    task_of,
    vocabulary_of,
)

LARGE, MEDIUM, UNKNOWN, SMALL, NONE = Weight
Findings = Iterator[tuple[str, Finding | None]]  # by aspect; None if no file says what was so
CONSTANTS = "Adam, β1 {}, β2 {}, ε {}"
OF_TINY = "after 1,450 updates of tiny"
# What to type of the number of checkpoints and --save-dir, and of both languages
AVERAGE = "aiayn average --last {0} --dir {1} --output {1}/average.pt"
MERGES = "cat train.{} train.{} | subword-nmt learn-bpe -s {} > codes"
JOINED = (
    "fairseq-preprocess --source-lang {} --target-lang {} --joined-dictionary --trainpref train"
    " --validpref valid --destdir joined; fairseq-train joined ... --save-dir joined {}"
)
ROW_D = "BLEU less for base, English-German (Table 3, row D)"


def judge(run: Evidence, row: Row, is_transformer: bool, failed: bool) -> Findings:
    """Yield how a training compares with a row; of another model, only that it is another."""
    yield from _kind(run, row)
    if is_transformer:
        yield "batch, rate, updates", judge_regime(run, row, failed)
        for judged in (_training, _regularization, _model, _evaluation):
            yield from judged(run, row)


def unless_stocks(run: Evidence, part: str, stocks: str) -> Here:
    """Return what stock fairseq's part does; this plugin's does as the paper."""
    return stocks if (is_ours := run.is_ours(part)) is False else is_ours


def bleu_gain(worse: str, better: str) -> float:
    """Return how much higher the BLEU is that the paper prints for the second row."""
    return (ROWS[better].published.bleu or 0) - (ROWS[worse].published.bleu or 0)


def _kind(run: Evidence, row: Row) -> Findings:
    here: Here = run.is_transformer or run.text("arch")
    effect = "another architecture, which is not judged further"
    yield "architecture", compare("Transformer with self-attention", here, effect, whole(run, row))
    here = run.is_ours("task") is not None or run.text("task")
    yield "task", compare("one pair of languages", here, "another task", whole(run, row))
    here = run.begun_from or "restore_file" in run.options or None
    effect, change = "the parameters are those of another model", f"without {run.begun_from}"
    yield "beginning", compare("initial values", here, effect, change)


def _training(run: Evidence, row: Row) -> Findings:
    stocks, is_adam = whole(run, row, "stock"), run.is_ours("optimizer") is not None
    paper, here = "pairs of nearly one length on both sides", "by source length"
    effect = f"fewer tokens a batch; BLEU 22.03 ± 0.42, not 23.17 ± 0.49, {OF_TINY}"
    change = f"{PLUGIN} --task {task_of(row)}"
    yield "batches", compare(paper, unless_stocks(run, "task", here), effect, change)
    effect = "negligible, or crucial where it prevents divergence (tensor2tensor#991)"
    has_warmup = run.text("lr_scheduler") in ("inverse_sqrt", OUR_RATE)
    change = f"--warmup-updates {row.warmup}" if has_warmup else stocks
    yield "warm-up", compare(f"{row.warmup:,}", run.shown("warmup_updates"), effect, change)
    constants = run.text("optimizer")
    if is_adam and (betas := run.text("adam_betas")) is not None:
        numbers = [*map(as_number, re.findall(r"[\d.e-]+", betas)), run.number("adam_eps")]
        is_known = len(numbers) == 3 and None not in numbers
        constants = CONSTANTS.format(*numbers) if is_known else None
    paper = CONSTANTS.format(ADAM.beta_1, ADAM.beta_2, ADAM.epsilon)
    change = f"--adam-betas {ADAM.beta_1},{ADAM.beta_2} --adam-eps {ADAM.epsilon}"
    effect = "another optimizer, or other constants"
    yield "Adam", compare(paper, constants, effect, change if is_adam else stocks)
    yield "clipping", compare("0", run.shown("clip_norm"), "the paper has none", "--clip-norm 0")
    decay: Here = run.is_ours("optimizer") or run.shown("weight_decay")
    change = "--weight-decay 0" if is_adam else stocks
    yield "weight decay", compare("0", decay, "the paper has none", change)


def _regularization(run: Evidence, row: Row) -> Findings:
    # A parser's dropout was chosen on section 22, and is not printed
    dropout, of_attention = (
        rate if row.shared_vocabulary or rate == "0" else None
        for rate in map(run.shown, ("dropout", "attention_dropout"))
    )
    weight, effect, change = MEDIUM, "another regularization", f"--dropout {row.P_drop}"
    if run.fits and row not in OWN:  # what fits the text is said with it
        weight, effect, change = NONE, "a small text needs more than the paper's", ""
    elif dropout == "0":
        weight, effect = LARGE, f"{bleu_gain('d_drop0', 'base'):.1f} {ROW_D}"
    weight = weight if run.is_papers_pair else min(weight, UNKNOWN)  # as measured for it
    yield "dropout", compare(f"{row.P_drop:g}", dropout, effect, change, weight)
    effect = "the paper has none in attention weights"
    yield "attention dropout", compare("0", of_attention, effect, "--attention-dropout 0")
    rate = run.number("relu_dropout") or run.number("activation_dropout")
    effect = "the paper has none within the feed-forward network"
    here, change = run.is_ours("arch") or as_text(rate), "--activation-dropout 0 --relu-dropout 0"
    yield "activation dropout", compare("0", here, effect, change)
    criterion, here = run.text("criterion"), run.shown("label_smoothing")
    change = f"--label-smoothing {row.epsilon_ls}"
    effect = "another loss: perplexities do not compare either"
    if criterion and run.is_ours("criterion") is None:
        change = whole(run, row, "stock")
        here = "0" if criterion == "cross_entropy" else criterion
    if here == "0":
        effect = f"{bleu_gain('d_ls0', 'base'):.1f} {ROW_D}"
    weight = MEDIUM if run.is_papers_pair else UNKNOWN
    yield "label smoothing", compare(f"{row.epsilon_ls:g}", here, effect, change, weight)
    here = "--amp" if run.is_on("amp") else "fp16" in run.options or None
    effect = "fairseq divides gradients by the loss scale twice"
    yield "precision", compare("without --amp", here, effect, "without --amp")


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
    ours, is_ours = whole(run, row), run.is_ours("arch")
    yield "sizes", _sizes(run, row)
    is_known = is_ours or all(name in run.options for name in NORMS)
    here: Here = "before each sub-layer" if any(map(run.is_on, NORMS)) else is_known or None
    effect = "worse on WMT14 en-de, easier without warm-up (Nguyen and Salazar 2019)"
    yield "norms", compare("after each sub-layer", here, effect, whole(run, row, "stock"))
    here = unless_stocks(run, "arch", "1e-5")
    yield "ε of LayerNorm", compare("1e-6", here, "not measured", ours)
    yield "positions", _positions(run, row)
    name = "share_all_embeddings" if row.shared_vocabulary else "share_decoder_input_output_embed"
    on = next((text for name, text in SHARED.items() if run.is_on(name)), None)
    default = "none" if any(name in run.options for name in SHARED) else None
    here = on or is_ours or default  # our model shares what its row shares
    needs_joined = row.shared_vocabulary and len(set(run.types)) > 1
    change = JOINED.format(*run.languages, option(name)) if needs_joined else option(name)
    effect = "more parameters than the paper's model"
    yield "shared matrices", compare(SHARED[name], here, effect, change)
    vocabulary = vocabulary_of(row, run.corpus)
    effect = "another text or number of merges: perplexities per piece do not compare"
    merges = run.fits.vocabulary if run.fits else f"{vocabulary} --total-symbols"
    change = MERGES.format(*run.languages, merges)
    is_papers = row in (*OWN, PARSING) or is_about(max(run.types, default=0), vocabulary)
    here = (is_papers and not needs_joined) or run.dictionaries if run.types else None
    yield "vocabulary", compare(f"about {vocabulary:,}", here, effect, change)
    # Stock fairseq has this scheme since March 2020, and the option since October 2020
    is_new = is_ours is False and "batch_size" in run.options
    scheme = run.text("initialization") or ("fairseq" if is_new else None)
    here = None if run.begun_from else scheme
    effect = f"perplexity 9.49 (fairseq), 10.19 (tensor2tensor), 10.27 (0.9) {OF_TINY}"
    change = f"--initialization {row.initialization}" if is_ours else ours
    yield "initial values", compare(row.initialization, here, effect, change)
    here = is_ours or run.text("activation_fn")
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
        given += [run.number(name) or of_a_head for name in ("d_k", "d_v")]
        sides.append(", ".join(map("{} {:g}".format, SIZE_SYMBOLS, given)))
    return " / ".join(dict.fromkeys(sides))


def _sizes(run: Evidence, row: Row) -> Finding | None:
    here, weight, effect = run_sizes(run), UNKNOWN, "another model"
    same = next((other for other in TABLE_3 if row_sizes(other) == here), None)
    if same and same.published.bleu and row.published.bleu and run.is_papers_pair:
        gain = bleu_gain(row.name, same.name)
        weight = LARGE if abs(gain) >= 1 else MEDIUM
        effect = f"the size of row {same.name}: {gain:+.1f} BLEU (Table 3)"
    return compare(row_sizes(row), here, effect, whole(run, row), weight)


def _positions(run: Evidence, row: Row) -> Finding | None:
    here, weight, change = None, SMALL, whole(run, row)
    effect = f"{bleu_gain('base', 'e_learned'):+.1f} BLEU if learned (row E)"
    sides = [side for name, side in LEARNED.items() if run.is_on(name)]
    if run.is_on("no_token_positional_embeddings"):
        here, weight = "none", LARGE
        effect = "the model does not see the order of words"
        change = "without --no-token-positional-embeddings"
    elif sides:
        here = "learned" if len(sides) > 1 or "both" in sides else f"learned ({sides[0]} only)"
    elif run.is_ours("arch"):
        here = SINUSOIDS
    elif any(name in run.options for name in LEARNED):
        here, weight = STOCKS_SINUSOIDS, UNKNOWN
        effect = f"BLEU 23.11 ± 0.75, not 23.17 ± 0.49, {OF_TINY}"
    paper = "learned" if row.learned_positions else SINUSOIDS
    return compare(paper, here, effect, change, weight)


# --- averaging, search and BLEU (section 6.1) ---------------------------------------------------

STOCKS_MULTIPLE = 8  # stock fairseq's default of --required-batch-size-multiple
OF_SACREBLEU = {"13a": 27.52, "intl": 28.33}  # the authors' base model, by tokenizers


def _evaluation(run: Evidence, row: Row) -> Findings:
    search, ours = decoding(row), f"{SEARCH}{PLUGIN} --task {task_of(row)}"
    last = averaged_of(row, run.search.get("gen_subset"))
    effect = "checkpoints; averaging gains up to 1 BLEU, mostly less (tensor2tensor#317)"
    change = AVERAGE.format(last, quote(run.text("save_dir") or "checkpoints"))
    yield "averaging", compare(f"{last}", as_text(run.averaged), effect, change, MEDIUM)
    for name, key, papers in (("beam", "beam", search.beam), ("α", "lenpen", search.alpha)):
        given, change = as_text(as_number(run.search.get(key))), f"{SEARCH}--{key} {papers}"
        yield name, compare(f"{papers}", given, "another search", change, SMALL)
    paper = "by log P / ((5 + |Y|)/6)^α, until no open hypothesis can win any more"
    here = unless_stocks(run, "search", "by log P / |Y|^α, until k hypotheses are finished")
    effect = "α means something else; BLEU moved by 0.1 on Multi30k"
    if run.is_ours("arch") is False:  # no search of this plugin decodes stock fairseq's models
        ours, effect = whole(run, row), f"{effect}; only aiayn_* models are decoded so"
    yield "length penalty and end", compare(paper, here, effect, ours, SMALL)
    paper = f"1 x the sentence's own input + {search.extra_length}"
    effect = "longer outputs are cut, or a translation depends on its batch"
    change = f"{SEARCH}--max-len-a 1 --max-len-b {search.extra_length}"
    yield "longest output", compare(paper, _longest_output(run), effect, change)
    effect, change = "it is another test set", f"{SEARCH}--required-batch-size-multiple 1"
    if (here := _test_set(run)) == f"{FILTERED:,} sentences":
        effect = f"newstest2014 as it was filtered, of which the paper has all {NEWSTEST2014:,}"
        change = "sacrebleu -t wmt14/full -l en-de --echo src > test.en"
    yield "test set", compare("every sentence", here, effect, change, SMALL)
    effect = "BLEU of byte pairs or word pieces is far higher than BLEU of words"
    change = f"{SEARCH}--post-process {run.pieces or 'subword_nmt'}"
    yield "text that is scored", compare("words", _scored_text(run, row), effect, change, LARGE)
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
    if done == FILTERED and not run.missing and run.is_papers_pair:
        return f"{done:,} sentences"
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
    is_parser = not row.shared_vocabulary or run.search.get("task") == task_of(PARSING)
    if is_parser or (run.pieces is None and not given):
        return None
    has_pieces = not any(given) if run.pieces is None else run.pieces
    return "as pieces" if has_pieces else True


def _bleu(run: Evidence) -> Finding | None:
    """Judge a signature of sacreBLEU or of `aiayn bleu`, or a line of fairseq's; what is known of
    others than the paper's is of English-German, some of it of all of newstest2014."""
    if run.signature is None:
        return None
    target = run.languages[1]
    change = f"aiayn bleu --hypothesis FILE --reference FILE --target-lang {target}"
    paper, is_german = "cased, of Moses tokens", target.lower()[:2] in ("de", "xx")
    paper += "; German: ASCII quotes, split compounds" * is_german
    parts = dict(re.findall(r"([a-z]+)[:.]([^|+ ]+)", run.signature))
    tokens = parts.get("tok", "")
    if tokens.startswith("sacremoses-"):
        is_papers = not tokens.endswith("-de") or parts.get("quotes") == "ascii"
        here: Here = is_papers or run.signature
        return compare(paper, here, "Unicode quotes are kept", f"{change} --quotes ascii")
    if not run.is_papers_pair:
        return compare(paper, run.signature, "other tokens: the two do not compare", change)
    effect = "BLEU without the splitting is 0.7 to 1 lower"
    if tokens in OF_SACREBLEU and run.translated in (None, NEWSTEST2014):
        effect = f"the authors' base model has {OF_SACREBLEU[tokens]} and by their script 29.02"
    if parts.get("case") == "lc":
        effect += "; without case 0.5 higher"
    effect = f"for English-German, {effect} (tensor2tensor#317)"
    return compare(paper, run.signature, effect, change, LARGE)
