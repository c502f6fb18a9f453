# Two commands on a fresh machine with Python 3.11 or newer: make demo, make test.
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3))
BIN := .venv/bin

.PHONY: demo test blender chromium check docs bench clean

demo: .venv/demo
	$(BIN)/pointglue demo tree --set frames.count=20

test: .venv/test chromium
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

# USD files in Blender, whose module is large, for Python 3.11 alone, and has an environment of its own.
blender: .venv/test .venv/blender
	POINTGLUE_BLENDER=.venv/blender/bin/python $(BIN)/python -m pytest tests/io/test_blender.py

# The studio's tests use a browser; without one they are skipped.
chromium:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } \
		|| echo "No Chromium: the tests of the studio's page are skipped. As root: apt-get install chromium"

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src/pointglue
	$(BIN)/lint-imports --no-logo

docs: .venv/test
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build

bench: .venv/test
	$(BIN)/pointglue bench core
	$(BIN)/pointglue bench glue
	$(BIN)/pointglue bench deform
	$(BIN)/pointglue bench particles
	$(BIN)/pointglue bench creatures
	$(BIN)/pointglue bench elastic
	$(BIN)/pointglue bench contact
	$(BIN)/pointglue bench scenes
	$(BIN)/pointglue bench studio

# The stamps are rebuilt when the dependencies change; the package itself is installed in place.
.venv/demo: pyproject.toml
	$(PYTHON) -m venv .venv
	POINTGLUE_NO_PAGE=1 $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --editable '.[movie,usd]'
	touch $@

.venv/test: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

.venv/blender: .venv/test
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check bpy
	touch $@

clean:
	rm -rf .venv out docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
