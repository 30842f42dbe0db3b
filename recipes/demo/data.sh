# shellcheck shell=bash disable=SC2034,SC2154  # files here share variables
# The demo's English-German text. With apt, it is from Debian's LibreOffice help packages (MPL-2.0),
# which are downloaded and unpacked into EXP, not installed. Without apt, it is from the interface texts
# of PyPI's homeassistant (Apache-2.0). With --corpus, it is the user's own.


help_packages=(libreoffice-help-en-us "libreoffice-help-$target_lang")
wheel=homeassistant-2026.11.0-py3-none-any.whl
wheel_sha256=7ca5fbde9dea879ac7723949fc84347aac5182e6309c357b2e4973fd391b00f7

# Make EXP/downloads/{train,valid,test}.*.
make_text() {
    local languages=(--source-lang "$source_lang" --target-lang "$target_lang") text=$corpus
    if [[ -z $text ]]; then
        text=$exp/corpus
        run rm -rf "$text"
        if [[ $source != homeassistant ]] && find_help; then
            download_help
            run python "$here/extract.py" "${languages[@]}" --output "$text" \
                --help-root "$exp/downloads/help/usr/share/libreoffice/help"
        else
            [[ $source != libreoffice ]] || fatal "apt does not offer ${help_packages[*]}"
            download "pypi:homeassistant==2026.11.0" "$exp/downloads/$wheel" "sha256:$wheel_sha256"
            run python "$here/extract.py" "${languages[@]}" --output "$text" \
                --wheel "$exp/downloads/$wheel"
        fi
    fi
    run python "$here/split.py" --corpus "$text" "${languages[@]}" --output "$exp/downloads" \
        --max-words "$max_words" --held-out "$held_out"
}

# Say whether apt has the packages; root updates lists that are missing.
find_help() {
    command -v apt-get apt-cache dpkg-deb >/dev/null || return 1
    ! apt-cache show "${help_packages[@]}" &>/dev/null || return 0
    ((EUID == 0)) || return 1
    run -q apt-get update || return 1
    [[ $dry_run == true ]] || apt-cache show "${help_packages[@]}" &>/dev/null
}

# Download and unpack the packages, in any version; the first download's checksums hold later on.
download_help() {
    local debs=$exp/downloads/debs
    if [[ ! -e $debs/SHA256SUMS ]]; then
        run rm -rf "$debs"
        run mkdir -p "$debs"
        run env -C "$debs" apt-get -o APT::Sandbox::User=root download "${help_packages[@]}"
        run -o "$debs/SHA256SUMS" env -C "$debs" sh -c 'sha256sum ./*.deb'
    fi
    run env -C "$debs" sha256sum --check SHA256SUMS
    run rm -rf "$exp/downloads/help"
    # shellcheck disable=SC2016  # for the inner shell
    run env -C "$debs" sh -c 'for deb in ./*.deb; do dpkg-deb -x "$deb" ../help; done'
}
