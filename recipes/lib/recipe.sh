# shellcheck shell=bash
# The shell library of every recipe: options, log, stages, commands, downloads.
#
# A run.sh sources this file, sets its options as commented assignments between "# Options" and
# "# End of options" (they may set other defaults for the options below, too), and calls
# `recipe_options "$@"`, which reads the command line, and `recipe_begin`, which locks EXP. Then it
# lists its stages. Another library with options of its own adds itself to recipe_option_files.
#
#   stage NUMBER NAME FUNCTION [OPTION...]   run FUNCTION unless it is done with these values
#   run [-t] [-q | -p] [-i INPUT] [-o OUTPUT] COMMAND...
#                                            run or, in a dry run, print one command of a stage
#   fresh_directory DIR                      an empty DIR; what a killed stage left in it stays
#   download SOURCE FILE CHECKSUM [BYTES]    from the web, PyPI or --mirror; checked, resumed
#   log MESSAGE, fatal MESSAGE, require_whole NAME..., require_one_of NAME VALUE...

set -euo pipefail
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
    echo "recipe.sh: needs bash 4.4 or newer, this is $BASH_VERSION" >&2
    exit 1
fi

recipe_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
recipe_script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
root=$(cd "$recipe_lib/../.." && pwd) # the checkout
[[ -n ${VIRTUAL_ENV:-} || ! -d $root/.venv/bin ]] || export PATH=$root/.venv/bin:$PATH
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
export PYTHONUTF8=1
unset PYTHONIOENCODING # it would come before
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} # threads that spin on and on stall where cores are shared

# Options
exp=$root/exp/$(basename "$(dirname "$recipe_script")") # directory of everything that is made
stage=0         # first stage to run; those before it must be done
stop_stage=99   # last stage to run
force=false     # run the stages again even where they are done
dry_run=false   # print every command of every stage and run nothing
mirror=${AIAYN_MIRROR:-} # directory of already downloaded files, asked before the network
needs_mb=500    # free disk space the recipe needs, in MB
# End of options

recipe_option_files=("$recipe_script" "$recipe_lib/recipe.sh")
recipe_state=     # directory of the lock, the logs and what is done: EXP, but for further nodes
recipe_stage=     # NUMBER-NAME of the stage that runs
recipe_log=       # its log
recipe_hidden=false # true while the output of a command goes to the log only
recipe_at=        # file and line of the recipe that runs
recipe_job=       # process group of the command that runs
recipe_chain=     # what identifies the state of everything done so far
recipe_resuming=false
run_status=0      # of the last command
recipe_grace=35   # seconds between TERM and KILL; torchrun gives its workers 30

# shellcheck source=recipes/lib/options.sh
. "$recipe_lib/options.sh"
# shellcheck source=recipes/lib/download.sh
. "$recipe_lib/download.sh"

# Set recipe_at to the line of the recipe, outside this library, that is being run.
recipe_locate() {
    local frame=1
    while [[ ${BASH_SOURCE[frame]} == */@(recipe|options|download).sh ]]; do
        ((frame += 1))
    done
    recipe_at=${BASH_SOURCE[frame]##*/}:${BASH_LINENO[frame - 1]}
}

# Log to the terminal and to EXP/recipe.log, with time, file and line of the caller.
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
    line=${line//[[:cntrl:]]/ } # what a user gave may hold line ends
    recipe_stage= # or the end would say it again
    echo "$line" >&2
    [[ -z $recipe_log ]] || echo "$line" >>"$recipe_state/recipe.log"
    exit 1
}

# --- start and end ---------------------------------------------------------------------------

# Lock and prepare EXP, or its part STATE for one of several processes that work in EXP.
recipe_begin() {
    local free
    [[ $exp == /* ]] || exp=$PWD/$exp
    recipe_state=$exp${1:+/$1}
    require_own_directory
    [[ $dry_run == false ]] || return 0
    { mkdir -p "$recipe_state/log" "$recipe_state/.done" && : >>"$recipe_state/recipe.log"; } \
        2>/dev/null || fatal "cannot write to $exp: no permission, no space or no directory"
    free=$(($(recipe_free_mb) + $(du -sm "$exp" | cut -f 1))) # what is there already counts
    ((free >= needs_mb)) ||
        fatal "too little disk space in $exp: $free MB free, $needs_mb MB needed (--needs_mb)"
    recipe_lock
    recipe_log=$recipe_state/recipe.log
    trap 'recipe_end $?' EXIT
    trap 'recipe_interrupt 130' INT
    trap 'recipe_interrupt 143' TERM
    log "$recipe_script writes to $exp"
}

# What recipes make in EXP, and so delete when they make it anew.
recipe_makes=(bin corpus data help pieces tokens trees)

# EXP must be a recipe's or have nothing of these names, and its path must be one that fairseq reads.
require_own_directory() {
    local name
    # shellcheck disable=SC2016  # the dollar sign is meant
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

# require_outside NAME PATH: what an option names is not where the recipe deletes and writes.
require_outside() {
    local inside
    inside=$(realpath -m -- "$2")/
    [[ $inside != "$(realpath -m -- "$exp")"/* ]] ||
        fatal "--$1 must not be inside --exp $exp, whose content the recipe replaces; got '$2'"
}

recipe_free_mb() { df -Pm "$exp" | awk 'NR == 2 { print $4 }'; }

# One run at a time in EXP. The commands of a run hold its lock too: where the run itself was
# killed, they are stopped, or they would write into what this run does.
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

# Is this, read from a file, the number of a process that may be signalled? 0 stands for this one's
# own group, and 1 for all processes there are.
is_process() { [[ $1 =~ ^[1-9][0-9]{0,9}$ && $1 != 1 ]]; }

# Say in one line where and why the recipe ended, unless all went well.
recipe_end() {
    local status=$1 free cause=
    trap - EXIT
    recipe_stop_job
    if ((status != 0 && status != 130 && status != 143)) && [[ -n $recipe_stage ]]; then
        free=$(recipe_free_mb)
        if ((free < 20)); then
            cause=": no space left on the disk of $exp ($free MB free)"
        elif [[ $recipe_hidden == true ]]; then
            # fairseq-train's last line is what it took, also where it failed
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
    log "interrupted${recipe_stage:+ in stage $recipe_stage}; the same command goes on from there"
    exit "$1"
}

# Stop the running command with all its children.
recipe_stop_job() {
    [[ -n $recipe_job ]] || return 0
    local tries
    kill -TERM -- "-$recipe_job" 2>/dev/null || return 0
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
# values of the OPTIONs named and the same stages before it. So a changed option runs the first
# stage that it matters to again, and all after that one. Where stages fork, as for two systems
# on the same data, set recipe_chain back to its value before the fork. A function before_FUNCTION
# can end the recipe while all is as it was before the stage.
stage() {
    local number=$1 name=$1-$2 action=$3 key marker started
    marker=$recipe_state/.done/$name
    ((number <= stop_stage)) || return 0
    if [[ $dry_run == true ]]; then
        ((number >= stage)) || return 0
        echo "# stage $name"
        "$action"
        return
    fi
    key=$(recipe_key "$name" "$action" "${@:4}")
    if [[ -e $marker && $(head -n 1 "$marker") == "$key" ]] &&
        [[ $force == false || $number -lt $stage ]]; then
        recipe_chain=$(<"$marker")
        ((number < stage)) || log "stage $name is done, skipped"
        return
    fi
    ((number >= stage)) ||
        fatal "stage $name is not done with these options: start with --stage $number"
    recipe_resuming=false
    if [[ $force == false && -e $marker.started && $(<"$marker.started") == "$key" ]]; then
        recipe_resuming=true
    fi
    ! declare -F "before_$action" >/dev/null || "before_$action"
    rm -f "$marker"
    write_whole "$marker.started" "$key"
    recipe_stage=$name
    recipe_log=$recipe_state/log/$name.log
    [[ $recipe_resuming == true ]] || : >"$recipe_log"
    log "stage $name$([[ $recipe_resuming == false ]] || echo ' goes on')"
    started=$(date +%s)
    "$action"
    recipe_chain=$(printf '%s\n%s %s s' "$key" "$(date '+%F %T.%N')" "$(($(date +%s) - started))")
    write_whole "$marker" "$recipe_chain"
    rm -f "$marker.started"
    log "stage $name done in $(($(date +%s) - started)) s"
    recipe_stage=
    recipe_log=$recipe_state/recipe.log
}

# write_whole FILE TEXT: whoever reads it reads all of it, or what was there before.
write_whole() {
    echo "$2" >"$1.part"
    mv "$1.part" "$1"
}

# Hash what a stage depends on; an option may be an array.
recipe_key() {
    local recipe_option
    {
        echo "$recipe_chain"
        echo "$1"
        declare -f "$2"
        for recipe_option in "${@:3}"; do
            local -n recipe_value=$recipe_option
            echo "$recipe_option=${recipe_value[*]@Q}"
        done
    } | sha256sum | cut -d ' ' -f 1
}

# Make an empty directory; what a killed run of this very stage left in it stays.
fresh_directory() {
    [[ $recipe_resuming == true ]] || run -q rm -rf "$1"
    run -q mkdir -p "$1"
}

# --- commands --------------------------------------------------------------------------------

# run [-t] [-q | -p] [-i INPUT] [-o OUTPUT] COMMAND...
#
# What COMMAND prints goes to the stage's log, and to the terminal unless -q is given; with -p the
# terminal sees a fairseq command's progress only. OUTPUT takes its standard output and appears
# only when COMMAND succeeded. A COMMAND that fails ends the recipe; with -t its status is in
# run_status.
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
    # A job of its own process group, so that all of it can be stopped, also while bash waits.
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

# Reads the variables of run; the job of its own that it is ends with COMMAND's status.
recipe_execute() {
    trap - EXIT INT TERM
    # Before the command starts: a run that is killed right after leaves nothing that nobody knows of.
    echo "$HOSTNAME $$ $BASHPID" >"$recipe_state/.lock"
    if [[ -n $output ]]; then
        "$@" <"$input" 2>&1 >"$output.part" | recipe_show
    else
        "$@" <"$input" 2>&1 | recipe_show
    fi
}

recipe_show() {
    case $show in
    none) cat >>"$recipe_log" ;;
    progress) python -P -m fairseq_aiayn.runs.progress --log "$recipe_log" ;;
    all) tee >(sed -u 's/.*\r//' >>"$recipe_log") >&2 ;; # a log needs the last state of a bar only
    esac
}

# Quote words for the shell; those that stand for the output of a command stay as they are.
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

# show_report DIR: where to look, as a recipe's last word.
show_report() {
    if [[ $dry_run == false && -e $1/report.html ]]; then log "report: $1/report.html"; fi
}

# read_flags ARRAY COMMAND...: set ARRAY to the words of the one line that COMMAND prints.
read_flags() {
    local -n recipe_words=$1
    local text
    text=$("${@:2}") || fatal "cannot know the flags of this run: ${*:2} failed"
    # shellcheck disable=SC2034  # it is the caller's array
    read -ra recipe_words <<<"$text"
}
