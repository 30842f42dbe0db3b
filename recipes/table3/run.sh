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
# Stages: 1 prepares the text, 2 trains and scores, 3 prints the table.

# shellcheck source=recipes/lib.sh disable=SC2034,SC2154
. "$(dirname "$0")/../lib.sh"

# Options
rows=all           # rows of Table 3, separated by spaces, or all
seeds=1            # seeds to train every row with, separated by spaces
system=aiayn       # aiayn, stock or both
corpus=wmt14_en_de # recipe that prepares the text
max_update=auto    # updates of every row; auto: the default of the corpus's recipe
exp=auto           # output directory, which may be that of the corpus's recipe; auto: exp/table3/CORPUS
count=false        # print the number of runs and end
# End of options

own=()
while (($#)) && [[ $1 != -- ]]; do own+=("$1") && shift; done
passed=("${@:2}")
read_options "${own[@]}"
require_one_of system aiayn stock both
require_one_of count true false
[[ $max_update == auto ]] || require_whole max_update
for word in "${passed[@]}"; do # what would undo what Table 3 sets for each run
    case ${word%%=*} in
    --patience) fatal "--patience would train each row for another number of updates, which Table 3" \
        "cannot compare" ;;
    --row | --seeds | --system | --run | --exp | --subset | --average)
        fatal "${word%%=*} cannot stand after --: Table 3 sets it for each run" ;;
    --node_rank | --master) fatal "${word%%=*} cannot stand after --: on several nodes, start this in" \
        "Slurm or train the rows with the corpus's own recipe" ;;
    esac
done
here=$(dirname "$recipe")
run_sh=$recipes/$corpus/run.sh
[[ $corpus =~ ^[A-Za-z0-9_]+$ && -x $run_sh ]] ||
    fatal "--corpus must name a recipe, there is no recipes/$corpus/run.sh"
[[ $exp != auto ]] || exp=$root/exp/table3/$corpus
[[ $exp == /* ]] || exp=$PWD/$exp
[[ -z $mirror ]] || passed+=(--mirror "$mirror")
[[ $dry_run == false ]] || passed+=(--dry_run)
[[ $force == false ]] || passed+=(--force)

table=$(python "$here/table.py" --rows)
rows=${rows/#all/"$table"} runs=()
for one in ${system/both/aiayn stock}; do
    for row in $rows; do
        [[ " ${table//$'\n'/ } " == *" $row "* ]] ||
            fatal "--rows must be rows of Table 3, got '$row': they are ${table//$'\n'/ }"
        if [[ $one == stock ]] && ! aiayn flags "$row" --system stock --gpus 1 &>/dev/null; then
            echo "# stock fairseq cannot build row $row: left out" >&2
            continue
        fi
        for seed in $seeds; do
            [[ $seed =~ ^(0|[1-9][0-9]{0,9})$ && " ${runs[*]} " != *" $one-$row-$seed "* ]] ||
                fatal "--rows and --seeds must differ from each other, and seeds be whole numbers," \
                    "got '$rows' and '$seeds'"
            runs+=("$one-$row-$seed")
        done
    done
done
((${#runs[@]} > 0)) || fatal "--rows and --seeds must name at least one run"
if [[ $count == true ]]; then
    echo "${#runs[@]} runs: --array 0-$((${#runs[@]} - 1))"
    exit
fi

chosen=("${runs[@]}")
if [[ -n ${SLURM_ARRAY_TASK_ID:-} ]]; then
    # In arithmetic, a command in it would run
    [[ $SLURM_ARRAY_TASK_ID =~ ^[0-9]{1,9}$ ]] && task=$((10#$SLURM_ARRAY_TASK_ID))
    [[ -n ${task:-} && -n ${runs[task]:-} ]] ||
        fatal "there are ${#runs[@]} runs, none of them is number $SLURM_ARRAY_TASK_ID"
    chosen=("${runs[task]}")
fi

# Run the corpus's recipe; a signal to this script ends it, too.
call() {
    if [[ $dry_run == true ]]; then "$run_sh" "$@"; else run "$run_sh" "$@"; fi
}

if ((stage <= 1)); then
    call --exp "$exp" --stop_stage 4 "${passed[@]}" || exit
fi
((stop_stage >= 2)) || exit 0
few=() # few checkpoints: nothing is averaged, they are only for resuming
[[ $max_update == auto ]] || few=(--interval $((max_update < 20 ? 1 : max_update / 20)))
[[ $dry_run == false ]] || few+=(--stage 5) # the text is shown once
failed=()
for one in "${chosen[@]}"; do # if one fails, the others still run
    system=${one%%-*} seed=${one##*-} row=${one#*-}
    call --exp "$exp" --system "$system" --row "${row%-*}" --seeds "$seed" --subset valid \
        --average 1 --max_update "$max_update" "${few[@]}" "${passed[@]}" || failed+=("$one")
done
if ((stop_stage >= 3)) && [[ -z ${SLURM_ARRAY_TASK_ID:-} ]]; then
    run python "$here/table.py" "${runs[@]/#/$exp/}" --output "$exp"
    finished=()
    for one in "${runs[@]}"; do
        [[ ! -e $exp/$one/score.json ]] || finished+=("$exp/$one")
    done
    ((${#finished[@]} < 2)) || run -q aiayn compare "${finished[@]}" --output "$exp/table"
fi
((${#failed[@]} == 0)) || fatal "not finished: ${failed[*]}"
