# The options of a recipe: read from the command line, shown by --help, kept beside what they made.
# Sourced by lib.sh.

# Set the options that the command line gives as --NAME VALUE or --NAME=VALUE.
read_options() {
    local name
    local -A switch=() # options, and whether they may stand without a value
    given=("$@")
    for name in $(option_names "${option_files[@]}"); do
        switch[$name]=$([[ ${!name} == false ]] && echo true || echo false)
    done
    while (($#)); do
        [[ $1 != -h && $1 != --help ]] || { help; exit 0; }
        [[ $1 == --?* ]] || fatal "unexpected argument '$1'; --help lists the options"
        name=${1#--}
        if [[ $name == *=* ]]; then
            set -- "--${name%%=*}" "${name#*=}" "${@:2}"
            name=${name%%=*}
        fi
        name=${name//-/_}
        [[ -n ${switch[$name]:-} || " $after_dashes " != *" $name "* ]] ||
            fatal "--$name is an option of the corpus's recipe, it stands after --:" \
                "${recipe#"$root"/} -- $(quoted "${@:1:2}")"
        [[ -n ${switch[$name]:-} ]] || fatal "unknown option --$name: --help lists all"
        if [[ ${switch[$name]} == true && ${2:-} != true && ${2:-} != false ]]; then
            set -- "$1" true "${@:2}"
        fi
        (($# > 1)) || fatal "option --$name needs a value"
        printf -v "$name" '%s' "$2"
        shift 2
    done
    require_whole 0 99 '' stage stop_stage
    [[ ${SLURM_RESTART_COUNT:-0} == 0 ]] || force=false stage=0 # a requeued job goes on
    [[ $force == false || $stage != 0 ]] || stage=1
    [[ -z $mirror || -d $mirror ]] || fatal "--mirror must be a directory, got '$mirror'"
    mirror=${mirror:+$(realpath -- "$mirror")}
    find_package
    [[ $dry_run == false ]] || echo "export PATH=$(quoted "$PATH") PYTHONPATH=$(quoted "$PYTHONPATH")" \
        "PYTHONUTF8=1 PYTHONSAFEPATH=1"
}

# Print the names of the options that scripts declare.
option_names() { sed -nE '/^# Options$/,/^# End/s/^([a-z][a-z0-9_]*)=.*/\1/p' "$@"; }

# Set plugin to the package of the environment that is active or that --venv names, and PYTHONPATH so
# that python takes it, too. What lies beside the recipes may be anybody's.
find_package() {
    [[ -z $venv || -x $venv/bin/aiayn ]] || fatal "--venv must have bin/aiayn, got '$venv'"
    [[ -z $venv ]] || PATH=$(realpath -- "$venv")/bin:$PATH
    command -v aiayn >/dev/null || fatal "aiayn is not on PATH: activate its environment" \
        "(after make setup: . .venv/bin/activate), name it by --venv DIR, or install it (pip install .)"
    plugin=$(aiayn user-dir) || fatal "aiayn user-dir failed"
    PYTHONPATH=$(tr -s : <<<"${plugin%/*}:${PYTHONPATH:-}") # an empty part would be the current directory
    export PYTHONPATH=${PYTHONPATH%:}
}

# Print the comment at the head of the recipe, and the options as they are declared.
help() {
    local file
    sed -nE '2,/^$/s/^# ?//p' "$recipe"
    for file in "${option_files[@]}"; do
        printf '\n%s\n' "Options of ${file#"$root"/}, with their defaults (of two, the first):"
        sed -nE '/^# Options$/,/^# End/{
            /^# /d; s/^([a-z0-9_]+)=([^#]*)# /--\1 \2/; s/^( +)# /\1  /; s/^/  /p }' "$file"
    done
}

# require_whole LEAST MOST WORD NAME...: end the recipe unless each named option is WORD or a whole
# number from LEAST to MOST.
require_whole() {
    local name
    for name in "${@:4}"; do
        [[ -n $3 && ${!name} == "$3" ]] ||
            { [[ ${!name} =~ ^(0|[1-9][0-9]{0,8})$ ]] && ((${!name} >= $1 && ${!name} <= $2)); } ||
            fatal "--$name must be ${3:+$3 or }a whole number from $1 to $2, got '${!name}'"
    done
}

# require_one_of NAME VALUE...: end the recipe unless the named option has one of these values.
require_one_of() {
    local name=$1 value
    for value in "${@:2}"; do [[ ${!name} != "$value" ]] || return 0; done
    fatal "--$name must be one of ${*:2}, got '${!name}'"
}

# of_task RUN...: print the run of this task of a Slurm array; all of them outside of an array.
of_task() {
    local task=${SLURM_ARRAY_TASK_ID:-}
    # Before it is used as a number: a command in it would run.
    [[ -z $task ]] || { [[ $task =~ ^(0|[1-9][0-9]{0,8})$ ]] && ((task < $#)); } ||
        fatal "there are $# runs, numbers 0 to $(($# - 1)), got $task"
    if [[ -z $task ]]; then echo "$@"; else echo "${@:task+1:1}"; fi
}

# require_outside NAME PATH: end the recipe if what the user gave is where the recipe writes.
require_outside() {
    [[ $(realpath -m -- "$2")/ != "$(realpath -m -- "$exp")"/* ]] ||
        fatal "--$1 must not be inside --exp $exp, whose content the recipe replaces; got '$2'"
}

# keep_options FILE MADE NAME...: write the values of these options to FILE. If FILE has other values
# and MADE was made with them, end the recipe or, with --force, remove MADE. Further lines of FILE, of
# options that a recipe had once, do not count.
keep_options() {
    local file=$1 made=$2 values name old new
    ((node_rank == 0)) && [[ $dry_run == false ]] || return 0
    values=$(for name in "${@:3}"; do echo "$name=${!name@Q}"; done)
    if [[ -e $made ]] && new=$(grep -Fxv -m 1 -f <(cat "$file" 2>/dev/null) <<<"$values"); then
        old=$(grep -m 1 "^${new%%=*}=" "$file" 2>/dev/null) || old="unknown options"
        [[ $force == true ]] ||
            fatal "${file%/*} was made with $old, not with $new:" \
                "--exp DIR makes another beside it, --force replaces it"
        rm -rf "${file%/*}/.done" "$made"
    fi
    write_whole "$file" "$values"
}

# write_whole FILE TEXT: replace FILE in one step; readers see the old text or the new one.
write_whole() {
    echo "$2" >"$parts/${1##*/}"
    mv "$parts/${1##*/}" "$1"
}
