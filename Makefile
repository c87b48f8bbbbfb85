# Every task of the project. `make help` lists them; each sets up what it needs first.
SHELL := /bin/bash
PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(HOME)/.local/bin:$(PATH)
PYTEST := $(PY) -m pytest -q -n 2 --dist loadfile

.PHONY: help setup kernels demo test test-long lint format bench docs lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## install what is missing and make .venv
	@tools/setup.sh
	@$(MAKE) --no-print-directory kernels
	@$(PY) -m compileall -q src

kernels: ## compile the Cython kernels beside their sources (only what changed)
	@mkdir -p build
	@flock build/.lock $(PY) tools/kernels.py

demo: setup ## server, pipeline and console, with data flowing
	@$(PY) -m jetstream.cli.main demo

lint: setup ## format, lint and types
	@ruff format --check --quiet .
	@ruff check --quiet .
	@$(PY) -m mypy --strict src/jetstream tests benchmarks tools

test: lint ## everything but the long runs
	@$(PYTEST) -m "not long"

test-long: setup ## fault, soak and load runs
	@$(PYTEST) -m long

bench: setup ## both servers side by side; writes docs/benchmarks.md
	@$(PY) -m benchmarks

docs: setup ## build the documentation into site/
	@zensical build --strict

format: setup ## let ruff rewrite the sources
	@ruff format .
	@ruff check --fix .

lock: setup ## resolve the dependencies anew; no addresses are kept
	@uv lock --upgrade
	@$(PY) tools/lock.py

clean: ## remove what was built
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache
	@find src -name '*.so' -delete
