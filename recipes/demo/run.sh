#!/usr/bin/env bash
# Train the paper's Transformer and stock fairseq's on real text in minutes, and compare them.
#
#   recipes/demo/run.sh                              all stages, 20 minutes on two CPU cores
#   recipes/demo/run.sh --dry_run                    print every command, run none
#   recipes/demo/run.sh --system aiayn --exp mine    only ours, in another directory
#   recipes/demo/run.sh --corpus DIR --max_update 6000 --exp exp/mine    your own text, more updates
#   recipes/demo/run.sh --stage 7 --force            translate and score again
#
# An interrupted run resumes where it stopped; stages whose options did not change are skipped.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/lib/recipe.sh
. "$here/../lib/recipe.sh"
# shellcheck source=recipes/lib/translation.sh
. "$recipe_lib/translation.sh"

# Options
exp=auto          # output directory; auto: exp/demo, for French exp/demo_fr
system=both       # aiayn, stock or both
row=tiny          # row to train; aiayn rows lists them
source=auto       # corpus: libreoffice, homeassistant, or auto: the first available
corpus=           # directory of your own text: one pair of files NAME.SRC and NAME.TGT, or train.*,
                  # valid.* and test.*; all may be .gz
target_lang=de    # language to translate to: de or fr with the demo's own corpus
max_words=auto    # longest sentence of the training text and of the sets held out from it;
                  # auto: 12 words on a CPU with the demo's own corpus, otherwise 40
held_out=1000     # pairs to hold out for the development set, and as many for the test set
bpe_codes=4000    # joint byte pair merges
batch_tokens=auto # tokens per batch on each side; auto: the row's on a CPU, 4096 on a GPU
max_update=auto   # updates of the training; auto: the row's on a CPU, 6000 on a GPU
interval=auto     # updates between checkpoints; auto: the row's on a CPU, 500 on a GPU
# End of options

corpus_stages() {
    stage 1 corpus get_corpus corpus corpus_state source source_lang target_lang
    stage 2 split split_corpus max_words held_out
}

# bash reads a script while running it; inside a function, later edits of this file have no effect.
main() {
    translation_options "$@"
    require_one_of source auto libreoffice homeassistant
    if [[ -z $corpus ]]; then
        require_one_of source_lang en
        require_one_of target_lang de fr
    fi
    require_whole held_out bpe_codes
    if [[ $exp == auto ]]; then # another language must not replace the text of a training
        exp=$root/exp/demo
        [[ $target_lang == de ]] || exp+=_$target_lang
    fi
    [[ -z $corpus ]] || require_outside corpus "$corpus"
    text_mb=1000
    systems_begin
    # shellcheck source=recipes/demo/data.sh
    . "$here/data.sh"

    if [[ $max_words == auto ]]; then
        max_words=40
        [[ $device == cuda || -n $corpus ]] || max_words=12
    fi
    require_whole max_words
    small_budget 6000 auto 500
    corpus_state= # if files change, the stage runs again
    if [[ -n $corpus ]]; then
        [[ $corpus == /* ]] || corpus=$PWD/$corpus
        # shellcheck disable=SC2034  # stage 1 uses it by name
        corpus_state=$(stat -c '%n %s %Y' "$corpus"/* 2>/dev/null || true)
    fi

    corpus_name=demo_${source_lang}_$target_lang
    manifest=$recipe_lib/split.toml files=$exp/data # as split_corpus.py leaves them
    tokenizer=moses limits=(--max-length 1000) # split_corpus.py has dropped what is too long
    pieces=byte_pairs piece_flags=(--symbols "$bpe_codes")

    translation_stages
    exit
}
main "$@"
