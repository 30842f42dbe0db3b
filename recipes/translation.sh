# A translation experiment from its text to its scores (sections 5 and 6). A recipe's run.sh sets the
# variables below and sources this script, which writes
#   EXP/text               the validation and test set, not cleaned: the references of BLEU
#   EXP/tokens             all sets tokenized, the training set also cleaned
#   EXP/subwords           the subword vocabulary, and all sets in subwords
#   EXP/bin                the binarized data
#   EXP/SYSTEM-ROW-SEED    a run: fairseq_aiayn/runs/run.py lists its files
#   EXP/table              the runs compared

# run.sh sets corpus_name, manifest (corpus.toml), source_lang, target_lang and
#   tokenizer, limits           moses or none; what training pairs are dropped: options of corpus.cleaning
#   normalize, lowercase        (--normalize), (--lowercase), or empty
#   subwords, subword_flags     byte_pairs, with the min_count of a word, or word_pieces
#   vocabulary                  its size, about
#   text_options                names of its own options that change the text
#   from                        a model to go on with, or empty
#   our_search, stock_search    only where the search is not the paper's
# training.sh sets flags, search (`aiayn flags`), data, checkpoint, cpu; lib.sh has stage, run, end.

manifest_sha256=$(sha256sum <"$manifest")
[[ $source_lang != "$target_lang" ]] ||
    fatal "--source_lang and --target_lang must differ, both are '$source_lang'"
languages=("$source_lang" "$target_lang")
pair=(--source-lang "$source_lang" --target-lang "$target_lang")
systems=${system/both/aiayn stock}
# Wrong options fail before the text is prepared
((stop_stage < 5)) || for system in $systems; do find_flags; done

open_exp "$root/exp/$corpus_name"
cleaning="$tokenizer ${normalize[*]} ${lowercase[*]} ${limits[*]}"
vocabularies="$subwords ${subword_flags[*]} $min_count"
keep_options "$exp/options.txt" "$exp/.done" corpus_name source_lang target_lang manifest_sha256 \
    "${text_options[@]}" cleaning vocabularies

check_needs 1 --manifest "$manifest" "${pair[@]}" --vocab "$vocabulary" --programs "${programs[@]}"

stage 1 download && {
    if declare -F make_text >/dev/null; then
        make_text # defined by a run.sh: writes EXP/downloads/{train,valid,test}.*
    else
        downloads=$(python "$module" fairseq_aiayn.corpus.manifest --manifest "$manifest" "${pair[@]}")
        while IFS=$'\t' read -r url file checksum bytes <&3; do
            [[ -z $url ]] || download "$url" "$exp/downloads/$file" "$checksum" "$bytes"
        done 3<<<"$downloads"
    fi
}

stage 2 clean && {
    run rm -rf "$exp/text" "$exp/tokens"
    run python "$module" fairseq_aiayn.corpus.texts --manifest "$manifest" --directory "$exp/downloads" \
        "${pair[@]}" "${lowercase[@]}" --output "$exp/text"
    # Tokenize the training pairs, and drop those beyond $limits
    run python "$module" fairseq_aiayn.corpus.cleaning --manifest "$manifest" --directory "$exp/downloads" \
        "${pair[@]}" --tokenizer "$tokenizer" "${normalize[@]}" "${lowercase[@]}" "${limits[@]}" \
        --workers "$workers" --output "$exp/tokens"
    for set in valid test; do # tokenized in the same way
        for language in "${languages[@]}"; do
            if [[ $tokenizer == moses ]]; then
                run -q -i "$exp/text/$set.$language" -o "$exp/tokens/$set.$language" \
                    python "$module" fairseq_aiayn.corpus.moses "${normalize[@]}" \
                    "${lowercase[@]}" --language "$language"
            else
                run cp "$exp/text/$set.$language" "$exp/tokens/$set.$language"
            fi
        done
    done
}

learned=$exp/subwords/pieces.model as=--model # sentencepiece's, and the option that names it
dictionary=(--joined-dictionary --srcdict "$exp/subwords/dict.txt") # not one with what no piece has
[[ $subwords == word_pieces ]] || # subword-nmt's
    learned=$exp/subwords/codes as=--codes dictionary=(--joined-dictionary)
pretrained=() # a model that is trained further brings its own
if [[ -n $from ]]; then
    pretrained=(--finetune-from-model "$exp/subwords/model.pt") learned=$exp/subwords/model/${learned##*/}
    dictionary=(--srcdict "$exp/subwords/model/source.txt" --tgtdict "$exp/subwords/model/target.txt")
fi

stage 3 subwords && { # one vocabulary for both languages (section 5.1)
    run rm -rf "$exp/subwords"
    run mkdir "$exp/subwords"
    if [[ -n $from ]]; then
        run aiayn export "$from" --no-ctranslate2 --output "$exp/subwords/model"
        run aiayn export "$exp/subwords/model" --to fairseq --output "$exp/subwords/model.pt"
    elif [[ $subwords == byte_pairs ]]; then
        run -o "$exp/subwords/text" cat "${languages[@]/#/"$exp/tokens/train."}"
        run -i "$exp/subwords/text" -o "$exp/subwords/counts" subword-nmt get-vocab
        run -i "$exp/subwords/counts" -o "$exp/subwords/words" \
            awk -v least="$min_count" '$2 >= least'
        run -i "$exp/subwords/words" -o "$learned" \
            subword-nmt learn-bpe --dict-input "${subword_flags[@]}"
        run rm "$exp/subwords/text" "$exp/subwords/counts" "$exp/subwords/words"
    else
        run python "$module" fairseq_aiayn.corpus.subwords learn "${subword_flags[@]}" \
            --text "${languages[@]/#/"$exp/tokens/train."}" --dictionary "${dictionary[2]}" --output "$learned"
    fi
    for set in train valid test; do
        for language in "${languages[@]}"; do
            run -i "$exp/tokens/$set.$language" -o "$exp/subwords/$set.$language" \
                python "$module" fairseq_aiayn.corpus.subwords apply "$as" "$learned" --workers "$workers"
        done
    done
}

stage 4 binarize && { # one dictionary, as shared embeddings need it (section 3.4)
    run rm -rf "$exp/bin"
    run -q fairseq-preprocess "${pair[@]}" "${dictionary[@]}" --workers "$workers" \
        --trainpref "$exp/subwords/train" --validpref "$exp/subwords/valid" \
        --testpref "$exp/subwords/test" --destdir "$exp/bin"
    # What aiayn export needs to know: how plain text becomes these subwords.
    run cp "$learned" "$exp/bin"
    run -o "$exp/bin/text.json" printf '{"pieces": "%s", "normalize": %s, "lowercase": %s}\n' \
        "$subwords" "$([[ -n ${normalize[*]} ]] && echo true || echo false)" \
        "$([[ -n ${lowercase[*]} ]] && echo true || echo false)"
    run -o "$exp/bin/sha256" env -C "$exp" LC_ALL=C \
        sh -c 'cat bin/dict.* bin/*.bin bin/*.idx text/* | sha256sum'
}
end # unlocks EXP for other calls
((stop_stage >= 5)) || exit 0
if [[ $side_by_side == true && $dry_run == false ]] && ((stage <= 8 && stop_stage >= 8)); then
    # shellcheck disable=SC2086  # words
    run side_by_side $systems # one call of this recipe per system; the loop below finds all done
    stage=0 force=false
fi

runs=()
for system in $systems; do
    for seed in $seeds; do
        begin_run aiayn_translation
        runs+=("$dir")
        beam=("${our_search[@]}") bpe=sentencepiece
        if [[ $system == stock ]]; then
            beam=("${stock_search[@]}")
            [[ -n ${beam[*]} ]] || beam=("${search[@]}") # stock's defaults are not the paper's
        fi
        [[ $subwords == word_pieces ]] || bpe=subword_nmt
        detokenize=() tokens=()
        [[ $tokenizer == none ]] || detokenize=(--tokenizer "$tokenizer")
        measure=() # on a GPU, also BLEU of each checkpoint, by greedy search
        [[ $device == cpu ]] || measure+=(--eval-bleu --eval-bleu-remove-bpe "$bpe"
            --eval-bleu-args '{"beam": 1, "max_len_a": 1, "max_len_b": 50}'
            --eval-bleu-detok "${tokenizer/none/space}")

        # launch adds where files go, precision, processes and --train_options.
        stage 5 train && launch fairseq-train "${data[@]}" "${flags[@]}" --seed "$seed" "${measure[@]}" \
            "${pretrained[@]}"

        if ((average > 1)); then
            stage 6 average "$average" && run -n average aiayn average --last "$average" \
                --dir "$dir/checkpoints" --output "$checkpoint"
        fi

        stage 7 translate "$subset" "$average" && {
            run -o "$dir/model.json" printf '{"checkpoint": "%s", "data": "../bin"}\n' "${checkpoint#"$dir/"}"
            run -q -n validate -o "$dir/valid.log" fairseq-validate "${data[@]}" "${cpu[@]}" \
                --path "$checkpoint" --max-tokens 4096 --num-workers 0 --log-format json
            run -p -n generate -o "$dir/generate-$subset.txt" fairseq-generate "${data[@]}" "${cpu[@]}" \
                --path "$checkpoint" --gen-subset "$subset" --max-tokens 4096 --num-workers 0 \
                "${beam[@]}" --post-process "$bpe" "${detokenize[@]}" --log-format tqdm
        }

        stage 8 score "$subset" "$average" && {
            run -o "$dir/source.txt" cat "$exp/text/$subset.$source_lang"
            run -o "$dir/reference.txt" cat "$exp/text/$subset.$target_lang"
            run -i "$dir/generate-$subset.txt" -o "$dir/hypothesis.txt" \
                sh -c 'grep -a ^D- | sort -V | cut -f 3-'
            [[ $dry_run == true ]] || paste -d '\n' <(sed -n '1,3s/^/source: /p' "$dir/source.txt") \
                <(sed -n '1,3s/^/output: /p' "$dir/hypothesis.txt") >&2
            if [[ -n ${lowercase[*]} ]]; then # published results are BLEU of lowercased tokens
                tokens=(--tokens "$dir/hypothesis.tokens" "$exp/tokens/$subset.$target_lang")
                run -i "$dir/generate-$subset.txt" -o "$dir/hypothesis.tokens" \
                    sh -c 'grep -a ^H- | sort -V | cut -f 3-'
            fi
            run -n score -o "$dir/score.json" aiayn bleu --hypothesis "$dir/hypothesis.txt" \
                --reference "$dir/reference.txt" --target-lang "$target_lang" "${tokens[@]}" --json
            record_evaluation "$subset"
            run aiayn compare "$dir" --output "$dir"
        }
        end
    done
done

if ((${#runs[@]} > 1 && stop_stage >= 9)); then
    begin -w "$exp"
    stage 9 table "${runs[*]##*/}" && run aiayn compare "${runs[@]}" --output "$exp/table"
    end
    dir=$exp/table
fi
[[ $dry_run == true || ! -e $dir/report.html ]] || log "report: $dir/report.html"

say_what_next() {
    [[ $dry_run == false && -e ${runs[0]}/report.html && ${runs[0]##*/} == aiayn-* ]] &&
        ((stop_stage >= 9)) || return 0
    log "what to type next:
  aiayn translate $(quoted "${runs[0]}") < text        # sentences of yours
  aiayn attention $(quoted "${runs[0]}" --source "$(head -n 1 "${runs[0]}/source.txt")") --output heads.html
  aiayn export $(quoted "${runs[0]}") --output folder        # to use it without fairseq"
}
