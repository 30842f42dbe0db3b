# shellcheck shell=bash
# From trees to F1: vocabularies, training, search, repair, EVALB; run.sh sources this file.
#
# Sources are word pieces ("words"), targets are linearized trees ("tree").

: "${exp:?}" "${here:?}" "${recipe_lib:?}" "${dry_run:?}" "${stop_stage:?}" "${recipe_chain?}"
: "${recipe_log?}"

# shellcheck source=recipes/lib/systems.sh
. "$recipe_lib/systems.sh"
# shellcheck source=recipes/wsj_parsing/data.sh
. "$here/data.sh"

# Options
vocabulary=auto   # number of word pieces; auto: 16000, with --silver 32000 (section 6.3), for GUM
                  # alone 4000
sample=1000000    # most sentences, spread over all, to learn the word pieces from
gold_copies=1     # how often the training data has each gold tree; it has each tree of --silver and
                  # of --augment once
dropouts=auto     # P_drop of sub-layers and attention weights; of several, separated by spaces, the
                  # best on the development set is used; auto: 0.1 0.2 0.3 on a GPU, 0.1 on a CPU
constrained=false # search only among trees over the words; not for --system stock
subset="test"     # set to parse and score: test (section 23) or valid (section 22)
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")
pair=(--source-lang words --target-lang tree)
grid=() # the words of --dropouts

check_parsing() {
    local one
    find_vocabulary
    require_whole vocabulary sample gold_copies
    ((gold_copies > 0)) || fatal "--gold_copies must be at least 1, got '$gold_copies'"
    [[ $gold_copies == 1 || ${#additional_sets[@]} != 0 ]] ||
        fatal "--gold_copies $gold_copies needs --silver or --augment true, or there is nothing to" \
            "mix with"
    require_one_of constrained true false
    require_one_of subset test valid
    [[ $best_by == loss || $system == aiayn ]] ||
        fatal "--best_by score is for our parsers: stock fairseq measures no F1"
    [[ $constrained == false || $system != stock ]] ||
        fatal "--constrained is a search of aiayn_parsing, stock fairseq has none"
    for one in $dropouts; do
        [[ $one =~ ^0(\.[0-9]+)?$ ]] || fatal "--dropouts must be 0 or decimals below 1 such as 0.1, got '$one'"
    done
    words_of grid "$dropouts"
    ((${#grid[@]} > 0)) || fatal "--dropouts must have at least one number"
    dropout=${grid[0]} tries=${#grid[@]}
    [[ $nodes == 1 || ${#grid[@]} == 1 ]] || fatal "--nodes $nodes takes one of --dropouts"
}

# Set vocabulary to the paper's; GUM has a quarter of the WSJ's trees.
find_vocabulary() {
    [[ $vocabulary == auto ]] || return 0
    vocabulary=16000
    [[ $corpus != gum ]] || vocabulary=4000
    [[ -z $silver ]] || vocabulary=32000
}

check_setup() { check_commands aiayn fairseq-train; }

# Learn word pieces for the source; on the target side, every symbol is a type.
learn_vocabularies() {
    run python "$here/vocabularies.py" --gold "$exp/trees/train" \
        ${silver:+--silver "$exp/trees/silver"} --vocabulary "$vocabulary" --sample "$sample" \
        --output "$exp/pieces"
}

apply_pieces() {
    local part
    for part in train valid test "${additional_sets[@]}"; do
        run -q -i "$exp/trees/$part.text" -o "$exp/pieces/$part.words" \
            "${module[@]}" fairseq_aiayn.corpus.subwords apply --model "$exp/pieces/pieces.model"
        run -q cp "$exp/trees/$part.tree" "$exp/pieces/$part.tree"
    done
}

# Make fairseq's binaries. fairseq calls additional training text train1, train2; --upsample-primary
# repeats train.
binarize() {
    local number=0 part side kind binaries=(fairseq-preprocess "${pair[@]}" --workers "$workers"
        --srcdict "$exp/pieces/dict.words.txt" --tgtdict "$exp/pieces/dict.tree.txt")
    run -q rm -rf "$exp/bin" "$exp/bin.part" "$exp/bin.additional"
    run -q "${binaries[@]}" --destdir "$exp/bin.part" --trainpref "$exp/pieces/train" \
        --validpref "$exp/pieces/valid" --testpref "$exp/pieces/test"
    for part in "${additional_sets[@]}"; do
        number=$((number + 1))
        run -q "${binaries[@]}" --destdir "$exp/bin.additional" --trainpref "$exp/pieces/$part"
        for side in words tree; do
            for kind in bin idx; do
                run -q mv "$exp/bin.additional/train.words-tree.$side.$kind" \
                    "$exp/bin.part/train$number.words-tree.$side.$kind"
            done
        done
        run -q rm -r "$exp/bin.additional"
    done
    run -q cp "$exp/pieces/pieces.model" "$exp/bin.part/pieces.model"
    run -q mkdir "$exp/bin.part/held_out"
    run -q cp "$exp"/trees/{valid,test}.{trees,words} "$exp/bin.part/held_out"
    run -q -o "$exp/bin.part/data.json" python "$here/count_trees.py" --trees "$exp/trees" \
        --tags "$tags"
    seal_text "$exp/bin.part"
    run -q mv "$exp/bin.part" "$exp/bin"
}

# Set the commands of $system with $dropout, which run below and are recorded in settings.json.
use_system() {
    local task=aiayn_parsing
    run_dir=$exp/$system-$run
    ((${#grid[@]} == 1)) || run_dir+=-dropout$dropout
    search=()
    if [[ $system == stock ]]; then
        task=translation # its search has other defaults than the paper's
        find_search
    fi
    system_commands "$task"
    train+=(--dropout "$dropout" --attention-dropout "$dropout")
    ((${#additional_sets[@]} == 0)) || train+=(--upsample-primary "$gold_copies")
    [[ $dev_score == false || $system == stock ]] || train+=(--eval-f1)
    [[ $best_by == loss ]] ||
        train+=(--best-checkpoint-metric f1 --maximize-best-checkpoint-metric)
}

# use_search SET CONSTRAINED: set the search commands of the current system.
use_search() {
    set_name=$1 part=$1
    local how=("${search[@]}")
    if [[ $2 == true && $system == aiayn ]]; then
        part+=-constrained how+=(--constrained)
    fi
    part_dir=$run_dir/$part
    generate=(fairseq-generate "${evaluate[@]}" --max-tokens 1024
        --gen-subset "$set_name" "${how[@]}" --results-path "$run_dir/search" --log-format tqdm)
    evalb=(aiayn evalb "$part_dir/gold.trees" "$part_dir/predicted.trees")
}

parse_set() {
    run -q mkdir -p "$part_dir"
    search_set "$set_name" "$part_dir/generate.txt"
    # fairseq-generate writes the time only to the stage's log, not to its results.
    run -q -i "${recipe_log:-LOG}" -o "$part_dir/seconds.json" python "$here/search_seconds.py"
}

# Turn the model's output into trees and score them.
score_set() {
    local text=${prepared:-$exp}/bin
    note_evaluation "$part_dir/settings.json" "$set_name" \
        --command score "$(recipe_quote "${evalb[@]}")"
    run -q cp "$text/data.json" "$run_dir/data.json"
    run -q cp "$text/held_out/$set_name.words" "$part_dir/words.txt"
    run -q cp "$text/held_out/$set_name.trees" "$part_dir/gold.trees"
    run -q -i "$part_dir/generate.txt" -o "$part_dir/linearised.txt" \
        "${module[@]}" fairseq_aiayn.runs.hypotheses
    run -o "$part_dir/predicted.trees" aiayn delinearize "$part_dir/linearised.txt" \
        --words "$part_dir/words.txt" --report "$part_dir/repairs.json"
    run -q -o "$part_dir/evalb.txt" "${evalb[@]}" --per-sentence
    run -q -o "$part_dir/score.json" "${evalb[@]}" --json
}

# Choose the dropout by the score on section 22 (section 6.3).
choose_dropout() {
    run -o "$exp/$system-$run.chosen" python "$here/choose.py" "${tried[@]}"
}

# Print the directory of the table; with --prepared, not EXP/table, because other runs may use EXP.
table_directory() { [[ -z $prepared ]] && echo "$exp/table" || echo "$run_dir/table"; }

# Make the table; list the unconstrained search beside the constrained one if both exist.
table() {
    local one searches=()
    for one in "${parts[@]}"; do
        if [[ $one == *-constrained && -e ${one%-constrained}/score.json ]]; then
            searches+=("${one%-constrained}")
        fi
        searches+=("$one")
    done
    run aiayn compare "${searches[@]}" --output "$(table_directory)"
}

text_stages() {
    stage 3 vocabularies learn_vocabularies vocabulary sample silver
    stage 3 apply apply_pieces
    stage 4 binarize binarize corpus_name
}

# Run all stages.
parsing_stages() {
    parts=()
    systems_stages
    ((${#parts[@]} == 0)) || stage 12 table table parts
    show_report "$(table_directory)"
}

# Train $system with every dropout, choose the best on the development set, parse and score with it.
system_stages() {
    local text=$recipe_chain chains=()
    tried=()
    for dropout in "${grid[@]}"; do
        recipe_chain=$text
        use_system
        train_stages
        if ((${#grid[@]} > 1)); then
            use_search valid false
            stage 7 "parse-${run_dir##*/}-$part" parse_set validate generate
            stage 8 "score-${run_dir##*/}-$part" score_set evalb
            tried+=("$part_dir")
        fi
        chains+=("$recipe_chain")
    done
    if ((${#grid[@]} > 1)); then
        recipe_chain=${chains[*]}
        stage 9 "choose-$system-$run" choose_dropout tried
        ((stop_stage >= 9)) || return 0
        if [[ $dry_run == true ]]; then
            dropout=${grid[0]}
            echo "# what follows is for the best of them, here $dropout"
        else
            dropout=$(<"$exp/$system-$run.chosen")
            dropout=${dropout##*-dropout}
        fi
        use_system
    fi
    use_search "$subset" "$constrained"
    parts+=("$part_dir")
    [[ " ${tried[*]} " != *" $part_dir "* ]] || return 0 # already parsed for choosing
    stage 10 "parse-${run_dir##*/}-$part" parse_set validate generate
    stage 11 "score-${run_dir##*/}-$part" score_set evalb
}

train_stages() {
    stage 5 "train-${run_dir##*/}" train_system "${training_options[@]}" dropout gold_copies
    ((average == 1)) || stage 6 "average-${run_dir##*/}" average_checkpoints average_last
}
