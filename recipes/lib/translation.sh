# shellcheck shell=bash
# The stages shared by all translation recipes: text, training, translation, score.
#
# A run.sh sources this file after recipe.sh, sets the recipe's own choices of text.sh, and calls
# translation_options, systems_begin and translation_stages. The layout of a run directory is
# described in fairseq_aiayn/runs/run.py.

: "${module[@]:?}" "${exp:?}" "${recipe_lib:?}"

# shellcheck source=recipes/lib/systems.sh
. "$recipe_lib/systems.sh"
# shellcheck source=recipes/lib/text.sh
. "$recipe_lib/text.sh"

# Options
subset="test"     # set to translate and score: test (Table 2) or valid (Table 3); the scores of one
                  # replace those of the other
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")

# The recipe's own choices
our_search=()     # options of fairseq-generate for our models; empty: the paper's search
stock_search=()   # options of fairseq-generate for stock fairseq; empty: the paper's search
token_bleu=false  # true: also report BLEU of the given tokens

# Read the command line.
translation_options() {
    recipe_options "$@"
    check_systems
    check_text
    require_one_of subset test valid
    [[ $source_lang != "$target_lang" ]] ||
        fatal "--source_lang and --target_lang must differ, both are '$source_lang'"
}

check_setup() {
    check_commands aiayn fairseq-train subword-nmt
    run -q "${module[@]}" fairseq_aiayn.runs.record check --language "$target_lang"
}

# Set the commands of a system, which run below and are recorded in settings.json.
use_system() {
    run_dir=$exp/$system-$run
    local task=aiayn_translation search=("${our_search[@]}") joined=subword_nmt
    if [[ $system == stock ]]; then
        task=translation search=("${stock_search[@]}")
        ((${#search[@]} > 0)) || find_search
    fi
    [[ $pieces == byte_pairs ]] || joined=sentencepiece
    system_commands "$task"
    [[ $dev_score == false ]] || train+=(--eval-bleu --eval-bleu-remove-bpe "$joined"
        --eval-bleu-args '{"beam": 1, "max_len_a": 1, "max_len_b": 50}'
        --eval-bleu-detok "${tokenizer/none/space}")
    [[ $best_by == loss ]] ||
        train+=(--best-checkpoint-metric bleu --maximize-best-checkpoint-metric)
    generate=(fairseq-generate "${evaluate[@]}" --max-tokens 4096 --gen-subset "$subset"
        "${search[@]}" --post-process "$joined")
    [[ $tokenizer == none ]] || generate+=(--tokenizer "$tokenizer")
    generate+=(--results-path "$run_dir/search" --log-format tqdm)
    bleu=(aiayn bleu --hypothesis "$run_dir/hypothesis.txt" --reference "$run_dir/reference.txt"
        --target-lang "$target_lang" --json)
    [[ $token_bleu == false ]] ||
        bleu+=(--tokens "$run_dir/hypothesis.tokens" "$run_dir/reference.tokens")
}

# Translate a held-out set, and measure the development perplexity of the same model.
translate() { search_set "$subset" "$run_dir/generate-$subset.txt"; }

# Score detokenized text with the paper's BLEU (section 6.1) and sacreBLEU, and write the report.
score() {
    local text=${prepared:-$exp}/bin/held_out
    note_evaluation "$run_dir/settings.json" "$subset" --command score "$(recipe_quote "${bleu[@]}")"
    run -q cp "$text/$subset.$source_lang" "$run_dir/source.txt"
    run -q cp "$text/$subset.$target_lang" "$run_dir/reference.txt"
    run -q -i "$run_dir/generate-$subset.txt" -o "$run_dir/hypothesis.txt" \
        "${module[@]}" fairseq_aiayn.runs.hypotheses
    if [[ $token_bleu == true ]]; then
        run -q cp "$text/$subset.$target_lang.tokens" "$run_dir/reference.tokens"
        run -q -i "$run_dir/generate-$subset.txt" -o "$run_dir/hypothesis.tokens" \
            "${module[@]}" fairseq_aiayn.runs.hypotheses --tokens
    fi
    run -q -o "$run_dir/score.json" "${bleu[@]}"
    run -q aiayn compare "$run_dir" --output "$run_dir"
}

table() { run aiayn compare "${run_dirs[@]}" --output "$exp/table"; }

# Run all stages. The recipe defines corpus_stages, which may be just manifest_stages.
translation_stages() {
    run_dirs=()
    systems_stages
    if ((${#run_dirs[@]} > 1)); then
        stage 9 table table run_dirs
        show_report "$exp/table"
    else
        show_report "${run_dirs[0]:-}"
    fi
}

system_stages() {
    stage 5 "train-$system-$run" train_system "${training_options[@]}"
    ((average == 1)) || stage 6 "average-$system-$run" average_checkpoints average_last
    stage 7 "translate-$system-$run" translate validate generate
    stage 8 "score-$system-$run" score bleu
    run_dirs+=("$run_dir")
}
