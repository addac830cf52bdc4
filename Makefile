# `make demo` and `make test` each set everything up first, on a bare Debian or Ubuntu.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Any Python >= 3.11; the first of these that works is taken: make PYTHON=/path/to/python3 test
PYTHON ?= python3.13 python3.12 python3.11 python3
# Test processes at a time
WORKERS ?= auto
# Version of PyTorch that `make test TORCH=1` installs
TORCH_VERSION ?= 2.13.0

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# pip_install(arguments): on a terminal one running line of what is collected and built, in a log
# the number of packages alone; what pip warns of is shown where it fails.
define pip_install
pip_install() {
  { PYTHONUNBUFFERED=1 $(PIP) install --progress-bar off "$$@" 2>$(VENV)/pip.log || \
    { cat $(VENV)/pip.log >&2; exit 1; }; } | while IFS= read -r line; do
    case $$line in
      Collecting*|*Downloading*|*Building*) [ ! -t 1 ] || printf '\r\033[K  %.70s' "$$line" ;;
      "Installing collected"*) [ ! -t 1 ] || printf '\r\033[K'
        words=($$line); echo "  unpacking $$(($${#words[@]} - 3)) packages" ;;
    esac
  done; [ ! -t 1 ] || printf '\r\033[K'; }
endef

# Package manager as root, or nothing where that is not allowed.
APT := $(shell command -v apt-get >/dev/null && { [ "$$(id -u)" = 0 ] && echo apt-get || \
         { sudo -n true 2>/dev/null && echo sudo -n apt-get; }; })
# apt_install(packages): try, with fresh package lists at the second attempt.
define apt_install
apt_install() { [ -n "$(APT)" ] || return 1
  echo "dynsys: installing $$* with apt"
  export DEBIAN_FRONTEND=noninteractive
  { $(APT) install -y -qq "$$@" || { $(APT) update -qq && $(APT) install -y -qq "$$@"; }; } \
    >/dev/null 2>&1; }
endef

# What makes up the public behaviour without any extra: a minute or two, with its installation.
PLAIN_VENV := .venv-plain
PLAIN_TESTS := tests/test_plain.py tests/test_readme.py tests/kernel/test_numpy_kernel.py \
  tests/kernel/test_c_export.py tests/loops/test_loop_kernel.py \
  tests/operational/test_operational_space.py tests/problems/test_batches.py \
  tests/problems/test_dynamics.py tests/problems/test_dynamics_errors.py \
  tests/problems/test_plans_run.py tests/problems/estimation/test_compiled_estimation.py \
  tests/problems/estimation/test_default_solve.py \
  tests/problems/estimation/test_estimation.py \
  tests/problems/estimation/test_estimation_batches.py \
  tests/problems/estimation/test_many_states.py \
  tests/problems/estimation/test_one_answer.py tests/sensors tests/system

.PHONY: help test trust plain demo docs lint format setup clean

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

demo: $(VENV)/.installed ## set up what it needs, then run the demonstration
	@$(BIN)/dynsys demo

docs: $(VENV)/.installed ## set up, then build the documentation into build/docs/html
	@$(pip_install)
	pip_install -e '.[docs]'
	$(BIN)/python -m docs.build
	echo "dynsys: open build/docs/html/index.html"

test: lint plain $(if $(TORCH),$(VENV)/.installed-torch) ## set up, then ruff, mypy --strict and all tests; FAST=1 without the slow ones, TORCH=1 with PyTorch
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "not trust $(if $(FAST),and not slow)"

trust: $(VENV)/.installed-test ## set up, then what guards rarely and costs much: tables of the papers, every campaign of docs/trust.md (hours, resumed)
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m trust
	$(BIN)/python -m experiments.trust --jobs 2

plain: $(PLAIN_VENV)/.installed ## in an environment without any extra, test what must work there
	@$(PLAIN_VENV)/bin/python -m pytest -q -n $(WORKERS) -m "not slow" $(PLAIN_TESTS)

lint: $(VENV)/.installed-test ## set up, then ruff and mypy --strict only
	@$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check . || { $(BIN)/ruff format --check .; exit 1; }
	$(BIN)/mypy

format: $(VENV)/.installed-test ## rewrite the sources as ruff wants them
	@$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format -q .

setup: $(VENV)/.installed-test ## virtual environment with everything for developers

clean: ## remove the virtual environment and all caches
	@rm -rf $(VENV) $(PLAIN_VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(apt_install)
	usable() { "$$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	  >/dev/null 2>&1; }
	choose() { for p in $(PYTHON); do if usable "$$p"; then echo "$$p"; return; fi; done; }
	python=$$(choose)
	if [ -z "$$python" ] && apt_install python3 python3-venv; then python=$$(choose); fi
	if [ -z "$$python" ]; then
	  echo "dynsys: no Python >= 3.11 with the venv module among: $(PYTHON)" >&2
	  echo "dynsys: run 'sudo apt-get install python3 python3-venv', or give one:" >&2
	  echo "dynsys:     make PYTHON=/path/to/python3.11 test" >&2
	  exit 1
	fi
	echo "dynsys: creating $(VENV) with $$("$$python" --version)"
	rm -rf $(VENV)
	"$$python" -m venv $(VENV)
	touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.created
	@$(pip_install)
	echo "dynsys: installing dynsys and what it needs into $(VENV)"
	pip_install -e '.[fast]'
	touch $@

# Of its own, not with imports blocked: nothing of the extras is there.
$(PLAIN_VENV)/.installed: pyproject.toml | $(VENV)/.created
	@echo "dynsys: installing dynsys without extras into $(PLAIN_VENV)"
	$(BIN)/python -m venv --clear $(PLAIN_VENV)
	$(PLAIN_VENV)/bin/python -m pip --disable-pip-version-check install -q -e . \
	  hypothesis pytest pytest-timeout pytest-xdist 2>$(PLAIN_VENV)/pip.log || \
	  { cat $(PLAIN_VENV)/pip.log >&2; exit 1; }
	touch $@

# CHOLMOD makes estimation without machine code faster; it is built here, from source.
$(VENV)/.installed-cholmod: $(VENV)/.installed
	@$(apt_install)
	has_headers() { [ -e /usr/include/suitesparse/cholmod.h ] || [ -n "$${SUITESPARSE_INCLUDE_DIR:-}" ]; }
	has_python_h() { $(BIN)/python -c 'import pathlib, sys, sysconfig as s; \
	  sys.exit(not pathlib.Path(s.get_path("include"), "Python.h").exists())'; }
	# scikit-sparse 0.5 needs SuiteSparse 7.4, whose CHOLMOD is 5.1
	suits() { cat /usr/include/suitesparse/cholmod*.h 2>/dev/null | grep -qE \
	  'define +CHOLMOD_MAIN_VERSION +([5-9]|[1-9][0-9])' || echo 'scikit-sparse<0.5'; }
	missing=()
	has_headers || missing+=(libsuitesparse-dev)
	{ command -v gcc && command -v g++; } >/dev/null || missing+=(gcc g++ libc6-dev)
	has_python_h || missing+=(python3-dev)
	if [ "$${#missing[@]}" -gt 0 ] && ! apt_install "$${missing[@]}"; then
	  echo "dynsys: CHOLMOD left out, slower fallbacks take its place. To have it:"
	  echo "dynsys:     sudo apt-get install $${missing[*]} && touch pyproject.toml && make setup"
	elif echo "dynsys: building scikit-sparse" && \
	     ! $(PIP) install -e '.[cholmod]' $$(suits) >$(VENV)/cholmod.log 2>&1; then
	  echo "dynsys: building scikit-sparse failed (see $(VENV)/cholmod.log); CHOLMOD left out,"
	  echo "dynsys: slower fallbacks take its place"
	fi
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed-cholmod
	@$(apt_install)
	$(pip_install)
	echo "dynsys: installing what the tests need (two minutes on a slow line)"
	pip_install -e '.[test]'
	if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
	  apt_install chromium chromium-driver || \
	    echo "dynsys: no Chromium with its driver, the tests of pages in a browser are skipped"
	fi
	touch $@

# Not part of the tests' packages: its newest builds bring gigabytes that nobody should get unasked.
$(VENV)/.installed-torch: | $(VENV)/.installed-test
	@$(pip_install)
	echo "dynsys: installing PyTorch $(TORCH_VERSION)"
	pip_install 'torch==$(TORCH_VERSION)'
	touch $@
