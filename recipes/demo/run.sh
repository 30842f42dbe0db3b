#!/usr/bin/env bash
# Train the paper's Transformer and stock fairseq's on real text in minutes, and compare them.
#
#   recipes/demo/run.sh                              all stages; make demo adds --side_by_side
#   recipes/demo/run.sh --dry_run                    print every command, run none
#   recipes/demo/run.sh --system aiayn --exp mine    only ours, in another directory
#   recipes/demo/run.sh --corpus DIR --max_update 6000 --exp exp/mine    your own text, more updates
#   recipes/demo/run.sh --stage 7                    translate and score again

. "$(dirname "$0")/../training.sh"

# Options
exp=auto          # output directory; auto: exp/demo, for French exp/demo_fr
system=both       # aiayn, stock or both
row=tiny          # configuration to train; aiayn rows lists them
corpus=           # directory of your own text: one pair of files NAME.SRC and NAME.TGT, or train.*,
                  # valid.* and test.*; all may be .gz
source_lang=en    # language to translate from
target_lang=de    # language to translate to
max_words=auto    # longest sentence of the training text and of the sets held out from it;
                  # auto: 12 words on a CPU with the demo's own corpus, otherwise 40
held_out=1000     # pairs to hold out for the validation set, and as many for the test set
bpe_codes=4000    # joint byte pair merges
side_by_side=false # train both systems at the same time, each with half of the cores; figures differ
                  # from those of one after the other as much as those of another CPU
# End of options

read_options "$@"
require_whole 1 "$most" '' held_out bpe_codes
require_whole 1 1000 auto max_words
[[ -n $corpus ]] || require_one_of source_lang en
check_training
if [[ $max_words == auto ]]; then
    [[ $device == cuda || -n $corpus ]] && max_words=40 || max_words=12
fi
small_budget 6000 auto 500
# Validations take a seventh of a training on a CPU: none in its first half.
[[ $device$row$max_update != cputinyauto ]] ||
    train_options="--validate-after-updates 700 $train_options"
[[ $exp != auto ]] || exp=$root/exp/demo$([[ $target_lang == de ]] || echo "_$target_lang")
[[ -z $corpus ]] || { require_outside corpus "$corpus" && corpus=$(realpath -- "$corpus"); }

here=$(dirname "$recipe")
. "$here/data.sh"
corpus_name=demo_${source_lang}_$target_lang manifest=$here/corpus.toml min_count=1
text_options=(corpus max_words held_out)
programs=()
[[ -n $corpus ]] || programs=(apt-get apt-cache dpkg-deb)
tokenizer=moses limits=(--max-length 1000) # prepare.py has dropped what is too long
subwords=byte_pairs subword_flags=(--symbols "$bpe_codes") vocabulary=$bpe_codes
if [[ -z $corpus && $dry_run == false && $system$device$max_update == bothcpuauto && $row == tiny ]]; then
    log "the demo trains two models of 7 million parameters, ours and stock fairseq's, on sentences of" \
        "software documentation: about 11 minutes on two cores, most of it training"
fi
. "$recipes/translation.sh"; exit
