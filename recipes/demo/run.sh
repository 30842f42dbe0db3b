#!/usr/bin/env bash
# Train the paper's Transformer and stock fairseq's on real text in minutes, and compare them.
#
#   recipes/demo/run.sh                              all stages; make demo adds --side_by_side
#   recipes/demo/run.sh --dry_run                    print every command, run none
#   recipes/demo/run.sh --system aiayn --exp mine    only ours, in another directory
#   recipes/demo/run.sh --stage 7                    translate and score again

. "$(dirname "$0")/../training.sh"

# Options
exp=auto          # output directory; auto: exp/demo, for French exp/demo_fr
system=both       # aiayn, stock or both
row=demo          # configuration to train; aiayn rows lists them
target_lang=de    # language to translate to from English
max_words=auto    # longest sentence; auto: 12 words on a CPU, otherwise 40
held_out=1000     # pairs to hold out for the validation set, and as many for the test set
bpe_codes=4000    # joint byte pair merges
side_by_side=false # train both systems at the same time, each with half of the cores: other figures
# End of options

read_options "$@"
require_whole 1 "$most" '' held_out bpe_codes
require_whole 1 1000 auto max_words
check_training
[[ $device == cuda ]] || max_words=${max_words/auto/12}
max_words=${max_words/auto/40}
small_budget 6000 auto 500
# On a CPU, a validation takes as long as ten updates: there are some at the end only.
[[ $device$row$max_update != cpudemoauto ]] ||
    train_options="--validate-after-updates 1300 $train_options"
[[ $exp != auto ]] || exp=$root/exp/demo$([[ $target_lang == de ]] || echo "_$target_lang")

here=$(dirname "$recipe")
. "$here/data.sh"
source_lang=en corpus_name=demo_en_$target_lang manifest=$here/corpus.toml min_count=1
text_options=(max_words held_out) programs=(apt-get apt-cache dpkg-deb)
tokenizer=moses limits=(--max-length 1000) # prepare.py has dropped what is too long
subwords=byte_pairs subword_flags=(--symbols "$bpe_codes") vocabulary=$bpe_codes
[[ $dry_run$system$device$max_update$row != falsebothcpuautodemo ]] ||
    log "two trainings on software documentation, ours and stock fairseq's: 9 minutes on two Zen 3 cores"
. "$recipes/translation.sh"; say_what_next; exit
