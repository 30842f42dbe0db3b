#!/usr/bin/env bash
# English constituency parsing (section 6.3): from bracketed trees to F1 on section 23 (Table 4).
#
#   recipes/wsj_parsing/run.sh --treebank wsj --gpus 8       wsj has Treebank-3's sections 02 to 23
#   recipes/wsj_parsing/run.sh --treebank wsj --silver "bllip.gz web.gz" --gold_copies 10 --gpus 8
#   recipes/wsj_parsing/run.sh --treebank DIR --lists DIR    any trees: DIR/{train,valid,test} list files
#   recipes/wsj_parsing/run.sh --corpus gum                  the GUM corpus, freely available
#   recipes/wsj_parsing/run.sh --corpus gum --system both    compare with stock fairseq
#   recipes/wsj_parsing/run.sh --corpus gum --constrained --stage 10    search only among trees
#   recipes/wsj_parsing/run.sh --corpus gum --dry_run        print every command, run none
#
# An interrupted run resumes where it stopped; stages whose options did not change are skipped.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/lib/recipe.sh
. "$here/../lib/recipe.sh"
# shellcheck source=recipes/wsj_parsing/parsing.sh
. "$here/parsing.sh"

# Options
exp=auto          # output directory; auto: exp/wsj_parsing/CORPUS
row=auto          # row to train; auto: parsing on a GPU, parsing_tiny on a CPU
batch_tokens=auto # tokens per batch on each side; auto: the row's, but 4096 for GUM on a GPU
max_update=auto   # updates of the training; auto: the row's, but 12000 for GUM on a GPU
warmup=auto       # updates of the warm-up; auto: the row's, but 4000 for GUM on a GPU
interval=auto     # updates between checkpoints; auto: the row's, but 600 for GUM on a GPU
# End of options

# bash reads a script while running it; inside a function, later edits of this file have no effect.
main() {
    recipe_options "$@"
    check_systems
    check_trees
    if [[ $device == cuda ]]; then
        row=${row/auto/parsing} dropouts=${dropouts/auto/0.1 0.2 0.3}
        [[ $corpus != gum ]] || small_budget 12000 4000 600
    fi
    row=${row/auto/parsing_tiny} dropouts=${dropouts/auto/0.1}
    check_parsing
    [[ $exp != auto ]] || exp=$root/exp/wsj_parsing/$corpus_name
    require_outside_exp
    systems_begin

    parsing_stages
    exit
}
main "$@"
