PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint setup bench man clean

demo: setup  ## Audit this machine and a lab cluster, and leave two reports to read.
	@scripts/demo.sh

test: setup lint  ## Everything CI runs.
	$(BIN)/pytest -n auto

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin -q -t=3.6- --no-tips --violations src/assay/node src/assay/workloads

bench: setup  ## Speed, measured; nothing is asserted.
	$(BIN)/python benchmarks/judge.py
	$(BIN)/python benchmarks/audit.py

man: setup  ## Man pages from the same texts as --help.
	$(BIN)/python scripts/man.py

setup: $(READY)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -q --editable . --group dev
	@touch $(READY)

clean:
	rm -rf $(VENV) demo dist build
