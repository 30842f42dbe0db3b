#!/usr/bin/env bash
# WMT 2014 English-French: from the raw archives to newstest2014 (Table 2) or newstest2013 (Table 3).
#
#   recipes/wmt14_en_fr/run.sh --gpus 8                      the model of Table 2, all stages
#   recipes/wmt14_en_fr/run.sh --gpus 8 --system both        compare with stock fairseq
#   recipes/wmt14_en_fr/run.sh --mirror DIR --stop_stage 4   only prepare the text, archives from DIR
#   recipes/wmt14_en_fr/run.sh --gpus 8 --subset valid --average 1    as Table 3 measures
# recipes/README.md has the stages, several nodes and Slurm.

. "$(dirname "$0")/../training.sh"

# Options
row=big_en_fr     # configuration to train: big_en_fr or base in Table 2
source_lang=en    # language to translate from
target_lang=fr    # language to translate to
vocabulary=32000  # word pieces of both languages together (section 5.1)
manifest=$(dirname "$recipe")/corpus.toml # archives, their checksums, and the texts in each
# End of options

read_options "$@"
require_one_of source_lang en fr
require_one_of target_lang fr en
require_whole 1 "$most" '' vocabulary
check_training
corpus_name=wmt14_${source_lang}_$target_lang
# Word pieces are learned from untokenized text: they split what Moses would split.
tokenizer=none limits=(--max-length 250 --max-ratio 1.5)
min_count=1 subwords=word_pieces subword_flags=(--vocabulary "$vocabulary" --sample 1000000)
. "$recipes/translation.sh"; exit
