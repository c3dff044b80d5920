# Every target needs Linux, Python 3.11 to 3.13, make and git; everything else is set up here.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
ADDED := $(VENV)/added-requirements.txt
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: study site test test-all test-parallel test-alone test-matrix test-random \
	lint setup slurm jax gpu clean

study: jax
	snakemake --cores all

site: $(READY)
	snakemake --cores all --configfile config/published.yaml

# Tests that measure time run alone, after all others. The longest files come first, so that the
# parallel part does not end with one of them.
PARALLEL := pytest -n logical --dist loadfile --no-loadscope-reorder
FILES := tests/golden tests/strategies tests/site tests/workflow tests/models tests/data tests/measure \
	tests/cluster tests/report tests/predict tests/results tests/study tests/cli tests/core

test: $(READY) jax
	$(PARALLEL) -m "not slow and not alone" $(FILES)
	pytest -m "alone and not slow" $(FILES)
	@echo "Everything else: make test-all (about half an hour)"

test-all: test-parallel test-alone

test-parallel: $(READY) jax
	$(PARALLEL) -m "not alone and not matrix" $(FILES)

# Every kind of model with every strategy on two and three workers; prints what came out.
test-matrix: $(READY)
	pytest -m matrix tests/models/test_kinds.py

test-alone: $(READY) jax
	pytest -m alone $(FILES)

# Hypothesis searches for new examples; `make test` tries the same few each time.
test-random: $(READY)
	$(PARALLEL) -m hypothesis --hypothesis-profile random --timeout 600 $(FILES)

lint: $(READY)
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/rules
	lint-imports
	mypy workflow bench

# `make setup EXTRA=requirements.txt` adds packages of your own, in versions that go with those of
# the lock. Their list is kept, and they are installed again whenever the environment is renewed.
ADD := $(VENV)/bin/uv pip install --python $(VENV)/bin/python --constraint requirements.lock --quiet --requirement

setup: $(READY)
ifdef EXTRA
	$(ADD) $(EXTRA)
	cp $(EXTRA) $(ADDED)
endif

# For `snakemake --profile profiles/slurm`: Snakemake submits each cell as a job of Slurm.
slurm: $(READY)
	$(VENV)/bin/uv pip install --python $(VENV)/bin/python --require-hashes --quiet --requirement requirements-slurm.lock

# JAX, for the strategy keras_jax.
jax: $(READY)
	$(VENV)/bin/uv pip install --python $(VENV)/bin/python --require-hashes --quiet --requirement requirements-jax.lock

# TensorFlow's own build of CUDA, for NVIDIA GPUs.
gpu: $(READY)
	$(VENV)/bin/uv pip install --python $(VENV)/bin/python --require-hashes --quiet --requirement requirements-gpu.lock

# uv is many times faster than pip; pip fetches it, checked against the lock like everything else.
# Byte code is compiled once here: without it every cell would wait seconds longer for TensorFlow.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		|| { echo 'nodewise needs Python 3.11 to 3.13: make PYTHON=python3.12 ...'; exit 1; }
	$(PYTHON) -m venv $(VENV)
	awk '/^[a-z]/ { wanted = /^uv==/ } wanted' requirements.lock > $(VENV)/uv.lock
	$(VENV)/bin/python -m pip install --quiet --require-hashes --requirement $(VENV)/uv.lock
	$(VENV)/bin/uv pip sync --python $(VENV)/bin/python --require-hashes --compile-bytecode --quiet requirements.lock
	$(VENV)/bin/uv pip install --python $(VENV)/bin/python --no-deps --no-build-isolation --quiet --editable .
	if [ -f $(ADDED) ]; then $(ADD) $(ADDED); fi
	touch $@

clean:
	rm -rf build results .snakemake
