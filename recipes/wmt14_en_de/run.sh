#!/usr/bin/env bash
# WMT 2014 English-German: from the raw archives to newstest2014 (Table 2) or newstest2013 (Table 3).
#
#   recipes/wmt14_en_de/run.sh --gpus 8                      the model of Table 2, all stages
#   recipes/wmt14_en_de/run.sh --gpus 8 --system both        compare with stock fairseq
#   recipes/wmt14_en_de/run.sh --mirror DIR --stop_stage 4   only prepare the text, archives from DIR
#   recipes/wmt14_en_de/run.sh --gpus 8 --subset valid --average 1    as Table 3 measures
# recipes/README.md has the stages, several nodes and Slurm.

. "$(dirname "$0")/../training.sh"

# Options
row=base          # configuration to train: base or big in Table 2
source_lang=en    # language to translate from
target_lang=de    # language to translate to
vocabulary=37000  # byte pairs and characters of both languages together (section 5.1)
min_count=2       # learn byte pairs from words that occur this often; 1 takes three times the memory
manifest=$(dirname "$recipe")/corpus.toml # archives, their checksums, and the texts in each
# End of options

read_options "$@"
require_one_of source_lang en de
require_one_of target_lang de en
require_whole 1 "$most" '' vocabulary min_count
check_training
corpus_name=wmt14_${source_lang}_$target_lang
tokenizer=moses normalize=(--normalize) limits=(--max-length 250 --max-ratio 1.5)
subwords=byte_pairs subword_flags=(--symbols "$vocabulary" --total-symbols)
. "$recipes/translation.sh"; exit
