# Downloads: checked, resumed, and complete or absent. Sourced by lib.sh.

# download URL FILE CHECKSUM [BYTES]
#
# CHECKSUM is sha256:HEX or md5:HEX. FILE appears only with this checksum. A file of the same name in
# --mirror is linked instead.
download() {
    local url=$1 file=$2 sum=$3 name=${2##*/}
    if [[ -e $file ]]; then
        check "$file" "$sum"
        return
    fi
    run mkdir -p "${file%/*}"
    if [[ -n $mirror && -e $mirror/$name ]]; then
        run ln -sfn "$mirror/$name" "$file.part"
    else
        fetch "$url" "$file.part" "$sum" "${4-}"
    fi
    check "$file.part" "$sum"
    run mv "$file.part" "$file"
}

# fetch URL PART CHECKSUM BYTES: download to PART, going on where it stopped, as often as it grows.
fetch() {
    local before size=-1
    [[ ! -L $2 ]] || rm -f "$2"
    until run curl --fail --location --proto =http,https ${4:+--max-filesize "$4"} --retry 3 \
        --connect-timeout 30 --speed-limit 1 --speed-time 60 --continue-at - --output "$2" "$1"; do
        (($? != 33)) || rm -f "$2" # the server cannot resume
        ! fits "$2" "$3" || return 0
        before=$size size=$(stat -c %s "$2" 2>/dev/null || echo 0)
        ((size > before)) || fatal "cannot download $1;" \
            "${mirror:+$mirror has no ${1##*/}; }--mirror DIR takes it from a directory"
    done
}

fits() { "${2%%:*}sum" --check --status <<<"${2#*:}  $1" 2>/dev/null; }

# check FILE CHECKSUM: end the recipe unless FILE has it; remove a wrong download.
check() {
    local wrong="the checksum is not $2"
    if [[ $dry_run == true ]]; then
        echo "echo '${2#*:}  $1' | ${2%%:*}sum --check"
    elif ! fits "$1" "$2"; then
        [[ ! -L $1 ]] || fatal "$(readlink "$1"): $wrong; replace it"
        [[ $1 != *.part ]] || rm -f "$1"
        fatal "$1: $wrong; delete it and run again"
    fi
}
