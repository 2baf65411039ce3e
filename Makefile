# The same few commands on a laptop and in CI. Each one makes the environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export SPARK_LOCAL_IP := 127.0.0.1

.DEFAULT_GOAL := help
.PHONY: help setup check test demo demo-kafka soak bench format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with holdfast and everything it needs

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

check: $(READY) ## lint, types, import rules, unit and property tests (no Spark, under 2 minutes)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -n 2 --dist loadfile tests/unit tests/property tests/compat

test: check ## every test: real Spark, real servers, real crashes
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=40 tests/contracts tests/spark tests/faults tests/services tests/docs

demo: $(READY) ## kill a streaming query, look into what it left, go back, resume
	$(BIN)/holdfast demo

demo-kafka: $(READY) ## count page views from Kafka to Kafka, kill the job on the way (needs Maven)
	$(BIN)/python examples/page_views_kafka/run.py

soak: $(READY) ## hurt two jobs by chance, 400 times and for 1000 epochs by Kafka, and recount their rows (SOAK="--kafka --seed 7")
	$(BIN)/python -m tests.soak $(SOAK)

bench: $(READY) ## measure against plain Spark, Flink, JDBC and cp -r; writes bench/results.md
	$(BIN)/python -m bench

format: $(READY) ## rewrite the code as the linter wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove what the other commands made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
