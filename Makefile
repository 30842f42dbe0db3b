# Every target makes .venv by itself; `make` alone says what there is.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
PIP_INSTALL := $(VENV)/bin/python -m pip install -qq --no-compile --no-warn-conflicts -c constraints.txt
# Installation leaves byte code out: it is written on first use, even where the environment says no.
IN_VENV := PYTHONDONTWRITEBYTECODE= PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

# make bench: MIRROR=DIR has Multi30k's files already; BENCH_OUTPUT is where results go
BENCH_DEVICE ?= cpu
BENCH_OUTPUT ?= exp/bench/results
BENCH_TEXT := exp/bench/multi30k_en_de

# make gpu: WHEELS=DIR has what is not installed, GPU_DATA=DIR output of fairseq-preprocess to bench with
WHEELS ?=
GPU_DATA ?=
GPU_OUTPUT ?= exp/gpu/gpu.json

# make torture: rounds of all kinds of attacks until MINUTES are over, with seeds SEED, SEED + 1 ...;
# TORTURE has other options, -k options
MINUTES ?= 10
SEED ?= 1

.PHONY: help setup demo test torture faults lint bench gpu wheels model tour clean

help:
	@echo "make setup   install everything into $(VENV) (PYTHON=python3.12 chooses the interpreter)"
	@echo "make demo    train, translate and score on real English-German text, beside stock fairseq"
	@echo "make test    run the tests"
	@echo "make torture attack aiayn's commands at random, 10 minutes (MINUTES=60 SEED=2)"
	@echo "make faults  put deliberate faults into a copy and see whether tests notice (FAULTS='--draw 12')"
	@echo "make lint    check Python and shell files"
	@echo "make bench   measure speed and memory beside stock fairseq, 20 minutes (BENCH_DEVICE=cuda)"
	@echo "make gpu     run the tests of GPUs; count, and on a real one measure, into $(GPU_OUTPUT), 9 minutes"
	@echo "make wheels  collect what 'make gpu' installs on a machine without network: WHEELS=DIR for both"
	@echo "make model   train the package's small English-German model anew, an hour"
	@echo "make tour    execute docs/tour.ipynb, 2 minutes"
	@echo "make clean   remove $(VENV) and build leftovers; exp/ stays"

setup: $(READY)
	@echo "ready: . $(VENV)/bin/activate"

ifneq ($(wildcard $(WHEELS)/*.whl),)
$(READY):
	@$(PYTHON) -m venv --system-site-packages $(VENV)
	@$(VENV)/bin/python -m pip install -q --no-index --no-deps --no-compile $(WHEELS)/*.whl
	@$(VENV)/bin/python -m pip install -q --no-index --no-deps --no-build-isolation -e .
	@touch $@
else
# An interrupted set-up goes on where it stopped: pip keeps what is installed, and the marker comes last.
# torch and the build tools come first, because fairseq's isolated build would download a second
# PyTorch. CUDA_HOME is hidden: with it fairseq compiles CUDA kernels that nothing here uses.
# -g0 leaves debug symbols out and saves a third of its compile time. --no-compile saves half a
# minute: only modules that are used get byte code, on first use. --no-deps leaves out torchaudio, which
# only speech needs, and --no-warn-conflicts an error about that; what fairseq needs besides is in setup.py.
$(READY): constraints.txt setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.version_info >= (3, 11) or \
		sys.exit("fairseq-fixed needs Python 3.11 or newer, $(PYTHON) is " + v + ": make setup PYTHON=...")'
	@echo "setting up $(VENV) (about 5 minutes: fairseq is compiled once)"
	@$(PYTHON) -m venv $(VENV)
	@echo "  1/3 PyTorch and build tools"
	@$(PIP_INSTALL) torch numpy setuptools wheel cython ninja
	@echo "  2/3 fairseq"
	@env -u CUDA_HOME CFLAGS="-g0 $$CFLAGS" $(PIP_INSTALL) --no-build-isolation --no-deps fairseq-fixed
	@echo "  3/3 fairseq_aiayn and the tools to develop it"
	@$(PIP_INSTALL) --no-build-isolation -e '.[dev]'
	@touch $@
endif

demo: $(READY)
	@$(IN_VENV) recipes/demo/run.sh --side_by_side

# One file stays on one worker, so that a file's fixtures are made once; one thread per worker.
test: $(READY)
	@$(IN_VENV) OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 10

# What the suite does of tests/torture, many times
torture: $(READY)
	@seed=$(SEED) end=$$(($$(date +%s) + 60 * $(MINUTES))); while [ "$$(date +%s)" -lt $$end ]; do \
		echo "SEED=$$seed"; \
		$(IN_VENV) OMP_NUM_THREADS=1 python -m pytest tests/torture -q -n 2 \
			--hypothesis-profile torture --hypothesis-seed $$seed $(TORTURE) || exit; \
		seed=$$((seed + 1)); done

# Each fault in a copy of its own; its tests first, then all
faults: $(READY)
	@$(IN_VENV) OMP_NUM_THREADS=1 python tests/deliberate_faults.py $(FAULTS)

lint: $(READY)
	@$(IN_VENV) ruff check .
	@$(IN_VENV) ruff format --check .
	@$(IN_VENV) mypy
	@find recipes -name '*.sh' -exec env $(IN_VENV) shellcheck -x .ci/run recipes/slurm.sbatch {} +

bench: $(READY)
	@$(IN_VENV) recipes/multi30k/run.sh --exp $(BENCH_TEXT) --bpe_codes 10000 --stop_stage 4 $(if $(MIRROR),--mirror "$(MIRROR)")
	@$(IN_VENV) python benchmarks/bench.py --device $(BENCH_DEVICE) --json "$(BENCH_OUTPUT)/$(BENCH_DEVICE).json"

gpu: $(READY)
	@$(IN_VENV) OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadfile -k gpu
	@mkdir -p $(dir $(GPU_OUTPUT))
	@$(IN_VENV) python tests/gpu/counts.py --bench --output $(GPU_OUTPUT) $(if $(GPU_DATA),--data "$(GPU_DATA)")

# For a machine without network that has Python 3.12 and a PyTorch for its GPU: make wheels here, copy
# the checkout with them there, and make gpu WHEELS=DIR
wheels: $(READY)
	@$(IN_VENV) tests/gpu/wheels.sh "$(WHEELS)"

# The model of the package anew: an hour on two cores
MODEL := fairseq_aiayn/help_en_de
model: $(READY)
	@$(IN_VENV) recipes/demo/run.sh --exp exp/help_en_de --system aiayn --row multi30k_tiny \
		--max_words 40 --batch_tokens 3072 --max_update 3600 --warmup 1000 --lr_factor 1.6 \
		--interval 100 --train_options "--dropout 0.1 --validate-after-updates 1800"
	@rm -rf $(MODEL)
	@$(IN_VENV) aiayn export exp/help_en_de/aiayn-multi30k_tiny-1 --output $(MODEL) \
		--precision float16 --no-ctranslate2 --licence MPL-2.0 \
		--data "the help of LibreOffice 7.4.7 (its contributors, https://mozilla.org/MPL/2.0), 32,775 pairs of at \
most 40 words; 1,020 sentences of other pages for the scores, which are of float32; by make model" \
		--use "an example, for sentences of such help; of other text it makes nonsense"

tour: $(READY)
	@$(IN_VENV) jupyter nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.record_timing=False docs/tour.ipynb

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
