#!/usr/bin/env bash
# A text of your own: from plain files to a model and its scores, with what fits the size of the text.
#
#   recipes/own_text/run.sh --corpus DIR --source_lang de --target_lang en    DIR/train.de, DIR/train.en
#   recipes/own_text/run.sh ... --system both                  beside stock fairseq, on the same text
#   recipes/own_text/run.sh ... --row tiny --vocabulary 4000   what is given is not chosen
#   recipes/own_text/run.sh ... --from MODEL                   go on with a run or an exported model

. "$(dirname "$0")/../training.sh"

# Options
corpus=           # directory of train.SOURCE and train.TARGET, or train.tsv (source TAB target), and
                  # of valid.* (or dev.*) and test.*, which else are held out; all may be .gz
source_lang=      # language to translate from, a code such as de or pt_BR
target_lang=      # language to translate to
from=             # run or exported model to fine-tune, with its subwords and its dictionary
exp=auto          # output directory; auto: exp/own_text_SOURCE_TARGET
row=auto          # configuration to train; auto, also for what follows: by the number of pairs
vocabulary=auto   # byte pair merges or, without spaces between words, SentencePiece pieces
held_out=1000     # pairs to hold out for a set that is missing; of a small text, about a twentieth
patience=auto     # checkpoints without a better validation loss after which to stop, or never;
                  # auto: 10, with a --row or --max_update of yours never
side_by_side=false # train both systems at the same time, each with half of the cores
# End of options

read_options "$@"
require_whole 1 "$most" '' held_out
require_whole 1 "$most" auto vocabulary
for name in source_lang target_lang; do
    [[ ${!name} =~ ^[A-Za-z]{2,3}(_[A-Za-z0-9]+)*$ ]] ||
        fatal "--$name must be a code such as de or pt_BR, got '${!name}'"
done
[[ $source_lang != "$target_lang" ]] || fatal "--source_lang and --target_lang are both $source_lang"
[[ -d $corpus ]] || fatal "--corpus must be a directory with your text, got '$corpus'"
[[ -z $from || $system$row$vocabulary == aiaynautoauto ]] ||
    fatal "--from takes no --system, --row or --vocabulary: they are the model's"
[[ $exp != auto ]] || exp=$root/exp/own_text_${source_lang}_$target_lang
require_outside corpus "$corpus"
[[ -z $from ]] || require_outside from "$from"
[[ $row$max_update == autoauto ]] || patience=${patience/auto/never}
patience=${patience/auto/10}
check_training

corpus=$(realpath -- "$corpus") from=${from:+$(realpath -- "$from")}
text=("$(dirname "$recipe")/own_text.py" --corpus "$corpus" --max-update "${max_update/auto/0}"
    --source-lang "$source_lang" --target-lang "$target_lang" --held-out "$held_out")
make_text() { run python "${text[@]}" --output "$exp/downloads"; }
fits=$(python "${text[@]}" --device "$device" ${from:+--model "$from"}) || exit 1
read -r pairs unit expected fitting updates dropout merges minutes <<<"$fits"
subwords=byte_pairs normal=True limits=(--max-length 250 --max-ratio 1.5 --expected "$expected")
# Lengths in characters vary more: 1.5 would drop a fifth of an English-Chinese text, 2 drops 2%
[[ $unit == words ]] || subwords=word_pieces limits=(--max-length 1000 --max-ratio 2
    --expected "$expected" --characters)
if [[ -n $from ]]; then
    read -r subwords normal lower fitting updates warm factor sizes <<<"${fits#*$'\n'}"
    warmup=${warmup/auto/"$warm"} lr_factor=${lr_factor/auto/"$factor"}
    train_options="$sizes $train_options"
    [[ $lower == False ]] || lowercase=(--lowercase)
fi
row=${row/#auto/"$fitting"} vocabulary=${vocabulary/auto/"$merges"}
chosen="$pairs pairs of ${source_lang}-$target_lang: row $row, vocabulary $vocabulary"
[[ $row == "$fitting" ]] || chosen+="; without --row, $fitting, which fits text and device"
[[ -z $from ]] || chosen="$pairs pairs of ${source_lang}-$target_lang to go on with $from"
if [[ $row == "$fitting" ]]; then
    [[ $device$max_update$from != cpuauto ]] || last=" (on two cores at most $minutes minutes)"
    max_update=${max_update/auto/"$updates"} train_options="--dropout $dropout $train_options"
    chosen+=", dropout $dropout, at most $max_update updates${last-}"
fi
[[ $dry_run == false ]] || echo "# $chosen"
[[ $dry_run == true ]] || log "$chosen; by the size of the text, but for what is given"

corpus_name=own_text_${source_lang}_$target_lang manifest=$recipes/demo/corpus.toml min_count=1
files=$(cd "$corpus" && sha256sum {train,valid,dev,test}.{tsv,"$source_lang","$target_lang"}{,.gz} \
    2>/dev/null | awk '{ printf "%s%s %.8s", s, $2, $1; s = ", " }') || true # those that are there
text_options=(corpus held_out from files) programs=()
tokenizer=moses subword_flags=(--symbols "$vocabulary")
[[ $normal == False ]] || normalize=(--normalize)
[[ $subwords == byte_pairs ]] || tokenizer=none normalize=() subword_flags=(
    --vocabulary "$vocabulary" --sample 1000000 --normalization identity)
. "$recipes/translation.sh"; say_what_next; exit
