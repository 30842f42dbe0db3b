#!/usr/bin/env bash
# WMT 2014 English-German: from the raw archives to newstest2014 (Table 2) or newstest2013 (Table 3).
#
#   recipes/wmt14_en_de/run.sh --gpus 8                      the base model, all stages
#   recipes/wmt14_en_de/run.sh --gpus 8 --row big            the big model, on the same text
#   recipes/wmt14_en_de/run.sh --gpus 8 --system both        compare with stock fairseq
#   recipes/wmt14_en_de/run.sh --mirror DIR --stop_stage 4   only prepare the text, archives from DIR
#   recipes/wmt14_en_de/run.sh --gpus 8 --subset valid --average 1    as Table 3 measures
#   recipes/wmt14_en_de/run.sh --gpus 8 --dry_run            print every command, run none
#   on each of two nodes, R = 0 and 1:
#   recipes/wmt14_en_de/run.sh --gpus 8 --nodes 2 --node_rank R --master HOST:29500
#   sbatch --nodes 2 --gpus-per-node 8 --cpus-per-task 64 recipes/slurm.sbatch \
#       recipes/wmt14_en_de/run.sh --gpus 8 --nodes 2
#
# An interrupted run resumes where it stopped; stages whose options did not change are skipped.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/lib/recipe.sh
. "$here/../lib/recipe.sh"
# shellcheck source=recipes/lib/translation.sh
. "$recipe_lib/translation.sh"

# Options
exp=auto          # output directory; auto: exp/wmt14_SOURCE_TARGET
vocabulary=37000  # byte pairs and characters of both languages together (section 5.1)
min_count=2       # byte pairs are learned from words that occur at least this often; 1 takes three
                  # times the memory
manifest=$here/corpus.toml # archives, their checksums, and the texts in each
# End of options

corpus_stages() { manifest_stages; }

# bash reads a script while running it; inside a function, later edits of this file have no effect.
main() {
    translation_options "$@"
    require_one_of source_lang en de
    require_one_of target_lang de en
    require_whole vocabulary min_count
    text_mb=14000
    corpus_name=wmt14_${source_lang}_$target_lang
    systems_begin

    files=$exp/downloads
    tokenizer=moses normalize=(--normalize) limits=(--max-length 250 --max-ratio 1.5)
    pieces=byte_pairs piece_flags=(--symbols "$vocabulary" --total-symbols)

    translation_stages
    exit
}
main "$@"
