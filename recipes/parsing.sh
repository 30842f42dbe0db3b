# A parsing experiment from its trees to labelled F1 (section 6.3). The run.sh of a recipe makes its
# choices and sources this script, which leaves
#
#   EXP/trees              the sets of trees: SET.trees, SET.words, SET.text (the words as
#                          input of word pieces) and SET.tree (the symbols to predict)
#   EXP/subwords           the word pieces and dictionaries; all sets in word pieces
#   EXP/bin                fairseq's binaries: from word pieces ("words") to linearized trees ("tree")
#   EXP/SYSTEM-ROW-SEED    a training; for several --dropouts, -dropoutP is added
#   EXP/SYSTEM-ROW-SEED/SET  a search with its model, on valid or test, with -constrained added
#   EXP/table              Table 4 with all searches

further_sets=()
[[ -z $silver ]] || further_sets+=(silver)
[[ $augment == false ]] || further_sets+=(augmented)
[[ $gold_copies == 1 || -n ${further_sets[*]} ]] ||
    fatal "--gold_copies $gold_copies needs --silver or --augment true, or there is nothing to mix with"
[[ $constrained == false || $system != stock ]] ||
    fatal "--constrained is a search of aiayn_parsing, stock fairseq has none"
read -ra grid <<<"$dropouts"
[[ " $dropouts" =~ ^(\ +0(\.[0-9]+)?)+\ *$ ]] ||
    fatal "--dropouts must be 0 or decimals below 1 such as 0.1, got '$dropouts'"
((nodes == 1 || ${#grid[@]} == 1)) || fatal "--nodes $nodes takes one of --dropouts"
systems=${system/both/aiayn stock} pair=(--source-lang words --target-lang tree)
# Wrong options fail before the text is made
((stop_stage < 5)) || for system in $systems; do find_flags; done

open_exp "$root/exp/wsj_parsing/$corpus_name"
keep_options "$exp/options.txt" "$exp/.done" corpus_name treebank ${treebank:+lists} silver tags \
    augment longest vocabulary
[[ $corpus != gum ]] || treebank=$exp/downloads
check_needs "${#grid[@]}" --text-gib 2 --vocab "$vocabulary" --programs "${programs[@]}"

stage 1 download && {
    while read -r sum file <&3; do
        download "$url/$file" "$exp/downloads/$file" "sha256:$sum"
    done 3<"$checksums"
}

# write_set SET FILE...: write the trees of files as the sequences of a set.
write_set() {
    run -o "$exp/trees/$1.tree" aiayn linearize "${@:2}" --tags "$tags" \
        --trees "$exp/trees/$1.trees" --words "$exp/trees/$1.words" --source "$exp/trees/$1.text"
}

stage 2 trees && {
    # Sets consist of whole files, because sentences of a document are alike.
    train=("$treebank"/{02..21}) valid=("$treebank/22") test=("$treebank/23") # section 6.3
    for set in ${lists:+train valid test}; do
        declare -n files=$set
        files=()
        while IFS=$' \t\r' read -r file || [[ -n $file ]]; do
            [[ -z $file ]] || files+=("$treebank/$file")
        done <"$lists/$set"
    done
    twice=$(printf '%s\n' "${train[@]}" "${valid[@]}" "${test[@]}" | sort | uniq -d)
    [[ -z $twice ]] || fatal "a file must stand once in the lists of $lists, got twice: ${twice%%$'\n'*}"
    run rm -rf "$exp/trees"
    run mkdir "$exp/trees"
    write_set train "${train[@]}" --longest "$longest"
    write_set valid "${valid[@]}"
    write_set test "${test[@]}"
    [[ -z $silver ]] || write_set silver "${silver_files[@]}" --longest "$longest"
    if [[ $augment == true ]]; then # phrases of the training trees, and pairs of them
        run -o "$exp/trees/augmented.ptb" python "$here/augment.py" "$exp/trees/train.trees"
        write_set augmented "$exp/trees/augmented.ptb" --longest "$longest"
    fi
}

stage 3 subwords && {
    run rm -rf "$exp/subwords"
    run mkdir "$exp/subwords"
    # Word pieces of gold and silver sentences; on the target side, every symbol is an entry.
    learned=("$exp/trees/train")
    [[ -z $silver ]] || learned+=("$exp/trees/silver")
    run -o "$exp/subwords/text" cat "${learned[@]/%/.text}"
    run python "$module" fairseq_aiayn.corpus.subwords learn --text "$exp/subwords/text" \
        --normalization identity --vocabulary "$vocabulary" --sample 1000000 \
        --dictionary "$exp/subwords/dict.words.txt" --output "$exp/subwords/pieces.model"
    run rm "$exp/subwords/text"
    run -o "$exp/subwords/counts" awk -F '[ ]' \
        '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (s in n) print s, n[s] }' \
        "${learned[@]/%/.tree}"
    run -i "$exp/subwords/counts" -o "$exp/subwords/dict.tree.txt" \
        env LC_ALL=C sort -k 2,2nr -k 1,1
    run rm "$exp/subwords/counts"
    for set in train valid test "${further_sets[@]}"; do
        run -i "$exp/trees/$set.text" -o "$exp/subwords/$set.words" \
            python "$module" fairseq_aiayn.corpus.subwords apply \
            --model "$exp/subwords/pieces.model" --workers "$workers"
        run cp "$exp/trees/$set.tree" "$exp/subwords/$set.tree"
    done
}

stage 4 binarize && {
    dictionaries=(--srcdict "$exp/subwords/dict.words.txt" --tgtdict "$exp/subwords/dict.tree.txt")
    run rm -rf "$exp/bin" "$exp/bin.further"
    run -q fairseq-preprocess "${pair[@]}" "${dictionaries[@]}" --workers "$workers" \
        --trainpref "$exp/subwords/train" --validpref "$exp/subwords/valid" \
        --testpref "$exp/subwords/test" --destdir "$exp/bin"
    for number in "${!further_sets[@]}"; do # which fairseq calls train1, train2
        run -q fairseq-preprocess "${pair[@]}" "${dictionaries[@]}" --workers "$workers" \
            --trainpref "$exp/subwords/${further_sets[number]}" --destdir "$exp/bin.further"
        for file in words-tree.{words,tree}.{bin,idx}; do
            run mv "$exp/bin.further/train.$file" "$exp/bin/train$((number + 1)).$file"
        done
        run rm -r "$exp/bin.further"
    done
    # What aiayn parse and aiayn export need, and what --eval-f1 compares with.
    run cp "$exp/subwords/pieces.model" "$exp/bin"
    run -o "$exp/bin/data.json" env -C "$exp/trees" sh -c 'count() { cat "$1.tree" 2>&- | wc -l; }
        printf "{\"gold\": %d, \"silver\": %d, \"augmented\": %d, \"tags\": \"%s\"}\n" \
            $(count train) $(count silver) $(count augmented) "$1"' count "$tags"
    run mkdir "$exp/bin/held_out"
    run cp "$exp"/trees/{valid,test}.{trees,words} "$exp/bin/held_out"
    run -o "$exp/bin/sha256" env -C "$exp" LC_ALL=C \
        sh -c 'cat bin/dict.* bin/*.bin bin/*.idx bin/held_out/* | sha256sum'
}
end # others may train on the text from now on
((stop_stage >= 5)) || exit 0
training_options+=(dropout gold_copies)

# parse_and_score PARSE SCORE SET CONSTRAINED: parse a set and score the trees, in stages of these numbers.
parse_and_score() {
    local set=$3 how=() part=$3
    [[ $system == aiayn ]] || how=("${search[@]}") # its own defaults are not the paper's
    [[ $system == stock || $4 == false ]] || part+=-constrained how+=(--constrained)
    scope=$dir/$part

    stage "$1" parse "$average" && {
        run mkdir -p "$scope"
        run -o "$dir/model.json" printf '{"checkpoint": "%s", "data": "../bin"}\n' "${checkpoint#"$dir/"}"
        run -q -n validate -o "$dir/valid.log" fairseq-validate "${data[@]}" "${cpu[@]}" \
            --path "$checkpoint" --max-tokens 4096 --num-workers 0 --log-format json
        run -p -n generate -o "$scope/generate.txt" -e "$scope/generate.log" fairseq-generate \
            "${data[@]}" "${cpu[@]}" --path "$checkpoint" --gen-subset "$set" --max-tokens 1024 \
            --num-workers 0 "${how[@]}" --log-format tqdm
        run -i "$scope/generate.log" -o "$scope/seconds.json" sed -n -E \
            's/([0-9]),([0-9])/\1\2/g; s/.*Translated ([0-9]+) sentences .* in ([0-9.]+)s .*/{"sentences": \1, "seconds": \2}/p'
    }

    stage "$2" score "$average" && {
        run -o "$dir/data.json" cat "$exp/bin/data.json"
        run -o "$scope/words.txt" cat "$exp/trees/$set.words"
        run -o "$scope/gold.trees" cat "$exp/trees/$set.trees"
        run -i "$scope/generate.txt" -o "$scope/linearised.txt" \
            sh -c 'grep -a ^D- | sort -V | cut -f 3-'
        # Outputs that are not trees are repaired, and counted.
        run -o "$scope/predicted.trees" aiayn delinearize "$scope/linearised.txt" \
            --words "$scope/words.txt" --report "$scope/repairs.json"
        run -q -o "$scope/evalb.txt" aiayn evalb "$scope/gold.trees" "$scope/predicted.trees" \
            --per-sentence
        run -q -n score -o "$scope/score.json" aiayn evalb "$scope/gold.trees" \
            "$scope/predicted.trees" --json
        record_evaluation "$set"
    }
    finish_stage
    searched=$scope scope=$dir
}

# use_run DROPOUT: work in the run of $system with $seed and this dropout.
use_run() {
    dropout=$1
    begin_run aiayn_parsing "$( ((${#grid[@]} == 1)) || echo "-dropout$dropout")"
    measure=()
    [[ $device == cpu || $system == stock ]] || measure+=(--eval-f1)
    [[ -z ${further_sets[*]} ]] || measure+=(--upsample-primary "$gold_copies")
}

table=()
for system in $systems; do
    for seed in $seeds; do
        tried=()
        for dropout in "${grid[@]}"; do
            use_run "$dropout"

            stage 5 train && launch fairseq-train "${data[@]}" "${flags[@]}" --seed "$seed" \
                --dropout "$dropout" --attention-dropout "$dropout" "${measure[@]}"

            ((average == 1)) || {
                stage 6 average "$average" && run -n average aiayn average --last "$average" \
                    --dir "$dir/checkpoints" --output "$checkpoint"
            }

            if ((${#grid[@]} > 1)); then
                parse_and_score 7 8 valid false
                tried+=("$searched")
                end
            fi
        done

        if ((${#grid[@]} > 1)); then # the best on section 22
            ((stop_stage >= 9)) || continue
            chosen=${tried[0]%/*} chosen=${chosen%-dropout*}.chosen
            begin -w "$exp"
            stage 9 "choose-${chosen##*/}" "${tried[*]}" && run -o "$chosen" awk \
                '/^Bracketing FMeasure/ && FILENAME != last { print FILENAME, $4; last = FILENAME }' \
                "${tried[@]/%//evalb.txt}"
            end
            [[ $dry_run == true ]] || # the first of equal ones
                dropout=$(awk '{ print $NF, $0 }' "$chosen" | LC_ALL=C sort -s -k 1,1nr |
                    sed -nE '1s/.*-dropout([0-9.]+).*/\1/p')
            use_run "$dropout"
        fi
        searched=$dir/valid
        [[ " ${tried[*]} " == *" $searched "* && $subset-$constrained == valid-false ]] ||
            parse_and_score 10 11 "$subset" "$constrained"
        # The table has the unconstrained search beside the constrained one if both exist.
        [[ $searched != *-constrained || ! -e ${searched%-constrained}/score.json ]] ||
            table+=("${searched%-constrained}")
        table+=("$searched")
        end
    done
done

if ((node_rank == 0 && stop_stage >= 12)); then
    begin -w "$exp"
    stage 12 table "${table[*]#"$exp"/}" && run aiayn compare "${table[@]}" --output "$exp/table"
    end
fi
[[ $dry_run == true || ! -e $exp/table/report.html ]] || log "report: $exp/table/report.html"
