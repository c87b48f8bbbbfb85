# Every task of the project. `make help` lists them; each sets up what it needs.
SHELL := /bin/bash
UV := uv
RUN := $(UV) run --no-sync

.PHONY: help setup kernels
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

kernels: ## compile the Cython kernels beside their sources (only what changed)
	@mkdir -p build
	@flock build/.lock .venv/bin/python tools/kernels.py
