#!/usr/bin/env bash
# Table 3: train any of its rows on any corpus, with several seeds, and print the table with the
# paper's figures.
#
#   recipes/table3/run.sh -- --gpus 8                        all rows on newstest2013
#   recipes/table3/run.sh --rows "base a_h1 b_dk16" --seeds "1 2 3" --corpus multi30k
#   recipes/table3/run.sh --rows "base d_ls0" --max_update 20000 -- --gpus 8 --precision fp16
#   as an array of Slurm jobs, one for each of the 20 rows and each seed:
#   recipes/table3/run.sh --stop_stage 1 -- --gpus 8
#   sbatch --array 0-19 --gpus-per-node 8 --cpus-per-task 64 recipes/slurm.sbatch \
#       recipes/table3/run.sh -- --gpus 8
#   recipes/table3/run.sh -- --gpus 8                        print the table when they are done
#
# Options after -- are passed to the corpus's recipe; recipes/CORPUS/run.sh --help lists them.
# Stages: 1 prepares the text, 2 trains and scores, 3 prints the table.

. "$(dirname "$0")/../lib.sh"

# Options
rows=all           # rows of Table 3, separated by spaces, or all
seeds=1            # seeds to train every row with, separated by spaces
system=aiayn       # aiayn, stock or both
corpus=wmt14_en_de # recipe that prepares the text
max_update=auto    # updates of every row; auto: the default of the corpus's recipe
exp=auto           # output directory, which may be that of the corpus's recipe; auto: exp/table3/CORPUS
# End of options

own=() set_here=" dry_run row seeds system exp subset average patience node_rank master force stage stop_stage "
while (($#)) && [[ $1 != -- ]]; do own+=("$1") && shift; done
passed=("${@:2}")
asked=$(printf '%s\n' "${own[@]}" | sed -n '/^--corpus$/{n;p}; s/^--corpus=//p' | tail -n 1)
for name in $(option_names "$recipes/training.sh" "$recipes/${asked:-$corpus}/run.sh" 2>/dev/null); do
    [[ $set_here == *" $name "* ]] || after_dashes+=" $name "
done
read_options "${own[@]}"
require_one_of system aiayn stock both
require_whole 1 "$most" auto max_update
for word in "${passed[@]}"; do
    name=${word%%=*}
    [[ $name != --* || $set_here != *" $(tr - _ <<<"${name#--}") "* ]] ||
        fatal "$name cannot stand after --: this recipe sets it, the same for all runs"
done
here=$(dirname "$recipe") run_sh=$recipes/$corpus/run.sh
[[ $corpus =~ ^[A-Za-z0-9_]+$ && -x $run_sh ]] ||
    fatal "--corpus must name a recipe, there is no recipes/$corpus/run.sh"
[[ $exp != auto ]] || exp=$root/exp/table3/$corpus
[[ $exp == /* ]] || exp=$PWD/$exp
passed+=(--mirror "$mirror" --dry_run "$dry_run" --force "$force")

table=" $(python "$here/table.py" --rows) " runs=()
for one in ${system/both/aiayn stock}; do
    for row in ${rows/#all/$table}; do
        [[ $table == *" $row "* ]] ||
            fatal "--rows must be rows of Table 3, got '$row': they are$table"
        if [[ $one == stock ]] && ! aiayn flags "$row" --system stock --gpus 1 &>/dev/null; then
            echo "# stock fairseq cannot build row $row: left out" >&2
            continue
        fi
        for seed in $seeds; do runs+=("$one-$row-$seed"); done
    done
done

task=${SLURM_ARRAY_TASK_ID:-} chosen=$(of_task "${runs[@]}") || exit
read -ra chosen <<<"$chosen"

# Run the corpus's recipe; a signal to this script ends it, too.
call() {
    if [[ $dry_run == true ]]; then "$run_sh" "$@"; else run "$run_sh" "$@"; fi
}

if [[ -z $task ]] && ((stage <= 1 && stop_stage != 1)); then
    row=${runs[-1]#*-} # the last row is the largest
    call --exp "$exp" --stop_stage 0 --row "${row%-*}" "${passed[@]}" || exit
fi
((stop_stage >= 1)) || exit 0
if ((stage <= 1)); then # tasks of an array share the text
    call --exp "$exp" --stop_stage 4 "${passed[@]}" ${task:+--force false} || exit
fi
((stop_stage >= 2)) || exit 0
((stage <= 2)) || chosen=()
few=() # few checkpoints: nothing is averaged, they are only for resuming
[[ $max_update == auto ]] || few=(--interval $((max_update < 20 ? 1 : max_update / 20)))
[[ $dry_run == false && $force == false ]] || few+=(--stage 5) # the text is shown, or made, once
failed=()
for one in "${chosen[@]}"; do # if one fails, the others still run
    system=${one%%-*} seed=${one##*-} row=${one#*-}
    call --exp "$exp" --system "$system" --row "${row%-*}" --seeds "$seed" --subset valid \
        --average 1 --max_update "$max_update" "${few[@]}" "${passed[@]}" || failed+=("$one")
done
if ((stop_stage >= 3)) && [[ -z $task ]]; then
    run python "$here/table.py" "${runs[@]/#/"$exp/"}" --output "$exp"
    finished=()
    for one in "${runs[@]}"; do
        [[ ! -e $exp/$one/score.json ]] || finished+=("$exp/$one")
    done
    ((${#finished[@]} < 2)) || run -q aiayn compare "${finished[@]}" --output "$exp/table"
fi
((${#failed[@]} == 0)) || fatal "not finished: ${failed[*]}"
