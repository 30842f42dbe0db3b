"""What recipes offer to compare how well systems learn: seeds, early stopping, development scores,
initial values, and a published result of stock fairseq."""

import re
import shlex
from pathlib import Path

import pytest
from dry_runs import commands, dry_run, value
from recipe_runs import RECIPES, call, refusal

from fairseq_aiayn.nn.initialization import INITIALIZATIONS

MULTI30K = RECIPES / "multi30k" / "run.sh"
PARSING = RECIPES / "wsj_parsing" / "run.sh"


def command(recipe: Path, directory: Path, *options: str) -> list[str | Path]:
    return [recipe, "--exp", directory / "exp", "--device", "cpu", *options]


def shown(recipe: Path, directory: Path, name: str, *options: str) -> list[list[str]]:
    """The commands of this name that a dry run shows, in words."""
    return commands(dry_run(command(recipe, directory, *options)), name)


BAD_FACTORS = ("0", "0.0", "-1", "half", "nan", "inf", "", "1e-1", "0.5 1")
BAD_FACTOR = "--lr_factor must be auto or a positive number such as 0.5"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--patience 0", "--patience must be never or a whole number from 1, got '0'"),
        ("--patience -3", "--patience must be never or a whole number from 1, got '-3'"),
        ("--initialization he", "--initialization must be one of auto tensor2tensor fairseq-0.9"),
        *((f"--lr_factor {bad!r}", f"{BAD_FACTOR}, got {bad!r}") for bad in BAD_FACTORS),
        ("--seeds '1 2 1'", "--seeds must differ from each other, got '1' twice"),
        ("--seeds '1 x'", "--seeds must be whole numbers, got 'x'"),
        ("--seeds ''", "--seeds must be at least one whole number, got ''"),
        ("--seeds '1 2' --prepared x --system aiayn", "--prepared and --nodes take one of --seeds"),
        ("--dev_score 1", "--dev_score must be one of auto true false, got '1'"),
        ("--best_by score", "--best_by score needs --dev_score"),
        ("--interval 100 --max_update 4", "--average 5 needs as many checkpoints; 4 updates with"),
        ("--average 50", "--average 50 needs as many checkpoints; 1450 updates with one every 50"),
        ("--patience 3", "--patience 3 may end a training after 4 checkpoints, --average 5 needs"),
        ("--source_lang de", "--source_lang and --target_lang must differ, both are 'de'"),
        ("--text raw", "--text must be one of auto cased lc.norm.tok, got 'raw'"),
    ],
)
def test_wrong_options_are_one_line_before_anything_runs(tmp_path, options, message):
    result = call(command(MULTI30K, tmp_path, *shlex.split(options), "--dry_run"))
    assert result.returncode == 1
    assert set(re.findall("# stage (.*)", result.stdout)) <= {"0-set_up"}
    assert result.stderr.startswith(f"run.sh: {message}") and result.stderr.count("\n") == 1


def test_the_shell_knows_the_schemes_of_initial_values(tmp_path):
    for scheme in INITIALIZATIONS:
        (train,) = shown(MULTI30K, tmp_path, "fairseq-train", "--initialization", scheme)
        assert value(train, "--initialization") == scheme
    message = refusal(call(command(MULTI30K, tmp_path, "--initialization", "x", "--dry_run")))
    assert f"one of auto {' '.join(INITIALIZATIONS)}, got" in message


def test_stock_fairseq_has_its_own_initial_values(tmp_path):
    options = ("--initialization", "tensor2tensor", "--system", "stock")
    (train,) = shown(MULTI30K, tmp_path, "fairseq-train", *options)
    assert "--initialization" not in train


@pytest.mark.parametrize(("recipe", "rows_own"), [(MULTI30K, None), (PARSING, "0.5")])
def test_a_factor_multiplies_the_learning_rate_of_both_systems(tmp_path, recipe, rows_own):
    """Stock's peak is Equation 3's at the end of the warm-up, so that it must shrink with it."""
    corpus = ("--corpus", "gum") if recipe == PARSING else ()
    options = (*corpus, "--system", "both")
    ours, _ = shown(recipe, tmp_path, "fairseq-train", *options)
    _, stock = shown(recipe, tmp_path, "fairseq-train", *options, "--lr_factor", "1")
    half, half_stock = shown(recipe, tmp_path, "fairseq-train", *options, "--lr_factor", ".5")
    assert (value(ours, "--lr-factor"), value(half, "--lr-factor")) == (rows_own, "0.5")
    assert float(value(half_stock, "--lr")) == pytest.approx(float(value(stock, "--lr")) / 2)


def test_a_factor_of_1_wins_over_a_rows_own(tmp_path):
    """Breaks if the flag is left out where it is 1: the --arch would set its row's 2.53."""
    options = ("--row", "multi30k_tiny", "--lr_factor", "1")
    (train,) = shown(MULTI30K, tmp_path, "fairseq-train", *options)
    assert float(value(train, "--lr-factor")) == 1.0


def test_a_factor_that_is_0_or_infinite_as_a_float_is_refused(tmp_path):
    for factor, number in (("0." + 400 * "0" + "1", "0.0"), ("1" + 400 * "0", "inf")):
        result = call(command(MULTI30K, tmp_path, "--lr_factor", factor, "--dry_run"))
        assert result.returncode == 1 and "fairseq-train" not in result.stdout
        first, _ = result.stderr.splitlines()
        assert first == f"aiayn flags: --lr-factor: expected a positive number, got {number}"


def test_every_seed_of_every_system_is_a_run_and_the_table_has_all(tmp_path):
    options = ("--system", "both", "--seeds", "\n3\n1")  # as of --seeds "$(seq ...)"
    trainings = shown(MULTI30K, tmp_path, "fairseq-train", *options)
    runs = [f"{tmp_path}/exp/{name}-tiny-{seed}" for name in ("aiayn", "stock") for seed in (3, 1)]
    assert [value(train, "--save-dir") for train in trainings] == [f"{r}/checkpoints" for r in runs]
    assert [value(train, "--seed") for train in trainings] == ["3", "1", "3", "1"]
    table = shown(MULTI30K, tmp_path, "aiayn compare", *options)[-1]
    assert table[2:6] == runs


def test_a_run_of_its_own_name_keeps_it_with_several_seeds(tmp_path):
    options = ("--seeds", "1 2", "--run", "mine")
    found = shown(MULTI30K, tmp_path, "fairseq-train", *options)
    names = [Path(value(train, "--save-dir")).parent.name for train in found]
    assert names == ["aiayn-mine-1", "aiayn-mine-2"]


def test_parsers_take_seeds_too(tmp_path):
    options = ("--corpus", "gum", "--seeds", "1 2", "--dev_score", "true", "--best_by", "score")
    trainings = shown(PARSING, tmp_path, "fairseq-train", *options, "--patience", "4")
    assert [value(train, "--seed") for train in trainings] == ["1", "2"]
    for train in trainings:
        assert "--eval-f1" in train and "--maximize-best-checkpoint-metric" in train
        assert value(train, "--best-checkpoint-metric") == "f1"
        assert value(train, "--patience") == "4"


def test_without_early_stopping_fairseqs_own_default_stays(tmp_path):
    (train,) = shown(MULTI30K, tmp_path, "fairseq-train")
    assert not {"--patience", "--eval-bleu", "--best-checkpoint-metric"} & set(train)


def test_options_of_ones_own_win(tmp_path):
    options = ("--train_options", "--clip-norm 25\n--adam-eps 1e-8 --max-tokens-valid 2048")
    (train,) = shown(MULTI30K, tmp_path, "fairseq-train", *options)
    assert (value(train, "--clip-norm"), value(train, "--adam-eps")) == ("25", "1e-8")
    last = len(train) - 1 - train[::-1].index("--max-tokens-valid")
    assert train[last + 1] == "2048"


def test_a_sentence_of_the_development_set_may_be_longer_than_a_batch(tmp_path):
    """Breaks if a training with small batches ends at its first validation."""
    train, validate = (
        shown(MULTI30K, tmp_path, name, "--row", "tiny")[0]
        for name in ("fairseq-train", "fairseq-validate")
    )
    assert int(value(train, "--max-tokens")) < int(value(train, "--max-tokens-valid"))
    assert value(train, "--max-tokens-valid") == value(validate, "--max-tokens")


@pytest.mark.parametrize("system", ["aiayn", "stock"])
def test_the_published_transformer_tiny_of_multi30k(tmp_path, system):
    """Breaks if a setting of Wu et al. (2021) is lost on stock fairseq's side, or the paper's Adam
    or the α chosen on the development set on ours."""
    options = ("--row", "multi30k_tiny", "--system", system)
    options += ("--patience", "10", "--dev_score", "true")
    (train,) = shown(MULTI30K, tmp_path, "fairseq-train", *options)
    for side in ("encoder", "decoder"):
        shape = {"layers": "4", "embed-dim": "128", "ffn-embed-dim": "256", "attention-heads": "4"}
        for name, size in shape.items() if system == "stock" else ():
            assert value(train, f"--{side}-{name}") == size
    expected = {"--dropout": "0.3", "--label-smoothing": "0.1", "--warmup-updates": "2000"}
    expected |= {"--max-update": "8000", "--keep-interval-updates": "10", "--patience": "10"}
    own = {"--clip-norm": "0.0", "--adam-eps": "1e-09", "--lr-factor": "2.53"}
    stock = {"--clip-norm": "25", "--adam-eps": "1e-8"}
    expected |= stock if system == "stock" else own
    assert {name: value(train, name) for name in expected} == expected
    assert int(value(train, "--max-tokens")) * int(value(train, "--update-freq")) == 8192
    if system == "stock":
        assert float(value(train, "--lr")) == pytest.approx(0.005, rel=1e-3)
    (generate,) = shown(MULTI30K, tmp_path, "fairseq-generate", *options)
    assert value(generate, "--beam") == "5"
    if system == "stock":
        assert "--lenpen" not in generate
    else:
        assert value(generate, "--lenpen") == "1.4"
    (average,) = shown(MULTI30K, tmp_path, "aiayn average", *options)
    assert value(average, "--last") == "10"


def test_published_text_is_lower_cased_on_both_sides_of_the_score(tmp_path):
    options = ("--text", "lc.norm.tok")
    module = f"python {RECIPES}/lib/module.py fairseq_aiayn.corpus"
    (cleaning,) = shown(MULTI30K, tmp_path, f"{module}.cleaning", *options)
    (held_out,) = shown(MULTI30K, tmp_path, f"{module}.texts", *options)
    assert "--lowercase" in cleaning and "--lowercase" in held_out
    (bpe,) = shown(MULTI30K, tmp_path, "subword-nmt learn-bpe", *options)
    assert value(bpe, "--symbols") == "10000"
    assert "--tokens" in shown(MULTI30K, tmp_path, "aiayn bleu", *options)[0]


@pytest.mark.parametrize("language", ["xx", "zh-CN"])
def test_a_language_that_cannot_be_scored_is_refused_before_it_is_trained(tmp_path, language):
    options = ("--corpus", tmp_path, "--exp", tmp_path / "exp", "--target_lang", language)
    result = call([RECIPES / "demo" / "run.sh", *options, "--device", "cpu"])
    assert result.returncode == 1
    assert f"Moses has no rules for '{language}', only for" in result.stderr.splitlines()[-1]
    assert "stage 0-set_up failed" in result.stderr.splitlines()[-1]
