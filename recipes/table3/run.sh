#!/usr/bin/env bash
# Table 3: train any of its rows on any corpus, with several seeds, and print the table with the
# paper's figures.
#
#   recipes/table3/run.sh -- --gpus 8                        all rows on newstest2013
#   recipes/table3/run.sh --rows "base a_h1 b_dk16" --seeds "1 2 3" --corpus multi30k
#   recipes/table3/run.sh --rows "base d_ls0" --max_update 20000 -- --gpus 8 --precision fp16
#   recipes/table3/run.sh --dry_run -- --gpus 8              print every command, run none
#   as an array of Slurm jobs, one per row and seed (--count prints how many there are):
#   recipes/table3/run.sh --stop_stage 1 -- --gpus 8
#   sbatch --array 0-19 --gpus-per-node 8 --cpus-per-task 64 recipes/slurm.sbatch \
#       recipes/table3/run.sh -- --gpus 8
#   recipes/table3/run.sh -- --gpus 8                        print the table when they are done
#
# Options after -- are passed to the corpus's recipe; recipes/CORPUS/run.sh --help lists them.
# Interrupted runs resume where they stopped; finished runs are skipped.

# shellcheck disable=SC2329  # stage calls functions by their names

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/lib/recipe.sh
. "$here/../lib/recipe.sh"

# Options
rows=all           # rows of Table 3, separated by spaces, or all
seeds=1            # seeds to train every row with, separated by spaces
system=aiayn       # aiayn, stock or both
corpus=wmt14_en_de # recipe that prepares the text
max_update=auto    # updates of every row; auto: the default of the corpus's recipe
text=auto          # EXP in which that recipe has prepared its text; auto: prepare it in EXP/text
exp=auto           # output directory; auto: exp/table3/CORPUS
count=false        # print the number of runs and end
# End of options

# Set runs to "SYSTEM ROW SEED" for every requested run.
list_runs() {
    local table row seed one
    read_flags table python -c \
        'import sys; sys.path = [*filter(None, sys.path)] # without the current directory
from fairseq_aiayn.paper import TABLE_3; print(*(row.name for row in TABLE_3))'
    rows=${rows/#all/${table[*]}}
    for row in $rows; do
        [[ " ${table[*]} " == *" $row "* ]] ||
            fatal "--rows must be rows of Table 3, got '$row': they are ${table[*]}"
    done
    require_distinct rows
    [[ -z $seeds ]] || require_seeds seeds
    runs=()
    for one in ${system/both/aiayn stock}; do
        for row in $rows; do
            if [[ $one == stock ]] && ! aiayn flags "$row" --system stock --gpus 1 &>/dev/null; then
                echo "# stock fairseq cannot build row $row: left out" >&2
                continue
            fi
            for seed in $seeds; do runs+=("$one $row $seed"); done
        done
    done
    ((${#runs[@]} > 0)) || fatal "--rows and --seeds must name at least one run"
}

# Run the corpus's recipe; in a dry run, print what it would run.
run_recipe() {
    if [[ $dry_run == true ]]; then
        echo "# $(recipe_quote "$recipe" "$@")"
        "$recipe" "$@" --dry_run
    else
        run -t "$recipe" "$@"
    fi
}

# End the recipe if an option after -- would undo what Table 3 sets for each run.
check_passed() {
    local word
    for word in "${passed[@]}"; do
        case ${word%%=*} in
            --patience)
                fatal "--patience would train each row for another number of updates," \
                    "which Table 3 cannot compare" ;;
            --row | --seeds | --system | --run | --exp | --prepared | --subset | --average)
                fatal "${word%%=*} cannot stand after --: Table 3 sets it for each run" ;;
            --node_rank | --master)
                fatal "${word%%=*} cannot stand after --: on several nodes, start this in Slurm" \
                    "or train the rows with the corpus's own recipe" ;;
        esac
    done
}

prepare_text() {
    run_recipe --exp "$text" --stop_stage 4 "${passed[@]}"
    ((run_status == 0)) || exit "$run_status"
}

# Train one run after another; if one fails, the others still run.
train_rows() {
    local one name row seed failed=()
    for one in "${chosen[@]}"; do
        read -r name row seed <<<"$one"
        run_recipe --prepared "$text" --exp "$exp" --system "$name" --row "$row" --seeds "$seed" \
            --run "$row-$seed" --subset valid --average 1 --max_update "$max_update" \
            "${sparse[@]}" "${passed[@]}"
        ((run_status == 0)) || failed+=("${one// /-}")
    done
    [[ -n ${SLURM_ARRAY_TASK_ID:-} ]] || make_table
    ((${#failed[@]} == 0)) || fatal "not finished: ${failed[*]}"
}

# The rows depend on the place and on the content of the text.
train_stage() {
    local content=''
    # shellcheck disable=SC2034  # the stage uses it by name
    [[ ! -e $text/bin/sha256 ]] || content=$(<"$text/bin/sha256")
    stage 2 train train_rows chosen max_update passed text content
}

make_table() {
    local one directories=() finished=()
    for one in "${runs[@]}"; do directories+=("$exp/${one// /-}"); done
    run python "$here/table.py" "${directories[@]}" --output "$exp"
    for one in "${directories[@]}"; do
        [[ ! -e $one/score.json ]] || finished+=("$one")
    done
    ((${#finished[@]} < 2)) || run -q aiayn compare "${finished[@]}" --output "$exp/table"
    show_report "$exp/table"
}

# bash reads a script while running it; inside a function, later edits of this file have no effect.
main() {
    local own=()
    passed=()
    while (($#)); do
        if [[ $1 == -- ]]; then
            passed=("${@:2}")
            break
        fi
        own+=("$1")
        shift
    done
    recipe_options "${own[@]}"
    require_one_of system aiayn stock both
    require_one_of count true false
    [[ $max_update == auto ]] || require_whole max_update
    recipe=$here/../$corpus/run.sh
    [[ -x $recipe ]] || fatal "--corpus must name a recipe, there is no recipes/$corpus/run.sh"
    recipe=$(realpath "$recipe")
    [[ $exp != auto ]] || exp=$root/exp/table3/$corpus
    [[ $exp == /* ]] || exp=$PWD/$exp
    [[ $text == auto ]] && makes_text=true text=$exp/text || makes_text=false
    [[ -z $mirror ]] || passed+=(--mirror "$mirror")

    check_passed

    list_runs
    if [[ $count == true ]]; then
        echo "${#runs[@]} runs: --array 0-$((${#runs[@]} - 1))"
        exit
    fi
    sparse=() # few checkpoints: nothing is averaged, they are only for resuming
    [[ $max_update == auto ]] || sparse=(--interval $((max_update < 20 ? 1 : max_update / 20)))
    chosen=("${runs[@]}")
    if [[ -n ${SLURM_ARRAY_TASK_ID:-} ]]; then
        # Arithmetic would run a command in it
        [[ $SLURM_ARRAY_TASK_ID =~ ^[0-9]{1,9}$ && $SLURM_ARRAY_TASK_ID -lt ${#runs[@]} ]] ||
            fatal "there are ${#runs[@]} runs, none of them is number $SLURM_ARRAY_TASK_ID"
        chosen=("${runs[SLURM_ARRAY_TASK_ID]}")
        recipe_begin "task-$SLURM_ARRAY_TASK_ID"
        train_stage
        exit
    fi
    recipe_begin
    [[ $makes_text == false ]] || stage 1 text prepare_text corpus passed
    train_stage
    exit
}
main "$@"
