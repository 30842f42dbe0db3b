#!/usr/bin/env bash
# English constituency parsing (section 6.3): from bracketed trees to F1 on section 23 (Table 4).
#
#   recipes/wsj_parsing/run.sh --treebank wsj --gpus 8       wsj has Treebank-3's sections 02 to 23
#   recipes/wsj_parsing/run.sh --treebank wsj --silver "bllip.gz web.gz" --gold_copies 10 --gpus 8
#   recipes/wsj_parsing/run.sh --treebank DIR --lists DIR    any trees: DIR/{train,valid,test} list files
#   recipes/wsj_parsing/run.sh --corpus gum                  the GUM corpus, freely available
#   recipes/wsj_parsing/run.sh --corpus gum --constrained --stage 10    search only among trees

. "$(dirname "$0")/../training.sh"

# Options
exp=auto          # output directory; auto: exp/wsj_parsing/CORPUS
corpus=wsj        # wsj (needs --treebank) or gum (downloaded)
treebank=         # directory of bracketed trees, plain or .gz
lists=            # directory with the lists train, valid and test of files below --treebank;
                  # default: sections 02-21, 22 and 23 of Treebank-3's wsj
silver=           # files of automatically parsed trees (semi-supervised), or patterns, separated by spaces
tags=pos          # symbol for each word: its part of speech (pos) or always the same (XX)
augment=auto      # true: learn also from the phrases of the gold trees and from pairs of them (not in
                  # the paper); auto: true for GUM alone, or else false
longest=512       # longest training tree, in symbols
vocabulary=auto   # word pieces; auto: 16000, with --silver 32000 (section 6.3), for GUM alone 4000
gold_copies=1     # copies of each gold tree in the training data; one of each of --silver and --augment
dropouts=auto     # P_drop of sub-layers and attention weights; of several, separated by spaces, the
                  # best on the validation set is used; auto: 0.1 0.2 0.3 on a GPU, 0.1 on a CPU
constrained=false # search only among trees over the words; not for --system stock
row=auto          # configuration to train; auto: parsing on a GPU, parsing_tiny on a CPU
# End of options

read_options "$@"
require_one_of corpus wsj gum
require_one_of tags pos XX
require_one_of augment auto true false
require_whole 1 "$most" '' longest gold_copies
require_whole 1 "$most" auto vocabulary
check_training
if [[ $device == cuda ]]; then
    row=${row/#auto/parsing} dropouts=${dropouts/#auto/0.1 0.2 0.3}
    [[ $corpus != gum ]] || small_budget 12000 4000 600
fi
row=${row/#auto/parsing_tiny} dropouts=${dropouts/#auto/0.1}

here=$(dirname "$recipe") corpus_name=$corpus silver_files=() checksums=/dev/null
for file in $silver; do # a pattern stands for the files that it matches
    [[ -f $file ]] || fatal "--silver must name files, there is no '$file'"
    require_outside silver "$file"
    silver_files+=("$(realpath -- "$file")")
done
if [[ $corpus == gum ]]; then
    [[ -z $treebank$lists ]] || fatal "--corpus gum takes no --treebank or --lists"
    # Release V11.1.0, without the documents of Reddit, which have blanks instead of words.
    url=https://raw.githubusercontent.com/amir-zeldes/gum/72ce5ac14978a324c2fd18d49484e65292cbe316/const
    checksums=$here/gum/sha256 lists=$here/gum
    [[ -n $silver ]] || augment=${augment/auto/true} vocabulary=${vocabulary/auto/4000}
else
    [[ -d $treebank ]] || fatal "--corpus wsj needs --treebank DIR, parsed/mrg/wsj of LDC's" \
        "Treebank-3, got '$treebank'; --corpus gum needs nothing"
    [[ -z $lists || -d $lists ]] || fatal "--lists must be a directory, got '$lists'"
    treebank=$(realpath -- "$treebank") programs=()
    # A user's own sets are not the paper's or GUM's, whatever the directory is called.
    [[ -z $lists ]] || { lists=$(realpath -- "$lists") && corpus_name=${treebank##*/}_lists; }
fi
[[ -z $silver ]] || vocabulary=${vocabulary/auto/32000} corpus_name+=_semi_supervised
augment=${augment/auto/false} vocabulary=${vocabulary/auto/16000}
. "$recipes/parsing.sh"; exit
