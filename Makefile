# `make demo` and `make test` set everything up by themselves; each works as the first command on a fresh clone.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OLDEST := transformers==5.20.0

.PHONY: help setup demo test test-slow test-browser test-oldest test-all lint format wheel clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## Make .venv and install everything at the pinned versions

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV), once: about 2.2 GB on disk, some minutes, over the network"
	$(PYTHON) -m venv $(VENV)
	@echo "Step 1 of 2: torch, the largest part"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	@echo "Step 2 of 2: everything else, tools for the tests included"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[demo,tensorboard,test,dev]'
	@touch $(READY)
	@echo "Done. For the command budgetformer: source $(BIN)/activate"

demo: $(READY)  ## Train a BudgetFormer and its full-attention twin on BBC News; table, model folder and report
	$(BIN)/budgetformer demo --output runs/demo

test: $(READY)  ## The tests without the slow ones
	$(BIN)/python -m pytest -m "not slow and not browser and not gpu" -n 2

test-slow: $(READY)  ## Only the slow tests
	$(BIN)/python -m pytest -m "slow and not browser and not gpu"

test-browser: $(READY)  ## The page in a real Chromium, if there is one (Debian: apt-get install chromium)
	$(BIN)/python -m pytest -m browser

test-all: $(READY)  ## All tests that this machine can run, slow ones too
	$(BIN)/python -m pytest -n 2

test-oldest: $(READY)  ## The tests of models and training with the oldest transformers that is allowed
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/oldest $(OLDEST)
	PYTHONPATH=$(VENV)/oldest $(BIN)/python -m pytest -m "not slow and not gpu" -n 2 tests/training tests/test_parts.py tests/test_hub.py tests/test_modeling.py tests/test_loading.py tests/serving/test_serve.py::test_parallel_requests_get_the_answers_that_they_get_alone

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## Let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: $(READY)  ## Build the wheel into dist/
	$(BIN)/python -m build --wheel

clean:  ## Remove what builds and tests left, not runs/
	rm -rf build dist src/*.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache
