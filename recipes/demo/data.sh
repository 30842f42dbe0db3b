# The demo's text: that of Debian's LibreOffice help packages (MPL-2.0), which are downloaded and
# unpacked into EXP, not installed.

# Make EXP/downloads/{train,valid,test}.*.
make_text() {
    unpack_help libreoffice-help-en-us "libreoffice-help-$target_lang"
    local text=(--source-lang en --target-lang "$target_lang")
    run mkdir -p "$exp/downloads/pairs"
    run python "$here/prepare.py" --help-root "$exp/downloads/help/usr/share/libreoffice/help" \
        "${text[@]}" --max-words "$max_words" --output "$exp/downloads/pairs/train.tsv"
    run python "$recipes/own_text/own_text.py" --corpus "$exp/downloads/pairs" "${text[@]}" \
        --held-out "$held_out" --output "$exp/downloads"
}

# Download and unpack the packages, in any version; the first download's checksums hold later on.
unpack_help() {
    local debs=$exp/downloads/debs
    if [[ ! -e $debs/SHA256SUMS ]]; then
        apt-cache show "$@" &>/dev/null || ((EUID != 0)) || run -q apt-get update || true # its lists
        [[ $dry_run == true ]] || apt-cache show "$@" &>/dev/null ||
            fatal "apt does not offer $*: recipes/multi30k and recipes/own_text need no apt"
        run rm -rf "$debs"
        run mkdir -p "$debs"
        run env -C "$debs" apt-get -o APT::Sandbox::User=root download "$@"
        run -o "$debs/SHA256SUMS" env -C "$debs" sh -c 'sha256sum ./*.deb'
    fi
    run env -C "$debs" sha256sum --check SHA256SUMS
    run rm -rf "$exp/downloads/help"
    # shellcheck disable=SC2016  # for the inner shell
    run env -C "$debs" sh -c 'for deb in ./*.deb; do dpkg-deb -x "$deb" ../help; done'
}
