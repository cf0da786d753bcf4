# `make demo` and `make test` need Python 3.11 or newer, git and make; they set up the rest in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready

.PHONY: demo test bench compat lint format schema golden picture clean

demo: $(READY)
	$(BIN)/python -m tests.demo --out out/demo

test: $(READY)
	$(BIN)/python -m pytest -q

# What the probe costs, as ratios in one run; minutes.
bench: $(READY)
	$(BIN)/python -m tests.bench

# The probe's tests on another torch, in an environment of its own: make compat TORCH=2.9.1
compat:
	@test -n "$(TORCH)" || { echo "name a version: make compat TORCH=2.9.1"; exit 2; }
	$(PYTHON) -m venv .venv-torch-$(TORCH)
	.venv-torch-$(TORCH)/bin/python -m pip install --quiet torch==$(TORCH) numpy pytest \
	  -r requirements/action.txt
	.venv-torch-$(TORCH)/bin/python -m pip install --quiet --no-deps --editable .
	.venv-torch-$(TORCH)/bin/python -m pytest -q tests/hazards tests/probe tests/probe_timeline

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# What is generated and committed: the published JSON Schema, the expected comments, the picture.
schema: $(READY)
	$(BIN)/python -c 'import json; from action.report import report_schema; \
	  print(json.dumps(report_schema(), indent=2))' > action/report/report.schema.json

golden: $(READY)
	$(BIN)/python -m pytest -q tests/report --write-golden

# Needs Chromium.
picture: demo
	$(BIN)/python -m tests.demo.picture out/demo/hazard/comment.html docs/comment.png

$(READY): requirements/action.txt requirements/train.txt requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

clean:
	rm -rf $(VENV) out build dist *.egg-info
