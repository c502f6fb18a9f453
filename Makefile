# Two commands on a fresh machine with Python 3.11 or newer: make demo, make test.
# Another Python has an environment of its own: make test PYTHON=python3.13 makes .venv-python3.13.
working = $(shell for name in $(1); do \
	for found in $$name $${PYENV_ROOT:-$$HOME/.pyenv}/versions/*/bin/$$name; do \
	$$found -c 'import venv' 2>/dev/null && { command -v $$found; exit; }; done; done)
SECOND = $(firstword $(foreach name,python3.13 python3.12 python3.14,$(if $(call working,$(name)),$(name))))
INTERPRETER = $(or $(call working,$(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3)),\
	$(error There is no working $(or $(PYTHON),Python 3.11 or newer)))
VENV := .venv$(if $(PYTHON),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
NPM := $(BIN)/python studio-client/npm.py
MODULES := studio-client/node_modules/.package-lock.json
# One worker more than there are cores, at most four, since tests that wait for pages and processes leave cores idle.
# Tests that are long are not left to one of the workers at the end.
PYTEST = $(BIN)/python -m pytest -n $$($(BIN)/python -c 'import os; print(min(4, os.cpu_count() + 1))') --dist worksteal

# Tests start many processes, and each would compile all of the sources where bytecode is not kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-quick test-second test-steady blender chromium check docs moving-picture timings bench clean

demo: $(VENV)/demo
	$(BIN)/pointglue demo tree --set frames.count=20

test: $(VENV)/test $(MODULES) chromium
	$(NPM) test
	$(PYTEST)

# What needs neither a browser nor a large peer: for a second Python.
test-quick: $(VENV)/quick
	$(PYTEST) tests/procrustes tests/glue tests/deform tests/particles tests/elastic tests/scene \
		tests/geometry tests/assets tests/compute tests/io tests/verification \
		--ignore tests/procrustes/test_torch.py --ignore tests/procrustes/test_jax.py

test-second:
	$(if $(SECOND),$(MAKE) test-quick PYTHON=$(SECOND),@echo "No second Python: the tests run on $(INTERPRETER) alone")

# What waits for processes, servers and pages, again and again, in any order, on a machine that is busy.
test-steady: $(VENV)/test chromium
	$(BIN)/python tests/steady.py

# USD files in Blender, whose module is large, for Python 3.11 alone, and has an environment of its own.
blender: $(VENV)/test $(VENV)/blender
	POINTGLUE_BLENDER=$(VENV)/blender/bin/python $(BIN)/python -m pytest tests/io/test_blender.py

# The studio's tests use a browser; without one they are skipped.
chromium:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } \
		|| echo "No Chromium: the tests of the studio's page are skipped. As root: apt-get install chromium"

check: $(VENV)/test $(MODULES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src/pointglue
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_docstrings.py
	$(NPM) run check

docs: $(VENV)/test
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build

# The picture at the top of the README.
moving-picture: $(VENV)/test
	$(BIN)/pointglue run src/pointglue/scene/demos/truck_through_tree.toml -o out/moving-picture --replace
	$(BIN)/pointglue render out/moving-picture --size 960x600 --no-movie
	$(BIN)/python tools/moving_picture.py out/moving-picture/pictures docs/images/truck_through_tree.gif

# The page of timings, measured anew: an hour, on a machine that does nothing else.
timings: $(VENV)/test
	$(BIN)/pointglue bench all --json docs/reference/timings.json
	$(BIN)/python tools/timings_page.py docs/reference/timings.json > docs/reference/timings.md

bench: $(VENV)/test
	$(BIN)/pointglue bench all

# The stamps are rebuilt when the dependencies change; the package itself is installed in place.
$(VENV)/demo: pyproject.toml
	$(INTERPRETER) -m venv $(VENV)
	POINTGLUE_NO_PAGE=1 $(PIP_INSTALL) --no-compile --editable '.[movie,usd]'
	touch $@

$(VENV)/test: pyproject.toml
	$(INTERPRETER) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[test]'
	touch $@

# What checks and builds the page, with a stamp that npm writes.
$(MODULES): studio-client/package-lock.json | $(VENV)/test
	$(NPM) ci --no-audit --no-fund
	touch $@

$(VENV)/quick: pyproject.toml
	$(INTERPRETER) -m venv $(VENV)
	POINTGLUE_NO_PAGE=1 $(PIP_INSTALL) --editable '.[test-quick]'
	touch $@

$(VENV)/blender: $(VENV)/test
	$(INTERPRETER) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check bpy
	touch $@

clean:
	rm -rf .venv .venv-* out docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
