# shellcheck shell=bash
# The stages that every translation recipe shares: text, training, translation, score.
#
# A run.sh sources this file after recipe.sh, sets the recipe's own choices of text.sh, and calls
# translation_options and translation_stages. Systems are trained and scored in run directories
# EXP/SYSTEM-RUN, whose layout fairseq_aiayn/evaluation/comparison.py describes.

: "${exp:?}" "${recipe_lib:?}" "${root:?}" "${dry_run:?}" "${recipe_chain?}"

# shellcheck source=recipes/lib/training.sh
. "$recipe_lib/training.sh"
# shellcheck source=recipes/lib/text.sh
. "$recipe_lib/text.sh"

# Options
subset="test"     # set that is translated and scored: test (Table 2) or valid (Table 3);
                  # the scores of one take the place of the other's
run=auto          # name of the run directory after the system's; auto: ROW-SEED
prepared=         # EXP of a recipe whose prepared text is used instead of making it
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")
plugin=(--user-dir "$root/fairseq_aiayn") # stock fairseq needs it too, to load its checkpoints

# fairseq cuts batches to a multiple of this (8 by default) and drops the rest of the last one.
every_sentence=(--required-batch-size-multiple 1)

# Read the command line and lock what this process works in.
translation_options() {
    recipe_options "$@"
    check_training
    check_text
    require_one_of subset test valid
    [[ -z $prepared || $prepared == /* ]] || prepared=$PWD/$prepared
    [[ -z $prepared || $system != both ]] || fatal "--prepared takes one system, got both"
    [[ $nodes == 1 || $system != both ]] || fatal "--nodes $nodes takes one system, got both"
}

# Lock EXP; a further node, or one of several runs on prepared text, only its own part of it.
translation_begin() {
    [[ $run != auto ]] || run=$row-$seed
    [[ $run =~ ^[A-Za-z0-9._-]+$ ]] || fatal "--run must be a plain file name, got '$run'"
    if ((node_rank > 0)); then
        recipe_begin "$system-$run/node-$node_rank"
    else
        recipe_begin "${prepared:+$system-$run}"
        # Other nodes wait until this one has come to the training.
        [[ $dry_run == true ]] || rm -f "$exp"/*-"$run"/.begun
    fi
}

# Is everything installed that the stages use?
check_setup() {
    local command
    for command in aiayn fairseq-train sacremoses subword-nmt; do
        [[ $dry_run == true ]] || command -v "$command" >/dev/null ||
            fatal "$command is not installed: run make setup in $root"
    done
    run python "$recipe_lib/check_torch.py" --gpus 0 # text can be prepared without a GPU
}

# Set the commands of a system; they are run below, and kept in settings.json.
use_system() {
    run_dir=$exp/$system-$run
    local task=aiayn_translation search=() to_text=() on_cpu=() data evaluate
    if [[ $system == stock ]]; then
        task=translation # whose search has other defaults than the paper
        search=(--beam 4 --lenpen 0.6 --max-len-a 1 --max-len-b 50)
    fi
    [[ $pieces == word_pieces ]] && to_text=(--post-process sentencepiece) ||
        to_text=(--post-process subword_nmt)
    [[ $tokenizer == none ]] || to_text+=(--tokenizer "$tokenizer")
    [[ $device == cuda ]] || on_cpu=(--cpu)
    find_regime
    find_launch
    find_checkpoint
    data=("${prepared:-$exp}/bin" "${plugin[@]}" "${pair[@]}" --task "$task" "${every_sentence[@]}")
    train=("${launch[@]}" "${data[@]}" "${regime[@]}" "${hardware_flags[@]}"
        --save-dir "$run_dir/checkpoints" --log-file "$run_dir/train.log" --log-format json
        --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000)
    evaluate=("${data[@]}" "${on_cpu[@]}" --path "$checkpoint" --max-tokens 4096 --num-workers 0)
    validate=(fairseq-validate "${evaluate[@]}" --log-format json)
    generate=(fairseq-generate "${evaluate[@]}" --gen-subset "$subset" "${search[@]}"
        "${to_text[@]}" --results-path "$run_dir/search" --log-format tqdm)
    bleu=(aiayn bleu --hypothesis "$run_dir/hypothesis.txt" --reference "$run_dir/reference.txt"
        --target-lang "$target_lang" --json)
}

# What the result of a training must be traced back to, at its start,
note_training() {
    run -q -o "$run_dir/training.json" python "$recipe_lib/run_settings.py" training \
        --name "$system-$run" --system "$system" --row "$row" --corpus "$corpus_name" \
        --seed "$seed" --device "$device" --gpus "$gpus" --nodes "$nodes" \
        --resumes "$run_dir/training.json" --command train "$(recipe_quote "${train[@]}")"
}

# and what was done with its model.
note_evaluation() {
    run -q -o "$run_dir/settings.json" python "$recipe_lib/run_settings.py" evaluation \
        --training "$run_dir/training.json" --subset "$subset" --average "$average" \
        ${average_last:+--command average "$(recipe_quote "${average_last[@]}")"} \
        --command validate "$(recipe_quote "${validate[@]}")" \
        --command generate "$(recipe_quote "${generate[@]}")" \
        --command score "$(recipe_quote "${bleu[@]}")"
}

before_train_system() { keep_training; }
train_system() {
    [[ $device == cpu ]] || run -q python "$recipe_lib/check_torch.py" --gpus "$gpus"
    train_model note_training
}

# Translate a held-out set, and measure the development perplexity of the same model.
translate() {
    run -q -o "$run_dir/valid.log" "${validate[@]}"
    run -q rm -rf "$run_dir/search"
    run -p "${generate[@]}"
    run -q mv "$run_dir/search/generate-$subset.txt" "$run_dir/generate-$subset.txt"
}

# Score detokenised text, the paper's way and sacreBLEU's (section 6.1), and write the report.
score() {
    local text=${prepared:-$exp}
    note_evaluation
    run -q cp "$text/data/$subset.$source_lang" "$run_dir/source.txt"
    run -q cp "$text/data/$subset.$target_lang" "$run_dir/reference.txt"
    run -q -i "$run_dir/generate-$subset.txt" -o "$run_dir/hypothesis.txt" \
        python "$recipe_lib/hypotheses.py"
    run -q -o "$run_dir/score.json" "${bleu[@]}"
    run -q aiayn compare "$run_dir" --output "$run_dir"
}

table() { run aiayn compare "${run_dirs[@]}" --output "$exp/table"; }

# Everything; corpus_stages is the recipe's, or manifest_stages.
translation_stages() {
    if ((node_rank > 0)); then
        use_system
        stage 5 "train-$system-$run" join_training train
        return
    fi
    stage 0 set_up check_setup
    recipe_chain= # how that is checked is nothing that the text depends on
    if [[ -n $prepared ]]; then
        know_text "$prepared"
    else
        corpus_stages
        text_stages
    fi
    system_stages
}

system_stages() {
    local text=$recipe_chain chains=() systems=${system/both/aiayn stock}
    run_dirs=()
    for system in $systems; do use_system; done # is there a stock model of this row?
    for system in $systems; do
        recipe_chain=$text
        use_system
        stage 5 "train-$system-$run" train_system \
            row system seed max_update warmup batch_tokens interval
        ((average == 1)) || stage 6 "average-$system-$run" average_checkpoints average_last
        stage 7 "translate-$system-$run" translate validate generate
        stage 8 "score-$system-$run" score bleu
        run_dirs+=("$run_dir")
        chains+=("$recipe_chain")
    done
    recipe_chain=${chains[*]}
    ((${#run_dirs[@]} == 1)) || stage 9 table table run_dirs
}
