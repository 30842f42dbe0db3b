# shellcheck shell=bash
# The trees for training and testing; run.sh sources this file.
#
# EXP/lists has the treebank's files of each set. EXP/trees has the trees of each set: SET.trees, the
# normalized trees; SET.words, their words; SET.text, the words as input of the word pieces; SET.tree,
# the symbols to predict (section 6.3's linearization). Sets besides train, valid and test are in
# additional_sets: silver, augmented.

: "${exp:?}" "${here:?}" "${dry_run:?}" "${stop_stage:?}" "${prepared?}"

# Options
corpus=wsj        # wsj (needs --treebank) or gum (downloaded)
treebank=         # directory of bracketed trees, plain or .gz
lists=            # directory with the lists train, valid and test of files below --treebank;
                  # default: sections 02-21, 22 and 23 of Treebank-3's wsj
silver=           # files, or patterns of files, of automatically parsed trees, separated by spaces
                  # (semi-supervised)
tags=pos          # symbol for each word: its part of speech (pos) or always the same (XX)
augment=auto      # true: learn also from the phrases of the gold trees and from pairs of them
                  # (augment.py; not in the paper); auto: true for GUM alone, or else false
longest=512       # longest training tree, in symbols
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")
gum_commit=72ce5ac14978a324c2fd18d49484e65292cbe316 # release V11.1.0
gum_url=https://raw.githubusercontent.com/amir-zeldes/gum/$gum_commit/const

check_trees() {
    require_one_of corpus wsj gum
    require_one_of tags pos XX
    require_whole longest
    require_one_of augment auto true false
    silver_files=() additional_sets=() text_mb=2000
    if [[ -n $prepared ]]; then # the trees are there
        corpus_name=$(cat "$prepared/bin/corpus" 2>/dev/null) || corpus_name=$corpus
        # The training budget is the text's; that of a user's own sets is the WSJ's.
        [[ $corpus_name == gum?(_semi_supervised) ]] && corpus=gum || corpus=wsj
        [[ ! -e $prepared/bin/train1.words-tree.words.idx ]] || additional_sets=(prepared)
        return
    fi
    [[ $corpus == wsj || -z $treebank$lists ]] || fatal "--corpus gum takes no --treebank or --lists"
    [[ $corpus == gum || -n $treebank ]] ||
        fatal "--corpus wsj needs --treebank DIR, parsed/mrg/wsj of LDC's Treebank-3;" \
            "--corpus gum needs nothing"
    [[ -z $treebank || -d $treebank ]] || fatal "--treebank must be a directory, got '$treebank'"
    [[ -z $lists || -d $lists ]] || fatal "--lists must be a directory, got '$lists'"
    corpus_name=$corpus
    # A user's own sets are not the paper's or GUM's, whatever the directory is called.
    [[ -z $lists ]] || corpus_name=$(basename "$(realpath "$treebank")")_lists
    check_silver
    corpus_name+=${silver:+_semi_supervised}
    if [[ $corpus == gum && -z $silver ]]; then augment=${augment/auto/true}; fi
    augment=${augment/auto/false}
    [[ -z $silver ]] || additional_sets+=(silver)
    [[ $augment == false ]] || additional_sets+=(augmented)
}

# End the recipe if an input is where the recipe writes.
require_outside_exp() {
    local file
    [[ -z $treebank ]] || require_outside treebank "$treebank"
    [[ -z $lists ]] || require_outside lists "$lists"
    for file in "${silver_files[@]}"; do require_outside silver "$file"; done
}

check_silver() {
    local file megabytes
    for file in $silver; do # a pattern stands for the files that it matches
        [[ -f $file ]] || fatal "--silver must name files, there is no '$file'"
        [[ $file == /* ]] || file=$PWD/$file
        silver_files+=("$file")
        megabytes=$(($(stat -L -c %s "$file") / 1000000))
        [[ $file != *.gz ]] || megabytes=$((5 * megabytes)) # trees compress well
        text_mb=$((text_mb + 4 * megabytes)) # normalized, words, symbols, pieces, binaries
    done
}

# Download GUM's documents, without those of Reddit, which have blanks instead of words.
download_gum() {
    local checksum file
    while read -r checksum file <&3; do
        download "$gum_url/$file" "$exp/downloads/$file" "sha256:$checksum"
        if [[ $dry_run == true ]]; then
            echo "# and so on for each of the $(wc -l <"$here/gum/sha256") files in gum/sha256"
            return
        fi
    done 3<"$here/gum/sha256"
}

# Write the lists of the sets, which consist of whole documents.
list_trees() {
    run python "$here/list_trees.py" --treebank "$treebank" ${lists:+--lists "$lists"} \
        --output "$exp/lists"
}

write_trees() {
    local part write=(python "$here/write_trees.py" --tags "$tags")
    run -q rm -rf "$exp/trees"
    run "${write[@]}" --list "$exp/lists/train" --longest "$longest" --output "$exp/trees/train"
    for part in valid test; do
        run "${write[@]}" --list "$exp/lists/$part" --output "$exp/trees/$part"
    done
    [[ -z $silver ]] ||
        run "${write[@]}" --longest "$longest" --output "$exp/trees/silver" "${silver_files[@]}"
    if [[ $augment == true ]]; then
        run -q python "$here/augment.py" --output "$exp/trees/augmented.ptb" "$exp/trees/train.trees"
        run "${write[@]}" --longest "$longest" --output "$exp/trees/augmented" \
            "$exp/trees/augmented.ptb"
        run -q rm "$exp/trees/augmented.ptb"
    fi
}

corpus_stages() {
    local tree_files
    if [[ $corpus == gum ]]; then
        stage 1 download download_gum gum_url
        treebank=$exp/downloads lists=$here/gum
    fi
    # shellcheck disable=SC2034  # stage 2 uses it by name
    [[ $dry_run == true ]] || ((stop_stage < 2)) ||
        tree_files=$(list_files) # if files change, the stage runs again
    stage 2 lists list_trees treebank lists tree_files
    stage 2 trees write_trees tags longest silver_files augment
}

# Hash the paths, sizes and times of all files that may hold trees, following links.
list_files() {
    find -L "$treebank" ${lists:+"$lists"} "${silver_files[@]}" -type f -printf '%p %s %T@\n' |
        LC_ALL=C sort | sha256sum
}
