"""Put deliberate faults into package and recipes, one at a time, and see whether tests notice.

    make faults                                          all of them
    python tests/deliberate_faults.py --only smoothing   those of such a name
    python tests/deliberate_faults.py --draw 12          so many, which the date draws

Each fault is what a careless change or a misreading of the paper would make. A process that has
imported the libraries forks for each fault, and runs tests in a copy of what git has of the
repository, with one fault in it: first those of the fault's place, then all. The tests that caught
faults must pass without them. Exits with 1 if a fault was not caught, and with 2 if the text of a
fault is not in the package (in the recipes) exactly once: then the code has changed, and so must
the fault.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE, RECIPES = "fairseq_aiayn", "recipes"
LONGEST = 900  # seconds; tests that a fault makes endless have not caught it
LIBRARIES = ("torch", "torch._dynamo", "matplotlib.pyplot", "nltk", "sacrebleu", "sacremoses")
LIBRARIES += ("scipy.stats", "hypothesis", "fairseq.tasks")

# TESTS [FILE]: NAME, then a text in FILE, or anywhere, => what replaces it. TESTS is what to begin
# with: a folder in tests/ or a file there, with :PART those tests whose names have this part
FAULTS = r"""
nn: attention_scores_divided_by_d_k
  / math.sqrt(Q.size(-1)) => / Q.size(-1)
nn: causal_mask_shows_the_next_token
  dtype=torch.bool, device=device).tril() => dtype=torch.bool, device=device).tril(1)
paper: cross_attention_sees_source_padding
  self.cross_attention(x, memory, source_mask)) => self.cross_attention(x, memory))
paper: sine_and_cosine_swapped
  [angles.sin(), angles.cos()] => [angles.cos(), angles.sin()]
paper: source_positions_begin_at_one
  .cumsum(dim=1) - 1) => .cumsum(dim=1))
paper: norm_before_the_residual_sum
  self.norm(x + self.dropout(sublayer_of_x)) => x + self.dropout(self.norm(sublayer_of_x))
paper: embeddings_not_scaled
  F.embedding(tokens, self.weight) * self.scale => F.embedding(tokens, self.weight)
nn: target_embeddings_without_dropout
  return self.dropout(self.embedding(tokens) => return (self.embedding(tokens)
paper: attention_dropout_without_being_asked
  getattr(row, symbol, 0.0) => getattr(row, symbol, row.P_drop)
nn: queries_of_every_attention_drawn_apart
  if isinstance(module, EncoderDecoderAttention): => if isinstance(module, MultiHeadAttention):
paper: projection_untied_with_two_vocabularies
  if sharing == "none" else target_embedding => if sharing != "all" else target_embedding
training: smoothing_gradient_over_the_other_classes
  p -= epsilon_ls / p.size(-1) => p -= epsilon_ls / (p.size(-1) - 1)
training: smoothed_loss_keeps_the_whole_likelihood
  (1.0 - epsilon_ls) * nll + epsilon_ls * uniform, nll => nll + epsilon_ls * uniform, nll
plugin/test_training: loss_per_sentence_instead_of_token
  (task, sentence_avg, label_smoothing, => (task, True, label_smoothing,
plugin/test_training: learning_rate_one_step_late
  learning_rate(num_updates + 1, self.cfg => learning_rate(max(num_updates, 1), self.cfg
paper: every_row_has_the_warmup_of_base
  "warmup_updates": "warmup", =>
settings: adams_epsilon_is_the_usual_one
  epsilon: float = 1e-9 => epsilon: float = 1e-8
decoding: length_penalty_leaves_out_the_end_token
  score / length_penalty(step + 1, options.alpha) => score / length_penalty(step, options.alpha)
decoding: search_stops_while_a_longer_output_can_win
  / length_penalty(longest, options.alpha) =>
decoding: search_stops_at_the_best_of_n_outputs
  return self.finished.score[:, -1] >= bound => return self.finished.score[:, 0] >= bound
decoding: finished_output_follows_a_later_parent
  torch.where(last.gt(position), parent, beam) => torch.where(last.ge(position), parent, beam)
decoding: only_the_first_model_follows_its_beams
  state.follow(parents) => self.states[0].follow(parents)
decoding: forced_tokens_go_to_other_sentences
  self.forced.repeat_interleave(r)[rows] => self.forced.repeat(r)[rows]
decoding: longest_output_counts_the_sources_end_token
  source.ne(symbols.padding) & source.ne(symbols.end) => source.ne(symbols.padding)
plugin: ensemble_averages_log_probabilities
  torch.stack(log_p).logsumexp(dim=0) - math.log(len(log_p)) => torch.stack(log_p).mean(dim=0)
decoding: tree_opens_a_bracket_without_room_to_close_it
  self.tokens_left.ge(needed + 2) => self.tokens_left.ge(needed + 1)
treebank: advp_and_prt_differ
  equal_labels=(("ADVP", "PRT"),), => equal_labels=(),
treebank: evalb_counts_colons_as_words
  {"TOP", "-NONE-", ",", ":", "``", "''", "."} => {"TOP", "-NONE-", ",", "``", "''", "."}
treebank: evalb_counts_the_root
  {"TOP", "-NONE-", ",", ":", "``", "''", "."} => {"-NONE-", ",", ":", "``", "''", "."}
treebank: recall_measured_as_precision
  percent(matched, gold), percent => percent(matched, predicted), percent
treebank: one_predicted_constituent_matches_several
  del others[index] => pass
treebank: repair_forgets_a_missing_word
  append_missing(words[used:]) => append_missing(words[used + 1 :])
treebank: closing_bracket_never_reaches_an_outer_one
  if self._labels[label]: => if self._open[-1].label == label:
treebank: children_linearized_backwards
  pending += reversed(node.children) => pending += node.children
treebank: punctuation_written_as_xx_counts
  return TAG_OF.get(form, ANY_WORD) => return ANY_WORD
scores: bleu_without_the_brevity_penalty
  score=result.score, => score=result.score / result.bp,
scores: compounds_split_only_in_the_hypothesis
  references = tuple([*map(split_compounds, side)] for side in references) => pass
report: seeds_are_assumed_to_vary_equally
  ttest_ind(other, first, equal_var=False) => ttest_ind(other, first, equal_var=True)
report: bootstrap_samples_not_centred
  np.abs(samples - samples.mean()) => np.abs(samples)
checkpoints: newest_checkpoint_by_its_first_digits
  for update in sorted(found)] => for update in sorted(found, key=str)]
checkpoints: first_checkpoint_not_counted_in_the_mean
  total.div_(len(paths)) => total.div_(max(1, len(paths) - 1))
checkpoints: tied_matrices_come_apart
  sums[owner] for name, owner => sums[owner].clone() for name, owner
checkpoints: mean_rounded_to_half_precision
  torch.promote_types(first[name].dtype, torch.float32) => first[name].dtype
settings: batch_of_a_gpu_exceeds_its_limit
  gpus * USUAL_MAX_TOKENS)) => gpus * USUAL_MAX_TOKENS) - 0.5) or 1
settings: betas_not_passed_to_fairseq
  "--adam-betas": f"{ADAM.beta_1},{ADAM.beta_2}", =>
paper: english_french_has_the_dropout_of_big
  BIG, name="big_en_fr", P_drop=0.1, => BIG, name="big_en_fr",
paper: a_norm_of_the_decoder_not_counted
  5 * 2 * row.d_model => 4 * 2 * row.d_model
inference: outputs_of_a_batch_in_another_order
  outputs |= zip(batch, self.run( => outputs |= zip(sorted(batch), self.run(
inference: empty_line_is_translated
  if not lengths[index]: => if lengths[index] < 0:
inference: unfinished_last_piece_keeps_its_mark
  detokenize(f"{' '.join(pieces)} ".replace => detokenize(f"{' '.join(pieces)}".replace
inference: alpha_of_zero_is_ignored
  alpha = self.search.alpha if alpha is None else alpha => alpha = alpha or self.search.alpha
cli/test_cli_inference:ctranslate2: changed_files_of_ctranslate2_are_used
  read_config(path, CTRANSLATE2_FILES) => read_config(path)
inference: outputs_of_the_maximum_length_are_lost
  found += self._scored(source, unscored) => found = found or self._scored(source, unscored)
inference: unknown_pieces_become_padding
  self.number.get(piece, UNKNOWN) => self.number.get(piece, PADDING)
plugin: last_sentences_of_the_test_set_left_out
  , required_batch_size_multiple=1) => )
diagnosis: small_batch_taken_for_a_large_one
  ratio = tokens / row.batch_tokens => ratio = row.batch_tokens / tokens
diagnosis: lightest_finding_comes_first
  (not pair[1].differs, -pair[1].weight) => (not pair[1].differs, pair[1].weight)
diagnosis: best_checkpoint_diagnosed_instead_of_the_last
  "checkpoint_last.pt", "checkpoint_best.pt") => "checkpoint_best.pt", "checkpoint_last.pt")
repairs: resumed_training_has_not_waited
  {"patience": waited} => {"patience": {}}
repairs: resumed_epoch_counts_batches_of_one_process
  * state.pop("processes", self.num_shards) => * state.pop("processes", 1) ** 0
report: spread_of_seeds_as_of_all_seeds
  statistics.stdev(values) => statistics.pstdev(values)
runs: first_validation_counts_instead_of_the_last
  return values[-1] => return values[0]
runs: second_run_with_one_seed_counts
  elif all(run.settings.seed != candidate.settings.seed for run in home): => else:
diagnosis: no_mean_of_checkpoints_for_the_test_set_either
  subset == "valid" and row in TABLE_3 => row in TABLE_3
corpus: sample_is_larger_than_asked_for
  step = max(1, math.ceil(total / pairs)) => step = max(1, total // pairs)
recipes/test_recipe_plans:same_steps: validation_and_test_text_is_not_normalized
  corpus.moses "${normalize[@]}" \ => corpus.moses \
recipes/test_recipe_plans:same_steps: validation_and_test_text_keeps_its_case
  "${lowercase[@]}" --language => --language
recipes/test_recipe_plans:same_steps: french_side_tokenized_as_english
  --language "$language" => --language "$source_lang"
recipes/test_recipe_end_to_end:export_reads: note_for_export_says_the_contrary
  "$subwords" "$([[ -n ${normalize[*]} => "$subwords" "$([[ -z ${normalize[*]}
recipes/test_recipe_shell:no_marker: marker_before_the_stage
  rm -f "$marker" => mkdir -p "${marker%/*}"; write_whole "$marker" "$marker_values"
recipes/test_recipe_shell:follow: stages_after_one_that_runs_again_stay_done
  ((${name%%-*} <= number)) || rm -f "$later" => true
recipes/test_recipe_plans: every_run_averages_one_checkpoint
  average=${average/auto/"$kept"} => average=${average/auto/1}
recipes/test_recipe_plans: stock_fairseq_searches_with_its_own_defaults
  [[ -n ${beam[*]} ]] || beam=("${search[@]}") => true
recipes/test_recipe_plans: searches_of_the_systems_swapped
  our_search=(--beam 5 --lenpen 1.4) stock => stock_search=(--beam 5 --lenpen 1.4) our
recipes/test_recipe_commands:section_63: long_trees_of_the_test_set_left_out
  write_set test "${test[@]}" => write_set test "${test[@]}" --longest "$longest"
recipes/test_recipe_end_to_end:need_no_training: model_of_another_number_of_checkpoints_is_scored
  stage 7 translate "$subset" "$average" && { => stage 7 translate "$subset" && {
recipes/test_recipe_end_to_end:dropout: worst_dropout_chosen
  sort -s -k 1,1nr => sort -s -k 1,1n
recipes/test_recipe_shell:wrong_download: wrong_download_accepted
  elif ! fits "$1" "$2"; then => elif false; then
recipes/test_recipe_shell:kill: command_of_a_killed_recipe_left_running
  stop_group "$group" => true
recipes/test_recipe_commands:shared: batch_is_not_shared_by_all_gpus
  --gpus $((gpus * nodes)) => --gpus "$nodes"
recipes/test_recipe_commands:torchrun: nodes_do_not_count_each_other
  processes=$((gpus * nodes)) => processes=$gpus
recipes/test_recipe_shell:other_options: other_options_replace_a_training
  [[ -e $made ]] && new= => [[ -e $made && ! -e $file ]] && new=
recipes/test_recipe_corpora: held_out_sentences_stay_in_training
  splits["train"], splits["valid"] + splits["test"]) => splits["train"], [])
recipes/test_recipe_plans translation.sh: hypotheses_sorted_as_text
  'grep -a ^D- | sort -V | => 'grep -a ^D- | sort |
recipes/test_recipe_plans:gum parsing.sh: trees_sorted_as_text
  'grep -a ^D- | sort -V | => 'grep -a ^D- | sort |
recipes/test_recipe_plans: reference_is_the_source
  cat "$exp/text/$subset.$target_lang" => cat "$exp/text/$subset.$source_lang"
recipes/test_recipe_plans: reference_is_in_tokens
  cat "$exp/text/$subset.$target_lang" => cat "$exp/tokens/$subset.$target_lang"
recipes/test_recipe_plans: translations_stay_in_tokens
  --post-process "$bpe" "${detokenize[@]}" => --post-process "$bpe"
recipes/test_recipe_plans: translations_stay_in_subwords
  "${beam[@]}" --post-process "$bpe" => "${beam[@]}"
recipes/test_recipe_plans translation.sh: every_seed_is_one
  --seed "$seed" => --seed 1
recipes/test_recipe_plans:gum parsing.sh: every_seed_of_a_parser_is_one
  --seed "$seed" => --seed 1
recipes/test_recipe_plans: mean_of_checkpoints_not_used
  checkpoint=$dir/average.pt # section => checkpoint=$dir/checkpoints/checkpoint_last.pt # section
recipes/test_recipe_plans:gum parsing.sh: parser_averages_two
  aiayn average --last "$average" => aiayn average --last 2
recipes/test_recipe_plans:same_steps: one_side_has_no_byte_pairs
  cat "${languages[@]/#/"$exp/tokens/train."}" => cat "$exp/tokens/train.$source_lang"
recipes/test_recipe_plans:same_steps wmt14_en_de/run.sh: pairs_of_any_ratio_stay
  --max-ratio 1.5 =>
recipes/test_recipe_plans:gum parsing.sh: precision_and_recall_exchanged
  "$scope/gold.trees" "$scope/predicted.trees" \ => "$scope/predicted.trees" "$scope/gold.trees" \
recipes/test_recipe_end_to_end:dropout: last_dropout_instead_of_the_best
  [[ $dry_run == true ]] || # the first of equal ones => [[ $dry_run != none ]] ||
recipes/test_recipe_end_to_end:side_by_side: new_text_with_the_old_training
  training_options=(text_sha256 row => training_options=(row
repairs/test_hydra model.py: hydra_trains_every_row_as_base
  if options is args or name in options: => if options is args:
repairs/test_hydra: wrong_options_of_hydra_pass
  for wrong in {*chosen} - {*options}: => for wrong in ():
recipes/test_recipe_shell:queued: requeued_job_deletes_its_training
  == 0 ]] || force=false stage=0 # a => == 0 ]] || stage=0 # a
repairs: weights_of_fp16_not_stored
  float32_weights.with_weights, => lambda state_dict: state_dict,
repairs: weights_of_fp16_not_loaded
  float32_weights.loading_weights, => lambda load: load,
repairs: checkpoints_copied_in_place
  copies.copied_whole, => lambda copy: copy,
repairs: workers_outlive_their_torchrun
  if "TORCHELASTIC_RUN_ID" in os.environ and sys.platform => if sys.platform
repairs: first_process_ends_before_the_checkpoint_is_whole
  true_of_any_process(trainer, False) => pass
repairs: gloo_waits_half_an_hour
  partial(make_group, timeout=TIMEOUT) => make_group
repairs: training_that_is_done_has_failed
  if stops and not is_done: => if stops:
repairs: repair_acts_on_functions_that_were_not_reviewed
  if name not in out and (reason := difference(of_this)): => if False:
checkpoints guard.py: a_checkpoint_opens_any_file
  return not flags & WRITING and ( => return True or (
checkpoints guard.py: a_string_of_a_checkpoint_is_evaluated
  code.co_filename != "<string>" or library => True or library
runs record.py: the_commit_is_that_of_another_project
  if not output_of(*git, "ls-files", Path(__file__).name): => if False:
repairs: repairs_are_on_though_they_are_off
  if names == ["off"]: => if False:
checkpoints checkpoints.py: one_finite_weight_is_enough
  isfinite().all(): => isfinite().any():
training: loss_of_one_chunk
  range(0, x.size(0), rows) => range(0, min(rows, x.size(0)), rows)
treebank: later_quotes_stay_where_they_were
  moved.position += 1 => pass
inference description.py: line_of_a_vocabulary_counted_from_zero
  in enumerate(stream_lines(path), start=1): => in enumerate(stream_lines(path)):
inference: error_of_ctranslate2_has_no_path
  except (RuntimeError, ValueError) as error:  # a => except ValueError as error:  # a
cli/test_cli_check check.py: any_number_of_gpus_will_do
  if count < (arguments.gpus or 0): => if False:
cli/test_cli_check check.py: any_name_of_a_language_will_do
  language_of(arguments.target_lang) => pass
recipes/test_recipe_plans:looked_for: language_is_not_looked_at
  check_needs 1 --manifest "$manifest" "${pair[@]}" => check_needs 1 --manifest "$manifest"
recipes/test_recipe_commands:bf16: gpus_are_not_looked_at_before_a_training
  [[ $device == cpu ]] || run -q aiayn check => true || run -q aiayn check
recipes/test_recipe_shell:follow: table_of_all_runs_stays_when_one_is_made_anew
  for later in "$exp"/.done/* "$scope"/.done/* => for later in "$scope"/.done/*
attention_maps: legend_has_the_colours_of_other_heads
  -2.2, str(head + 1), line_colour(head)) => -2.2, str(head + 1), line_colour(slot))
diagnosis: base_on_english_french_against_byte_pairs
  row == BIG_EN_FR or corpus in (EN_FR, "wmt14_fr_en") => row == BIG_EN_FR
"""


class Fault(NamedTuple):
    """A text in the package, what replaces it, and the tests to try first."""

    tests: str
    file: str
    name: str
    old: str
    new: str

    def homes(self) -> list[Path]:
        """Return the file with the text, once for every time that it is there."""
        folder = ROOT / (RECIPES if self.tests.startswith(RECIPES) else PACKAGE)
        files = [path for path in folder.rglob("*") if path.suffix in (".py", ".sh")]
        files = [path for path in files if str(path).endswith(self.file)]
        return [path for path in files for _ in range(path.read_text("utf-8").count(self.old))]


def faults() -> Iterator[Fault]:
    """Yield the faults of FAULTS."""
    form = r"(\S+?)(?: (\S+))?: (\w+)\n  (.+?) =>(?: (.+))?\n"
    for found in re.findall(form, FAULTS):
        yield Fault(*found)


class FirstFailure:
    """Writes the name of the first test that fails, or file that cannot be imported, to a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.file.read_text("utf-8"):
            self.file.write_text(report.nodeid, "utf-8")

    pytest_collectreport = pytest_runtest_logreport


def run_tests(copy: Path, *tests: str) -> str | None:
    """Run tests in a copy of the repository, in a fork of this process; return the first that
    fails, "" if all pass, and None for another end, as after LONGEST seconds."""
    failed = copy / "failed"
    failed.write_text("")
    if not (child := os.fork()):
        os.setpgid(0, 0)
        with (copy / "log").open("w") as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
        os.chdir(copy)
        os.environ["PYTHONPATH"] = sys.path[0] = str(copy)
        os._exit(pytest.main(["-xq", "-p", "no:cacheprovider", *tests], [FirstFailure(failed)]))
    select.select([os.pidfd_open(child)], [], [], LONGEST)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what its tests have started
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "", 1: failed.read_text("utf-8")}.get(status)


@contextmanager
def copied() -> Iterator[Path]:
    """Give a copy of what git has of the repository."""
    with tempfile.TemporaryDirectory(prefix="fault-", ignore_cleanup_errors=True) as copy:
        command = f"git ls-files -co --exclude-standard -z | xargs -0 cp -t {copy} --parents"
        subprocess.run(command, shell=True, cwd=ROOT, check=False)  # a file may be gone
        yield Path(copy)


def catching_test(fault: Fault) -> str:
    """Return the first test that fails in a copy with the fault, "" if none does; print it."""
    begun = time.monotonic()
    with copied() as copy:
        home = copy / fault.homes()[0].relative_to(ROOT)
        home.write_text(home.read_text("utf-8").replace(fault.old, fault.new), "utf-8")
        place, _, part = fault.tests.partition(":")
        place = f"tests/{place}" + ".py" * (copy / f"tests/{place}.py").exists()
        failed = run_tests(copy, place, "-k", part) or run_tests(copy, "tests") or ""
    seconds = f"{time.monotonic() - begun:.0f} s"
    print("caught" if failed else "MISSED", fault.name, seconds, failed, flush=True)
    return failed


def failing_anyway(tests: set[str]) -> str | None:
    """Return the first of these tests that fails where there is no fault, as `run_tests` does."""
    with copied() as copy:
        return run_tests(copy, *tests)


def main() -> int:
    """Test the chosen faults, on every core some of them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PATTERN", help="faults of such a name")
    parser.add_argument("--draw", type=int, metavar="N", help="so many of them, drawn by the date")
    given = parser.parse_args()
    chosen = [fault for fault in faults() if re.search(given.only, fault.name)]
    if lost := [fault.name for fault in chosen if len(fault.homes()) != 1]:
        print("not in the package exactly once:", *lost, sep="\n  ")
        return 2
    if given.draw:
        chosen = random.Random(date.today().isoformat()).sample(chosen, given.draw)
    for library in LIBRARIES:
        importlib.import_module(library)
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as workers:
        caught = [test for test in workers.map(catching_test, chosen) if test]
        by_file = defaultdict(set)
        for test in caught:
            by_file[test.partition("::")[0]].add(test)
        found = workers.map(failing_anyway, by_file.values())
        wrong = [test for test in found if test != ""]
    print(f"{len(caught)} of {len(chosen)} faults were caught")
    if wrong:
        print("without a fault, too, these fail:", *wrong)
    return int(len(caught) < len(chosen) or bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
