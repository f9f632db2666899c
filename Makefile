# Two commands set up everything on a machine with Python 3.11: `make demo` and `make test`.
.PHONY: demo test test-slow mutants docs bench bench-components bench-peers clean

BIN := .venv/bin
PYTHON ?= python3

demo: .venv/.installed
	$(BIN)/suffice audit --out build/demo || [ $$? -eq 1 ]

test: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

# the longer checks, which `make test` leaves out
test-slow: .venv/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto -m slow
	$(BIN)/python -m tests.mutants

# unsound changes of the source, each of which a test must notice; writes build/mutants.json
mutants: .venv/.installed-dev
	$(BIN)/python -m tests.mutants

# the site, in build/site: strict, and it loads nothing from the network
docs: .venv/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# what a user calls, over the bare product of the geometry, in build/bench.json; screened heads over torch's products
bench: .venv/.installed-dev
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.heads speed

# pieces against their peers, training steps, memory; writes build/components.json. TFP is among the peers if
# `make bench-peers` has been run
bench-components: .venv/.installed-dev
	$(BIN)/python -m benchmarks.components

bench-peers: .venv-peers/.installed

.venv/bin/python:
	$(PYTHON) -m venv .venv

# constraints.txt pins the CPU build of torch: without it pip fetches several GB of CUDA packages
.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ .venv/.installed

.venv/.installed-docs: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@ .venv/.installed

.venv-peers/.installed: benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	touch $@

clean:
	rm -rf .venv .venv-peers build dist
