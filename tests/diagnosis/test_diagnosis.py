"""Where a training differs from the paper, by fairseq's own options; files whole, cut, unsafe."""

import json
import re
from argparse import Namespace
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from building import parse
from checkpoint_states import Intruder, save, state_of
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from run_directories import MADE, write_log, write_run

from fairseq_aiayn.diagnosis.diagnosis import as_json, diagnose, unequal_aspects
from fairseq_aiayn.diagnosis.evidence import Evidence, read_evidence
from fairseq_aiayn.diagnosis.findings import Finding, Weight
from fairseq_aiayn.paper import BASE, PARSING, ROWS, Row
from fairseq_aiayn.settings import argument, stock_flags, task_of, train_flags, vocabulary_of

parsed_once = cache(parse)


def parsed(words: list[str], task: str = "translation") -> Namespace:
    """What fairseq-train makes of options; every architecture fills in its sizes."""
    return deepcopy(parsed_once(*words, task=task))


@cache
def stock_words(row: Row = BASE) -> tuple[str, ...]:
    return ("--distributed-world-size", "8", *stock_flags(row, gpus=8))


def configuration_line(words: list[str]) -> str:
    return str(convert_namespace_to_omegaconf(parsed(words)))


def save_checkpoint(path: Path, configuration: dict, **model: torch.Tensor) -> Path:
    """Write what fairseq would after 70 updates."""
    model = model or {"encoder.embed_tokens.weight": torch.ones(9, 4)}
    return save(path, state_of(model, 70, **configuration))


DOCS = Path(__file__).parents[2] / "docs"
# What stock fairseq cannot do otherwise, with any options
REGIME = "batch, rate, updates"
STOCKS_OWN = {"positions", "initial values", "batches", "ε of LayerNorm"}
SEARCH = {"task": "translation", "beam": 5, "lenpen": 1.0, "max_len_a": 0.0, "max_len_b": 200}
OURS = {"task": "aiayn_translation", "beam": 4, "lenpen": 0.6, "max_len_a": 1, "max_len_b": 50}
OURS |= {"post_process": "subword_nmt"}
LARGE, MEDIUM, UNKNOWN, *_ = Weight


def evidence(words: list[str], task: str = "translation") -> Evidence:
    return Evidence("run", vars(parsed(words, task)))


def stock(row: Row = BASE, **options: object) -> Evidence:
    run = evidence([*stock_words(row), "-s", "en", "-t", "de"])
    return replace(run, options={**run.options, **options})


def searched(search: dict, **known: object) -> Evidence:
    return replace(stock(), search=search, **known)


def differing(run: Evidence, row: Row | None = None) -> set[str]:
    return set(unequal_aspects([diagnose(run, row)]))


def finding(aspect: str, run: Evidence, row: Row = BASE) -> Finding:
    return diagnose(run, row).findings[aspect]


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_a_row_as_aiayn_flags_gives_it_differs_in_nothing(row):
    """Breaks if an aspect judges by other numbers than those of paper.py."""
    run = evidence(["--distributed-world-size", "8", *train_flags(row, gpus=8)], task_of(row))
    found = diagnose(run)
    assert found.row is row
    assert differing(run) == set() and not found.other_options


def test_a_row_in_stock_fairseq_differs_in_what_no_option_changes():
    for name, as_stocks in {"base": "", "e_learned": "positions", "tiny": "initial values"}.items():
        run = stock(ROWS[name])
        assert differing(run, ROWS[name]) == STOCKS_OWN - {as_stocks}
        assert not diagnose(run).other_options


def test_rows_are_recognized_by_their_sizes():
    assert diagnose(stock(ROWS["big_en_fr"], dropout=0.3)).row.name == "big"
    assert diagnose(stock(dropout=0.0)).row is BASE, "and not Table 3's row without dropout"
    assert diagnose(stock(ROWS["parsing_tiny"])).row.name == "parsing_tiny"


@pytest.mark.parametrize(
    ("changed", "aspect", "weight"),
    [
        ({"distributed_world_size": 1}, REGIME, LARGE),
        ({"lr": [0.0001]}, REGIME, LARGE),
        ({"lr_scheduler": "fixed"}, REGIME, LARGE),
        ({"warmup_updates": 400}, "warm-up", UNKNOWN),
        # The peak is lower by √(4,000/16,000), the rate after it the same
        ({"warmup_updates": 16_000, "lr": [0.000349385622]}, "warm-up", UNKNOWN),
        ({"optimizer": "sgd"}, "Adam", UNKNOWN),
        ({"clip_norm": 0.1}, "clipping", UNKNOWN),
        ({"weight_decay": 0.0001}, "weight decay", UNKNOWN),
        ({"dropout": 0.0}, "dropout", LARGE),
        ({"relu_dropout": 0.1}, "activation dropout", UNKNOWN),
        ({"criterion": "cross_entropy"}, "label smoothing", MEDIUM),
        ({"amp": True}, "precision", UNKNOWN),
        ({"encoder_layers": 2, "decoder_layers": 2}, "sizes", LARGE),
        ({"decoder_normalize_before": True}, "norms", UNKNOWN),
        ({"no_token_positional_embeddings": True}, "positions", LARGE),
        ({"share_all_embeddings": False}, "shared matrices", UNKNOWN),
        ({"activation_fn": "gelu"}, "activation", UNKNOWN),
    ],
)
def test_each_difference_of_a_training_is_found_and_its_change_works(changed, aspect, weight):
    run = stock(**changed)
    found = finding(aspect, run)
    assert found.weight is weight
    assert not diagnose(run, BASE).other_options, "what is judged is not listed as not judged"
    also = {REGIME} if changed == {"warmup_updates": 400} else set()
    assert differing(run, BASE) - STOCKS_OWN | {aspect} == {aspect} | also
    if found.change.startswith("--"):
        words = found.change.split()
        changes = vars(parsed([*stock_words(), *words]))
        typed = {name: changes[name] for name in map(argument, words) if name in changes}
        assert not finding(aspect, replace(run, options={**run.options, **typed})).differs


def test_what_the_paper_prints_is_the_effect():
    bleu = {name: row.published.bleu for name, row in ROWS.items()}
    effect = finding("dropout", stock(dropout=0.0)).effect
    assert effect.startswith(f"{bleu['base'] - bleu['d_drop0']:.1f}")
    small = finding("sizes", stock(encoder_layers=2, decoder_layers=2)).effect
    assert f"row c_n2: {bleu['c_n2'] - bleu['base']:+.1f} BLEU" in small
    learned = finding("positions", stock(encoder_learned_pos=True)).effect
    assert learned.startswith(f"{bleu['e_learned'] - bleu['base']:+.1f} BLEU")
    for types, differs in {37_000: False, 8_000: True}.items():
        run = replace(stock(), types=[types])
        assert finding("vocabulary", run).differs is differs
        french = finding("vocabulary", run, ROWS["big_en_fr"])
        assert french.paper == "about 32,000" and french.differs
    assert vocabulary_of(ROWS["base"], "wmt14_en_fr") == 32_000


@pytest.mark.parametrize(
    ("given", "here"),
    [
        ({"max_sentences": 32, "max_tokens": 25_000}, "896, by --batch-size 32"),  # before 0.10
        ({"batch_size": 32, "max_tokens": None, "update_freq": [3, 2]}, "1,792, by --batch"),
        ({"batch_size": "8000", "max_tokens": 2_000}, "2,000, by --max-tokens 2000"),
    ],
)
def test_a_batch_is_that_of_the_log_or_bounded_by_tokens_and_by_sentences(given, here):
    run = stock(**{"distributed_world_size": 1, "update_freq": [1], **given})
    batch = finding(REGIME, run)
    assert batch.weight is LARGE and batch.here.startswith(here)
    assert re.search(r"--max-tokens (\d+) .*--max-sentences \1", batch.change), "none are too many"
    assert not finding(REGIME, replace(run, tokens_per_update=24_000.0)).differs
    neither = {"batch_size": None, "max_sentences": None, "max_tokens": None, "lr": None}
    assert REGIME in diagnose(replace(run, options={**run.options, **neither})).not_known
    logged = finding(REGIME, replace(stock(max_tokens=2048), tokens_per_update=1_756.0, gpus=1))
    assert logged.here == "1,756, by the log" and logged.effect.startswith("0.07 of this batch")
    assert logged.change == "--max-tokens 1924 --update-freq 13", "which fits into the memory"
    again = replace(stock(max_tokens=1924, update_freq=[13]), tokens_per_update=9_000.0, gpus=1)
    assert finding(REGIME, again).change == "", "the text is small: it had these options"


@pytest.mark.parametrize(
    ("updates", "patience", "weight", "change"),
    [
        (30_000, -1, LARGE, "--max-update 100000"),
        (98_000, -1, Weight.NONE, ""),
        (30_000, 10, UNKNOWN, "--patience -1"),  # which may have ended it
        (300_000, 10, MEDIUM, "--max-update 100000"),
    ],
)
def test_fewer_updates_cost_unless_the_training_ended_early(updates, patience, weight, change):
    found = finding(REGIME, replace(stock(patience=patience), updates=updates))
    assert (found.weight, found.change) == (weight, change)


def test_a_parsers_dropout_and_shared_matrices_are_its_rows():
    """Breaks if the dropout of section 6.3, which the paper does not print, is a difference."""
    run = stock(dropout=0.3, attention_dropout=0.3, share_decoder_input_output_embed=False)
    assert not {"dropout", "attention dropout"} & {*diagnose(run, PARSING).findings}
    assert differing(run, BASE) >= {"dropout", "attention dropout"}
    assert finding("dropout", stock(dropout=0.0), PARSING).differs
    run = stock(PARSING, share_decoder_input_output_embed=False)
    assert finding("shared matrices", run, PARSING).change == "--share-decoder-input-output-embed"


def test_table_3_averages_no_checkpoints():
    """It is of the development set; rows that are not in it average the same on every set."""
    averages = {("base", "valid"): 1, ("base", "test"): 5, ("big", None): 20, ("tiny", "valid"): 5}
    for (name, subset), averaged in averages.items():
        run = replace(stock(ROWS[name]), search={"gen_subset": subset}, averaged=averaged)
        assert not finding("averaging", run, ROWS[name]).differs
        other = finding("averaging", replace(run, averaged=3), ROWS[name])
        assert other.change.startswith(f"aiayn average --last {averaged} --dir ")


def test_each_difference_of_the_search_is_found():
    names = {"beam", "α", "length penalty and end", "longest output", "test set"}
    names |= STOCKS_OWN | {"text that is scored"}
    assert differing(searched(SEARCH | {"post_process": None}), BASE) == names
    assert differing(searched(OURS, translated=3_003, averaged=5), BASE) == STOCKS_OWN


def test_a_parser_is_scored_by_trees_and_has_its_own_search():
    for search, row in ((OURS | {"task": "aiayn_parsing"}, BASE), (SEARCH, PARSING)):
        assert "text that is scored" in diagnose(searched(search), row).not_known
    assert finding("batches", searched(SEARCH), PARSING).change.endswith("--task aiayn_parsing")
    longest = finding("longest output", searched(SEARCH), PARSING).change
    assert longest.endswith("--max-len-a 1 --max-len-b 300")


NEWS = {"translated": 3_000, "corpus": "wmt14_en_de"}


@pytest.mark.parametrize(
    ("aspect", "search", "known", "here"),
    [
        # of stock's search, the batch's
        ("longest output", {"max_len_a": 1.2}, {}, "1.2 x the batch's longest input + 200"),
        ("longest output", {}, {}, "200 tokens"),
        ("longest output", OURS | {"max_len_b": 200}, {}, "1 x the sentence's own input + 200"),
        ("test set", {}, {"translated": 990}, "up to 7 sentences fewer"),
        ("test set", {}, {"translated": 3_003}, "every sentence"),  # newstest2014 has so many
        ("test set", OURS | {"required_batch_size_multiple": "4"}, {}, "up to 3 sentences fewer"),
        ("test set", OURS, {"translated": 2_737, "missing": 266}, "2,737 of 3,003 sentences"),
        ("test set", OURS | {"gen_subset": "test"}, NEWS, "3,000 of"),
        ("test set", OURS | {"gen_subset": "valid"}, NEWS, "every"),
    ],
)
def test_what_a_search_writes_at_most_and_leaves_out(aspect, search, known, here):
    assert finding(aspect, searched(SEARCH | search, **known)).here.startswith(here)


@pytest.mark.parametrize(
    ("signature", "figure"),
    [
        ("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0", "27.52"),
        ("BLEU+case.lc+numrefs.1+smooth.exp+tok.intl+version.1.2.17", "without case 0.5 higher"),
        ("BLEU4 = 27.30", "0.7 to 1 lower"),
        ("case:mixed|tok:sacremoses-0.2-de|compounds:split|smooth:none", "quotes are kept"),
        ("case:mixed|tok:sacremoses-0.2-de|compounds:split|quotes:ascii|smooth:none", None),
        ("case:mixed|tok:sacremoses-0.2-fr|compounds:kept|smooth:none", None),
    ],
)
def test_a_score_of_another_bleu_says_by_how_much_it_differs(signature, figure):
    bleu = finding("BLEU", replace(stock(), signature=signature))
    assert bleu.differs is (figure is not None)
    assert (figure or "") in bleu.effect


def test_what_costs_most_comes_first_and_what_is_not_known_is_said():
    found = diagnose(stock(dropout=0.0, clip_norm=1, adam_betas="(0.9)"), BASE)
    weights = [one.weight for one in found.findings.values() if one.differs]
    assert weights == sorted(weights, reverse=True)
    assert {"Adam", "averaging", "beam", "BLEU"} <= set(found.not_known)
    assert json.loads(json.dumps(as_json(found)))["findings"]["dropout"]["weight"] == "large"


def test_options_that_nothing_judges_are_listed_unless_they_are_fairseqs_defaults():
    other = {"encoder_layerdrop": 0.2, "ignore_prefix_size": 5, "left_pad_source": False}
    given = stock(another=None, seed=3, save_dir="x", **other)
    assert diagnose(given).other_options == other
    old = {"left_pad_source": "True", "left_pad_target": "False", "upsample_primary": 1}
    assert not diagnose(stock(lazy_load=False, **old)).other_options
    assert not diagnose(stock(warmup_init_lr=-1.0)).other_options, "an int in argparse's form"


def test_figures_of_the_ablation_are_those_of_the_results():
    """Breaks if docs/results.md is measured anew and the texts here stay behind."""
    lines = (DOCS / "results.md").read_text(encoding="utf-8").splitlines()
    rows = {cells[1].strip(): cells[2:] for line in lines if len(cells := line.split("|")) > 3}
    perplexity = {name: cells[0].split()[0] for name, cells in rows.items() if cells[0].strip()}
    ours = "ours, `fairseq-0.9`"
    for name, row in (("batches", "stock's order of batches"), ("positions", "stock's sinusoids")):
        bleu = f"BLEU {rows[row][1].strip()}, not {rows[ours][1].strip()}"
        assert bleu in finding(name, stock()).effect
    for scheme in ("(`fairseq`)", "(`tensor2tensor`)", ours):
        (figure,) = (number for name, number in perplexity.items() if name.endswith(scheme))
        assert figure in finding("initial values", stock()).effect


WORDS = [*stock_words()]
INNER = "2023-01-01 | INFO | train_inner | epoch 001:  10 / 99 loss=9, wpb=%s, num_updates=%d, lr=1"
VALIDATED = "x | epoch 001 | valid on 'valid' subset | loss 4 | wpb 1500.3 | bsz 60"
OLD = "| epoch 001 | loss 9.3 | ppl 600 | wps 20000 | wpb 3587.4 | num_updates 1102 | lr 1"


@pytest.fixture
def log(tmp_path):
    return lambda *lines: read_evidence(write_log(tmp_path, *lines))


@pytest.mark.parametrize(
    ("lines", "updates", "tokens"),
    [
        ([OLD], 1102, 3587.4),
        ([INNER % ("3,500", 10), INNER % ("3600", 20), "x | train_inner | ep"], 20, 3550),
        ([VALIDATED, INNER % ("3500", 10), VALIDATED], 10, 3500),
        ([], None, None),
    ],
)
def test_a_log_says_how_far_it_came_and_on_what(log, lines, updates, tokens):
    said = ("[en] dictionary: 9 types", "[de] dictionary: 7 types", "training on 8 GPUs")
    found = log(f"2020-01-01 | INFO | fairseq_cli.train | {parsed(WORDS)}", *said, *lines)
    assert (found.updates, found.tokens_per_update) == (updates, tokens)
    assert (found.gpus, found.types, found.number("max_tokens")) == (8, [9, 7], 3125)


def test_groups_of_options_as_hydra_writes_them(log):
    """Without a Namespace: sizes in parts of the model, values that refer to others."""
    groups = {
        "_name": None,
        "optimization": {"_name": None, "lr": [0.0007], "update_freq": [2]},
        "generation": {"beam": 5, "lenpen": 1.0},
        "model": {"_name": "transformer", "encoder": {"ffn_embed_dim": 2048}, "dropout": 0.3},
        "lr_scheduler": {"_name": "inverse_sqrt", "lr": "${optimization.lr}"},
    }
    found = log(repr(groups))
    assert (found.number("encoder_ffn_embed_dim"), found.number("lr")) == (2048, 0.0007)
    assert (found.text("arch"), found.text("lr_scheduler")) == ("transformer", "inverse_sqrt")
    assert "beam" not in found.options


def test_checkpoints_of_old_and_new_fairseq_of_which_the_last_counts(tmp_path):
    weights = {f"{side}.embed_tokens.weight": torch.ones(n, 4) for side, n in (("e", 9), ("d", 7))}
    old = save_checkpoint(tmp_path / "checkpoint_last.pt", {"args": parsed(WORDS)}, **weights)
    groups = {"args": None, "cfg": {"model": parsed(WORDS), "task": {"x": 1}}}
    new = save_checkpoint(tmp_path / "checkpoint_best.pt", groups)
    found = read_evidence(old)
    assert (found.updates, found.types) == (70, [9, 7])
    assert read_evidence(new).options == {**found.options, "x": 1}
    assert "x" not in read_evidence(tmp_path).options
    old.unlink()
    new.rename(tmp_path / "checkpoint_4_70.pt")  # --no-last-checkpoints
    assert read_evidence(tmp_path).options["x"] == 1


def test_the_output_of_fairseq_generate(log, tmp_path):
    groups = {"_name": None, "task": {"_name": "aiayn_translation"}, "model": None}
    groups |= {"generation": {"beam": 5, "lenpen": 1.0}, "common_eval": {"post_process": "@@ "}}
    lines = [
        f"2023 | INFO | {groups!r}",
        "S-1\tx",
        "H-1\t-1\ty",
        "H-0\t-1\tz",
        "H-0\t-2\tof --nbest",
    ]
    (tmp_path / "out").write_text("\n".join(lines), encoding="utf-8")
    log(configuration_line(WORDS))
    found = read_evidence(tmp_path / "train.log", tmp_path / "out", "tok:13a")
    assert (found.search["beam"], found.search["post_process"]) == (5, "@@ ")
    assert (found.is_ours("search"), found.translated, found.signature) == (True, 2, "tok:13a")


def test_a_run_directory_of_the_recipes(tmp_path):
    run = write_run(tmp_path / "run", MADE)
    log = run / "train.log"
    log.write_text(f"{configuration_line(WORDS)}\n{log.read_text()}", encoding="utf-8")
    found, settings = read_evidence(run), json.loads((run / "settings.json").read_text())
    for name in ("name", "row", "corpus", "averaged"):
        assert getattr(found, name) == settings.get(name)
    assert found.signature and found.translated


def test_other_files_are_refused_in_one_line(tmp_path, refused):
    empty, words, cut = (tmp_path / name for name in ("empty", "words", "cut.pt"))
    empty.mkdir()
    words.write_text("no training\n", encoding="utf-8")
    cut.write_bytes(save_checkpoint(cut, {"args": parsed(WORDS)}).read_bytes()[:900])
    mark, log = tmp_path / "mark", write_log(tmp_path, configuration_line(WORDS))
    evil = save_checkpoint(tmp_path / "evil.pt", {"args": Namespace(arch=Intruder(mark))})
    for arguments, message in (
        ([empty], "expected 1 or more checkpoints, got 0"),
        ([words], "neither a configuration of fairseq-train"),
        ([cut], "truncated"),
        ([evil], "refused, it asks for posix.system"),
        ([log, "--generate", words], "has neither options"),
    ):
        assert message in refused("diagnose", *arguments)
    assert not mark.exists()
