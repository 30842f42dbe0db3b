# shellcheck shell=bash
# The shell library of every recipe: options, log, stages, commands, downloads.
#
# A run.sh sources this file, sets its options as commented assignments between "# Options" and
# "# End of options" (they may set other defaults for the options below, too), calls
# `recipe_begin "$@"` and then lists its stages:
#
#   stage NUMBER NAME FUNCTION [OPTION...]   run FUNCTION unless it is done with these values
#   run [-q | -p] [-i INPUT] [-o OUTPUT] COMMAND...
#                                            run or, in a dry run, print one command of a stage
#   fresh_directory DIR                      an empty DIR; what a killed stage left in it stays
#   download SOURCE FILE SHA256              from the web, PyPI or --mirror; checked, resumed
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
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000} # threads that spin on and on stall where cores are shared

# Options
exp=$root/exp/$(basename "$(dirname "$recipe_script")") # directory of everything that is made
stage=0         # first stage to run; those before it must be done
stop_stage=99   # last stage to run
force=false     # run the stages again even where they are done
dry_run=false   # print every command of every stage and run nothing
mirror=         # directory of already downloaded files, asked before the network
needs_mb=500    # free disk space the recipe needs, in MB
# End of options

recipe_stage=     # NUMBER-NAME of the stage that runs
recipe_log=       # its log
recipe_hidden=    # true while the output of a command goes to the log only
recipe_at=        # file and line of the recipe that runs
recipe_job=       # process group of the command that runs
recipe_chain=     # what identifies the state of everything done so far
recipe_resuming=false

# Set recipe_at to the line of the recipe, outside this file, that is being run.
recipe_locate() {
    local frame=1
    while [[ ${BASH_SOURCE[frame]} == "${BASH_SOURCE[0]}" && -n ${BASH_SOURCE[frame + 1]:-} ]]; do
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
    if [[ -n $recipe_log ]]; then echo "$line" >>"$exp/recipe.log"; fi
}

# End the recipe with one line.
fatal() {
    local line="${recipe_script##*/}: ${recipe_stage:+stage $recipe_stage: }$*"
    line+=${recipe_stage:+; log: $recipe_log}
    recipe_stage= # or the end would say it again
    echo "$line" >&2
    [[ -z $recipe_log ]] || echo "$line" >>"$exp/recipe.log"
    exit 1
}

# --- options ---------------------------------------------------------------------------------

# Read the options from the command line, then lock and prepare EXP.
recipe_begin() {
    recipe_parse "$@"
    require_whole stage stop_stage needs_mb
    require_one_of force true false
    require_one_of dry_run true false
    [[ $exp == /* ]] || exp=$PWD/$exp
    [[ $dry_run == true ]] || recipe_open
}

# Print "NAME<tab>COMMENT" of every option that a script declares.
recipe_declared() {
    sed -n '/^# Options$/,/^# End of options$/p' "$1" |
        sed -nE -e 's/^([a-z][a-z0-9_]*)=([^#]*[[:space:]])?# (.*)$/\1\t\3/p' \
            -e 's/^ +# (.*)$/\t\1/p'
}

recipe_parse() {
    local name value
    local -A known=()
    while read -r name; do
        known[$name]=true
    done < <({ recipe_declared "$recipe_script"; recipe_declared "$recipe_lib/recipe.sh"; } |
        grep -o '^[a-z][a-z0-9_]*')
    while (($#)); do
        [[ $1 != -h && $1 != --help ]] || { recipe_help; exit 0; }
        [[ $1 == --?* ]] || fatal "unexpected argument '$1'; --help lists the options"
        name=${1#--}
        if [[ $name == *=* ]]; then
            set -- "--${name%%=*}" "${name#*=}" "${@:2}"
            name=${name%%=*}
        fi
        name=${name//-/_}
        [[ -n ${known[$name]:-} ]] || fatal "unknown option --$name; --help lists the options"
        if [[ ${!name} == false && ${2:-} != true && ${2:-} != false ]]; then
            value=true # a switch may stand alone
            shift
        else
            (($# > 1)) || fatal "option --$name needs a value"
            value=$2
            shift 2
        fi
        printf -v "$name" '%s' "$value"
    done
}

recipe_help() {
    local script name comment said=' '
    sed -nE '2,/^[^#]/s/^# ?//p' "$recipe_script"
    for script in "$recipe_script" "$recipe_lib/recipe.sh"; do
        printf '\n%s\n' "Options of ${script#"$root"/}, with their defaults:"
        while IFS= read -r comment; do
            name=${comment%%$'\t'*}
            [[ $said != *" $name "* ]] || continue # the run.sh's own default
            said+="${name:--} "
            [[ -z $name ]] || name="--$name ${!name:-\"\"}"
            printf '  %-24s %s\n' "$name" "${comment#*$'\t'}"
        done < <(recipe_declared "$script")
    done
}

# Each named option must hold a whole number.
require_whole() {
    local name
    for name; do
        [[ ${!name} =~ ^(0|[1-9][0-9]*)$ ]] ||
            fatal "--$name must be a whole number, got '${!name}'"
    done
}

# The named option must hold one of the values that follow.
require_one_of() {
    local name=$1 value
    for value in "${@:2}"; do
        [[ ${!name} != "$value" ]] || return 0
    done
    fatal "--$name must be one of ${*:2}, got '${!name}'"
}

# --- start and end ---------------------------------------------------------------------------

recipe_open() {
    local free
    { mkdir -p "$exp/log" "$exp/.done" && : >>"$exp/recipe.log"; } 2>/dev/null ||
        fatal "cannot write to $exp: no permission, no space or no directory"
    free=$(recipe_free_mb)
    ((free >= needs_mb)) ||
        fatal "too little disk space in $exp: $free MB free, $needs_mb MB needed (--needs_mb)"
    recipe_lock
    recipe_log=$exp/recipe.log
    trap 'recipe_end $?' EXIT
    trap 'recipe_interrupt 130' INT
    trap 'recipe_interrupt 143' TERM
    log "$recipe_script writes to $exp"
}

recipe_free_mb() { df -Pm "$exp" | awk 'NR == 2 { print $4 }'; }

# One run at a time in EXP. The commands of a run hold its lock too: where the run itself was
# killed, they are stopped, or they would write into what this run does.
recipe_lock() {
    local owner=0 group=0 lock
    command -v flock >/dev/null || fatal "needs flock (package util-linux)"
    exec {lock}<>"$exp/.lock"
    if ! flock -n "$lock"; then
        read -r owner group <"$exp/.lock" || true
        ! kill -0 "$owner" 2>/dev/null || fatal "process $owner is already running in $exp"
        log "the last run was killed: stopping the command it left behind (process group $group)"
        if ((group > 0)); then # 0 would be this process's own group
            kill -TERM -- "-$group" 2>/dev/null || true
            flock -w 10 "$lock" || kill -KILL -- "-$group" 2>/dev/null || true
        fi
        flock -w 10 "$lock" || fatal "another run holds $exp/.lock"
    fi
    echo "$$ 0" >"$exp/.lock"
}

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
            cause=": $(grep -v '^[[:space:]]*$' "$recipe_log" | tail -n 1 | cut -c 1-300)"
        fi
        echo "$(date '+%F %T') $recipe_at stage $recipe_stage failed with status $status$cause;" \
            "log: $recipe_log" | tee -a "$exp/recipe.log" >&2 || true
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
    for ((tries = 0; tries < 20; tries++)); do
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
# on the same data, set recipe_chain back to its value before the fork.
stage() {
    local number=$1 name=$1-$2 action=$3 key marker started
    marker=$exp/.done/$name
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
    rm -f "$marker"
    recipe_resuming=false
    if [[ $force == false && -e $marker.started && $(<"$marker.started") == "$key" ]]; then
        recipe_resuming=true
    fi
    echo "$key" >"$marker.started"
    recipe_stage=$name
    recipe_log=$exp/log/$name.log
    [[ $recipe_resuming == true ]] || : >"$recipe_log"
    log "stage $name$([[ $recipe_resuming == false ]] || echo ' goes on')"
    started=$(date +%s)
    "$action"
    recipe_chain=$(printf '%s\n%s %s s' "$key" "$(date '+%F %T.%N')" "$(($(date +%s) - started))")
    echo "$recipe_chain" >"$marker.part"
    mv "$marker.part" "$marker"
    rm -f "$marker.started"
    log "stage $name done in $(($(date +%s) - started)) s"
    recipe_stage=
    recipe_log=$exp/recipe.log
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

# run [-q | -p] [-i INPUT] [-o OUTPUT] COMMAND...
#
# What COMMAND prints goes to the stage's log, and to the terminal unless -q is given; with -p the
# terminal sees a fairseq command's progress only. OUTPUT takes its standard output and appears
# only when COMMAND succeeded.
run() {
    local OPTIND=1 OPTARG flag show=all input=/dev/null output='' shown status=0
    while getopts 'qpi:o:' flag; do
        case $flag in
        q) show=none ;;
        p) show=progress ;;
        i) input=$OPTARG ;;
        o) output=$OPTARG ;;
        *) fatal "run: unknown flag in $*" ;;
        esac
    done
    shift $((OPTIND - 1))
    shown=$(recipe_quote "$@")
    [[ $input == /dev/null ]] || shown+=" < $(recipe_quote "$input")"
    [[ -z $output ]] || shown+=" > $(recipe_quote "$output")"
    if [[ $dry_run == true ]]; then
        echo "$shown"
        return
    fi
    recipe_locate
    echo "$(date '+%F %T') $recipe_at $shown" >>"$recipe_log"
    [[ $show == all ]] || recipe_hidden=true
    # A job of its own process group, so that all of it can be stopped, also while bash waits.
    set -m
    recipe_execute "$@" &
    recipe_job=$!
    set +m
    echo "$$ $recipe_job" >"$exp/.lock"
    wait "$recipe_job" || status=$?
    recipe_job=
    if ((status != 0)); then exit "$status"; fi
    recipe_hidden=
    [[ -z $output ]] || mv "$output.part" "$output"
}

# Reads the variables of run; the job of its own that it is ends with COMMAND's status.
recipe_execute() {
    trap - EXIT INT TERM
    if [[ -n $output ]]; then
        "$@" <"$input" 2>&1 >"$output.part" | recipe_show
    else
        "$@" <"$input" 2>&1 | recipe_show
    fi
}

recipe_show() {
    case $show in
    none) cat >>"$recipe_log" ;;
    progress) python "$recipe_lib/progress.py" --log "$recipe_log" ;;
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

# read_flags ARRAY COMMAND...: set ARRAY to the words of the one line that COMMAND prints.
read_flags() {
    local -n recipe_words=$1
    local text
    if [[ $dry_run == true ]]; then
        # shellcheck disable=SC2034  # it is the caller's array
        recipe_words=("\$(${*:2})")
    else
        text=$("${@:2}")
        # shellcheck disable=SC2034  # it is the caller's array
        read -ra recipe_words <<<"$text"
    fi
}

# --- downloads -------------------------------------------------------------------------------

# download SOURCE FILE SHA256
#
# SOURCE is a URL, or pypi:NAME==VERSION for a file of PyPI's. A file of the same name in --mirror
# is taken instead. FILE appears only with the right checksum; a broken download goes on where it
# stopped.
download() {
    local source=$1 file=$2 checksum=$3 name=${2##*/}
    if [[ -e $file ]]; then
        check_sha256 "$file" "$checksum"
        return
    fi
    run -q mkdir -p "${file%/*}"
    if [[ -n $mirror && -e $mirror/$name ]]; then
        run -q cp "$mirror/$name" "$file.part"
    elif [[ $source == pypi:* ]]; then
        run -q python -m pip download --no-deps --ignore-requires-python \
            --dest "${file%/*}/pip" "${source#pypi:}"
        run -q mv "${file%/*}/pip/$name" "$file.part"
    else
        run curl --fail --location --retry 3 --continue-at - --output "$file.part" "$source"
    fi
    check_sha256 "$file.part" "$checksum"
    run -q mv "$file.part" "$file"
}

# End the recipe unless FILE has this checksum; a wrong download is removed.
check_sha256() {
    if [[ $dry_run == true ]]; then
        echo "echo '$2  $1' | sha256sum --check"
    elif [[ $(sha256sum "$1" | cut -d ' ' -f 1) != "$2" ]]; then
        [[ $1 != *.part ]] || rm -f "$1"
        fatal "$1: the checksum is not $2; $([[ $1 == *.part ]] || echo 'delete it and ')run again"
    fi
}
