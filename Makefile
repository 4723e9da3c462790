# One command does each thing. Every target first makes or renews the virtual environment it needs, which takes no
# time when neither pyproject.toml nor constraints.txt changed; only make and Python 3.11 or newer are assumed.
#
#   ARGS         passed on to what the target runs:  make train ARGS="my_run.toml algorithm.lr=3e-4"
#   PYTHON       the interpreter that .venv is made with; empty: the first suitable one on PATH
#   TORCH_INDEX  a further package index to look for torch in, e.g. one with CPU-only builds (see CONTRIBUTING.md)

ARGS ?=
PYTHON ?=
TORCH_INDEX ?=

# An activated environment must not decide what is installed where.
unexport VIRTUAL_ENV PYTHONHOME

BIN := .venv/bin
STAMPS := .venv/.stamps
# -qq leaves pip's errors and drops its notes about package locations.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --constraint constraints.txt
# Two test processes share the cores: one thread each.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: help train test check conformance bench pr install clean

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' Makefile | awk -F'|' '{ printf "  make %-12s %s\n", $$1, $$2 }'

train: $(STAMPS)/use ## train with the defaults, or with ARGS
	@$(BIN)/marless train $(ARGS)

test: $(STAMPS)/develop ## the quick tests
	@$(PYTEST) -n 2 -m 'not conformance' tests $(ARGS)

check: $(STAMPS)/develop ## style, types, directions of imports, the template
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict functions coordinator infra $(if $(wildcard benchmarks/*.py),benchmarks) $(wildcard scripts/*.py)
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/cfn-lint template.yaml

conformance: $(STAMPS)/develop ## the slow learning and equivalence runs
	@$(PYTEST) -m conformance tests $(ARGS)

bench: $(STAMPS)/develop ## measure
	@$(BIN)/python -m benchmarks $(ARGS)

pr: check test ## what a pull request must pass

install: $(STAMPS)/use ## the virtual environment to train with

clean: ## remove the virtual environment, caches and builds; runs stay
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/python:
	@scripts/setup $(PYTHON)
	@mkdir -p $(STAMPS) && touch $@

# The build back-end is installed like the rest, so that constraints.txt holds for it too.
$(STAMPS)/use: $(STAMPS)/python pyproject.toml constraints.txt
	@echo "installing marless into .venv"
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable '.[tasks,report]'
	@touch $@

# torch comes before anything that depends on it, so that TORCH_INDEX is asked for torch alone.
$(STAMPS)/develop: $(STAMPS)/use
	@echo "installing torch and the development tools into .venv (minutes on a fresh machine)"
	@$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	@$(PIP) --no-build-isolation --editable '.[tasks,report,learner,dev]'
	@touch $@
