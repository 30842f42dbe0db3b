# Every target makes .venv by itself; `make` alone says what there is.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
PIP_INSTALL := $(VENV)/bin/python -m pip install -qq --no-compile -c constraints.txt
IN_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"

.PHONY: help setup demo test lint clean

help:
	@echo "make setup   install everything into $(VENV) (PYTHON=python3.12 chooses the interpreter)"
	@echo "make demo    train, translate and score on real English-German text, beside stock fairseq"
	@echo "make test    run the tests"
	@echo "make lint    check Python and shell files"
	@echo "make clean   remove $(VENV) and build leftovers; exp/ stays"

setup: $(READY)
	@echo "ready: . $(VENV)/bin/activate"

# An interrupted set-up goes on where it stopped: pip keeps what is installed, and the marker comes last.
# torch and the build tools come first, because fairseq's isolated build would download a second
# PyTorch. CUDA_HOME is hidden: with it fairseq compiles CUDA kernels that nothing here uses.
# -g0 leaves debug symbols out and saves a third of its compile time. --no-compile saves half a
# minute: only modules that are used get byte code, on first use.
$(READY): constraints.txt setup.py pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.version_info >= (3, 11) or \
		sys.exit("Python 3.11 or newer is needed, $(PYTHON) is " + v + ": make setup PYTHON=...")'
	@echo "setting up $(VENV) (about 5 minutes: fairseq is compiled once)"
	@$(PYTHON) -m venv $(VENV)
	@echo "  1/3 PyTorch and build tools"
	@$(PIP_INSTALL) torch numpy setuptools wheel cython ninja
	@echo "  2/3 fairseq"
	@grep '^fairseq' constraints.txt | env -u CUDA_HOME CFLAGS="-g0 $$CFLAGS" $(PIP_INSTALL) \
		--no-build-isolation -r /dev/stdin
	@echo "  3/3 fairseq_aiayn and the tools to develop it"
	@$(PIP_INSTALL) --no-build-isolation -e '.[dev]'
	@touch $@

demo: $(READY)
	@$(IN_VENV) recipes/demo/run.sh

# One file stays on one worker, so that a file's fixtures are made once; one thread per worker.
test: $(READY)
	@$(IN_VENV) OMP_NUM_THREADS=1 python -m pytest -n 2 --dist loadfile --durations 10

lint: $(READY)
	@$(IN_VENV) ruff check .
	@$(IN_VENV) ruff format --check .
	@find recipes -name '*.sh' -exec env $(IN_VENV) shellcheck -x .ci/run {} +

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
