#!/usr/bin/env bash
# Collect into DIR what `make gpu WHEELS=DIR` installs on a machine without network: wheels for Python
# 3.12 of all that fairseq, this package and its tests need beside PyTorch, NumPy, SciPy and scikit-learn.
set -euo pipefail
(($# == 1)) && [[ $1 ]] || { echo "wheels.sh: expected a folder, as in make wheels WHEELS=DIR" >&2; exit 2; }
mkdir -p "$1"
names=(fairseq-fixed hydra-core omegaconf bitarray tqdm shtab subword-nmt sentencepiece sacremoses
    sacrebleu regex lxml nltk jinja2 safetensors pydantic matplotlib pytest pytest-xdist pytest-timeout
    hypothesis setuptools wheel
    # and what these need
    pydantic-core annotated-types typing-inspection typing-extensions portalocker tabulate colorama click
    joblib markupsafe iniconfig pluggy packaging pygments execnet sortedcontainers mock PyYAML
    contourpy cycler fonttools kiwisolver pillow pyparsing python-dateutil six)
platforms=()
for tag in manylinux_2_28 manylinux_2_27 manylinux_2_24 manylinux_2_17 manylinux2014 manylinux1; do
    platforms+=(--platform "${tag}_x86_64")
done
python -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    "${platforms[@]}" -c constraints.txt -d "$1" "${names[@]}"
python -m pip wheel -q --no-deps -w "$1" antlr4-python3-runtime==4.9.3 # of source only
echo "$(find "$1" -name '*.whl' | wc -l) wheels in $1, $(du -sh "$1" | cut -f 1)"
