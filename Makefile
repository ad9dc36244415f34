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

.PHONY: help html book test lint unit bench gpu notebooks pin venv clean distclean
.DEFAULT_GOAL := help

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

html: $(READY) ## render the book from stored outputs, without executing anything
	@$(RUN) -m tools.render --stored

book: $(READY) ## execute every notebook at quick scale and render the book
	@$(RUN) -m tools.run_stages render

test: $(READY) ## ruff, mypy, tests, notebooks, the book in a browser
	@$(RUN) -m tools.run_stages

lint: $(READY) ## style and types only
	@$(RUN) -m tools.run_stages lint types

unit: $(READY) ## unit and statistical tests only
	@$(RUN) -m tools.run_stages unit

bench: $(READY) ## speed and memory beside plain implementations
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(RUN) $$file || exit 1; done

# No virtual environment: a machine with a GPU has its own torch.
MINUTES ?= 9
gpu: ## on a machine with a GPU: its tests, rates and large presets, slice by slice
	@$(PYTHON) -m tools.gpu --minutes $(MINUTES) $(if $(RESUME),--resume $(RESUME))

notebooks: $(READY) ## for authors: execute the notebooks and store their outputs
	@$(RUN) -m tools.store_outputs $(NOTEBOOKS)

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
