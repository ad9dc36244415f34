# Every command that a person runs. Each sets up what it needs: one virtual environment,
# made anew only when the requirements change. Needs Python 3.11 to 3.13, make, git.
#
#   make html    render the book from the outputs that are stored in the notebooks
#   make book    execute every notebook, then render
#   make test    everything that CI checks
#   make help    the rest

PYTHON ?= python3
VENV   ?= .venv
RUN    := $(VENV)/bin/python
READY  := $(VENV)/.ready
# pip prints errors only; make venv PIP_FLAGS= prints everything.
PIP_FLAGS ?= -qq

# What CI checks, in this order; render needs what execute makes, and so on.
STAGES := style types unit checks execute outputs parameters render read

.PHONY: help html book test lint bench gpu notebooks pin venv clean distclean $(STAGES)
.DEFAULT_GOAL := help
.NOTPARALLEL:
# Every process would compile the package anew, and every process of tests the tests.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

html: $(READY) ## render the book from stored outputs, without executing anything
	@$(RUN) -m tools.render --stored

book: render ## execute every notebook at quick scale and render the book

test: $(READY) ## ruff, mypy, tests, notebooks, the book in a browser
	@$(MAKE) --keep-going --no-print-directory $(STAGES)

lint: style types ## style and types only

# The stages of the test. With --keep-going one that fails does not stop the others,
# but those that need it. The tests of the book read what earlier stages made.
$(STAGES): $(READY)
$(STAGES): export OMP_NUM_THREADS = 1
$(STAGES): export EBMTUT_EXECUTED = _build/executed
$(STAGES): export EBMTUT_HTML = _build/html
outputs render: execute
read: render

PYTEST := $(RUN) -m pytest -q
TWO    := -n 2 --dist worksteal
# A marker stands for what a test needs, and so for its stage.
NONE   := not (executed or parameters or rendered or browser)

# $(call stage,what it proves,commands): run them and say how long they took.
define stage
@printf '\n=== %s: %s\n' $@ '$(1)'; began=$$(date +%s); $(2); code=$$?; \
  echo "=== $@: $$(($$(date +%s) - began)) s, exit code $$code"; exit $$code
endef

style:
	$(call stage,what is vendored is what was reviewed,$(RUN) -m ruff check . && \
	  $(RUN) -m ruff format --check --quiet . && $(RUN) -m tools.vendor)

types:
	$(call stage,mypy,$(RUN) -m mypy --num-workers 2)

unit: ## unit and statistical tests only
	$(call stage,unit and statistical tests,$(PYTEST) $(TWO) --durations=10 tests \
	  --ignore=tests/book)

checks:
	$(call stage,the contract of the notebooks; every check of the book can fail, \
	  $(PYTEST) $(TWO) tests/book -m "$(NONE)")

execute:
	$(call stage,every notebook runs with its defaults,$(RUN) -m tools.execute)

outputs:
	$(call stage,stored outputs are what the code prints today, \
	  $(PYTEST) tests/book -m executed)

parameters:
	$(call stage,every notebook runs with other parameters, \
	  $(PYTEST) tests/book -m parameters)

render:
	$(call stage,the book builds without a warning, \
	  $(RUN) -m tools.render)

# Chromium is found first: two processes of tests must not install one at the same time.
# The long tests of the browser stand in one file: whoever is idle takes the next.
read:
	$(call stage,links; the pages in Chromium with the network cut, \
	  $(RUN) -m tools.chromium && \
	  $(PYTEST) -n 2 --dist worksteal tests/book -m "rendered or browser")

bench: $(READY) ## speed and memory beside plain implementations
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(RUN) $$file || exit 1; done

# No virtual environment: a machine with a GPU has its own torch.
MINUTES ?= 9
gpu: ## on a machine with a GPU: its tests, rates and large presets, slice by slice
	@$(PYTHON) -m tools.gpu --minutes $(MINUTES) $(if $(RESUME),--resume $(RESUME))

notebooks: $(READY) ## for authors: execute the notebooks and store their outputs
	@$(RUN) -m tools.execute --store $(NOTEBOOKS)

# Pins change only where pyproject.toml or UV_FLAGS require it.
pin: $(READY) ## for authors: pin what pyproject.toml asks for, for every system
	@$(VENV)/bin/uv pip compile pyproject.toml --all-extras --universal \
	  --python-version 3.11 --no-annotate --quiet --custom-compile-command "make pin" \
	  --output-file requirements.txt $(UV_FLAGS)

venv: $(READY) ## only the virtual environment

# Clear messages for the two things that a fresh machine may lack.
$(READY): pyproject.toml requirements.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "No '$(PYTHON)' here. Install Python 3.11, 3.12 or 3.13, or name one:" \
	       "make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else \
	  "%s is Python %d.%d; ebmtut needs 3.11, 3.12 or 3.13: make PYTHON=/path/to/python3.12 ..." \
	  % ((sys.executable,) + v))'
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV) || { \
	  echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv"; \
	  rm -rf $(VENV); exit 1; }
	@echo "Installing into $(VENV): a few minutes, once"
	@$(RUN) -m pip install $(PIP_FLAGS) --disable-pip-version-check \
	  --constraint requirements.txt --editable ".[book,test,dev,bench,transport,graphs,cluster,sweep,lsun]" || { \
	  echo "Installing failed; 'make venv PIP_FLAGS=' shows why"; exit 1; }
	@touch $@

clean: ## remove what was built
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -type d -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment too
	rm -rf $(VENV)
