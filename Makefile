# Every target needs Linux, Python 3.11 to 3.13, make and git; everything else is set up here.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: study site test lint setup bayes clean

study: $(READY)
	snakemake --cores all

site: $(READY)
	snakemake --cores all --configfile config/published.yaml

# What times something runs by itself; the rest in parallel, the longest files first.
test: $(READY)
	pytest -n logical --dist loadfile --no-loadscope-reorder -m "not alone" tests/site tests/models tests/integration tests/unit
	pytest -m alone tests/integration

lint: $(READY)
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/rules
	lint-imports
	mypy

setup: $(READY)

# The Bayesian fit is an extra: it brings JAX along.
bayes: $(READY)
	$(VENV)/bin/uv pip install --python $(VENV)/bin/python --require-hashes --quiet --requirement requirements-bayes.lock

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
	touch $@

clean:
	rm -rf build results .snakemake
