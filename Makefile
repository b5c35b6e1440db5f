# Every target makes the environment first if it is missing or out of date.
#   make demo      train on handwritten digits, eager and compiled, and show the break report
#   make test      the tests (ARGS="-k name" passes arguments on)
#   make lint      ruff and mypy
#   make torture   break at every instruction of the corpus
#   make cases     the user programs in $(CASES)
#   make bench     the benchmarks, half an hour of them
#   make models    Hugging Face models beside torch.compile, over an hour of them (ARGS="--only bert llama")
#   make support   docs/python-support.md anew

VENV ?= .venv
TORCH ?= torch==2.13.0
CASES ?= ../shared/cases
IS_311 = import sys; sys.exit(sys.version_info[:2] != (3, 11))
PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c '$(IS_311)' 2>/dev/null && echo $$p && break; done)

BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: demo test lint torture cases bench models support environment clean

demo: environment
	$(BIN)/python -m segue demo $(ARGS)

test: environment
	$(BIN)/python -m pytest -q -n 2 $(ARGS)

lint: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src

torture: environment
	$(BIN)/python -m tests.frames.torture $(ARGS)
	$(BIN)/python -m tests.capture.torture $(ARGS)

cases: environment
	$(BIN)/python $(CASES)/run.py $(ARGS)

bench: environment
	@set -e; for name in call_overhead kernels models_native startup code_growth; do \
		echo "== $$name"; $(BIN)/python benchmarks/$$name.py; done

models: environment
	$(BIN)/python -m pip install -q -e ".[models]"
	$(BIN)/python -m benchmarks.models $(ARGS)

support: environment
	$(BIN)/python -W ignore -m tests.support > docs/python-support.md

environment: $(READY)

# torch comes first and alone, so that the version pinned here is the one that is used.
$(READY): pyproject.toml $(wildcard setup.py csrc/*)
	@test -n "$(PYTHON)" || { echo "Python 3.11 was not found; name one: make PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q "$(TORCH)"
	$(BIN)/python -m pip install -q -e ".[dev,demo]"
	touch $@

clean:
	rm -rf $(VENV) build src/*.egg-info src/segue/_core*.so
