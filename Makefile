# Each target sets up what it needs in .venv: Python 3.11 or newer with venv, and g++ for the software GPU.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready# with the developers' tools
INSTALLED := $(if $(wildcard $(READY)),$(READY),$(VENV)/.installed)# what users need
CXX_FILES = $(shell git ls-files '*.cpp' '*.h')
JOBS ?= $(shell nproc)
WORKERS ?= $(shell expr $(JOBS) + 2)# tests with jobs mostly wait for them
QUICK_TESTS = tests/unit tests/contract tests/properties -m 'not networks'

.PHONY: demo tides quick quick-tests test test-cuda check format clean

# Two trainings that do not fit side by side and of which neither fills the device, on the GPU's stand-in: one after the
# other, at once (out of memory), and under neaptide; then whether the numbers are the same. About 100 s on two cores.
demo: $(INSTALLED)
	@mkdir -p demo
	@echo; echo "1 of 3: one after the other, without neaptide"
	$(BIN)/neaptide run examples/jobs.toml --without-neaptide one-after-the-other -o demo/one-after-the-other
	@# A job that finds no memory fails, as it does on a GPU that nobody manages: exit code 1 is what is to be seen.
	@echo; echo "2 of 3: both at once, without neaptide"
	$(BIN)/neaptide run examples/jobs.toml --without-neaptide at-once --wait 0s -o demo/at-once; test $$? = 1
	@echo; echo "3 of 3: both under neaptide"
	$(BIN)/neaptide run examples/jobs.toml --private -o demo/neaptide
	@echo; tail -qn 1 demo/one-after-the-other/*.log > demo/alone.txt
	@tail -qn 1 demo/neaptide/*.log | diff demo/alone.txt - && echo "losses and parameters are the same, bit by bit"
	$(BIN)/neaptide report demo/one-after-the-other demo/at-once demo/neaptide -o demo/report.html

# The memory of two networks on a GPU that need not be here.
tides: $(INSTALLED)
	@mkdir -p demo
	$(BIN)/neaptide profile --batch 64 --device V100 --figure demo/resnet50.png -o demo/resnet50.trace resnet50
	$(BIN)/neaptide profile --batch 32 --device V100 --figure demo/bert-base.png -o demo/bert-base.trace bert-base
	$(BIN)/python examples/two_tides.py demo/resnet50.trace demo/bert-base.trace --figure demo/two-tides.png

# What to run after each change: lint and types beside the unit, contract and property tests. Tests of whole networks are
# left out, and properties are tried on fewer examples.
quick: $(READY)
	@$(MAKE) --no-print-directory -j 2 --output-sync=target check quick-tests

quick-tests: $(READY)
	NEAPTIDE_TEST_EXAMPLES=20 $(BIN)/pytest -n $(WORKERS) --dist worksteal $(QUICK_TESTS)

test: $(READY)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

# Torch's own CUDA build on a device that is not there (tests/hollow). Its venv has torch without the CUDA libraries,
# because the hollow library takes their place. The wheel with CUDA is what the package index has; settings that prefer
# another build of torch are not for this venv.
CUDA_VENV := .venv-cuda
CUDA_READY := $(CUDA_VENV)/.ready
CUDA_PIP := PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= $(CUDA_VENV)/bin/pip install --quiet --disable-pip-version-check
CUDA_HEADERS := nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88
CUDA_PACKAGES := cyclopts filelock fsspec highspy jinja2 matplotlib msgspec networkx ninja numpy pytest pytest-xdist rich \
	setuptools sympy transformers typing-extensions
test-cuda: $(CUDA_READY)
	@$(MAKE) --no-print-directory -s -j $(JOBS) -C tests/hollow VENV=$(abspath $(CUDA_VENV))
	PYTHONPATH=src $(CUDA_VENV)/bin/python -m pytest tests/hollow

$(CUDA_READY): constraints.txt
	@test -x $(CUDA_VENV)/bin/python || $(PYTHON) -m venv $(CUDA_VENV)
	$(CUDA_PIP) -c constraints.txt --no-deps torch $(CUDA_HEADERS)
	$(CUDA_PIP) -c constraints.txt $(CUDA_PACKAGES) 2> $(CUDA_VENV)/pip.log || { cat $(CUDA_VENV)/pip.log >&2; exit 1; }
	@touch $@

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

# pip shows what it loads, and how far it is.
PIP_INSTALL = $(BIN)/pip install --disable-pip-version-check -c constraints.txt

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(call make-venv,about 250 MB with torch's CPU build (0.9 GB on disk; 40 s at 50 Mbit/s), some GB with its CUDA build)
	$(PIP_INSTALL) -e .
	$(BIN)/python -c 'import neaptide.devices.soft' # builds it
	@touch $@

$(READY): pyproject.toml constraints.txt
	@$(call make-venv,about 310 MB with torch's CPU build and the developers' tools (1.1 GB on disk), some GB with its CUDA build)
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@

define make-venv
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "neaptide needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }; \
command -v g++ > /dev/null || { echo "neaptide builds its software GPU with g++: apt install g++" >&2; exit 1; }; \
test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	{ echo "cannot make a virtual environment: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }; \
echo "Setting up $(VENV): a download of $(1). g++ then builds the software GPU, in about 2 minutes on 2 cores."
endef

clean:
	rm -rf $(VENV) $(CUDA_VENV) build demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
