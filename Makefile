# Each target sets up what it needs: Python 3.11 or newer with venv, and g++ for the software GPU.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CXX_FILES = $(shell git ls-files '*.cpp' '*.h')
JOBS ?= $(shell nproc)
QUICK_TESTS = tests/unit tests/contract tests/properties -m 'not networks'

.PHONY: demo tides quick quick-tests test check format clean

# Two trainings that do not fit side by side, on the GPU's stand-in: in turn, at once without a plan, and under neaptide.
demo: $(READY)
	@mkdir -p demo
	$(BIN)/neaptide run examples/jobs.toml --private --policy temporal -o demo/temporal
	@# A job that finds no memory fails, as it does on a GPU that nobody manages: exit code 1 is what is to be seen.
	$(BIN)/neaptide run examples/jobs.toml --private --policy examples/all_at_once.py --wait 0s -o demo/spatial; test $$? = 1
	$(BIN)/neaptide run examples/jobs.toml --private --policy neaptide -o demo/neaptide
	@# The numbers of a job are those that it has alone.
	@tail -qn 1 demo/temporal/*.log > demo/in-turn.txt; tail -qn 1 demo/neaptide/*.log | diff demo/in-turn.txt - && \
		echo "losses and parameters are the same, bit by bit"
	$(BIN)/neaptide report demo/temporal demo/spatial demo/neaptide -o demo/report.html

# The memory of two networks on a GPU that need not be here.
tides: $(READY)
	@mkdir -p demo
	$(BIN)/neaptide profile --batch 64 --device V100 --figure demo/resnet50.png -o demo/resnet50.trace resnet50
	$(BIN)/neaptide profile --batch 32 --device V100 --figure demo/bert-base.png -o demo/bert-base.trace bert-base
	$(BIN)/python examples/two_tides.py demo/resnet50.trace demo/bert-base.trace --figure demo/two-tides.png

# What to run after each change: lint and types beside the unit, contract and property tests. Tests of whole networks are
# left out, and properties are tried on fewer examples.
quick: $(READY)
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check quick-tests

quick-tests: $(READY)
	NEAPTIDE_TEST_EXAMPLES=20 $(BIN)/pytest -n $(JOBS) --dist loadgroup $(QUICK_TESTS)

test: $(READY)
	$(BIN)/pytest -n $(JOBS) --dist loadgroup

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(CXX_FILES)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "neaptide needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "cannot make a virtual environment: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
