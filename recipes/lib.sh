# What every recipe uses: options, stages, commands, downloads and locks.
#
# A run.sh sources this file, declares its options as commented assignments between "# Options" and
# "# End of options", and calls `read_options "$@"`. Then it, or the script that it sources, says
#
#   stage NUMBER NAME [VALUE...] && { ... }     run a block unless it was done with these values
#   run [-q] [-n NAME] [-i INPUT] [-o OUTPUT] COMMAND...     run one command of a block
#   download URL FILE CHECKSUM [BYTES]          get a file from --mirror or the web, and check it
#
# With --dry_run, all three print the commands that they would run. Recipes need bash 4.4.

set -euo pipefail

# Recipes' own names are in lower case: none comes from the environment, but for the web's proxies.
# Nor do functions and what changes the meaning of a pattern or a command.
for name in $(compgen -e); do
    [[ $name != [[:lower:]]* || $name == *_proxy ]] || unset -v "$name"
done
# shellcheck disable=SC2046  # names are words
unset -f $(compgen -A function)
unset -v BASH_ENV CDPATH ENV EXECIGNORE GLOBIGNORE GREP_OPTIONS POSIXLY_CORRECT

recipe=$(realpath "$0")
recipes=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
root=$(dirname "$recipes") # the checkout, or where `aiayn recipes` wrote this
# python "$module" NAME is python -m NAME without imports from the user's directory.
module=$recipes/module.py
export PYTHONSAFEPATH=1 # nor from that of a script
export PYTHONUTF8=1 GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} # threads that wait leave shared cores
export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=110 # seconds for workers to end; an older torchrun gives 30
unset PYTHONIOENCODING # it would override PYTHONUTF8
HOSTNAME=$(uname -n)   # the environment may have another's, such as the login node's

# Options
exp=auto        # output directory; auto: below exp/ in the checkout
stage=0         # run this stage again, and all that follow it; 0: run the stages that are not done
stop_stage=99   # last stage to run
force=false     # begin again, also where that replaces text or a training made with other options
dry_run=false   # print every command of every stage and run nothing
mirror=${AIAYN_MIRROR:-} # directory with downloaded files, used before the network
venv=           # environment to use instead of the active one: DIR/bin comes first in PATH
# End of options

option_files=("$recipe" "$recipes/lib.sh")
most=999999999  # of a number that has no limit of its own
after_dashes=   # options that this recipe takes after -- for another
node_rank=0     # of several machines, this one; all but 0 only train
scope=          # directory of the markers, lock and log: EXP, or a run's
parts=          # .part in it, with what is not finished: all that is removed unasked
log=/dev/null   # log of the running stage
at=             # the running stage
marker=         # its marker
marker_values=  # what is in that
job=            # process group of the running command
locked=         # lock that is held
lock_fd=        # its descriptor
declare -A commands=() # of a run, by the names that settings.json gives them

log() { echo "$(date '+%F %T') $*" | tee -a "$log" >&2 2>/dev/null || true; } # a full disk has no log

# End the recipe with one line.
fatal() {
    local line="${recipe#"$root"/}: ${at:+stage $at: }$*"
    at=
    echo "${line//[[:cntrl:]]/ }" | tee -a "$log" >&2 2>/dev/null # a user's values may have line ends
    exit 1
}

. "$recipes/options.sh"
. "$recipes/download.sh"

# open_exp DIRECTORY: work in --exp or, where that is auto, in DIRECTORY.
open_exp() {
    [[ $exp != auto ]] || exp=$1
    if [[ -z $exp || $exp == *[:,[:cntrl:]]* || $exp == *'${'* ]] ||
        ! iconv -f UTF-8 -t UTF-8 <<<"$exp" &>/dev/null; then
        fatal "--exp must be a path in UTF-8 without : , \${ and line ends, which mean something to" \
            "fairseq; got ${exp@Q}"
    fi
    [[ $exp == /* ]] || exp=$PWD/$exp
    [[ -e $exp/.lock || -e $exp/.done || -z $(ls -A "$exp" 2>/dev/null) ]] ||
        fatal "$exp holds other things than a recipe's: --exp must be another directory"
    # Another node may come before node 0, which must see that the directory is a recipe's.
    ((node_rank == 0)) || [[ $dry_run == true ]] ||
        { require_plain "$exp" && mkdir -p "$exp" && : >>"$exp/.lock"; }
    ((node_rank > 0)) || begin -w "$exp"
    [[ $node_rank != 0 || $force == false || $dry_run == true ]] ||
        rm -f "$exp/${system-}-${row-}-${seeds-}/.training"
}

# begin [-w] DIRECTORY: work in DIRECTORY, as the only process that does; with -w, wait for others.
# A command that a killed recipe left running there is stopped.
begin() {
    local host='' owner='' group='' status=0
    scope=${*: -1} parts=${*: -1}/.part commands=()
    [[ $dry_run == false ]] || return 0
    require_plain "$scope"
    { mkdir -p "$scope" && : >>"$scope/recipe.log"; } || fatal "cannot write to $scope"
    log=$scope/recipe.log locked=$scope/.lock
    exec {lock_fd}<>"$locked"
    flock -n -E 9 "$lock_fd" || status=$?
    ((status == 0 || status == 9)) || fatal "cannot lock $locked: flock ended with status $status"
    if ((status == 9)); then
        read -r host owner group <"$locked" || true
        # Group 0 would be this process's own, and 1 all processes.
        if [[ $host == "$HOSTNAME" && $group =~ ^[1-9][0-9]{1,9}$ && $(lock_groups) == "$group" ]]; then
            log "a killed recipe left a command in $scope running: it is stopped (group $group)"
            stop_group "$group"
            flock -w 10 "$lock_fd" || fatal "another process holds $locked"
        elif [[ $1 == -w ]]; then
            log "waits for process $owner on $host, which works in $scope"
            flock "$lock_fd"
        else
            fatal "process $owner on $host is already running in $scope"
        fi
    fi
    echo "$HOSTNAME $$ 0" >"$locked"
    rm -rf "$parts" # what a killed command left
    mkdir "$parts"
    export AIAYN_PARTS=$parts # what `aiayn` and modules have not finished, too
}

# require_plain DIRECTORY: end the recipe if a file there that is written in place is another's.
require_plain() {
    local file
    for file in "$1"/{.lock,.training,recipe.log,train.log}; do
        [[ ! -L $file && (! -e $file || -f $file) ]] ||
            fatal "$file must be a plain file, which the recipe writes to, not a link or a directory"
    done
}

# Print the process groups that hold the lock, of those visible here: another container's processes
# have other numbers there, and a process that only waits for the lock has it open, too. A recipe that
# lives holds it beside its command's group.
lock_groups() {
    local fd pid
    find -L /proc/[0-9]*/fd -maxdepth 1 -samefile "$locked" 2>/dev/null | while read -r fd; do
        pid=${fd#/proc/} pid=${pid%%/*}
        ! grep -qs FLOCK "/proc/$pid/fdinfo/${fd##*/}" || ps -o pgid= -p "$pid"
    done | sort -u | tr -d ' ' || true
}

# Let others work in the directory, and write the marker of its last stage.
end() {
    finish_stage
    [[ -z $locked ]] || exec {lock_fd}>&-
    locked=''
}

# End a process group: TERM, and KILL after 115 seconds; a job of slurm.sbatch has 120 to end.
stop_group() {
    local tenths # counted, because a clock may be set
    if pgrep -g "$1" -x srun >/dev/null; then # it would kill its tasks instead of telling them
        scancel --signal=TERM "$SLURM_JOB_ID"
    else
        kill -TERM -- "-$1" 2>/dev/null || return 0
    fi
    for ((tenths = 0; tenths < 1150; tenths++)); do
        kill -0 -- "-$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$1" 2>/dev/null || true
}

on_exit() {
    local status=$1
    trap - EXIT
    [[ -z $job ]] || stop_group "$job"
    ((status == 0)) || [[ -z $at || $status == 130 || $status == 143 ]] ||
        log "stage $at failed with status $status: $(reason); log: $log"
    exit "$status"
}

on_signal() {
    trap '' INT TERM
    local how="without --force and --stage goes on"
    [[ $force == false || ${at%%-*} -ge 5 ]] || how="begins again" # a training of the old text is there
    log "interrupted${at:+ in stage $at}; the same command $how"
    exit "$1"
}
trap 'on_exit $?' EXIT
trap 'on_signal 130' INT
trap 'on_signal 143' TERM

# Print why a stage failed: the disk is full, or the first cause of the first process that failed, or
# the last line of the log that says something.
reason() {
    local cause
    ! disk_is_full || { echo "the disk of $scope is full" && return; }
    cause=$(tac "$log" | sed "/ stage $at, /q" | tac |
        python "$module" fairseq_aiayn.diagnosis.endings 2>/dev/null) || cause=
    echo "${cause:-$(grep -v -e '^[[:space:]]*$' -e ' | peak memory: ' "$log" | tail -n 1)}" | cut -c 1-300
}

# Try to write a MiB: df knows no quotas.
disk_is_full() {
    local status=0
    head -c 1048576 /dev/zero 2>/dev/null >"$parts/room" || status=$?
    rm -f "$parts/room"
    ((status != 0))
}

# stage NUMBER NAME [VALUE...]: say whether a stage is to run now. It is done when its marker stands
# in the directory with the same VALUEs; the marker is written when the next stage, or `end`, is
# reached. A stage that runs takes away the markers of all stages after it.
stage() {
    local number=$1 later name
    finish_stage
    ((number <= stop_stage && (node_rank == 0 || number == 5))) || return 1
    if [[ $dry_run == true ]]; then
        ((number >= stage)) && echo "# stage $1-$2, ${scope##*/}"
        return
    fi
    marker=$scope/.done/$1-$2 marker_values=${*:3}
    if ((node_rank > 0)); then # node 0 has the marker
        marker='' at=$1-$2
        return
    elif [[ -e $marker && $(<"$marker") == "$marker_values" ]] && ((stage == 0 || number < stage)); then
        log "stage $1-$2, ${scope##*/}, is done, skipped"
        return 1
    fi
    ((number >= stage)) || fatal "stage $1-$2 is not done: start with --stage $number"
    for later in "$exp"/.done/* "$scope"/.done/* "$scope"/*/.done/*; do
        name=${later##*/}
        [[ ! $name =~ ^[1-9][0-9]?- ]] || ((${name%%-*} <= number)) || rm -f "$later"
    done
    rm -f "$marker"
    at=$1-$2
    log "stage $at, ${scope##*/}"
}

finish_stage() {
    [[ -n $at ]] || return 0
    [[ -z $marker ]] || { mkdir -p "${marker%/*}" && write_whole "$marker" "$marker_values"; }
    log "stage $at is done"
    at=
}

# run [-q] [-p] [-n NAME] [-i INPUT] [-o OUTPUT] [-e ERRORS] COMMAND...
#
# The command's output goes to the log and to the terminal; with -q only to the log, with -p to the
# terminal as the progress of a training. With -o, its standard output goes to OUTPUT, which appears
# only if the command succeeds, and the rest also to ERRORS. -n keeps the command as NAME, for settings.json.
run() {
    local OPTIND=1 OPTARG flag show=all name='' input=/dev/null output='' shown
    local errors='' status=0
    while getopts 'qpn:i:o:e:' flag; do
        case $flag in
        q) show=none ;;
        p) show=progress ;;
        n) name=$OPTARG ;;
        i) input=$OPTARG ;;
        o) output=$OPTARG ;;
        e) errors=$OPTARG ;;
        *) fatal "run: unknown flag in $*" ;;
        esac
    done
    shift $((OPTIND - 1))
    shown=$(quoted "$@")
    if [[ -n $name ]]; then
        commands[$name]=$shown
        [[ $dry_run == true ]] ||
            { mkdir -p "$scope/commands" && write_whole "$scope/commands/$name" "$shown"; }
    fi
    [[ $input == /dev/null ]] || shown+=" < $(quoted "$input")"
    [[ -z $output ]] || shown+=" > $(quoted "$output")"
    [[ -z $errors ]] || shown+=" 2> $(quoted "$errors")"
    if [[ $dry_run == true ]]; then
        echo "$shown"
        return
    fi
    { echo "$(date '+%F %T') $shown" >>"$log"; } 2>/dev/null || true
    set -m # a process group of its own, so that the whole job can be stopped, even while bash waits
    execute "$@" &
    job=$!
    set +m
    wait "$job" || status=$?
    job=
    ((status == 0)) || return "$status"
    [[ -z $output ]] || mv "$parts/${output##*/}" "$output"
    [[ -z $errors ]] || mv "$parts/${errors##*/}" "$errors"
}

# Run a command as a separate job; uses the variables of run.
execute() {
    trap - EXIT INT TERM
    # Before the command starts, so that the next recipe finds it even if this one is killed.
    [[ -z $locked ]] || echo "$HOSTNAME $$ $BASHPID" >"$locked"
    if [[ -n $output ]]; then
        "$@" <"$input" 2>&1 >"$parts/${output##*/}" | tee ${errors:+"$parts/${errors##*/}"} | show
    else
        "$@" <"$input" 2>&1 | show
    fi
}

show() {
    trap '' TERM # it ends after the command, which may still have to say something
    case $show in
    none) cat >>"$log" ;;
    progress) python "$module" fairseq_aiayn.runs.progress --log "$log" ;;
    all) # log only the last state of a bar
        tee >(sed -u 's/.*\r//' >>"$log") >&2
        wait $!
        ;;
    esac
}

# Quote words for the shell.
quoted() {
    local word words=()
    for word; do
        [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
        words+=("$word")
    done
    echo "${words[*]}"
}
