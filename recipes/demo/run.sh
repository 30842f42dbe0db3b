#!/usr/bin/env bash
# Train the paper's Transformer, and stock fairseq's, on real text in minutes; compare them.
#
#   recipes/demo/run.sh                              everything, 22 minutes on two CPU cores
#   recipes/demo/run.sh --dry_run                    show every command, run none
#   recipes/demo/run.sh --system aiayn --exp mine    only ours, in another directory
#   recipes/demo/run.sh --corpus DIR --max_update 6000 --exp exp/mine    your own text, longer
#   recipes/demo/run.sh --stage 7 --force            translate and score again
#
# A run that was stopped goes on where it was; stages whose options did not change are skipped.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/lib/recipe.sh
. "$here/../lib/recipe.sh"

# Options
system=both       # aiayn, stock or both
device=auto       # cpu, cuda or auto: cuda where there is a GPU
source=auto       # corpus: libreoffice, homeassistant, or auto: the first that can be had
corpus=           # directory of your own text instead: one pair of files NAME.SRC and NAME.TGT,
                  # or train.*, valid.* and test.*; .gz too
source_lang=en    # language to translate from
target_lang=de    # language to translate to: de or fr with the demo's own corpus
max_words=auto    # longest sentence of the training text, and of what is held out from it;
                  # auto: 12 words on a CPU with the demo's own corpus, otherwise 40
held_out=1000     # pairs of the development set, and of the test set, that are held out
bpe_codes=4000    # joint byte pair merges
max_tokens=auto   # tokens a batch; auto: as the row tiny on a CPU, 4096 on a GPU
max_update=auto   # updates; auto: as the row tiny on a CPU, 6000 on a GPU
interval=auto     # updates between checkpoints; auto: as the row tiny on a CPU, 500 on a GPU
average=5         # how many of the last checkpoints are averaged
seed=1            # of the weights, the order of batches and dropout
needs_mb=3000     # free disk space the demo needs, in MB
# End of options

recipe_begin "$@"
require_one_of system aiayn stock both
require_one_of device auto cpu cuda
require_one_of source auto libreoffice homeassistant
if [[ -z $corpus ]]; then
    require_one_of source_lang en
    require_one_of target_lang de fr
fi
require_whole held_out bpe_codes average seed
# shellcheck source=recipes/lib/translation.sh
. "$here/../lib/translation.sh"
# shellcheck source=recipes/demo/data.sh
. "$here/data.sh"

[[ $device != auto ]] || device=$(find_device)
if [[ $max_words == auto ]]; then
    max_words=40
    [[ $device == cuda || -n $corpus ]] || max_words=12
fi
require_whole max_words
corpus_state= # changed files run again
if [[ -n $corpus ]]; then
    [[ $corpus == /* ]] || corpus=$PWD/$corpus
    # shellcheck disable=SC2034  # stage 1 names it
    corpus_state=$(stat -c '%n %s %Y' "$corpus"/* 2>/dev/null || true)
fi

# What both systems share: the regime of the row tiny; a GPU has time for more.
budget() {
    read_flags regime aiayn flags tiny --gpus 1
    device_flags=()
    if [[ $device == cpu ]]; then
        device_flags=(--cpu)
    else
        regime+=(--max-tokens 4096 --max-update 6000 --save-interval-updates 500)
    fi
    regime+=("${device_flags[@]}" --keep-interval-updates "$average")
    [[ $max_tokens == auto ]] || regime+=(--max-tokens "$max_tokens")
    [[ $max_update == auto ]] || regime+=(--max-update "$max_update")
    [[ $interval == auto ]] || regime+=(--save-interval-updates "$interval")
}

# What they differ in. Flags that stand twice count the second time.
use_aiayn() {
    model=aiayn task=aiayn_translation search_flags=() # the paper's are its defaults
    train_flags=(--task "$task" "${regime[@]}")
    make_commands
}
use_stock() {
    model=stock task=translation
    search_flags=(--beam 4 --lenpen 0.6 --max-len-a 1 --max-len-b 50)
    train_flags=(--task "$task" "${regime[@]}" --arch transformer --share-all-embeddings
        --encoder-layers 3 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1024
        --encoder-attention-heads 4 --decoder-layers 3 --decoder-embed-dim 256
        --decoder-ffn-embed-dim 1024 --decoder-attention-heads 4
        --criterion label_smoothed_cross_entropy
        --lr-scheduler inverse_sqrt --warmup-init-lr 1e-7 --lr 0.00198) # as Eq. 3 at its peak
    make_commands
}

table() { run aiayn compare "${run_dirs[@]}" --output "$exp/table"; }

stage 0 set_up check_setup
stage 1 corpus get_corpus corpus corpus_state source source_lang target_lang
stage 2 split split_corpus max_words held_out
stage 2 tokenize tokenize
stage 3 pieces learn_pieces bpe_codes
stage 4 binarize binarize
budget
run_dirs=() states=()
data=$recipe_chain
for system in ${system/both/aiayn stock}; do
    recipe_chain=$data
    "use_$system"
    stage 5 "train-$system" train_model train
    stage 6 "average-$system" average_checkpoints average_last
    stage 7 "translate-$system" translate validate generate
    stage 8 "score-$system" score bleu
    run_dirs+=("$run_dir")
    states+=("$recipe_chain")
done
recipe_chain=${states[*]}
stage 9 table table run_dirs
