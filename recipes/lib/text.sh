# shellcheck shell=bash
# From raw parallel text to fairseq's binaries; translation.sh sources this file.
#
# EXP/data has the unchanged held-out text. EXP/tokens (cleaned), EXP/pieces (subwords)
# and EXP/bin (fairseq's binaries, and copies of the held-out text) are made from the manifest's text.

: "${module[@]:?}" "${exp:?}" "${recipe_lib:?}" "${workers:?}"

# Options
source_lang=en    # language to translate from
target_lang=de    # language to translate to
# End of options

recipe_option_files+=("${BASH_SOURCE[0]}")

# The recipe's own choices
manifest=         # corpus.toml: which archives and files hold the text
files=            # directory of these files
tokenizer=moses   # moses or none
normalize=()      # (--normalize) to normalize punctuation before tokenization
lowercase=()      # (--lowercase) to lower-case all text, including the held-out text that is scored
limits=()         # options of cleaning.py that limit which pairs are kept
pieces=           # byte_pairs or word_pieces
piece_flags=()    # options of the program that learns them
min_count=1       # byte pairs are learned from words that occur at least this often

check_text() {
    languages=("$source_lang" "$target_lang")
    pair=(--source-lang "$source_lang" --target-lang "$target_lang")
}

# Download every file with the manifest's text for these languages.
download_corpus() {
    local downloads url file checksum bytes
    downloads=$("${module[@]}" fairseq_aiayn.corpus.manifest --manifest "$manifest" "${pair[@]}") ||
        fatal "no list of downloads"
    while IFS=$'\t' read -r url file checksum bytes <&3; do
        download "$url" "$files/$file" "$checksum" "$bytes"
    done 3<<<"$downloads"
}

# Write the development and test sets unchanged.
hold_out() {
    run -q rm -rf "$exp/data"
    run "${module[@]}" fairseq_aiayn.corpus.texts --manifest "$manifest" --directory "$files" \
        "${pair[@]}" "${lowercase[@]}" --output "$exp/data"
}

# Clean and tokenize the training text; tokenize the held-out text.
clean_corpus() {
    local part language
    run -q rm -rf "$exp/tokens"
    run "${module[@]}" fairseq_aiayn.corpus.cleaning --manifest "$manifest" --directory "$files" \
        "${pair[@]}" --output "$exp/tokens" --workers "$workers" \
        --tokenizer "$tokenizer" "${normalize[@]}" "${lowercase[@]}" "${limits[@]}"
    for part in valid test; do
        for language in "${languages[@]}"; do
            if [[ $tokenizer == none ]]; then
                run -q cp "$exp/data/$part.$language" "$exp/tokens/$part.$language"
            else
                run -q -i "$exp/data/$part.$language" -o "$exp/tokens/$part.$language" \
                    "${module[@]}" fairseq_aiayn.corpus.moses --language "$language" "${normalize[@]}" \
                        "${lowercase[@]}"
            fi
        done
    done
}

# Learn one vocabulary of byte pairs for both languages (section 5.1, English-German).
learn_byte_pairs() {
    run -q mkdir -p "$exp/pieces"
    # shellcheck disable=SC2016  # the inner shell expands it
    run -o "$exp/pieces/words" bash -o pipefail -c \
        'cat "${@:2}" | subword-nmt get-vocab | awk -v least="$1" "\$2 >= least"' words \
        "$min_count" "${languages[@]/#/$exp/tokens/train.}"
    run -o "$exp/pieces/codes" subword-nmt learn-bpe --dict-input --input "$exp/pieces/words" \
        "${piece_flags[@]}"
}

# Learn one vocabulary of word pieces for both languages (section 5.1, English-French).
learn_word_pieces() {
    run -q mkdir -p "$exp/pieces"
    run "${module[@]}" fairseq_aiayn.corpus.subwords learn "${piece_flags[@]}" \
        --text "${languages[@]/#/$exp/tokens/train.}" --output "$exp/pieces/model.model"
}

apply_pieces() {
    local part language with=(--codes "$exp/pieces/codes")
    [[ $pieces == byte_pairs ]] || with=(--model "$exp/pieces/model.model")
    for part in train valid test; do
        for language in "${languages[@]}"; do
            run -q -i "$exp/tokens/$part.$language" -o "$exp/pieces/$part.$language" \
                "${module[@]}" fairseq_aiayn.corpus.subwords apply "${with[@]}" --workers "$workers"
        done
    done
}

# note_text DIR: put beside the binaries how plain text becomes their pieces; aiayn export reads it.
note_text() {
    local file=codes
    [[ $pieces == byte_pairs ]] || file=model.model
    run -q cp "$exp/pieces/$file" "$1/${file/model.model/pieces.model}"
    run -q -o "$1/text.json" printf '{"pieces": "%s", "normalize": %s, "lowercase": %s}\n' "$pieces" \
        "$([[ ${#normalize[@]} == 0 ]] && echo false || echo true)" \
        "$([[ ${#lowercase[@]} == 0 ]] && echo false || echo true)"
}

# keep_held_out DIR: put beside the binaries the held-out text that translations of them are scored
# against, unchanged, and the target's tokens.
keep_held_out() {
    local part
    run -q mkdir "$1/held_out"
    for part in valid test; do
        run -q cp "$exp/data/$part.$source_lang" "$exp/data/$part.$target_lang" "$1/held_out"
        run -q cp "$exp/tokens/$part.$target_lang" "$1/held_out/$part.$target_lang.tokens"
    done
}

# Use one dictionary for both languages, as shared embeddings need it (section 3.4).
binarize() {
    run -q rm -rf "$exp/bin" "$exp/bin.part"
    run -q fairseq-preprocess "${pair[@]}" --joined-dictionary --workers "$workers" \
        --destdir "$exp/bin.part" --trainpref "$exp/pieces/train" \
        --validpref "$exp/pieces/valid" --testpref "$exp/pieces/test"
    note_text "$exp/bin.part"
    keep_held_out "$exp/bin.part"
    seal_text "$exp/bin.part"
    run -q mv "$exp/bin.part" "$exp/bin"
}

# Download the text that the manifest names, and write the held-out sets.
manifest_stages() {
    [[ -f $manifest && -r $manifest ]] ||
        fatal "--manifest must be a file that can be read, got '$manifest'"
    # shellcheck disable=SC2034  # stage 1 uses it by name
    manifest_text=$(<"$manifest") # if the manifest changes, the stage runs again
    stage 1 download download_corpus manifest_text pair
    stage 2 held_out hold_out lowercase
}

# Make fairseq's binaries from the text in $files and EXP/data.
text_stages() {
    stage 2 clean clean_corpus tokenizer normalize lowercase limits
    stage 3 pieces "learn_$pieces" piece_flags min_count
    stage 3 apply apply_pieces
    stage 4 binarize binarize corpus_name
}
