# How recipes train: the options of a training, the hardware, the processes that train together, and
# going on after a failure. translation.sh and parsing.sh run `launch fairseq-train ...`.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Options
row=base          # configuration to train; aiayn rows lists them
system=aiayn      # aiayn, stock (stock fairseq's nearest model, loss, schedule and search) or both
seeds=1           # seeds of weights, order of batches and dropout, separated by spaces; each is a run
subset="test"     # set to evaluate on: test (Table 2) or valid (Table 3), whose scores replace each other
max_update=auto   # updates of the training; auto: the row's. On a GPU, the demo, Multi30k and GUM have
                  # their own, also of the three below: small_budget in run.sh
warmup=auto       # updates of the warm-up; auto: the row's
lr_factor=auto    # factor on Equation 3, the learning rate; auto: the row's (the paper's rows: 1)
batch_tokens=auto # tokens per batch on each side; auto: the row's (section 5.1)
max_tokens=auto   # tokens that a GPU processes at once; auto: at most 4096
interval=auto     # updates between checkpoints; auto: the row's, in proportion to --max_update
patience=never    # checkpoints without a better validation loss after which to stop early; or never
initialization=auto # of our models: tensor2tensor, fairseq-0.9, fairseq (docs/deviations.md); auto: the row's
train_options=    # further options of fairseq-train, which override all others
tensorboard=false # write curves for TensorBoard to RUN/tensorboard
average=auto      # last checkpoints to average (section 6.1); 1: use the final one; auto: the row's
device=auto       # cpu, cuda or auto: cuda if there is a GPU
precision=auto    # fp32, tf32, fp16, bf16 or auto: fp16 on a GPU, fp32 on a CPU. tf32, and for our models
                  # bf16, are of matrix products only; bf16 works on a CPU, fast if that has AVX512
gpus=auto         # GPUs per node; auto: all GPUs of this node; with --device cpu: processes per node
nodes=1           # number of nodes that train together, on a shared file system
node_rank=0       # this node's number, from 0; nodes other than 0 only train
master=           # HOST:PORT of node 0, without Slurm
restarts=3        # how often to restart a training that fails between two checkpoints
workers=auto      # processes that prepare the text; auto: one per core
# End of options

option_files+=("$recipes/training.sh")
stock_training=() # a recipe's own options of stock fairseq-train, which override the row's
normalize=() lowercase=() text_options=() our_search=() stock_search=() from= # for translation.sh
side_by_side=false # an option of the demo and own_text
programs=(curl)   # that the text needs
node_wait=600     # seconds in which a lost node must be back
# What a training depends on; others, such as --gpus, may change while it lasts: see README.md.
training_options=(text_sha256 row seed max_update warmup lr_factor batch_tokens interval patience
    initialization train_options)

# Check the options of trainings, and choose what is auto by the hardware.
check_training() {
    require_one_of system aiayn stock both
    require_one_of subset test valid
    require_one_of device auto cpu cuda
    require_one_of precision auto fp32 tf32 fp16 bf16
    require_one_of initialization auto tensor2tensor fairseq-0.9 fairseq
    require_whole 1 "$most" never patience
    require_whole 1 "$most" auto max_update warmup interval average
    require_whole 64 "$most" auto batch_tokens max_tokens # fairseq leaves out what is longer
    require_whole 1 4096 auto gpus workers
    require_whole 1 4096 '' nodes
    require_whole 0 $((nodes - 1)) '' node_rank
    require_whole 0 "$most" '' restarts
    read -ra each <<<"$seeds"
    [[ $seeds =~ [0-9] && $(printf '%s\n' "${each[@]}" | sort -u |
        grep -cxE '0|[1-9][0-9]{0,8}') == "${#each[@]}" ]] ||
        fatal "--seeds must be different whole numbers up to $most, got '$seeds'"
    one_of_array
    [[ -z ${SLURM_JOB_ID:-} || ${SLURM_NNODES:-1} == "$nodes" ]] ||
        fatal "--nodes must be the job's $SLURM_NNODES, got '$nodes'"
    [[ $nodes == 1 || -n ${SLURM_JOB_ID:-}$master ]] ||
        fatal "--nodes $nodes needs --master HOST:PORT, the address of node 0, or Slurm"
    [[ -z $master || $nodes != 1 && $master =~ ^[^[:space:]]+:[1-9][0-9]{0,4}$ &&
        ${master##*:} -lt 65536 ]] ||
        fatal "--master must be the HOST:PORT of node 0 of several --nodes, got '$master'"
    [[ $nodes == 1 || $system != both && ${#each[@]} == 1 ]] ||
        fatal "--nodes $nodes takes one system and one seed, got '$system' and '$seeds'"
    workers=${workers/auto/"$(nproc)"}
    [[ -z $mirror ]] || programs=()
    find_hardware
}

# Where several systems or seeds are an array of Slurm jobs, set system and seeds to this job's.
one_of_array() {
    local all=() one
    for one in ${system/both/aiayn stock}; do all+=("${each[@]/#/"$one "}"); done
    [[ -n ${SLURM_ARRAY_TASK_ID:-} ]] && ((${#all[@]} > 1)) || return 0
    one=$(of_task "${all[@]}") || exit
    read -r system seeds <<<"$one"
    each=("$seeds")
}

# Set device, gpus and precision. This asks only the driver, so that a dry run needs no torch.
find_hardware() {
    local there
    there=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU ') || there=0
    [[ $there != 0 || ! -e /dev/kfd ]] || # AMD's driver, without a command that is always there
        there=$(python -c 'import torch; print(torch.cuda.device_count())') || there=0
    if ((there > 0)) && [[ -v CUDA_VISIBLE_DEVICES ]]; then # it hides all from a negative number on
        there=$(sed -E 's/(^|,) *-.*//; s/,/\n/g' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .) || there=0
    fi
    if [[ $device == auto ]]; then
        [[ $gpus == auto && $there == 0 ]] && device=cpu || device=cuda
    fi
    if [[ $device == cpu ]]; then
        gpus=${gpus/auto/1} precision=${precision/auto/fp32}
        [[ $precision == fp32 || $precision == bf16 ]] ||
            fatal "--precision $precision needs a GPU (--gpus N): a CPU has fp32 and bf16"
        return
    fi
    [[ $gpus != auto ]] || gpus=$((there > 0 ? there : 1))
    [[ $dry_run == true ]] || ((there == 0 || gpus <= there || stop_stage < 5)) || # text needs none
        fatal "--gpus must be at most the $there here, got '$gpus'"
    precision=${precision/auto/fp16} # which keeps 11 bits of each weight in a checkpoint, bf16 only 8
}

# check_needs TRAININGS OPTION...: stage 0 ends the recipe where a later stage would lack something:
# fairseq, a program, GPUs, room for the text and the checkpoints of TRAININGS for each system and seed.
# OPTIONs are those of `aiayn check`. Where the text is there, only --stop_stage 0 looks again.
check_needs() {
    local needs=(--directory "$exp" "${@:2}")
    [[ $node_rank == 0 && ($stop_stage == 0 || ! -e $exp/.done/4-binarize) ]] || return 0
    ((stop_stage > 0 && stop_stage < 5)) ||
        needs+=(--row "$row" --runs $(($1 * ${#each[@]} * $(wc -w <<<"$systems"))) \
            --gpus "$([[ $device == cpu ]] && echo 0 || echo "$gpus")" --precision "$precision")
    [[ $dry_run == false ]] || echo "# stage 0-check, ${exp##*/}"
    at=0-check
    run aiayn check "${needs[@]}"
    at=
}

# small_budget UPDATES WARMUP INTERVAL: on a GPU, set the options that are auto to the budget of a
# corpus that is too small for the paper's batches: it has only a few of 25,000 tokens.
small_budget() {
    [[ $device == cuda ]] || return 0
    [[ $max_update != auto ]] || interval=${interval/auto/"$3"}
    batch_tokens=${batch_tokens/auto/4096} max_update=${max_update/auto/"$1"}
    warmup=${warmup/auto/"$2"}
}

# Set flags to what `aiayn flags` prints for the row, changed by the options (of a repeated flag, the
# last counts), search to the paper's search, and average to a number.
declare -A printed=() # by aiayn flags
find_flags() {
    local asked=(--system "$system" --gpus $((gpus * nodes))) name option kept updates every
    for name in max_update warmup lr_factor batch_tokens max_tokens interval; do
        option=${name/warmup/warmup_updates}
        option=--${option/interval/save_interval_updates}
        [[ ${!name} == auto ]] || asked+=("${option//_/-}" "${!name}")
    done
    read -ra flags <<<"${printed["$row ${asked[*]}"]:=$(aiayn flags "$row" "${asked[@]}")}"
    ((${#flags[@]})) || fatal "this training is not possible"
    read -ra search <<<"${printed[$row]:=$(aiayn flags "$row" --search)}"
    read -rd '' -a further <<<"$train_options" || true # it fails where the text ends
    kept=$(flag_value --keep-interval-updates "${flags[@]}") || exit
    average=${average/auto/"$kept"} # what the row averages is kept, so that it can be averaged later
    flags+=(--keep-interval-updates $((average > kept ? average : kept)))
    [[ $patience == never ]] || flags+=(--patience "$patience")
    [[ $initialization == auto || $system == stock ]] || flags+=(--initialization "$initialization")
    [[ $system == aiayn ]] || flags+=("${stock_training[@]}")
    updates=$(flag_value --max-update "${flags[@]}" "${further[@]}") || exit
    every=$(flag_value --save-interval-updates "${flags[@]}" "${further[@]}") || exit
    ((average == 1 || updates / every >= average)) ||
        fatal "--average $average needs as many checkpoints; $updates updates with one every $every" \
            "(--interval) make $((updates / every)): a smaller --average or --interval fits"
    [[ $patience == never ]] || ((average <= patience + 1)) ||
        fatal "--patience $patience may end a training after $((patience + 1)) checkpoints," \
            "--average $average needs more"
}

# flag_value NAME WORD...: print the value of the flag NAME, a whole number; of a repeated flag, the
# last counts, as for fairseq.
flag_value() {
    [[ " ${*:2} " =~ .*\ $1[=\ ]([^\ ]*)\  ]] || fatal "the training needs $1"
    local value=${BASH_REMATCH[1]}
    [[ $value =~ ^[1-9][0-9]{0,17}$ ]] ||
        fatal "the training's $1 must be a whole number from 1, got '$value'"
    echo "$value"
}

# Set start, the words that start a training's processes, and hardware, their options. torchrun starts
# the processes, also those of one node: fairseq would spawn them, and they would spawn their data
# loaders, which import torch again at every epoch.
find_processes() {
    local job=${SLURM_JOB_ID:-} processes=$((gpus * nodes)) port host='' on_each=() together=(--standalone)
    hardware=(--num-workers 4 --log-interval 100 --distributed-world-size "$processes")
    cpu=()
    [[ $device == cuda ]] || cpu=(--cpu) hardware=(--cpu --num-workers 0 --log-interval 10)
    case $device-$system-$precision in
    *-fp32 | *-tf32) ;;
    # The plugin's --autocast keeps weights, and so checkpoints, in fp32; --bf16 and --fp16 do not.
    *-aiayn-bf16) hardware+=(--autocast bfloat16) ;;
    cuda-*) hardware+=("--$precision") ;;
    *) log "on a CPU, stock fairseq trains in fp32: its --$precision would round the weights" ;;
    esac
    start=()
    [[ $precision != tf32 ]] || start=(env TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1) # PyTorch's own switch
    ((processes > 1)) || return 0
    if [[ $device == cpu ]]; then # rank -1: torchrun's
        hardware+=(--distributed-world-size "$processes" --distributed-rank -1
            --distributed-init-method env:// --distributed-no-spawn
            --distributed-backend gloo --ddp-backend legacy_ddp)
        export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((gpus < $(nproc) ? $(nproc) / gpus : 1))}
    fi
    if ((nodes > 1)); then
        if [[ -n $job ]]; then # jobs may share their first node, but not its port
            port=0000${job//[!0-9]/}
            master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p):2${port: -4}
            on_each=(srun --export ALL --nodes "$nodes" --ntasks-per-node 1 --kill-on-bad-exit=1
                ${SLURM_CPUS_PER_TASK:+--cpus-per-task "$SLURM_CPUS_PER_TASK"})
        else
            host=,is_host=$((node_rank == 0)) # torchrun does not know all its addresses
        fi
        together=(--nnodes "$nodes" --rdzv-backend c10d --rdzv-endpoint "$master"
            --rdzv-id "${dir##*/}" --rdzv-conf "join_timeout=$node_wait,read_timeout=$node_wait$host")
    fi
    start+=("${on_each[@]}" torchrun "${together[@]}" --nproc-per-node "$gpus" --no-python)
}

# begin_run TASK [ENDING]: work in the directory $dir of the run of $system with $seed, on the text in
# EXP/bin. Sets data, the first words of fairseq's commands, and checkpoint, the one to evaluate.
begin_run() {
    local task=$1
    dir=$exp/$system-$row-$seed${2-}
    [[ $system == aiayn ]] || task=translation
    # By default, fairseq rounds the number of sentences of a batch down to a multiple of 8.
    data=("$exp/bin" --user-dir "$plugin" "${pair[@]}" --task "$task" --required-batch-size-multiple 1)
    find_flags
    find_processes
    checkpoint=$dir/average.pt # section 6.1
    ((average > 1)) || checkpoint=$dir/checkpoints/checkpoint_last.pt
    if ((node_rank > 0)); then
        begin "$dir/node-$node_rank"
        return
    fi
    begin "$dir"
    text_sha256=$(cut -d ' ' -f 1 "$exp/bin/sha256" 2>/dev/null) || text_sha256=
    keep_options "$dir/options.txt" "$dir/checkpoints" "${training_options[@]}"
}

# side_by_side SYSTEM...: run the recipe for each system at the same time, each with its share of the
# cores. Lines on the terminal begin with the system; a bar is a line every 30 seconds.
side_by_side() {
    local one started=() status=0
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(($(nproc) > $# ? $(nproc) / $# : 1))} TQDM_MININTERVAL=30
    for one; do
        "$recipe" "${given[@]}" --system "$one" --side_by_side false --stop_stage 8 \
            --stage $((stage > 0 && stage < 5 ? 5 : stage)) 2> >(
                trap '' TERM
                stdbuf -o L tr '\r' '\n' | sed -u "/^ *$/d; s/^/$one: /" >&2
            ) &
        started+=($!)
    done
    for one in "${started[@]}"; do wait "$one" || status=$?; done
    return "$status"
}

# launch COMMAND...: train with COMMAND on all processes until the training is done. A try that fails,
# as after the loss of a node or a GPU, is followed by another, which goes on from the last
# checkpoint: up to --restarts times without a new one. A try without an update is the last, such as
# one with a wrong option or one that a lost node did not join. A signal ends the recipe.
launch() {
    local train=("${start[@]}" "$@" --max-tokens-valid 4096 # at every checkpoint
        --validate-interval 1000000 --save-interval 1000000 --no-epoch-checkpoints
        --save-dir "$dir/checkpoints" --log-file "$dir/train.log" --log-format json "${hardware[@]}")
    local tries=0 status=1 begun last now ended
    [[ $tensorboard == false ]] || train+=(--tensorboard-logdir "$dir/tensorboard")
    train+=("${further[@]}")
    ((node_rank > 0)) || prepare_training
    last=$(last_written)
    while ((status != 0)) && node_0_trains; do
        status=0 begun=$(said "$begins") ended=$(said "$ends")
        # A checkpoint for which there was no room would take that of the next
        [[ $node_rank != 0 || $dry_run == true ]] || rm -f "$dir"/checkpoints/checkpoint*.pt.tmp
        run -p "${train[@]}" || status=$?
        ((status != 0)) || break
        now=$(last_written)
        [[ $now == "$last" ]] && ((tries += 1)) || tries=0
        last=$now
        if (($(said "$ends") > ended)); then
            log "training was ended by a signal: the same command without --force and --stage goes on"
            exit 143
        fi
        if (($(said "$begins") == begun)); then
            ((nodes == 1)) ||
                log "no update was made: did every node start within $node_wait s and reach $master?"
            exit "$status"
        fi
        ((tries <= restarts)) && ! disk_is_full || exit "$status"
        log "training ended with status $status: it is started again"
    done
    [[ $node_rank != 0 || $dry_run == true ]] || rm -f "$dir/.training"
}

# Record what the training's result must be traceable to, and tell other nodes that it begins.
prepare_training() {
    local resumes=() # the shell of a dry run's reader empties the file first
    [[ $dry_run == true ]] || resumes=(--resumes "$dir/training.json")
    [[ $device == cpu ]] || run -q aiayn check --gpus "$gpus" --precision "$precision"
    [[ $force == false ]] ||
        run rm -rf "$dir/checkpoints" "$dir/train.log" "$dir/training.json" \
            "$dir/score.json" "$dir"/*/score.json # what was made with them
    run mkdir -p "$dir"
    run -q -o "$dir/training.json" python "$module" fairseq_aiayn.runs.record training \
        --name "${dir##*/}" --system "$system" --row "$row" --corpus "$corpus_name" --seed "$seed" \
        --device "$device" --gpus "$gpus" --nodes "$nodes" \
        ${text_sha256:+--text-sha256 "$text_sha256"} \
        "${resumes[@]}" --command train "$(quoted "${train[@]}")"
    [[ $dry_run == true ]] || : >"$dir/.training"
}

# Print when the last checkpoint was written.
last_written() { stat -c %y "$dir/checkpoints/checkpoint_last.pt" 2>/dev/null || true; }

# What fairseq_aiayn/repairs/signals.py logs of a try's first update, and of its end by a signal.
begins="TERM now ends with a checkpoint" ends="ended by a signal after update"

# said TEXT: print how often the log says it.
said() { grep -cs "$1" "$log" || true; }

# Wait until node 0 trains; fail if its training is done.
node_0_trains() {
    ((node_rank > 0)) && [[ $dry_run == false ]] || return 0
    log "waits for node 0 to train in $dir"
    until [[ -e $dir/.training ]]; do
        [[ $force == true || ! -e $dir/.done/5-train ]] || return 1
        sleep 1
    done
}

# record_evaluation SET: write settings.json, which says how the score on a set was made.
record_evaluation() {
    local name text names=(validate generate score) how=()
    ((average == 1)) || names=(average "${names[@]}")
    for name in "${names[@]}"; do # an earlier call of the recipe may have run it
        text=${commands[$name]:-$(cat {"$scope","$dir"}"/commands/$name" 2>/dev/null | head -n 1)} || true
        [[ -z $text ]] || how+=(--command "$name" "$text")
    done
    run -q -o "$scope/settings.json" python "$module" fairseq_aiayn.runs.record evaluation \
        --training "$dir/training.json" --subset "$1" --average "$average" "${how[@]}"
}
