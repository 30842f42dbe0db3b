#!/usr/bin/env bash
# Multi30k task 1, English-German or English-French: 29,000 captions, minutes on one GPU.
#
#   recipes/multi30k/run.sh --system both                    the base model and stock fairseq's
#   recipes/multi30k/run.sh --target_lang fr
#   recipes/multi30k/run.sh --max_update 2000                without a GPU: the row tiny
#   recipes/multi30k/run.sh --mirror DIR                     the nine files are in DIR already
#   recipes/multi30k/run.sh --dry_run                        show every command, run none
#
# A run that was stopped goes on where it was; stages whose options did not change are skipped.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=recipes/lib/recipe.sh
. "$here/../lib/recipe.sh"
# shellcheck source=recipes/lib/translation.sh
. "$recipe_lib/translation.sh"

# Options
exp=auto          # directory of everything that is made; auto: exp/multi30k_SOURCE_TARGET
row=auto          # row to train; auto: base on a GPU, tiny on a CPU
batch_tokens=auto # tokens of a batch, on either side; auto: the row's on a CPU, 4096 on a GPU
max_update=auto   # updates; auto: the row's on a CPU, 4000 on a GPU
warmup=auto       # updates of the warm-up; auto: the row's on a CPU, 2000 on a GPU
interval=auto     # updates between checkpoints; auto: the row's on a CPU, 400 on a GPU
bpe_codes=8000    # joint byte pair merges
manifest=$here/corpus.toml # files with their checksums
needs_mb=3000     # disk space the recipe needs, in MB; on a GPU 7000 more
# End of options

corpus_stages() { manifest_stages; }

# bash reads a script while it runs: what is changed in this file meanwhile must not be run.
main() {
    translation_options "$@"
    require_one_of source_lang en de fr
    require_one_of target_lang de fr en
    require_whole bpe_codes
    if [[ $device == cuda ]]; then # 29,000 captions are 15 batches of 25,000 tokens
        row=${row/auto/base} batch_tokens=${batch_tokens/auto/4096}
        max_update=${max_update/auto/4000} warmup=${warmup/auto/2000}
        interval=${interval/auto/400} needs_mb=$((needs_mb + 7000))
    fi
    row=${row/auto/tiny}
    [[ $exp != auto ]] || exp=$root/exp/multi30k_${source_lang}_$target_lang
    systems_begin

    corpus_name=multi30k_${source_lang}_$target_lang files=$exp/downloads
    tokenizer=moses normalize=(--normalize) limits=(--max-length 250 --max-ratio 1.5)
    pieces=byte_pairs piece_flags=(--symbols "$bpe_codes")

    translation_stages
    exit
}
main "$@"
