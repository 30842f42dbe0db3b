# shellcheck shell=bash
# How several nodes train together, and find each other again after the loss of one; training.sh
# sources this file.
#
# Node 0 starts every attempt: it writes a new name and the checkpoint to resume from into
# RUN/.attempt, and then starts torchrun. Another node joins each attempt at most once, because
# processes of an earlier attempt may still exist and wait for a lost node. Instead, it asks node 0
# for a new attempt (RUN/.wanted-NODE). When an attempt is over, the nodes that are still in it end
# it.

: "${nodes:?}" "${node_rank:?}" "${run_dir?}" "${run_status?}" "${recipe_state?}" "${stop_stage:?}"
: "${dry_run:?}" "${force:?}"

attempt=         # the name of the current attempt
joined=          # the attempt that this node joined last
has_joined=false # whether that was in this process
stale=75         # status of a training that ended because its attempt was over

# meet_nodes FINISHED: set attempt and, on nodes other than 0, newest; fail there if the training is
# done. With FINISHED true, such a node waits for the others and requests no new attempt.
meet_nodes() {
    local said=false
    if ((node_rank == 0)); then
        attempt=$(date +%s%N)
        write_whole "$run_dir/.attempt" "$attempt $newest"
        return
    fi
    [[ ! -e $recipe_state/.joined ]] || joined=$(<"$recipe_state/.joined")
    until read_attempt && attempt_counts; do
        if [[ $1 == false && -n $attempt ]]; then
            write_whole "$run_dir/.wanted-$node_rank" "$joined"
        fi
        [[ $said == true ]] || log "waits for node 0 in $run_dir"
        said=true
        sleep 1
    done
    [[ $attempt != over ]] || return 1
    [[ $attempt != failed ]] || fatal "node 0 has given up the training"
    write_whole "$recipe_state/.joined" "$attempt"
    has_joined=true
}

# Set attempt and newest to what node 0 wrote; fail if it has written nothing.
read_attempt() {
    attempt=''
    [[ -e $run_dir/.attempt ]] && read -r attempt newest <"$run_dir/.attempt"
    [[ -n $attempt ]]
}

# Is what node 0 wrote news to this node? Before node 0 starts, it is of an earlier run. If that
# failed, it says nothing of this run. If it is over, this stays true unless node 0 trains again, which
# keep_training allows with --force only.
attempt_counts() {
    case $attempt in
        failed) [[ $has_joined == true ]] ;;
        over) [[ $has_joined == true ]] || { [[ $force == false ]] && has_checkpoints; } ;;
        *) [[ $attempt != "$joined" ]] ;;
    esac
}

# Run a command as long as the attempt is current; return status 75 if it had to be stopped.
while_current() {
    local child
    "$@" &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        if attempt_is_over; then
            kill -TERM "$child" 2>/dev/null || true
            wait "$child" || true
            return "$stale"
        fi
        sleep 1
    done
    wait "$child"
}

attempt_is_over() {
    local wanted now
    if ((node_rank > 0)); then
        [[ -e $run_dir/.attempt ]] && read -r now _ <"$run_dir/.attempt" || return 0
        [[ $now != "$attempt" && $now != over ]]
        return
    fi
    for wanted in "$run_dir"/.wanted-*; do
        [[ -e $wanted && $(<"$wanted") == "$attempt" ]] && return 0
    done
    return 1
}

# End the recipe and tell the other nodes.
give_up() {
    ((nodes == 1)) || write_whole "$run_dir/.attempt" failed
    exit "$run_status"
}

# Tell other nodes that the training is done, in this run or an earlier one.
training_is_over() {
    ((nodes == 1 || stop_stage < 5)) || [[ $dry_run == true ]] || write_whole "$run_dir/.attempt" over
}
