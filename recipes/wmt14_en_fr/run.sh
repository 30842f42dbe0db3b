#!/usr/bin/env bash
# WMT 2014 English-French: from the raw archives, 36 million pairs, to newstest2014 (Table 2).
#
#   recipes/wmt14_en_fr/run.sh --gpus 8                      the big model, all stages
#   recipes/wmt14_en_fr/run.sh --gpus 8 --row base           the base model, on the same text
#   recipes/wmt14_en_fr/run.sh --gpus 8 --system both        compare with stock fairseq
#   recipes/wmt14_en_fr/run.sh --mirror DIR --stop_stage 4   only prepare the text, archives from DIR
#   recipes/wmt14_en_fr/run.sh --gpus 8 --dry_run            print every command, run none
#   on each of two nodes, R = 0 and 1:
#   recipes/wmt14_en_fr/run.sh --gpus 8 --nodes 2 --node_rank R --master HOST:29500
#   sbatch --nodes 2 --gpus-per-node 8 --cpus-per-task 64 recipes/slurm.sbatch \
#       recipes/wmt14_en_fr/run.sh --gpus 8 --nodes 2
#
# An interrupted run resumes where it stopped; stages whose options did not change are skipped.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/lib/recipe.sh
. "$here/../lib/recipe.sh"
# shellcheck source=recipes/lib/translation.sh
. "$recipe_lib/translation.sh"

# Options
exp=auto          # output directory; auto: exp/wmt14_SOURCE_TARGET
row=big_en_fr     # row to train: big_en_fr or base in Table 2
target_lang=fr    # language to translate to
vocabulary=32000  # word pieces of both languages together (section 5.1)
sample=1000000    # number of pairs, spread over the whole corpus, to learn the word pieces from
manifest=$here/corpus.toml # archives, their checksums, and the texts in each
# End of options

corpus_stages() { manifest_stages; }

# bash reads a script while running it; inside a function, later edits of this file have no effect.
main() {
    translation_options "$@"
    require_one_of source_lang en fr
    require_one_of target_lang fr en
    require_whole vocabulary sample
    text_mb=60000
    corpus_name=wmt14_${source_lang}_$target_lang
    systems_begin

    files=$exp/downloads
    # Word pieces are learned from untokenized text: they split what Moses would split.
    tokenizer=none limits=(--max-length 250 --max-ratio 1.5)
    pieces=word_pieces piece_flags=(--vocabulary "$vocabulary" --sample "$sample")

    translation_stages
    exit
}
main "$@"
