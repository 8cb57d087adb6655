# Every target sets up what it needs. The first call installs into .venv; later calls reinstall
# nothing unless pyproject.toml or constraints.txt changed. The demo needs little ($(READY)); the
# developers' tools ($(DEV)) bring the demo's packages with them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready
DEV := .venv/.dev

.PHONY: demo test fuzz check docs figures results benchmark format wheel clean

demo: $(READY)
	$(BIN)/multiway demo --out multiway-demo

test: $(DEV)
	$(BIN)/pytest -n 2 --dist worksteal $(PYTEST)

fuzz: $(DEV)
	PYTHONPATH=tests $(BIN)/python tests/data/fuzzing.py 600
	MULTIWAY_FUZZ=1 $(BIN)/pytest tests/cli/test_faults.py

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in site/: it opens from the disk, index.html first, and asks no other host.
docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.venv/.docs: $(READY)
	$(BIN)/pip install --quiet -c constraints.txt -e ".[docs]"
	touch $@

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

figures: $(READY)
	$(BIN)/python -c 'from pathlib import Path; from multiway.report.intro import draw_intro; draw_intro(Path("docs/figures/intro.svg"))'

# The pages that say what results/ holds.
results: $(READY)
	$(BIN)/multiway report results --out multiway-results.html --markdown docs/results.md
	$(BIN)/python -c 'import multiway.report as r, multiway.studies as s; r.insert_lines("README.md", r.read_findings("results", s.read_folder("results")))'

benchmark: $(DEV)
	$(BIN)/python benchmarks/foundation.py
	$(BIN)/python benchmarks/attacks.py
	$(BIN)/python benchmarks/corruptions.py
	$(BIN)/python benchmarks/adversarial.py

# Built in an environment of its own, from what pyproject.toml asks for.
wheel: | $(BIN)/python
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist $(PIP) .

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet -c constraints.txt -e ".[demo]"
	touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	# A peer for tests and benchmarks. Alone, because it asks for torchvision, which it does not
	# import, and for a version of requests that is too old for the rest.
	$(BIN)/pip install --quiet --no-deps torchattacks==3.5.1
	touch $(READY) $@

$(BIN)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'multiway needs Python 3.11 or newer')"
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv dist multiway-demo .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
