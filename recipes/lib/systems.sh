# shellcheck shell=bash
# The systems of a recipe, ours and stock fairseq's: their run directories, their training and the
# records of both. translation.sh and recipes/wsj_parsing source this file.
#
# Systems are trained and scored in run directories EXP/SYSTEM-RUN, on the binaries in EXP/bin or, with
# --prepared, in another recipe's EXP. A training depends only on the content of these binaries: if
# the same text is made again, the training stays valid.

: "${module[@]:?}"
: "${exp:?}" "${recipe_lib:?}" "${root:?}" "${dry_run:?}" "${stop_stage:?}" "${needs_mb:?}"

# shellcheck source=recipes/lib/training.sh
. "$recipe_lib/training.sh"

# Options
seeds=1           # seeds of the weights, the order of batches and dropout, separated by spaces;
                  # each is a run of its own
run=auto          # name of the run directory, after SYSTEM-; auto: ROW-SEED; with several
                  # seeds, -SEED is added to any other name
prepared=         # EXP of a recipe with prepared text, to use instead of preparing text
workers=auto      # processes that prepare the text; auto: one per core
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")
several_seeds=()  # the words of --seeds
corpus_name=      # the text's name in results
text_mb=0         # disk space that the text needs, in MB
tries=1           # number of trainings of each system with each seed
plugin=(--user-dir "$root/fairseq_aiayn") # stock fairseq needs it, too, to load its checkpoints
pair=()           # flags that name the two sides of the text
evaluate=()       # arguments shared by validate and generate
validate=()
generate=()
text_seal=        # hash of the text, as sha256sum prints it
valid_tokens=4096 # per batch of a validation; --max-tokens may be less than the longest sentence

# fairseq cuts batches to a multiple of this (default: 8) and drops the rest of the last batch.
every_sentence=(--required-batch-size-multiple 1)

check_systems() {
    check_training
    [[ -z $prepared || $prepared == /* ]] || prepared=$PWD/$prepared
    [[ -z $prepared || $system != both ]] || fatal "--prepared takes one system, got both"
    [[ $nodes == 1 || $system != both ]] || fatal "--nodes $nodes takes one system, got both"
    check_seeds
    [[ $workers != auto ]] || workers=$(nproc)
    require_whole workers
    ((workers > 0)) || fatal "--workers must be at least 1, got '$workers'"
}

# Set several_seeds, and seed to the first of them.
check_seeds() {
    require_seeds seeds
    words_of several_seeds "$seeds"
    ((${#several_seeds[@]} == 1)) || [[ -z $prepared && $nodes == 1 ]] ||
        fatal "--prepared and --nodes take one of --seeds, got '$seeds'"
    seed=${several_seeds[0]}
}

# name_run SEED: set seed, and run to the name of its run.
name_run() {
    seed=$1
    run=$run_name
    [[ $run != auto ]] || run=$row-$seed
    [[ $run_name == auto ]] || ((${#several_seeds[@]} == 1)) || run+=-$seed
}

# Set needs_mb. Of each run there are the checkpoints that training.sh keeps, the last and the best
# one, with 12 bytes per parameter. Node 0 writes them.
find_needs() {
    local systems=1 run_mb=6000
    [[ $needs_mb == auto ]] || return 0
    case $row in
        *tiny) run_mb=1000 ;;
        c_dmodel1024) run_mb=9000 ;;
        parsing) run_mb=12000 ;;
        big*) run_mb=60000 ;;
    esac
    [[ $system != both ]] || systems=2
    needs_mb=0
    ((node_rank == 0)) || return 0
    [[ -n $prepared ]] || needs_mb=$text_mb
    ((stop_stage < 5)) || needs_mb=$((needs_mb + run_mb * systems * ${#several_seeds[@]} * tries))
}

# Lock EXP; a node other than 0, or one of several runs on prepared text, locks only its part.
systems_begin() {
    [[ $exp != auto ]] || exp=$root/exp/$corpus_name
    find_needs
    run_name=$run
    name_run "$seed"
    [[ $run =~ ^[A-Za-z0-9._-]+$ ]] || fatal "--run must be a plain file name, got '$run'"
    if ((node_rank > 0)); then
        recipe_begin "$system-$run/node-$node_rank"
    else
        recipe_begin "${prepared:+$system-$run}"
    fi
}

# check_commands COMMAND...: end the recipe unless all that the stages use is installed.
check_commands() {
    local command
    for command; do
        [[ $dry_run == true ]] || command -v "$command" >/dev/null ||
            fatal "$command is not installed: run make setup in $root"
    done
    run "${module[@]}" fairseq_aiayn.runs.record check --gpus 0 # text can be prepared without a GPU
}

# The order of the names must not depend on the user's language.
text_hash='find . -type f ! -name "*.log" ! -name "sha256*" | LC_ALL=C sort | xargs sha256sum | sha256sum'

# seal_text DIR: add the corpus's name and a hash to the binaries in DIR.
seal_text() {
    run -q -o "$1/corpus" echo "$corpus_name"
    run -q -o "$1/sha256" env -C "$1" sh -c "$text_hash"
}

# know_text EXP: set recipe_chain and text_seal to the hash of the text that the recipe in EXP
# prepared.
know_text() {
    [[ $dry_run == false ]] || return 0
    [[ -e $1/bin/sha256 && -d $1/bin/held_out ]] ||
        fatal "$1 has no prepared text: its recipe makes it with --stage 4 --stop_stage 4 --force"
    [[ $(env -C "$1/bin" sh -c "$text_hash") == "$(<"$1/bin/sha256")" ]] ||
        fatal "$1/bin is not what the recipe made: files in it changed;" \
            "--stage 4 --stop_stage 4 --force makes it again"
    [[ $(<"$1/bin/corpus") == "$corpus_name" ]] ||
        fatal "$1 has text of $(<"$1/bin/corpus"), not of $corpus_name"
    recipe_chain=$(<"$1/bin/sha256")
    text_seal=$recipe_chain
}

# Record at the start of a training what its result must be traceable to.
note_training() {
    run -q -o "$run_dir/training.json" "${module[@]}" fairseq_aiayn.runs.record training \
        --name "${run_dir##*/}" --system "$system" --row "$row" --corpus "$corpus_name" \
        --seed "$seed" --device "$device" --gpus "$gpus" --nodes "$nodes" \
        ${text_seal:+--text-sha256 "${text_seal%% *}"} \
        --resumes "$run_dir/training.json" --command train "$(recipe_quote "${train[@]}" "${further[@]}")"
}

# system_commands TASK: set train, evaluate and validate for the run directory of $system.
system_commands() {
    local data=("${prepared:-$exp}/bin" "${plugin[@]}" "${pair[@]}" --task "$1" "${every_sentence[@]}")
    find_regime
    find_launch
    find_checkpoint
    train=("${launch[@]}" "${data[@]}" --max-tokens-valid "$valid_tokens" "${regime[@]}"
        "${hardware_flags[@]}"
        --save-dir "$run_dir/checkpoints" --log-file "$run_dir/train.log" --log-format json
        --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000)
    evaluate=("${data[@]}" --path "$checkpoint" --num-workers 0)
    [[ $device == cuda ]] || evaluate+=(--cpu)
    validate=(fairseq-validate "${evaluate[@]}" --max-tokens "$valid_tokens" --log-format json)
}

# search_set SET FILE: run generate, write its output to FILE, and measure the model's development
# perplexity.
search_set() {
    run -q -o "$run_dir/valid.log" "${validate[@]}"
    run -q rm -rf "$run_dir/search"
    run -p "${generate[@]}"
    run -q mv "$run_dir/search/generate-$1.txt" "$2"
}

# note_evaluation FILE SUBSET [--command NAME COMMAND]...: record how the model was evaluated.
note_evaluation() {
    run -q -o "$1" "${module[@]}" fairseq_aiayn.runs.record evaluation \
        --training "$run_dir/training.json" --subset "$2" --average "$average" \
        ${average_last:+--command average "$(recipe_quote "${average_last[@]}")"} \
        --command validate "$(recipe_quote "${validate[@]}")" \
        --command generate "$(recipe_quote "${generate[@]}")" "${@:3}"
}

before_train_system() { keep_training; }
train_system() {
    [[ $device == cpu ]] || run -q "${module[@]}" fairseq_aiayn.runs.record check --gpus "$gpus"
    if [[ $dry_run-$device-$system-$precision == false-cpu-stock-bf16 ]]; then
        log "stock fairseq trains in fp32: its --bf16 fails on a CPU"
    fi
    train_model note_training
}

# Run all stages but the table. The recipe defines check_setup; corpus_stages and text_stages, which
# make EXP/bin; use_system, which sets run_dir and the commands of $system; and system_stages, which
# train and evaluate it.
systems_stages() {
    if ((node_rank > 0)); then
        use_system
        stage 5 "train-${run_dir##*/}" join_training train
        return
    fi
    stage 0 set_up check_setup
    ((stop_stage < 5)) || know_systems
    recipe_chain= # the text does not depend on this check
    if [[ -n $prepared ]]; then
        know_text "$prepared"
    else
        corpus_stages
        text_stages
        ((stop_stage < 4)) || know_text "$exp"
    fi
    each_system
}

# Find errors in the training options before hours of text preparation: whether stock fairseq can
# build the row, the batch is met, and there are enough checkpoints.
know_systems() {
    local both=$system
    for system in ${both/both/aiayn stock}; do use_system; done
    system=$both
}

# Run the stages of every system with every seed, each from the same text.
each_system() {
    local text=$recipe_chain chains=() one systems=${system/both/aiayn stock}
    for system in $systems; do
        for one in "${several_seeds[@]}"; do
            recipe_chain=$text
            name_run "$one"
            use_system
            system_stages
            chains+=("$recipe_chain")
        done
    done
    recipe_chain=${chains[*]}
}
