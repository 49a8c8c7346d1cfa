# Everything from a bare clone: needs Python >= 3.11, a C compiler and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml setup.py csrc/sources.mk csrc/kernels.toml csrc/generate.py \
    $(wildcard csrc/*.[ch] csrc/*/*.[ch] vips_fast/kernels/*.pyx)

.PHONY: demo test lint types test-slow coverage api-check portable wheels cibuildwheel lock torture bench \
    bench-compare bench-baseline bench-counts bench-counts-store before bench-counts-since bench-since valgrind \
    front paper leakage docs docs-links lib sanitize clean

# What the demo imports is compiled as it is imported, and kept, whatever the environment says.
demo: $(VENV)/.run
	PYTHONDONTWRITEBYTECODE= $(BIN)/vips-fast demo

# A worker for each core; one that is done takes tests from the other's end. Compiled modules are kept, whatever the
# environment says: the tests start hundreds of processes, and each would compile the package again.
test: lint
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n logical --dist worksteal

# One form of all sources, sorted imports, types.
lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(git ls-files 'csrc/*.c' 'csrc/*.h')

# What pyright, in its strict mode, says of a user's program; `make lint` has mypy look at it.
types: $(VENV)/.types
	$(BIN)/pyright --pythonpath $(BIN)/python

# Full-size checks, minutes each.
test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# Lines that tests run, and the floors below which this fails: of the package, and of the kernels' C in a build that
# counts.
COVERAGE_OF_C := 90
COUNTING := build/coverage
coverage: $(VENV)/.coverage
	$(BIN)/python -m pytest -n logical --dist worksteal --cov --cov-report=term:skip-covered
	CFLAGS="--coverage -fprofile-update=atomic" LDFLAGS="--coverage" $(BIN)/python setup.py -q build \
	    --build-base $(COUNTING) --build-lib $(COUNTING)/python
	find $(COUNTING) -name '*.gcda' -delete
	PYTHONPATH=$(COUNTING)/python PYTHONSAFEPATH=1 OPENBLAS_NUM_THREADS=1 \
	    $(BIN)/python -m pytest -q -p no:cacheprovider tests/kernels tests/data/test_tokens.py
	$(BIN)/gcovr --root . --filter csrc/ --fail-under-line $(COVERAGE_OF_C) $(COUNTING)

# What has changed in the Python interface since the last release, or since BASE.
BASE ?= $(shell git describe --tags --abbrev=0 2>/dev/null)
api-check: $(VENV)/.release
	$(if $(BASE),,$(error no release to compare with yet: name a commit, as in make api-check BASE=main))
	$(BIN)/griffe check vips_fast --against $(BASE)

# The same bits from gcc, clang, musl and, in an emulator, on Arm, at every optimization level; what is not installed is
# skipped, and named.
portable: $(VENV)/.test
	$(BIN)/python -m pytest tests/capi/test_compilers.py -m "slow or not slow"

# Wheels of this Linux machine, each tried in an environment without a compiler: dist/. INTERPRETERS= names some, otherwise
# it is one for each CPython that is found.
wheels: $(VENV)/.release
	$(BIN)/python .ci/wheels.py dist $(INTERPRETERS)

# Those of every system that has one, where there are such machines: [tool.cibuildwheel] in pyproject.toml. On Linux with
# Docker or Podman.
cibuildwheel: $(VENV)/.release
	$(BIN)/cibuildwheel --output-dir dist

# Versions and hashes of all that the tests need, for `make test LOCKED=1`; from the public index, whatever this machine's
# pip is set to. The package's own extras come out as the package itself, in the last entry, which cannot be hashed.
lock: $(VENV)/.release
	env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL -u PIP_INDEX_URL PIP_CONFIG_FILE=/dev/null \
	    $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	    --no-emit-find-links --extra test --extra bench --extra lint --output-file requirements.lock pyproject.toml
	sed -i.bak '/^# WARNING: pip install will/,/^    # .*vips_fast (pyproject/d' requirements.lock && rm requirements.lock.bak

# Ten thousand jobs killed at random moments (or KILLS), signals at every file call, ten thousand changed files; prints
# what was counted. An hour or two.
torture: $(VENV)/.test
	VIPS_FAST_KILLS=$(KILLS) $(BIN)/python -m pytest -m slow tests/torture

# Each kernel beside its peers, in one process: bench/results/latest.json, with the machine's description. ONLY=pg_mean
# takes the benches whose names contain it.
BENCHES = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest bench $(if $(ONLY),-k $(ONLY))
BASELINE ?= bench/baseline.json
bench: $(VENV)/.bench
	mkdir -p bench/results
	$(BENCHES) --benchmark-json=bench/results/latest.json

# Holds the latest ratios against the stored baseline; what is low is measured up to eight times more.
bench-compare: bench
	$(BIN)/python bench/compare.py check $(BASELINE) bench/results/latest.json $(if $(ONLY),--only $(ONLY))

# A new baseline, and how much each ratio moves by itself, from runs on an idle machine.
RUNS ?= 1 2 3 4 5 6 7 8 9
bench-baseline: $(VENV)/.bench
	mkdir -p bench/results
	for run in $(RUNS); do $(BENCHES) --benchmark-json=bench/results/learn-$$run.json || exit 1; done
	$(BIN)/python bench/compare.py learn $(BASELINE) $(RUNS:%=bench/results/learn-%.json)

# Instructions of each kernel, which no load moves, against the baseline's. Needs valgrind.
COUNTS = $(BIN)/python bench/instructions.py
bench-counts: $(VENV)/.test
	$(COUNTS) check $(BASELINE) $(if $(ONLY),--only $(ONLY))
bench-counts-store: $(VENV)/.test
	$(COUNTS) store $(BASELINE)

# The same against BASE, or the commit of a week ago, on one machine and by one compiler: for workflows.
BEFORE := build/before
before:
	git worktree remove --force $(BEFORE) || true
	git worktree add --detach $(BEFORE) $(or $(BASE),$$(git rev-list -1 --before='7 days ago' HEAD))
bench-counts-since: before $(VENV)/.test
	$(COUNTS) store $(BEFORE).json --root $(BEFORE)
	$(COUNTS) check $(BEFORE).json
bench-since: before
	-$(MAKE) -C $(BEFORE) bench-baseline BASELINE=$(CURDIR)/$(BEFORE).json PYTHON=$(PYTHON)
	$(MAKE) bench-compare BASELINE=$(BEFORE).json PYTHON=$(PYTHON)
valgrind:
	command -v valgrind || (sudo apt-get update && sudo apt-get install --yes valgrind)

# Topic models beside other people's: processor seconds against perplexity, bench/results/front.{md,png}. gensim and
# tomotopy take part where they are installed in .venv.
front: $(VENV)/.bench
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python bench/front.py $(if $(TOOLS),--tools $(TOOLS))

# Every figure and table of the papers, and docs/papers.md: SCALE=10 is the quick form, ONLY="fig2 pg" some of them.
# Five sections need PyTorch, hmmlearn or a sentence model: installed without ONLY, and if one of them is named.
PAPER_EXTRAS := $(filter acc_fig1 latent_models mnist_downstream public_prior public_clusters, \
    $(or $(ONLY),acc_fig1))
paper: $(VENV)/$(if $(PAPER_EXTRAS),.paper,.bench)
	$(BIN)/python -m bench.paper $(if $(SCALE),--scale $(SCALE)) $(if $(ONLY),--only $(ONLY))

# What published topics of KOS give away, docs/leakage.md: up to 18 minutes of shadow models, more at the next call.
leakage: $(VENV)/.test
	nice -n 19 $(BIN)/python bench/leakage.py run --corpora kos --minutes 18
	$(BIN)/python bench/leakage.py report

# The site, build/site/VERSION, beside the versions that lie there; its notebooks are run. Any warning ends the build.
SITE := build/site
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs $(SITE)/$(VERSION)
	$(BIN)/python docs/_ext/versions.py $(SITE)

# Links of the site to other hosts, asked one by one: needs a network, and fails where somebody else's page has moved.
docs-links: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -b linkcheck -D nb_execution_mode=off -d build/doctrees docs build/linkcheck

# The kernels as a static library, build/c/libvips_fast.a: a C compiler; Python's standard library writes the header.
lib:
	$(MAKE) -C csrc PYTHON=$(PYTHON)

# The C tests and the kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer.
# Any report ends the run. Leaks are not looked for: Python itself has some at exit.
SANITIZE := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer -g
RUNTIMES = $(shell $(CC) -print-file-name=libasan.so) $(shell $(CC) -print-file-name=libubsan.so)
SANITIZE_PYTHON ?= $(BIN)/python
sanitize: $(if $(filter $(BIN)/python,$(SANITIZE_PYTHON)),$(VENV)/.test)
	$(MAKE) -C csrc BUILD=../build/sanitize/c SANITIZE="$(SANITIZE)"
	for name in errors hostile ten_lines; do \
	    $(CC) -std=c11 $(SANITIZE) -Icsrc/include tests/capi/consumers/$$name.c build/sanitize/c/libvips_fast.a -lm \
	        -o build/sanitize/$$name && ./build/sanitize/$$name || exit 1; \
	done
	CFLAGS="$(SANITIZE)" LDFLAGS="$(SANITIZE)" $(SANITIZE_PYTHON) setup.py -q build --build-base build/sanitize \
	    --build-lib build/sanitize/python
	export ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(RUNTIMES)" PYTHONPATH=build/sanitize/python PYTHONSAFEPATH=1 \
	    OPENBLAS_NUM_THREADS=1; \
	$(SANITIZE_PYTHON) -c "from vips_fast.kernels import native as n; assert 'sanitize' in n.__file__, n.__file__" && \
	$(SANITIZE_PYTHON) -m pytest -q -p no:cacheprovider tests/kernels

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.run: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[report,text]"
	touch $@

$(VENV)/.test: $(VENV)/bin/python $(SOURCES)
	$(if $(LOCKED),$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock)
	$(BIN)/python -m pip install --quiet $(if $(LOCKED),--no-deps --no-build-isolation --editable .,--editable ".[test,bench,lint]")
	touch $@ $(VENV)/.run

$(VENV)/.bench: $(VENV)/.test
	touch $@

$(VENV)/.types: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable ".[types]"
	touch $@

$(VENV)/.coverage: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable ".[coverage]"
	touch $@

$(VENV)/.release: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	touch $@

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

$(VENV)/.paper: $(VENV)/.bench
	$(BIN)/python -m pip install --quiet --editable ".[paper]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info vips_fast/kernels/native*.so vips_fast/kernels/native.c
