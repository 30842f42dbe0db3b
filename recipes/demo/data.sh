# shellcheck shell=bash
# The demo's English-German text; run.sh sources this file and calls get_corpus.
#
# With apt, the text is from Debian's LibreOffice help packages (MPL-2.0), which are downloaded and
# unpacked into EXP, not installed. Without apt, it is from the interface texts of PyPI's
# homeassistant (Apache-2.0).

: "${exp:?}" "${here:?}" "${recipe_lib:?}" "${recipe_log?}" "${dry_run:?}"
: "${corpus?}" "${source:?}" "${source_lang:?}" "${target_lang:?}"
: "${pair[@]?}" "${max_words:?}" "${held_out:?}"

help_packages=(libreoffice-help-en-us "libreoffice-help-$target_lang")
interface_package=homeassistant==2026.11.0
interface_wheel=homeassistant-2026.11.0-py3-none-any.whl
interface_checksum=sha256:7ca5fbde9dea879ac7723949fc84347aac5182e6309c357b2e4973fd391b00f7

# Make EXP/corpus: text.* with text.documents, or a copy of --corpus.
get_corpus() {
    local made=$exp/corpus.part
    run -q rm -rf "$made" "$exp/corpus"
    if [[ -n $corpus ]]; then
        run python "$here/plain_corpus.py" --corpus "$corpus" \
            --source-lang "$source_lang" --target-lang "$target_lang" --output "$made"
    elif [[ $source == libreoffice || $source == auto ]] && apt_has_help; then
        get_help
        run python "$here/help_corpus.py" --help-root "$exp/help/usr/share/libreoffice/help" \
            --source-lang "$source_lang" --target-lang "$target_lang" --output "$made"
        run -q rm -rf "$exp/help"
    else
        [[ $source != libreoffice ]] || fatal "apt offers no ${help_packages[1]}: $apt_problem"
        [[ -z $apt_problem ]] || log "no LibreOffice help ($apt_problem): homeassistant instead"
        download "pypi:$interface_package" "$exp/downloads/$interface_wheel" "$interface_checksum"
        run python "$here/interface_corpus.py" --wheel "$exp/downloads/$interface_wheel" \
            --source-lang "$source_lang" --target-lang "$target_lang" --output "$made"
    fi
    run -q mv "$made" "$exp/corpus"
}

# Check whether apt can download the packages; if not, set apt_problem to the reason.
apt_problem=
apt_has_help() {
    local command
    for command in apt-get apt-cache dpkg-deb; do
        if ! command -v "$command" >/dev/null; then
            apt_problem="there is no $command here"
            return 1
        fi
    done
    [[ $dry_run == false ]] || return 0
    if ! apt-cache show "${help_packages[@]}" >/dev/null 2>&1 && ((EUID == 0)); then
        log "apt has no package lists: apt-get update"
        apt-get update >>"$recipe_log" 2>&1 || true
    fi
    if ! apt-cache show "${help_packages[@]}" >/dev/null 2>&1; then
        apt_problem="apt does not know ${help_packages[*]}; as root, apt-get update may help"
        return 1
    fi
}

# Download and unpack the packages, in any version. The first download's checksums are kept, and
# existing files are checked against them.
get_help() {
    local downloads=$exp/downloads/help package
    if [[ -e $downloads/SHA256SUMS ]]; then
        run -q env -C "$downloads" sha256sum --check SHA256SUMS
    else
        run -q rm -rf "$downloads"
        run -q mkdir -p "$downloads"
        run -q env -C "$downloads" apt-get -o APT::Sandbox::User=root download "${help_packages[@]}"
        # shellcheck disable=SC2016  # the inner shell expands it
        run -q -o "$downloads/SHA256SUMS" env -C "$downloads" sh -c 'sha256sum ./*.deb'
    fi
    run -q rm -rf "$exp/help"
    for package in "${help_packages[@]}"; do
        if [[ $dry_run == true ]]; then
            run dpkg-deb -x "$downloads/${package}_VERSION_all.deb" "$exp/help"
        else
            package=$(echo "$downloads/$package"_*.deb)
            log "$(dpkg-deb -f "$package" Package Version | tr '\n' ' ')(MPL-2.0)"
            run -q dpkg-deb -x "$package" "$exp/help"
        fi
    done
}

# Drop broken pairs; hold out a development and a test set if the corpus has none.
split_corpus() {
    run -q rm -rf "$exp/data"
    run python "$here/split_corpus.py" --corpus "$exp/corpus" "${pair[@]}" \
        --output "$exp/data" --max-words "$max_words" --held-out "$held_out"
}
