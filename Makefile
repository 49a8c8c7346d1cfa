# Everything from a bare clone: needs Python >= 3.11, a C compiler and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py $(wildcard csrc/*.c csrc/*.h csrc/include/vips_fast/*.h vips_fast/kernels/*.pyx vips_fast/kernels/*.pxi)

.PHONY: demo test test-slow bench bench-compare clean

demo: $(VENV)/.run
	$(BIN)/vips-fast demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

# Full-size checks, minutes each.
test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# Writes bench/results/latest.json with the machine's description.
bench: $(VENV)/.bench
	mkdir -p bench/results
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest bench --benchmark-json=bench/results/latest.json

# Holds the latest results' ratios to the in-process peer against the stored baseline.
bench-compare: bench
	$(BIN)/python bench/compare.py bench/baseline.json bench/results/latest.json

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.test: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable ".[test,bench,plot]"
	touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.test
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info vips_fast/kernels/_native*.so vips_fast/kernels/_native.c
