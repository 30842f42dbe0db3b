# shellcheck shell=bash
# Downloads: resumed, checked, and complete or absent. Sourced by recipe.sh.

: "${module[@]:?}" "${dry_run:?}" "${mirror?}" "${run_status?}"

# download SOURCE FILE CHECKSUM [BYTES]
#
# SOURCE is a URL, or pypi:NAME==VERSION for a file from PyPI. A file of the same name in --mirror
# is linked instead. FILE appears only with the right CHECKSUM, which is sha256:HEX, md5:HEX, or -
# if none is known; in that case, the checksum of the first download is kept in FILE.sha256. An
# interrupted download is resumed if its size in BYTES is known.
download() {
    local source=$1 file=$2 checksum=$3 bytes=${4:--} name=${2##*/}
    if [[ -e $file ]]; then
        check_download "$file" "$file.sha256" "$checksum" "$bytes"
        return
    fi
    run -q mkdir -p "${file%/*}"
    if [[ -n $mirror && -e $mirror/$name ]]; then
        run -q ln -sfn "$mirror/$name" "$file.part"
    elif [[ $source == pypi:* ]]; then
        run -q "${module[@]}" pip download --no-deps \
            --ignore-requires-python --dest "${file%/*}/pip" "${source#pypi:}"
        run -q mv "${file%/*}/pip/$name" "$file.part"
    else
        fetch_url "$source" "$file.part" "$bytes"
    fi
    check_download "$file.part" "$file.sha256" "$checksum" "$bytes"
    run -q mv "$file.part" "$file"
}

# fetch_url URL PART BYTES: download to PART. If BYTES is known, resume PART as often as it grows;
# otherwise start again.
fetch_url() {
    local source=$1 part=$2 bytes=$3 before size=0
    [[ $bytes != - && ! -L $part ]] || run -q rm -f "$part"
    while true; do
        before=$size
        size=$(stat -c %s "$part" 2>/dev/null || echo 0)
        [[ $bytes == - || $size -lt $bytes ]] || return 0
        ((run_status == 0 || size > before)) ||
            fatal "cannot download $source (curl: status $run_status);" \
                "${mirror:+$mirror has no ${source##*/}; }--mirror DIR takes it from a directory"
        run -t curl --fail --location --retry 3 --connect-timeout 30 --speed-limit 1 \
            --speed-time 60 --continue-at - --output "$part" "$source"
        ((run_status != 0)) || return 0
        if ((run_status == 33)); then run -q rm -f "$part"; fi # the server cannot resume
    done
}

# End the recipe unless FILE has the given size and checksum; remove a wrong download.
check_download() {
    local file=$1 record=$2 kind=${3%%:*} expected=${3#*:} bytes=$4 found
    if [[ $dry_run == true ]]; then
        [[ $3 == - ]] || echo "echo '$expected  $file' | ${kind}sum --check"
        return
    fi
    found=$(stat -L -c %s "$file")
    [[ $bytes == - || $bytes == "$found" ]] ||
        reject_download "$file" "must have $bytes bytes, has $found"
    if [[ $3 == - ]]; then
        kind=sha256
        expected=$(cat "$record" 2>/dev/null || true)
    fi
    found=$("${kind}sum" <"$file" | cut -d ' ' -f 1)
    if [[ -z $expected ]]; then
        log "${file%.part}: no checksum is known; that of this download is kept in ${record##*/}"
        echo "$found" >"$record"
    elif [[ $found != "$expected" ]]; then
        reject_download "$file" "the $kind checksum is not $expected"
    fi
}

# End the recipe because FILE breaks RULE.
reject_download() {
    local file=$1 rule=$2 way="run again"
    if [[ -L $file ]]; then
        way="replace it"
        file=$(readlink "$file")
    elif [[ $file != *.part ]]; then
        way="delete it and run again"
    fi
    [[ $1 != *.part ]] || rm -f "$1"
    fatal "$file: $rule; $way"
}
