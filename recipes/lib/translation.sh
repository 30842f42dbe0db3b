# shellcheck shell=bash
# The stages that every translation recipe shares; a run.sh sources this after recipe.sh.
#
# The text of EXP/corpus becomes EXP/data (clean, split), EXP/tokens (Moses), EXP/pieces (byte
# pairs) and EXP/bin (fairseq's binaries). A system is trained and scored in its run directory
# EXP/SYSTEM, whose layout fairseq_aiayn/evaluation/comparison.py describes; the run.sh sets its
# name and flags and calls make_commands before its stages.

: "${exp:?}" "${source_lang:?}" "${target_lang:?}" "${dry_run:?}" "${recipe_lib:?}" "${root:?}"
model='' task='' train_flags=() search_flags=() device_flags=() # the run.sh's, for each system
languages=("$source_lang" "$target_lang")
pair=(--source-lang "$source_lang" --target-lang "$target_lang")
plugin=(--user-dir "$root/fairseq_aiayn") # stock fairseq needs it too, to load its checkpoints

# fairseq cuts batches to a multiple of this (8 by default) and drops the rest of the last one.
every_sentence=(--required-batch-size-multiple 1)

# Is everything installed that the stages use?
check_setup() {
    local command
    for command in aiayn fairseq-train sacremoses subword-nmt; do
        [[ $dry_run == true ]] || command -v "$command" >/dev/null ||
            fatal "$command is not installed: run make setup in $root"
    done
    run python -c 'import torch; print("torch", torch.__version__)'
}

# Print cuda where torch sees a GPU, otherwise cpu; in a dry run nothing but the driver is asked.
find_device() {
    if ! nvidia-smi >/dev/null 2>&1; then
        echo cpu
    elif [[ $dry_run == true ]]; then
        echo cuda
    else
        python -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")'
    fi
}

# Drop broken pairs, hold out what the corpus does not hold out itself.
split_corpus() {
    run -q rm -rf "$exp/data"
    run python "$recipe_lib/split_corpus.py" --corpus "$exp/corpus" "${pair[@]}" \
        --output "$exp/data" --max-words "${max_words:?}" --held-out "${held_out:?}"
}

# Moses tokens as fairseq's own --tokenizer moses makes them.
tokenize() {
    local part language
    run -q mkdir -p "$exp/tokens"
    for part in train valid test; do
        for language in "${languages[@]}"; do
            run -i "$exp/data/$part.$language" -o "$exp/tokens/$part.$language" \
                sacremoses -l "$language" -j 2 tokenize -a
        done
    done
}

# Learn byte pairs on both languages together and apply them (section 5.1).
learn_pieces() {
    local part language
    run -q mkdir -p "$exp/pieces"
    run subword-nmt learn-joint-bpe-and-vocab --symbols "${bpe_codes:?}" \
        --input "$exp/tokens/train.$source_lang" "$exp/tokens/train.$target_lang" \
        --output "$exp/pieces/codes" \
        --write-vocabulary "$exp/pieces/vocab.$source_lang" "$exp/pieces/vocab.$target_lang"
    for part in train valid test; do
        for language in "${languages[@]}"; do
            run -q -i "$exp/tokens/$part.$language" -o "$exp/pieces/$part.$language" \
                subword-nmt apply-bpe --codes "$exp/pieces/codes"
        done
    done
}

# One dictionary for both languages, as the shared embedding needs it (section 3.4).
binarize() {
    run -q rm -rf "$exp/bin"
    run -q fairseq-preprocess "${pair[@]}" --joined-dictionary --workers 2 --destdir "$exp/bin" \
        --trainpref "$exp/pieces/train" --validpref "$exp/pieces/valid" \
        --testpref "$exp/pieces/test"
}

# Set the commands of one system: they are run below, and kept in its settings.json.
make_commands() {
    run_dir=$exp/$model
    train=(fairseq-train "$exp/bin" "${plugin[@]}" "${pair[@]}" "${train_flags[@]}"
        "${every_sentence[@]}" --seed "${seed:?}" --save-dir "$run_dir/checkpoints" --log-file "$run_dir/train.log"
        --log-format json --log-interval 10 --num-workers 0
        --no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000)
    average_last=(aiayn average --last "${average:?}" --dir "$run_dir/checkpoints"
        --output "$run_dir/average.pt")
    validate=(fairseq-validate "$exp/bin" "${plugin[@]}" "${pair[@]}" "${device_flags[@]}"
        --task "$task" --path "$run_dir/average.pt" --max-tokens 4096 "${every_sentence[@]}"
        --num-workers 0 --log-format json)
    generate=(fairseq-generate "$exp/bin" "${plugin[@]}" "${pair[@]}" "${device_flags[@]}"
        --task "$task" --path "$run_dir/average.pt" --max-tokens 4096 "${every_sentence[@]}"
        "${search_flags[@]}"
        --post-process subword_nmt --tokenizer moses --num-workers 0
        --results-path "$run_dir/search" --log-format tqdm)
    bleu=(aiayn bleu --hypothesis "$run_dir/hypothesis.txt" --reference "$run_dir/reference.txt"
        --target-lang "$target_lang" --json)
}

# Train one system, from its newest whole checkpoint where the stage was stopped.
train_model() {
    local newest=
    fresh_directory "$run_dir"
    run -q -o "$run_dir/settings.json" python "$recipe_lib/run_settings.py" --system "$model" \
        --seed "$seed" --device "${device:?}" --command train "$(recipe_quote "${train[@]}")" \
        --command average "$(recipe_quote "${average_last[@]}")" \
        --command validate "$(recipe_quote "${validate[@]}")" \
        --command generate "$(recipe_quote "${generate[@]}")" \
        --command score "$(recipe_quote "${bleu[@]}")"
    if [[ $dry_run == false ]]; then
        newest=$(python "$recipe_lib/newest_checkpoint.py" "$run_dir/checkpoints")
    fi
    [[ -z $newest ]] || log "goes on from $newest"
    run -p "${train[@]}" ${newest:+--restore-file "$newest"}
}

# Average the last checkpoints (section 6.1).
average_checkpoints() { run "${average_last[@]}"; }

# Translate the test set, and measure the development perplexity of the averaged model.
translate() {
    run -q -o "$run_dir/valid.log" "${validate[@]}"
    run -q rm -rf "$run_dir/search"
    run -p "${generate[@]}"
    run -q mv "$run_dir/search/generate-test.txt" "$run_dir/generate-test.txt"
}

# Score detokenised text, the paper's way and sacreBLEU's (section 6.1).
score() {
    run -q cp "$exp/data/test.$source_lang" "$run_dir/source.txt"
    run -q cp "$exp/data/test.$target_lang" "$run_dir/reference.txt"
    run -q -i "$run_dir/generate-test.txt" -o "$run_dir/hypothesis.txt" \
        python "$recipe_lib/hypotheses.py"
    run -q -o "$run_dir/score.json" "${bleu[@]}"
}
