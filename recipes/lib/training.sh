# shellcheck shell=bash
# How a recipe trains a row of the paper: on what hardware, with which flags, and on after a failure.
#
# check_training settles the options by the hardware; find_regime, find_launch and find_checkpoint
# give what a recipe makes its commands of; train_model runs the command in train.

: "${dry_run:?}" "${force:?}" "${recipe_lib:?}" "${recipe_resuming:?}" "${run_status?}" \
    "${recipe_state?}" "${stop_stage:?}"

# Options
row=base          # row of Table 2 or 3 to train; aiayn rows lists them
system=aiayn      # aiayn, stock (stock fairseq's nearest model, loss, schedule and search) or both
seed=1            # of the weights, the order of batches and dropout
max_update=auto   # updates; auto: the row's
warmup=auto       # updates of the warm-up; auto: the row's
batch_tokens=auto # tokens of a batch, on either side; auto: the row's, as section 5.1 says
max_tokens=auto   # tokens that a GPU takes at once; auto: at most 4096
interval=auto     # updates between checkpoints; auto: the row's, in proportion to --max_update
patience=never    # checkpoints in a row without a better development loss, or --best_by, after which
                  # a training ends before --max_update; never: it goes on to the end
initialization=auto # whose initial values our models start from: tensor2tensor, fairseq-0.9 or
                  # fairseq (docs/deviations.md); auto: the row's
dev_score=auto    # measure development BLEU (of our parsers F1) at every checkpoint, by greedy search;
                  # auto: on a GPU
best_by=loss      # what --patience and the best checkpoint go by: loss or, with --dev_score, score
train_options=    # further options of fairseq-train, which win over the row's
average=auto      # how many of the last checkpoints are averaged; 1: the final one alone;
                  # auto: as section 6.1 says of the row
device=auto       # cpu, cuda or auto: cuda where there is a GPU
precision=auto    # fp32, fp16, bf16 or auto: fp16 on GPUs that compute it fast, otherwise fp32;
                  # bf16 of the plugin's models is of matrix products alone, and also for a CPU
gpus=auto         # GPUs of each node; auto: all of this one
nodes=1           # nodes that train together, on a file system that they share
node_rank=0       # which of them this one is; others than 0 only train
master=           # HOST:PORT of node 0, without Slurm
restarts=3        # how often a training that failed between two checkpoints is started again
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")
stock_training=() # options of stock fairseq-train, which win over the row's: a recipe's own choice
regime=()    # the row's flags for fairseq-train
launch=()    # what starts fairseq-train
train=()     # the whole command
run_dir=     # where it writes
attempt=     # name of the present attempt of several nodes

check_training() {
    local name
    require_one_of system aiayn stock both
    require_one_of device auto cpu cuda
    require_one_of precision auto fp32 fp16 bf16
    require_one_of dev_score auto true false
    require_one_of best_by loss score
    require_one_of initialization auto tensor2tensor fairseq-0.9 fairseq
    [[ $patience == never || $patience =~ ^[1-9][0-9]*$ ]] ||
        fatal "--patience must be never or a whole number from 1, got '$patience'"
    for name in max_update warmup batch_tokens max_tokens interval average gpus; do
        [[ ${!name} == auto ]] || require_whole "$name"
    done
    require_whole seed nodes node_rank restarts
    [[ $average != 0 ]] || fatal "--average must be at least 1, got '0'"
    ((node_rank < nodes)) ||
        fatal "--node_rank must be less than --nodes $nodes, got '$node_rank'"
    [[ -z ${SLURM_JOB_ID:-} || ${SLURM_NNODES:-1} == "$nodes" ]] ||
        fatal "--nodes must be the job's $SLURM_NNODES, got '$nodes'"
    [[ $nodes == 1 || -n ${SLURM_JOB_ID:-} || $master == *:* ]] ||
        fatal "--nodes $nodes needs --master HOST:PORT, the address of node 0, or Slurm"
    find_hardware
    [[ $dev_score != auto ]] || dev_score=$([[ $device == cuda ]] && echo true || echo false)
    [[ $best_by == loss || $dev_score == true ]] || fatal "--best_by score needs --dev_score"
}

# Settle device, gpus and precision. Only the driver is asked: a dry run needs no torch.
find_hardware() {
    local there
    there=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || there=0
    if ((there > 0)) && [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
        there=$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l)
    fi
    if [[ $device == auto ]]; then
        [[ $gpus == auto && $there == 0 ]] && device=cpu || device=cuda
    fi
    if [[ $device == cpu ]]; then
        gpus=1 # one process
        [[ $precision == bf16 ]] || precision=fp32
        return
    fi
    [[ $gpus != auto ]] || gpus=$((there > 0 ? there : 1))
    ((there == 0 || gpus <= there)) || fatal "--gpus must be at most the $there here, got '$gpus'"
    [[ -z ${SLURM_JOB_ID:-} || $there == 0 || $gpus == "$there" ]] ||
        fatal "--gpus must be the job's $there, got '$gpus': within Slurm fairseq takes them all"
    [[ $precision != auto ]] || precision=$(find_precision)
}

# fp16 is fast from compute capability 7.0; where no GPU is there to ask, as in a dry run, the answer
# is a current GPU's. bf16 would keep 8 bits of each weight in a checkpoint, fp16 keeps 11.
find_precision() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
        sort -n | head -n 1 | tr -d .) || capability=
    ((${capability:-90} >= 70)) && echo fp16 || echo fp32
}

# Set regime to the row's flags with what the options change of them (a flag that stands twice
# counts the second time), and average to a number.
find_regime() {
    local asked=(--system "$system" --gpus $((gpus * nodes))) kept further
    [[ $max_update == auto ]] || asked+=(--max-update "$max_update")
    [[ $warmup == auto ]] || asked+=(--warmup-updates "$warmup")
    [[ $batch_tokens == auto ]] || asked+=(--batch-tokens "$batch_tokens")
    [[ $max_tokens == auto ]] || asked+=(--max-tokens "$max_tokens")
    [[ $interval == auto ]] || asked+=(--save-interval-updates "$interval")
    read_flags regime aiayn flags "$row" "${asked[@]}"
    kept=$(flag_value --keep-interval-updates "${regime[@]}")
    [[ $average != auto ]] || average=$kept
    require_checkpoints
    # Not fewer than the row's, or they could not be averaged later.
    regime+=(--keep-interval-updates $((average > kept ? average : kept)) --seed "$seed")
    [[ $patience == never ]] || regime+=(--patience "$patience")
    [[ $initialization == auto || $system == stock ]] ||
        regime+=(--initialization "$initialization")
    [[ $system == aiayn ]] || regime+=("${stock_training[@]}")
    read -ra further <<<"$train_options"
    regime+=("${further[@]}")
}

# Set search to the paper's search for the row, for a task whose defaults are others.
find_search() { read_flags search aiayn flags "$row" --search; }

# As many checkpoints must be written as are averaged: that is known before a training, not after it.
require_checkpoints() {
    local updates every
    updates=$(flag_value --max-update "${regime[@]}")
    every=$(flag_value --save-interval-updates "${regime[@]}")
    ((average == 1 || updates / every >= average)) ||
        fatal "--average $average needs as many checkpoints; $updates updates with one every $every" \
            "(--interval) make $((updates / every))"
    [[ $patience == never ]] || ((average <= patience + 1)) ||
        fatal "--patience $patience may end a training after $((patience + 1)) checkpoints," \
            "--average $average needs more"
}

# Print the word that follows the flag NAME in the arguments after it.
flag_value() {
    local name=$1
    shift
    while (($#)) && [[ $1 != "$name" ]]; do shift; done
    (($# > 1)) || fatal "the row's flags must have $name, have not"
    echo "$2"
}

# The plugin's --autocast keeps weights, and so checkpoints, in fp32. Stock fairseq's --bf16 and --fp16
# do not, and end with an error on a CPU.
add_precision() {
    case $device-$system-$precision in
        *-fp32) ;;
        *-aiayn-bf16) hardware_flags+=(--autocast bfloat16) ;;
        cuda-*) hardware_flags+=("--$precision") ;;
    esac
}

# Set launch and hardware_flags. On one node fairseq-train starts a process a GPU itself; between
# nodes torchrun does, or fairseq's own reading of Slurm's variables.
find_launch() {
    launch=(fairseq-train)
    hardware_flags=(--cpu --num-workers 0 --log-interval 10)
    [[ $device == cpu ]] ||
        hardware_flags=(--distributed-world-size $((gpus * nodes)) --num-workers 4 --log-interval 100)
    add_precision
    [[ $device == cuda ]] && ((nodes > 1)) || return 0
    if [[ -n ${SLURM_JOB_ID:-} ]]; then
        launch=(srun --nodes "$nodes" --ntasks-per-node 1 --kill-on-bad-exit=1
            ${SLURM_CPUS_PER_TASK:+--cpus-per-task "$SLURM_CPUS_PER_TASK"} fairseq-train)
        hardware_flags+=(--distributed-port 29500)
    else
        # shellcheck disable=SC2034  # the recipe's command uses it
        launch=(torchrun --nnodes "$nodes" --nproc-per-node "$gpus" --node-rank "$node_rank"
            --master-addr "${master%:*}" --master-port "${master##*:}" --no-python fairseq-train)
    fi
}

# End the recipe before a training that would replace another: days of computing are not lost by a
# mistyped option.
keep_training() {
    if [[ $recipe_resuming == false && $force == false ]] &&
        compgen -G "$run_dir/checkpoints/*.pt" >/dev/null; then
        fatal "$run_dir holds a training with other data or options:" \
            "--run NAME trains beside it, --force replaces it"
    fi
}

# train_model NOTE: run train after the function NOTE, which may write down what is to be known
# of the run.
train_model() {
    [[ $recipe_resuming == true ]] ||
        run -q rm -rf "$run_dir/checkpoints" "$run_dir/train.log" "$run_dir/training.json"
    run -q mkdir -p "$run_dir"
    "$1"
    train_on
}

# As train_model on a node other than 0, when that one has begun.
join_training() { train_on; }

# Train until it is done. A lost node or GPU ends fairseq-train: it goes on from the newest
# checkpoint, unless it fails at once, or again and again before the next one.
train_on() {
    local newest='' before tried=0 started finished=false within=()
    while true; do
        before=$newest
        ((node_rank > 0)) || find_newest
        # Node 0 decides for all: what ends on another may be what it ended there.
        if ((node_rank == 0 && run_status != 0 && run_status != stale)) &&
            [[ $newest == "$before" ]]; then
            ((SECONDS - started >= 60 && tried < restarts)) || give_up
            ((tried += 1))
        else
            tried=0
        fi
        ((run_status == 0)) || log "training ended with status $run_status: it is started again"
        if ((nodes > 1)) && [[ $dry_run == false ]]; then
            meet_nodes "$finished" || return 0
            within=(while_current)
        fi
        [[ -z $newest ]] || log "goes on from $newest"
        started=$SECONDS
        run -t -p "${within[@]}" "${train[@]}" ${newest:+--restore-file "$newest"}
        [[ $dry_run == false ]] || return 0
        # A further node is done when node 0 is: what ended well here may have failed there.
        ((run_status != 0)) && finished=false || finished=true
        [[ $finished == false || $node_rank != 0 ]] || return 0
    done
}

# End the recipe, and tell other nodes.
give_up() {
    ((nodes == 1)) || write_whole "$run_dir/.attempt" failed
    exit "$run_status"
}

# Set newest to the checkpoint to go on from. Only node 0 knows whether the training is done; others
# must not touch its final checkpoint.
find_newest() {
    [[ $dry_run == false ]] || return 0
    newest=$(python -P -m fairseq_aiayn.checkpoints.newest "$run_dir/checkpoints" \
        --below "$(flag_value --max-update "${train[@]}")")
}

# --- several nodes ---
#
# Node 0 starts every attempt: it writes a new name and the checkpoint to go on from into
# RUN/.attempt, and then starts torchrun. Another node joins an attempt once, and never one that it
# was in before: the processes of that one may still be there, and wait for a node that is gone. It
# asks node 0 for a new one instead (RUN/.wanted-NODE). An attempt that is over is ended by those
# who are still in it.

stale=75 # status of a training whose attempt was over

# meet_nodes FINISHED: set attempt, and on other nodes newest; fail on those when the training is done.
# A node whose part is FINISHED waits for the others' and asks for nothing.
meet_nodes() {
    local joined='' said=false
    if ((node_rank == 0)); then
        attempt=$(date +%s%N)
        write_whole "$run_dir/.attempt" "$attempt $newest"
        return
    fi
    [[ ! -e $recipe_state/.joined ]] || joined=$(<"$recipe_state/.joined")
    until read_attempt && [[ $attempt != "$joined" ]]; do
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
}

# Set attempt and newest to what node 0 wrote; fail if it has written nothing.
read_attempt() {
    attempt=''
    [[ -e $run_dir/.attempt ]] && read -r attempt newest <"$run_dir/.attempt"
    [[ -n $attempt ]]
}

# Run a command as long as the attempt is the present one; status 75 where it was ended.
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

# Tell other nodes that the training is done, now or before.
training_is_over() {
    ((nodes == 1 || stop_stage < 5)) || [[ $dry_run == true ]] || write_whole "$run_dir/.attempt" over
}

# Set checkpoint to the model that is evaluated, average_last to what makes it of several.
find_checkpoint() {
    checkpoint=$run_dir/checkpoints/checkpoint_last.pt
    average_last=()
    ((average > 1)) || return 0
    checkpoint=$run_dir/average.pt
    average_last=(aiayn average --last "$average" --dir "$run_dir/checkpoints"
        --output "$checkpoint")
}

# Average the last checkpoints (section 6.1).
average_checkpoints() { run "${average_last[@]}"; }
