# shellcheck shell=bash
# How a recipe trains a row of the paper: hardware, flags, and resuming after a failure.
#
# check_training sets automatic options by the hardware; find_regime, find_launch and find_checkpoint
# set the parts of a recipe's commands; train_model runs the command in train.

: "${dry_run:?}" "${exp?}" "${force:?}" "${recipe_resuming:?}" "${run_status?}" "${recipe_log?}"

# Options
row=base          # row of Table 2 or 3 to train; aiayn rows lists them
system=aiayn      # aiayn, stock (stock fairseq's nearest model, loss, schedule and search) or both
max_update=auto   # updates of the training; auto: the row's
warmup=auto       # updates of the warm-up; auto: the row's
lr_factor=auto    # factor on Equation 3, the learning rate; auto: the row's (the paper's rows: 1)
batch_tokens=auto # tokens per batch on each side; auto: the row's (section 5.1)
max_tokens=auto   # tokens that a GPU processes at once; auto: at most 4096
interval=auto     # updates between checkpoints; auto: the row's, in proportion to --max_update
patience=never    # stop early after this many checkpoints in a row without a better development
                  # loss (or score, see --best_by); never: train up to --max_update
initialization=auto # initial values of our models: tensor2tensor, fairseq-0.9 or fairseq
                  # (docs/deviations.md); auto: the row's
dev_score=auto    # measure development BLEU (for our parsers, F1) at every checkpoint, by greedy
                  # search; auto: on a GPU
best_by=loss      # criterion of --patience and of the best checkpoint: loss or, with --dev_score,
                  # score
train_options=    # further options of fairseq-train, which override all others
average=auto      # number of last checkpoints to average; 1: use the final one; auto: the row's
                  # (section 6.1)
device=auto       # cpu, cuda or auto: cuda if there is a GPU
precision=auto    # fp32, fp16, bf16 or auto: fp16 on GPUs that compute it fast, otherwise fp32;
                  # for the plugin's models, bf16 applies to matrix products only; it works on a CPU,
                  # fast if that has AVX512
gpus=auto         # GPUs per node; auto: all GPUs of this node; with --device cpu: processes per node
nodes=1           # number of nodes that train together, on a shared file system
node_rank=0       # this node's number, from 0; nodes other than 0 only train
master=           # HOST:PORT of node 0, without Slurm
restarts=3        # how often to restart a training that fails between two checkpoints
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")
stock_training=() # a recipe's own options of stock fairseq-train, which override the row's
# shellcheck disable=SC2034  # the recipe's stage uses it
training_options=(row system seed max_update warmup lr_factor batch_tokens interval patience
    initialization dev_score best_by train_options) # what a training is made again for
seed=1       # of the weights, the order of batches and dropout; systems.sh sets it from --seeds
regime=()    # the row's flags for fairseq-train
further=()   # the words of --train_options, which come last
launch=()    # the words that start fairseq-train
train=()     # the complete training command
run_dir=     # its output directory
node_wait=600 # seconds in which a lost node must be back

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
    [[ $lr_factor == auto || $lr_factor =~ ^[0-9]*\.?[0-9]+$ && $lr_factor == *[1-9]* ]] ||
        fatal "--lr_factor must be auto or a positive number such as 0.5, got '$lr_factor'"
    for name in max_update warmup batch_tokens max_tokens interval average gpus; do
        [[ ${!name} == auto ]] || require_whole "$name"
    done
    require_whole nodes node_rank restarts
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

# Set device, gpus and precision. This asks only the driver, so that a dry run needs no torch.
find_hardware() {
    local there
    there=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || there=0
    if ((there > 0)) && [[ -v CUDA_VISIBLE_DEVICES ]]; then # it hides all from a negative number on
        there=$(sed -E 's/(^|,) *-.*//; s/,/\n/g' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .) || there=0
    fi
    if [[ $device == auto ]]; then
        [[ $gpus == auto && $there == 0 ]] && device=cpu || device=cuda
    fi
    if [[ $device == cpu ]]; then
        gpus=${gpus/auto/1}
        ((gpus > 0)) || fatal "--gpus must be at least 1, got '$gpus'"
        [[ $precision != fp16 ]] || fatal "--precision fp16 needs a GPU: a CPU has fp32 and bf16"
        precision=${precision/auto/fp32}
        return
    fi
    [[ $gpus != auto ]] || gpus=$((there > 0 ? there : 1))
    ((there == 0 || gpus <= there)) || fatal "--gpus must be at most the $there here, got '$gpus'"
    [[ $precision != auto ]] || precision=$(find_precision)
}

# small_budget UPDATES WARMUP INTERVAL: on a GPU, set the options that are auto to the budget of a
# corpus that is too small for the paper's batches: it has only a few of 25,000 tokens.
small_budget() {
    [[ $device == cuda ]] || return 0
    [[ $max_update != auto ]] || interval=${interval/auto/"$3"}
    batch_tokens=${batch_tokens/auto/4096} max_update=${max_update/auto/"$1"}
    warmup=${warmup/auto/"$2"}
}

# Print the precision for this GPU; without a GPU, as in a dry run, for a current one. fp16 is fast
# from compute capability 7.0. It keeps 11 bits of each weight in a checkpoint, bf16 only 8.
find_precision() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
        sort -n | head -n 1 | tr -d .) || capability=
    ((${capability:-90} >= 70)) && echo fp16 || echo fp32
}

# Set regime to the row's flags, changed by the options (of a repeated flag, the last counts), and
# average to a number.
find_regime() {
    local asked=(--system "$system" --gpus $((gpus * nodes))) kept
    [[ $max_update == auto ]] || asked+=(--max-update "$max_update")
    [[ $warmup == auto ]] || asked+=(--warmup-updates "$warmup")
    [[ $lr_factor == auto ]] || asked+=(--lr-factor "$lr_factor")
    [[ $batch_tokens == auto ]] || asked+=(--batch-tokens "$batch_tokens")
    [[ $max_tokens == auto ]] || asked+=(--max-tokens "$max_tokens")
    [[ $interval == auto ]] || asked+=(--save-interval-updates "$interval")
    read_flags regime aiayn flags "$row" "${asked[@]}"
    kept=$(flag_value --keep-interval-updates "${regime[@]}")
    average=${average/auto/"$kept"} # what the row averages is kept, so that it can be averaged later
    regime+=(--keep-interval-updates $((average > kept ? average : kept)) --seed "$seed")
    [[ $patience == never ]] || regime+=(--patience "$patience")
    [[ $initialization == auto || $system == stock ]] ||
        regime+=(--initialization "$initialization")
    [[ $system == aiayn ]] || regime+=("${stock_training[@]}")
    words_of further "$train_options"
    require_checkpoints
    [[ $nodes == 1 || $device == cpu || $dry_run == true ]] ||
        (($(flag_value --max-tokens "${regime[@]}") >= 2000)) ||
        log "the batch is small for $((gpus * nodes)) GPUs: more nodes may not be faster," \
            "see docs/distributed.md"
}

# Set search to the paper's search for the row, for a task with other defaults.
find_search() { read_flags search aiayn flags "$row" --search; }

# End the recipe before a training that would write fewer checkpoints than are averaged.
require_checkpoints() {
    local updates every
    updates=$(flag_value --max-update "${regime[@]}" "${further[@]}")
    every=$(flag_value --save-interval-updates "${regime[@]}" "${further[@]}")
    ((average == 1 || updates / every >= average)) ||
        fatal "--average $average needs as many checkpoints; $updates updates with one every $every" \
            "(--interval) make $((updates / every))"
    [[ $patience == never ]] || ((average <= patience + 1)) ||
        fatal "--patience $patience may end a training after $((patience + 1)) checkpoints," \
            "--average $average needs more"
}

# flag_value NAME WORD...: print the value of the flag NAME, a whole number; of a repeated flag, the
# last counts, as for fairseq.
flag_value() {
    [[ " ${*:2} " =~ .*\ $1[=\ ]([^\ ]*)\  ]] || fatal "the training needs $1"
    local value=${BASH_REMATCH[1]}
    [[ $value =~ ^[1-9][0-9]*$ ]] ||
        fatal "the training's $1 must be a whole number from 1, got '$value'"
    echo "$value"
}

# Set launch and hardware_flags. torchrun starts the processes, also those of one node: fairseq would
# spawn them, and they would spawn their data loaders, which import torch again at every epoch.
find_launch() {
    local job=${SLURM_JOB_ID:-} processes=$((gpus * nodes)) port on_each=() together=(--standalone)
    hardware_flags=(--num-workers 4 --log-interval 100 --distributed-world-size "$processes")
    [[ $device == cuda ]] || hardware_flags=(--cpu --num-workers 0 --log-interval 10)
    case $device-$system-$precision in
        *-fp32) ;;
        # The plugin's --autocast keeps weights, and so checkpoints, in fp32. Stock fairseq's --bf16
        # and --fp16 do not, and they fail on a CPU.
        *-aiayn-bf16) hardware_flags+=(--autocast bfloat16) ;;
        cuda-*) hardware_flags+=("--$precision") ;;
    esac
    launch=(fairseq-train)
    ((processes > 1)) || return 0
    if [[ $device == cpu ]]; then # rank -1: torchrun's
        hardware_flags+=(--distributed-world-size "$processes" --distributed-rank -1
            --distributed-init-method env:// --distributed-no-spawn
            --distributed-backend gloo --ddp-backend legacy_ddp)
        export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((gpus < $(nproc) ? $(nproc) / gpus : 1))}
    fi
    if ((nodes > 1)); then
        if [[ -n $job ]]; then # jobs may share their first node, but not its port
            port=$((20000 + 10#${job//[!0-9]/} % 20000))
            master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p):$port
            on_each=(srun --nodes "$nodes" --ntasks-per-node 1 --kill-on-bad-exit=1
                ${SLURM_CPUS_PER_TASK:+--cpus-per-task "$SLURM_CPUS_PER_TASK"})
        fi
        together=(--nnodes "$nodes" --rdzv-backend c10d --rdzv-endpoint "$master"
            --rdzv-id "${run_dir##*/}" --rdzv-conf "join_timeout=$node_wait,read_timeout=$node_wait"
            --max-restarts 0) # train_on restarts it
    fi
    # shellcheck disable=SC2034  # the recipe's command uses it
    launch=("${on_each[@]}" torchrun "${together[@]}" --nproc-per-node "$gpus" --no-python fairseq-train)
}

# End the recipe before it replaces another training, so that a mistyped option does not destroy days
# of computing.
keep_training() {
    if [[ $recipe_resuming == false && $force == false ]] && has_checkpoints; then
        fatal "$run_dir holds a training with other data or options:" \
            "--run NAME trains beside it, --force replaces it"
    fi
}

has_checkpoints() { [[ -n $(find "$run_dir/checkpoints" -name '*.pt' -print -quit 2>/dev/null) ]]; }

# train_model NOTE: call the function NOTE, which may record facts about the run, then run train.
train_model() {
    [[ $recipe_resuming == true ]] ||
        run -q rm -rf "$run_dir/checkpoints" "$run_dir/train.log" "$run_dir/training.json" \
            "$run_dir/score.json" "$run_dir"/*/score.json # of the model that is replaced
    run -q mkdir -p "$run_dir"
    "$1"
    train_on
}

# Do what train_model does on a node other than 0, while node 0 trains.
join_training() { train_on; }

# Train until the training is done. A try that fails, as after the loss of a node or a GPU, is followed
# by another, which goes on from the last checkpoint: up to --restarts times without a new one. A try
# without an update is the last, such as one with a wrong option or one that a lost node did not join.
# A signal ends the recipe.
train_on() {
    local tries=0 begun last now
    last=$(last_written)
    while [[ $dry_run == true ]] || node_0_trains; do
        begun=$(trainings_begun)
        ! has_checkpoints || log "goes on from the last checkpoint in $run_dir"
        run -t -p "${train[@]}" "${further[@]}"
        ((run_status != 0)) || return 0
        now=$(last_written)
        [[ $now == "$last" ]] && ((tries += 1)) || tries=0
        last=$now
        if (($(trainings_begun) == begun)); then
            ((nodes == 1)) ||
                log "no update was made: did every node start within $node_wait s and reach $master?"
            exit "$run_status"
        fi
        ((tries <= restarts)) || exit "$run_status"
        log "training ended with status $run_status: it is started again"
    done
}

# Print when the last checkpoint was written.
last_written() { stat -c %y "$run_dir/checkpoints/checkpoint_last.pt" 2>/dev/null || true; }

# Print how many tries on this node made an update; fairseq_aiayn/plugin/processes.py logs each.
trainings_begun() { grep -cs "TERM now ends with a checkpoint" "$recipe_log" || true; }

# Wait until node 0 trains; fail if its training is done. Both are marks of its stage in .done.
node_0_trains() {
    local mark=${prepared:+$run_dir} said=false
    mark=${mark:-$exp}/.done/5-train-${run_dir##*/}
    until ((node_rank == 0)) || [[ -e $mark.started ]]; do
        [[ $force == true || ! -e $mark ]] || return 1
        [[ $said == true ]] || log "waits for node 0 to train in $run_dir"
        said=true
        sleep 1
    done
}

# Set checkpoint to the model to evaluate, and average_last to the command that averages it, if any.
find_checkpoint() {
    checkpoint=$run_dir/checkpoints/checkpoint_last.pt
    average_last=()
    ((average > 1)) || return 0
    checkpoint=$run_dir/average.pt
    average_last=(aiayn average --last "$average" --dir "$run_dir/checkpoints"
        --output "$checkpoint")
}

# Average the last checkpoints (section 6.1).
average_checkpoints() {
    run -q rm -rf "$run_dir"/aiayn-*.part # what a killed one left
    run "${average_last[@]}"
}
