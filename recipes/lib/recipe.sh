# shellcheck shell=bash
# The shell library of every recipe: options, log, stages, commands, downloads.
#
# A run.sh sources this file and sets its options as commented assignments between "# Options" and
# "# End of options", which may also change the defaults of the options below. Then it calls
# `recipe_options "$@"`, which reads the command line, and `recipe_begin`, which locks EXP, and lists
# its stages. A further library with options adds itself to recipe_option_files.
#
#   stage NUMBER NAME FUNCTION [OPTION...]   run FUNCTION unless it is done with these values
#   run [-t] [-q | -p] [-i INPUT] [-o OUTPUT] COMMAND...
#                                            run or, in a dry run, print one command of a stage
#   download SOURCE FILE CHECKSUM [BYTES]    from the web, PyPI or --mirror; checked, resumed
#   log MESSAGE, fatal MESSAGE, require_whole NAME..., require_one_of NAME VALUE...

set -euo pipefail
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
    echo "recipe.sh: needs bash 4.4 or newer, this is $BASH_VERSION" >&2
    exit 1
fi

recipe_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=(python "$recipe_lib/module.py") # python -m, without imports from the user's directory
recipe_script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
root=$(cd "$recipe_lib/../.." && pwd) # the checkout
[[ -n ${VIRTUAL_ENV:-} || ! -d $root/.venv/bin ]] || export PATH=$root/.venv/bin:$PATH
export PYTHONPATH=$root:${PYTHONPATH:-}:
while [[ $PYTHONPATH == *::* ]]; do PYTHONPATH=${PYTHONPATH//::/:}; done
PYTHONPATH=${PYTHONPATH%:} # an empty part would be the current directory
export PYTHONUTF8=1
unset PYTHONIOENCODING # it would override PYTHONUTF8
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} # spinning for long stalls other threads where cores are shared

# Options
exp=$root/exp/$(basename "$(dirname "$recipe_script")") # output directory
stage=0         # first stage to run; all earlier stages must be done
stop_stage=99   # last stage to run
force=false     # run stages again even if they are done
dry_run=false   # print every command of every stage and run nothing
mirror=${AIAYN_MIRROR:-} # directory with downloaded files, used before the network
needs_mb=auto   # free disk space that the recipe needs, in MB; auto: that of the text and of the
                # checkpoints of all runs
# End of options

recipe_option_files=("$recipe_script" "$recipe_lib/recipe.sh")
recipe_state=     # directory of the lock, logs and done stages: EXP, or a part of it (recipe_begin)
recipe_stage=     # NUMBER-NAME of the running stage
recipe_log=       # its log
recipe_hidden=false # true while the output of a command goes to the log only
recipe_at=        # file and line of the recipe that are running
recipe_job=       # process group of the running command
recipe_chain=     # identifies the state of everything done so far
recipe_resuming=false # true if a killed run has begun this stage with the same values
run_status=0      # of the last command
recipe_grace=35   # seconds between TERM and KILL; torchrun gives its workers 30

# shellcheck source=recipes/lib/options.sh
. "$recipe_lib/options.sh"
# shellcheck source=recipes/lib/download.sh
. "$recipe_lib/download.sh"

# Set recipe_at to the running line of the recipe, outside this library.
recipe_locate() {
    local frame=1
    while [[ ${BASH_SOURCE[frame]} == */@(recipe|options|download).sh ]]; do
        ((frame += 1))
    done
    recipe_at=${BASH_SOURCE[frame]##*/}:${BASH_LINENO[frame - 1]}
}

# Log to the terminal and to recipe.log, with time, file and line of the caller.
log() {
    local line
    recipe_locate
    line="$(date '+%F %T') $recipe_at $*"
    echo "$line" >&2
    if [[ -n $recipe_log ]]; then echo "$line" >>"$recipe_state/recipe.log"; fi
}

# End the recipe with one line.
fatal() {
    local line="${recipe_script##*/}: ${recipe_stage:+stage $recipe_stage: }$*"
    line+=${recipe_stage:+; log: $recipe_log}
    line=${line//[[:cntrl:]]/ } # a user's values may contain line ends
    recipe_stage= # or recipe_end would report it again
    echo "$line" >&2
    [[ -z $recipe_log ]] || echo "$line" >>"$recipe_state/recipe.log"
    exit 1
}

# --- start and end ---------------------------------------------------------------------------

# recipe_begin [STATE]: lock and prepare EXP or, for one of several processes in EXP, EXP/STATE.
recipe_begin() {
    local free used
    [[ $exp == /* ]] || exp=$PWD/$exp
    recipe_state=$exp${1:+/$1}
    require_own_directory
    [[ $dry_run == false ]] || return 0
    { mkdir -p "$recipe_state/log" "$recipe_state/.done" && : >>"$recipe_state/recipe.log"; } \
        2>/dev/null || fatal "cannot write to $exp: no permission, no space or no directory"
    # What it wrote before counts as free. A file can vanish under du: another process may be at work.
    used=$(du -sm "$recipe_state" 2>/dev/null | cut -f 1) || true
    free=$(($(recipe_free_mb) + ${used:-0}))
    needs_mb=${needs_mb/auto/500} # where the recipe knows no better
    ((free >= needs_mb)) ||
        fatal "too little disk space in $exp: $free MB free, $needs_mb MB needed (--needs_mb)"
    recipe_lock
    recipe_log=$recipe_state/recipe.log
    trap 'recipe_end $?' EXIT
    trap 'recipe_interrupt 130' INT
    trap 'recipe_interrupt 143' TERM
    log "$recipe_script writes to $exp"
}

# Names that recipes make in EXP, and delete before they make them again.
recipe_makes=(bin corpus data help pieces tokens trees)

# End the recipe unless EXP is a recipe's or has none of these names, and has a path that fairseq can
# read.
require_own_directory() {
    local name
    # shellcheck disable=SC2016  # a literal dollar sign
    if [[ $exp == *[:,]* || $exp == *$'\n'* || $exp == *'${'* ]] ||
        ! iconv -f UTF-8 -t UTF-8 <<<"$exp" &>/dev/null; then
        fatal "--exp must be a path in UTF-8 without : , \${ and line ends, which mean something to" \
            "fairseq; got ${exp@Q}"
    fi
    [[ ! -d $exp/.done ]] || return 0
    for name in "${recipe_makes[@]}"; do
        [[ ! -e $exp/$name ]] ||
            fatal "$exp has a $name that no recipe made and that this one would replace:" \
                "--exp must be another directory"
    done
}

# require_outside NAME PATH: end the recipe if option NAME's PATH is inside EXP, where the recipe
# deletes and writes.
require_outside() {
    local inside
    inside=$(realpath -m -- "$2")/
    [[ $inside != "$(realpath -m -- "$exp")"/* ]] ||
        fatal "--$1 must not be inside --exp $exp, whose content the recipe replaces; got '$2'"
}

recipe_free_mb() { df -Pm "$exp" | awk 'NR == 2 { print $4 }'; }

# Allow one run at a time in EXP. The commands of a run hold its lock, too. If the last run was
# killed but a command of it still runs, stop the command: it would interfere with this run.
recipe_lock() {
    local host=$HOSTNAME owner='' group='' lock status=0
    command -v flock >/dev/null || fatal "needs flock (package util-linux)"
    exec {lock}<>"$recipe_state/.lock"
    flock -n -E 9 "$lock" || status=$?
    if ((status == 9)); then
        read -r host owner group <"$recipe_state/.lock" || true
        if [[ $host != "$HOSTNAME" ]] || { is_process "$owner" && kill -0 "$owner" 2>/dev/null; }; then
            fatal "process $owner on $host is already running in $exp"
        fi
        if is_process "$group"; then
            log "the last run was killed: stopping the command it left behind (process group $group)"
            kill -TERM -- "-$group" 2>/dev/null || true
            flock -w "$recipe_grace" "$lock" || kill -KILL -- "-$group" 2>/dev/null || true
        fi
        flock -w 10 "$lock" || fatal "another run holds $recipe_state/.lock"
    elif ((status != 0)); then
        fatal "cannot lock $recipe_state/.lock: a file system without locks?"
    fi
    echo "$HOSTNAME $$ 0" >"$recipe_state/.lock"
}

# Is this, read from a file, the number of a process that may be signalled? Not 0 or 1: kill would
# signal this process's own group or all processes.
is_process() { [[ $1 =~ ^[1-9][0-9]{0,9}$ && $1 != 1 ]]; }

# Report in one line where and why the recipe failed.
recipe_end() {
    local status=$1 free cause=
    trap - EXIT
    recipe_stop_job
    if ((status != 0 && status != 130 && status != 143)) && [[ -n $recipe_stage ]]; then
        free=$(recipe_free_mb)
        if ((free < 20)); then
            cause=": no space left on the disk of $exp ($free MB free)"
        elif [[ $recipe_hidden == true ]]; then
            # fairseq-train's last line is its peak memory, even if it failed
            cause=": $(grep -v -e '^[[:space:]]*$' -e ' | peak memory: ' "$recipe_log" |
                tail -n 1 | cut -c 1-300)"
        fi
        echo "$(date '+%F %T') $recipe_at stage $recipe_stage failed with status $status$cause;" \
            "log: $recipe_log" | tee -a "$recipe_state/recipe.log" >&2 || true
    fi
    exit "$status"
}

recipe_interrupt() {
    trap '' INT TERM
    local how=
    [[ $force == false ]] || how=" without --force" # which would begin again
    log "interrupted${recipe_stage:+ in stage $recipe_stage}; the same command$how goes on from there"
    exit "$1"
}

# Stop the running command with all its children.
recipe_stop_job() {
    [[ -n $recipe_job ]] || return 0
    local tries
    kill -0 -- "-$recipe_job" 2>/dev/null || return 0
    if pgrep -g "$recipe_job" -x srun >/dev/null; then # it would kill its tasks instead of telling them
        scancel --signal=TERM "$SLURM_JOB_ID"
    else
        kill -TERM -- "-$recipe_job" 2>/dev/null || return 0
    fi
    wait "$recipe_job" 2>/dev/null || true
    for ((tries = 0; tries < 10 * recipe_grace; tries++)); do
        kill -0 -- "-$recipe_job" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$recipe_job" 2>/dev/null || true
}

# --- stages ----------------------------------------------------------------------------------

# stage NUMBER NAME FUNCTION [OPTION...]
#
# Run FUNCTION unless EXP/.done/NUMBER-NAME says that it is done with the same FUNCTION, the same
# values of the named OPTIONs and the same earlier stages. So if an option changes, the first stage
# that depends on it runs again, and all stages after it. Where stages fork, as for two systems on
# the same data, set recipe_chain back to its value before the fork. A function before_FUNCTION is
# called first and can end the recipe before the stage changes anything.
stage() {
    local number=$1 name=$1-$2 action=$3 key marker
    ((number <= stop_stage)) || return 0
    if [[ $dry_run == true ]]; then
        ((number >= stage)) || return 0
        echo "# stage $name"
        "$action"
        return
    fi
    key=$(recipe_key "$name" "$action" "${@:4}")
    marker=$recipe_state/.done/$name
    if recipe_is_done; then
        recipe_chain=$(<"$marker")
        ((number < stage)) || log "stage $name is done, skipped"
        return
    fi
    ((number >= stage)) ||
        fatal "stage $name is not done with these options: start with --stage $number"
    recipe_run_stage
}

# The functions below read the variables of stage. A marker has the key of its stage in the first
# line, and when it ended in the second; MARKER.started has the key of a stage that runs, or that
# was killed.
recipe_is_done() {
    [[ -e $marker && $(head -n 1 "$marker") == "$key" ]] || return 1
    [[ $force == false ]] || ((number < stage))
}

recipe_was_killed() {
    [[ $force == false && -e $marker.started && $(<"$marker.started") == "$key" ]]
}

recipe_run_stage() {
    local started seconds
    recipe_resuming=$(recipe_was_killed && echo true || echo false)
    ! declare -F "before_$action" >/dev/null || "before_$action"
    rm -f "$marker"
    write_whole "$marker.started" "$key"
    recipe_stage=$name
    recipe_log=$recipe_state/log/$name.log
    [[ $recipe_resuming == true ]] || : >"$recipe_log"
    log "stage $name$([[ $recipe_resuming == false ]] || echo ' goes on')"
    started=$(date +%s)
    "$action"
    seconds=$(($(date +%s) - started))
    recipe_chain=$(printf '%s\n%s %s s' "$key" "$(date '+%F %T.%N')" "$seconds")
    write_whole "$marker" "$recipe_chain"
    rm -f "$marker.started"
    log "stage $name done in $seconds s"
    recipe_stage=
    recipe_log=$recipe_state/recipe.log
}

# write_whole FILE TEXT: replace FILE in one step; readers see the old text or the new one.
write_whole() {
    echo "$2" >"$1.part"
    mv "$1.part" "$1"
}

# recipe_key NAME FUNCTION [OPTION...]: hash all that a stage depends on; an option may be an array.
recipe_key() {
    local recipe_option
    {
        echo "$recipe_chain" # the key and the time of the stage before, so of all before it
        echo "$1"
        declare -f "$2" # a changed function runs again
        for recipe_option in "${@:3}"; do
            local -n recipe_value=$recipe_option
            echo "$recipe_option=${recipe_value[*]@Q}"
        done
    } | sha256sum | cut -d ' ' -f 1
}

# --- commands --------------------------------------------------------------------------------

# run [-t] [-q | -p] [-i INPUT] [-o OUTPUT] COMMAND...
#
# COMMAND's output goes to the stage's log and to the terminal; with -q not to the terminal, with -p
# only as the progress of a fairseq command. With -o, standard output goes to OUTPUT, which appears
# only if COMMAND succeeds. If COMMAND fails, the recipe ends; with -t it goes on, and run_status has
# the status.
run() {
    local OPTIND=1 OPTARG flag show=all input=/dev/null output='' shown try=false
    while getopts 'tqpi:o:' flag; do
        case $flag in
        t) try=true ;;
        q) show=none ;;
        p) show=progress ;;
        i) input=$OPTARG ;;
        o) output=$OPTARG ;;
        *) fatal "run: unknown flag in $*" ;;
        esac
    done
    shift $((OPTIND - 1))
    run_status=0
    shown=$(recipe_quote "$@")
    [[ $input == /dev/null ]] || shown+=" < $(recipe_quote "$input")"
    [[ -z $output ]] || shown+=" > $(recipe_quote "$output")"
    if [[ $dry_run == true ]]; then
        echo "$shown"
        return
    fi
    recipe_locate
    echo "$(date '+%F %T') $recipe_at $shown" >>"$recipe_log"
    recipe_hidden=$([[ $show == all ]] && echo false || echo true)
    # A separate process group, so that the whole job can be stopped, even while bash waits.
    set -m
    recipe_execute "$@" &
    recipe_job=$!
    set +m
    wait "$recipe_job" || run_status=$?
    recipe_job=
    if ((run_status != 0)); then
        [[ $try == true ]] || exit "$run_status"
        return 0
    fi
    recipe_hidden=false
    [[ -z $output ]] || mv "$output.part" "$output"
}

# Run COMMAND as a separate job that ends with its status; uses the variables of run.
recipe_execute() {
    trap - EXIT INT TERM
    # Before the command starts, so that the next run can find it even if this one is killed.
    echo "$HOSTNAME $$ $BASHPID" >"$recipe_state/.lock"
    if [[ -n $output ]]; then
        "$@" <"$input" 2>&1 >"$output.part" | recipe_show
    else
        "$@" <"$input" 2>&1 | recipe_show
    fi
}

recipe_show() {
    trap '' TERM # it ends after the command, which may still have to say something
    case $show in
    none) cat >>"$recipe_log" ;;
    progress) "${module[@]}" fairseq_aiayn.runs.progress --log "$recipe_log" ;;
    all) tee >(sed -u 's/.*\r//' >>"$recipe_log") >&2 ;; # log only the last state of a bar
    esac
}

# Quote words for the shell; command substitutions stay unquoted.
recipe_quote() {
    local word words=()
    for word; do
        # shellcheck disable=SC2016  # the dollar sign is meant
        if [[ $word != '$('* && $word =~ [^A-Za-z0-9_./:=,@%+-] || -z $word ]]; then
            word="'${word//\'/\'\\\'\'}'"
        fi
        words+=("$word")
    done
    echo "${words[*]}"
}

# show_report DIR: log the path of the report, as the last line of a recipe.
show_report() {
    if [[ $dry_run == false && -e $1/report.html ]]; then log "report: $1/report.html"; fi
}

# read_flags ARRAY COMMAND...: set ARRAY to the words of the line that COMMAND prints.
read_flags() {
    local -n recipe_words=$1
    local text
    text=$("${@:2}") || fatal "cannot know the flags of this run: ${*:2} failed"
    # shellcheck disable=SC2034  # it is the caller's array
    read -ra recipe_words <<<"$text"
}
