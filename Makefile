# mooring: everything a newcomer types. Needs make and Python >= 3.11, nothing else.
#
#   make start    a cluster in memory and its scheduler, to be looked at (ARGS=--once: to the end)
#   make test     the test suite, in parallel
#   make controlplane  the real etcd, kube-apiserver, kube-scheduler and kubectl, built once
#   make lint     style, types, layers, sizes, words
#   make bench    how much a decision, a request and a watch event cost
#   make venv     the virtual environment that the others use (made once; start needs a part of it)
#   make sbom     build/sbom.json: the runtime requirements as CycloneDX
#   make licences check the licences of all requirements with requirements/licences
#   make audit    look for known vulnerabilities of the runtime requirements (needs the network)
#   make lock     make requirements/*.txt anew; UPGRADE=--upgrade takes newer versions
#
# PYTHON=/path/to/python chooses the interpreter of the virtual environment.

SHELL := /bin/sh
# Compiled modules are kept: the tests start hundreds of processes, and each would compile everything.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.stamp
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile \
	--require-hashes
ARGS ?=
UPGRADE ?=
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11

.DEFAULT_GOAL := help
.PHONY: help venv start test controlplane lint bench lock sbom licences audit clean

help:
	@sed -n 's/^#   make/  make/p' Makefile

venv: $(STAMP)

# Stamps are written last: an interrupted installation is repeated, a finished one costs nothing.
# `make start` needs the runtime requirements alone; the other targets add those of developers.
# pip does not compile: Python compiles what it imports, which is far less than all modules.
$(RUNTIME): requirements/runtime.txt pyproject.toml tools/install_checkout.py
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	  for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      python="$$candidate"; break; \
	    fi; \
	  done; \
	fi; \
	if [ -z "$$python" ]; then \
	  echo "make: no Python >= 3.11 found; say where it is: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; \
	fi; \
	if [ ! -x $(BIN)/python ] || ! $(BIN)/python -c 'import pip' >/dev/null 2>&1; then \
	  echo "making $(VENV) with $$python"; \
	  "$$python" -m venv --clear $(VENV) || { \
	    echo "make: $$python has no venv module (on Debian: apt-get install python3-venv)" >&2; \
	    exit 1; }; \
	fi
	$(INSTALL) -r requirements/runtime.txt
	$(BIN)/python tools/install_checkout.py
	@touch $(RUNTIME)

$(STAMP): $(RUNTIME) requirements/dev.txt
	$(INSTALL) -r requirements/dev.txt
	@touch $(STAMP)

start: $(RUNTIME)
	$(BIN)/mooring start $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -n auto -m "not perf" $(ARGS)

controlplane: $(STAMP)
	$(BIN)/python -m mooring.testing.controlplane build

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py
	$(BIN)/python tools/check_words.py

bench: $(STAMP)
	$(BIN)/python -m bench $(ARGS)

LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --python-version 3.11 $(UPGRADE)

lock: $(STAMP)
	$(LOCK) requirements/runtime.in -o requirements/runtime.txt
	$(LOCK) requirements/dev.in -o requirements/dev.txt
	$(LOCK) requirements/fuzz.in -o requirements/fuzz.txt
	$(LOCK) requirements/supply.in -o requirements/supply.txt

# The tools of the supply chain have an environment of their own: they are no part of mooring.
SUPPLY := .venv-supply
SUPPLY_STAMP := $(SUPPLY)/.stamp

$(SUPPLY_STAMP): requirements/supply.txt | $(RUNTIME)
	$(BIN)/python -m venv --clear $(SUPPLY)
	$(SUPPLY)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  --require-hashes -r requirements/supply.txt
	@touch $(SUPPLY_STAMP)

# Reproducible: without a serial number and a time, so equal locks give equal files.
sbom: $(SUPPLY_STAMP)
	@mkdir -p build
	$(SUPPLY)/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application \
	  --output-reproducible --output-format JSON --output-file build/sbom.json requirements/runtime.txt

# An expression that is not in the list fails: read that licence, then add it.
licences: $(STAMP) $(SUPPLY_STAMP)
	$(SUPPLY)/bin/pip-licenses --python $(BIN)/python --ignore-packages mooring --from mixed \
	  --allow-only "$$(grep -v '^#' requirements/licences | paste -s -d ';')" --summary

# --strict: a package that the index knows nothing about fails, too.
audit: $(SUPPLY_STAMP)
	$(SUPPLY)/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
	  -r requirements/runtime.txt

clean:
	rm -rf $(VENV) $(SUPPLY) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
