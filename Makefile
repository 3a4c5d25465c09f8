# What people and CI run. Every target makes the environment it needs; PYTHON picks the interpreter it is made from.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
export PYTHONHASHSEED = 0
# Tests start hundreds of processes, and each would compile the package anew where nothing may be written beside it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test coverage soak check bench docs first-screen format clean

help:
	@echo "make install environment and installation alone"
	@echo "make demo    install and audit the embedded survey; ends with the verdict and the report's path"
	@echo "make test    lint, types and all tests"
	@echo "make coverage  all tests, and which lines they reach: fewer than 95 % is a failure"
	@echo "make soak    the tests that take many minutes: damaged records, killed runs, large hostile messages"
	@echo "make check   lint and types only"
	@echo "make bench   the quick benchmarks, measured next to published"
	@echo "make docs    write docs/configuration.md again"
	@echo "make first-screen  run the demo and draw docs/first-screen.png of its report; needs chromium"
	@echo "make format  rewrite the code in the project's format"
	@echo "make clean   remove the environment and caches (runs/ stays)"

$(BIN)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'LeakLedger needs Python 3.11 or newer; set PYTHON=')"
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt --editable .
	@touch $@

$(BIN)/installed-test: $(BIN)/installed
	$(PIP) install -c constraints.txt --editable ".[test]"
	@touch $@

install: $(BIN)/installed
	@echo "installed; . $(BIN)/activate finds the command leakledger"

demo: $(BIN)/installed
	$(BIN)/leakledger run examples/demo.toml

check: $(BIN)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Matrices of tests are small, and tests run beside each other: a second thread of linear algebra only waits for the
# first, and takes half the time of all processors to do so.
test coverage soak: export OMP_NUM_THREADS = 1

test: check
	$(BIN)/pytest --numprocesses=auto --dist=worksteal

# Apart from `test`: following every line makes some tests take two thirds longer.
coverage: $(BIN)/installed-test
	$(BIN)/pytest --cov --cov-report=term:skip-covered --numprocesses=auto --dist=worksteal

soak: $(BIN)/installed-test
	$(BIN)/pytest --no-cov --timeout=0 -m soak -s

bench: $(BIN)/installed
	$(BIN)/leakledger benchmark tableak --quick

docs: $(BIN)/installed
	$(BIN)/python -m leakledger.audit.reference docs/configuration.md

first-screen: demo
	chromium --headless --no-sandbox --disable-gpu --disable-lcd-text --hide-scrollbars --force-device-scale-factor=0.68 \
	  --window-size=1400,1190 --screenshot=docs/first-screen.png "$$(ls -t runs/demo-*/report.html | head -1)"

format: $(BIN)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
