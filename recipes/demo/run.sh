#!/usr/bin/env bash
# Train the paper's Transformer and stock fairseq's on real text in minutes, and compare them.
#
#   recipes/demo/run.sh                              all stages, about 12 minutes on two CPU cores
#   recipes/demo/run.sh --dry_run                    print every command, run none
#   recipes/demo/run.sh --system aiayn --exp mine    only ours, in another directory
#   recipes/demo/run.sh --corpus DIR --max_update 6000 --exp exp/mine    your own text, more updates
#   recipes/demo/run.sh --stage 7                    translate and score again

# shellcheck source=recipes/lib.sh disable=SC2034,SC2154
. "$(dirname "$0")/../lib.sh"
# shellcheck source=recipes/training.sh
. "$recipes/training.sh"

# Options
exp=auto          # output directory; auto: exp/demo, for French exp/demo_fr
system=both       # aiayn, stock or both
row=tiny          # configuration to train; aiayn rows lists them
source=auto       # corpus: libreoffice, homeassistant, or auto: the first available
corpus=           # directory of your own text: one pair of files NAME.SRC and NAME.TGT, or train.*,
                  # valid.* and test.*; all may be .gz
source_lang=en    # language to translate from
target_lang=de    # language to translate to: de or fr with the demo's own corpus
max_words=auto    # longest sentence of the training text and of the sets held out from it;
                  # auto: 12 words on a CPU with the demo's own corpus, otherwise 40
held_out=1000     # pairs to hold out for the validation set, and as many for the test set
bpe_codes=4000    # joint byte pair merges
batch_tokens=auto # tokens per batch on each side; auto: the row's on a CPU, 4096 on a GPU
max_update=auto   # updates of the training; auto: the row's on a CPU, 6000 on a GPU
interval=auto     # updates between checkpoints; auto: the row's on a CPU, 500 on a GPU
# End of options

read_options "$@"
require_one_of source auto libreoffice homeassistant
require_whole held_out bpe_codes
if [[ -z $corpus ]]; then
    require_one_of source_lang en
    require_one_of target_lang de fr
fi
check_training
if [[ $max_words == auto ]]; then
    [[ $device == cuda || -n $corpus ]] && max_words=40 || max_words=12
fi
require_whole max_words
small_budget 6000 auto 500
# Validations take a seventh of a training on a CPU: none in its first half.
[[ $device$row$max_update != cputinyauto ]] ||
    train_options="--validate-after-updates 700 $train_options"
exp=${exp/#auto/"$root/exp/demo${target_lang/#de/}"}
[[ -z $corpus ]] || { require_outside corpus "$corpus" && corpus=$(realpath "$corpus"); }

here=$(dirname "$recipe")
# shellcheck source=recipes/demo/data.sh
. "$here/data.sh"
corpus_name=demo_${source_lang}_$target_lang manifest=$here/corpus.toml min_count=1
text_options=(corpus source max_words held_out)
tokenizer=moses limits=(--max-length 1000) # split.py has dropped what is too long
subwords=byte_pairs subword_flags=(--symbols "$bpe_codes")
if [[ $dry_run == false && $system$device$max_update == bothcpuauto && $row == tiny ]]; then
    log "the demo trains two models of 7 million parameters, ours and stock fairseq's, on sentences of" \
        "software documentation: about 12 minutes on two cores, most of it training"
fi
# shellcheck source=recipes/translation.sh
. "$recipes/translation.sh"; exit
