# shellcheck shell=bash
# Reads a recipe's options from the command line and shows them in --help. Sourced by recipe.sh.

: "${recipe_script:?}" "${recipe_lib:?}" "${root:?}" "${force:?}" "${dry_run:?}" "${mirror?}"
: "${recipe_option_files[@]?}" "${exp?}" "${needs_mb:?}"

# Read the options from the command line.
recipe_options() {
    recipe_parse "$@"
    require_whole stage stop_stage
    [[ $needs_mb == auto ]] || require_whole needs_mb
    require_one_of force true false
    [[ ${SLURM_RESTART_COUNT:-0} == 0 ]] || force=false # a requeued job resumes
    require_one_of dry_run true false
    [[ -n $exp ]] || fatal "--exp must be a directory, got ''"
    [[ -z $mirror || $mirror == /* ]] || mirror=$PWD/$mirror
    [[ -z $mirror || -d $mirror ]] || fatal "--mirror must be a directory, got '$mirror'"
}

# Print "NAME<tab>COMMENT" for every option that a script declares.
recipe_declared() {
    sed -n '/^# Options$/,/^# End of options$/p' "$1" |
        sed -nE -e 's/^([a-z][a-z0-9_]*)=([^#]*[[:space:]])?# (.*)$/\1\t\3/p' \
            -e 's/^ +# (.*)$/\t\1/p'
}

recipe_parse() {
    local name value file
    local -A known=() # "=" and the default of each option
    while read -r name; do
        known[$name]="=${!name}"
    done < <(for file in "${recipe_option_files[@]}"; do recipe_declared "$file"; done |
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
        if [[ ${known[$name]} == "=false" && ${2:-} != true && ${2:-} != false ]]; then
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
    for script in "${recipe_option_files[@]}"; do
        printf '\n%s\n' "Options of ${script#"$root"/}, with their defaults:"
        while IFS= read -r comment; do
            name=${comment%%$'\t'*}
            [[ $said != *" $name "* ]] || continue # run.sh has its own default
            said+="${name:--} "
            [[ -z $name ]] || name="--$name ${!name:-\"\"}"
            printf '  %-24s %s\n' "$name" "${comment#*$'\t'}"
        done < <(recipe_declared "$script")
    done
}

# words_of ARRAY VALUE: set ARRAY to the words of an option's value, which spaces or line ends
# separate.
words_of() { read -rd '' -a "$1" <<<"$2" || true; } # it fails where the text ends

# End the recipe unless each named option is a whole number.
require_whole() {
    local name
    for name; do
        [[ ${!name} =~ ^(0|[1-9][0-9]*)$ ]] ||
            fatal "--$name must be a whole number, got '${!name}'"
    done
}

# End the recipe unless the named option has one of the values that follow.
require_one_of() {
    local name=$1 value
    for value in "${@:2}"; do
        [[ ${!name} != "$value" ]] || return 0
    done
    fatal "--$name must be one of ${*:2}, got '${!name}'"
}

# End the recipe unless the named option has distinct whole numbers, separated by spaces.
require_seeds() {
    local name=$1 one
    [[ ${!name} == *[![:space:]]* ]] ||
        fatal "--$name must be at least one whole number, got '${!name}'"
    for one in ${!name}; do
        [[ $one =~ ^(0|[1-9][0-9]*)$ ]] || fatal "--$name must be whole numbers, got '$one'"
    done
    require_distinct "$name"
}

# require_distinct NAME: end the recipe if a word stands twice in the option's value.
require_distinct() {
    local name=$1 one seen=' '
    for one in ${!name}; do
        [[ $seen != *" $one "* ]] || fatal "--$name must differ from each other, got '$one' twice"
        seen+="$one "
    done
}
