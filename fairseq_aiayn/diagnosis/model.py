"""What a model is, beside section 3: sizes, norms, positions, shared matrices, initial values."""

from __future__ import annotations

from fairseq_aiayn.diagnosis.evidence import Evidence
from fairseq_aiayn.diagnosis.finding import Aspect, Finding, Weight, compare
from fairseq_aiayn.paper import BASE, E_LEARNED, TABLE_3, VOCABULARY_EN_DE, Row
from fairseq_aiayn.runs.paper_conditions import is_about
from fairseq_aiayn.settings import ENCODER_AND_DECODER, SIDES, SIZE_ARGUMENTS

LEARNED = ("learned_positions", *(f"{side}_learned_pos" for side in SIDES))
ABLATION = "docs/results.md#ablation_tiny"
STOCK_SCHEME = "fairseq"  # what stock fairseq draws since March 2020


def sizes(found: Evidence, side: str) -> dict[str, int]:
    """Return the sizes of the encoder or the decoder by the paper's symbols."""
    found_sizes = {
        symbol: int(found.number(f"{side}_{name}") or 0)
        for name, symbol in ENCODER_AND_DECODER.items()
    }
    of_a_head = found_sizes["d_model"] // max(1, found_sizes["h"])
    heads = {name: int(found.number(name) or of_a_head) for name in ("d_k", "d_v")}
    return found_sizes | heads


def has_sizes_of(found: Evidence, row: Row) -> bool:
    """Has a model the sizes of a row, on both sides?"""
    return all(
        getattr(row, symbol) == size
        for side in SIDES
        for symbol, size in sizes(found, side).items()
    )


def _sizes(found: Evidence, row: Row) -> Finding | None:
    texts = [_size_text(sizes(found, side)) for side in SIDES]
    here = " / ".join(dict.fromkeys(texts))
    wanted = {symbol: getattr(row, symbol) for symbol in sizes(found, SIDES[0])}
    same = next((one for one in TABLE_3 if has_sizes_of(found, one)), None)
    effect, weight = "another model", Weight.UNKNOWN
    if same and same.published.bleu and row.published.bleu:
        gain = same.published.bleu - row.published.bleu
        effect = f"the size of row {same.name}: {gain:+.1f} BLEU (Table 3)"
        weight = Weight.LARGE if abs(gain) >= 1 else Weight.MEDIUM
    change = f"--arch {row.arch}"
    return compare(_size_text(wanted), here, has_sizes_of(found, row), weight, effect, change)


def _size_text(found: dict[str, int]) -> str:
    return ", ".join(f"{symbol} {size}" for symbol, size in found.items())


def _norms(found: Evidence, row: Row) -> Finding | None:
    before = [side for side in SIDES if found.options.get(f"{side}_normalize_before") is True]
    here = f"before each sub-layer ({' and '.join(before)})" if before else "after each sub-layer"
    effect = "worse on WMT14 en-de, easier to train without warm-up (Nguyen and Salazar 2019)"
    change = "leave --encoder-normalize-before and --decoder-normalize-before out"
    return compare("after each sub-layer", here, not before, Weight.UNKNOWN, effect, change)


def _positions(found: Evidence, row: Row) -> Finding | None:
    if found.options.get("no_token_positional_embeddings") is True:
        here = "none"
    elif any(found.options.get(name) is True for name in LEARNED):
        here = "learned"
    else:
        here = "sinusoids"
    paper = "learned" if row.learned_positions else "sinusoids"
    if here != paper:
        gain = E_LEARNED.published.bleu - BASE.published.bleu
        effect, weight = f"{gain:+.1f} BLEU for learned positions (Table 3, row E)", Weight.SMALL
        if here == "none":
            effect, weight = "the model does not see the order of words", Weight.LARGE
        return Finding(paper, here, weight, effect, f"--arch {row.arch}")
    if found.is_our_model or here == "learned":
        return Finding(paper, here)
    effect = (
        "development perplexity 10.16 against 10.27 with the paper's, after 1,450 updates of "
        f"tiny ({ABLATION})"
    )
    stocks = "sinusoids concatenated, other wavelengths, from position 2"
    return Finding("sinusoids interleaved, from position 0", stocks, Weight.SMALL, effect)


def _sharing(found: Evidence, row: Row) -> Finding | None:
    options = found.options
    if options.get("share_all_embeddings") is True:
        here = "both embeddings and the projection"
    elif options.get("share_decoder_input_output_embed") is True:
        here = "target embedding and projection"
    elif options.get("untied_embeddings") is True or not found.is_our_model:
        here = "none"
    else:
        here = "as the row has it"
    paper = "both embeddings and the projection"
    change = "--share-all-embeddings, with fairseq-preprocess --joined-dictionary"
    if not row.shared_vocabulary:
        paper = "target embedding and projection"
        change = "--share-decoder-input-output-embed"
    effect = "more parameters than the paper's model"
    same = here in (paper, "as the row has it")
    return compare(paper, paper if same else here, same, Weight.UNKNOWN, effect, change)


def _biases(found: Evidence, row: Row) -> Finding | None:
    biases = found.weights.projection_biases if found.weights else not found.is_our_model
    effect = f"none measured: perplexity within the spread of seeds ({ABLATION})"
    here = "with biases" if biases else "without biases"
    return compare("without biases", here, not biases, Weight.NONE, effect)


def _vocabulary(found: Evidence, row: Row) -> Finding | None:
    here = found.vocabulary or (found.weights.vocabulary if found.weights else None)
    if here is None:
        return None
    if row.published.bleu is None:
        return Finding("that of its text", f"{here:,} types")
    same = is_about(here, VOCABULARY_EN_DE)
    effect = "another text, or another number of merges: perplexities per piece do not compare"
    change = f"subword-nmt learn-bpe --total-symbols -s {VOCABULARY_EN_DE}"
    paper = f"about {VOCABULARY_EN_DE:,} types (en-de)"
    return compare(paper, f"{here:,}", same, Weight.UNKNOWN, effect, change)


def _initial_values(found: Evidence, row: Row) -> Finding | None:
    here = found.text("initialization") or (None if found.is_our_model else STOCK_SCHEME)
    if here is None:
        return None
    effect = (
        "development perplexity 9.49 with fairseq, 10.19 with tensor2tensor, 10.27 with "
        f"fairseq-0.9 after 1,450 updates of tiny; the first two end level on Multi30k ({ABLATION})"
    )
    change = f"--initialization {row.initialization}" if found.is_our_model else ""
    same = here == row.initialization
    return compare(row.initialization, here, same, Weight.UNKNOWN, effect, change)


def _activation(found: Evidence, row: Row) -> Finding | None:
    here = found.text("activation_fn") or "relu"  # which models without the option have
    return compare(
        "relu", here, here == "relu", Weight.UNKNOWN, "another network", "--activation-fn relu"
    )


MODEL = (
    Aspect("sizes", (*SIZE_ARGUMENTS, "d_k", "d_v", "d_model"), _sizes),
    Aspect("norms", tuple(f"{side}_normalize_before" for side in SIDES), _norms),
    Aspect(
        "positions",
        ("no_token_positional_embeddings", *LEARNED),
        _positions,
    ),
    Aspect(
        "shared matrices",
        ("share_all_embeddings", "share_decoder_input_output_embed", "untied_embeddings"),
        _sharing,
    ),
    Aspect("projections", ("arch",), _biases),
    Aspect("vocabulary", (), _vocabulary),
    Aspect("initial values", ("arch", "initialization"), _initial_values),
    Aspect("activation", ("activation_fn",), _activation),
)
