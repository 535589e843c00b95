# `make help` lists what there is. Everything happens inside this checkout; the environment is made in .venv.

PYTHON ?=
JOBS ?= 2
ARGS ?=

VENV := .venv
FAST := .venv-fast
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
SOURCES := $(shell find src/tenure -type f ! -name "*.pyc")
PIP_COMPILE := $(PY) -m piptools compile --quiet --no-header --no-emit-options --strip-extras \
	--annotation-style=line --unsafe-package tenure

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench fast lock clean

help:
	@echo 'make demo   a scheduler on this machine, with work to watch (ARGS=--once: check it and stop)'
	@echo 'make test   the whole test suite (ARGS=... are passed to pytest, JOBS=2 workers)'
	@echo 'make lint   ruff, mypy --strict, import-linter'
	@echo 'make format let ruff rewrite the sources'
	@echo 'make bench  the benchmarks'
	@echo 'make fast   compile the core; $(FAST)/bin/tenure is then the faster simulator. Needs a C compiler'
	@echo 'make lock   pin the dependencies anew after a change of pyproject.toml'
	@echo 'make clean  remove what make has made'

demo: $(VENV)/.demo-ready
	@$(PY) -m tenure.demo $(ARGS)

test: $(VENV)/.dev-ready
	$(PY) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

lint: $(VENV)/.dev-ready
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --strict
	$(VENV)/bin/lint-imports

format: $(VENV)/.dev-ready
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(VENV)/.dev-ready
	@for bench in benchmarks/[!_]*.py; do echo "== $$bench"; $(PY) "$$bench" $(ARGS) || exit 1; done

fast: $(FAST)/.ready
	@$(FAST)/bin/tenure --version

# The dev lock is the widest; the others follow it, so that all of them agree.
lock: $(VENV)/.dev-ready
	$(PIP) install 'pip-tools>=7.5'
	$(PIP_COMPILE) --extra dev --extra demo --extra postgres -o requirements-dev.lock pyproject.toml
	$(PIP_COMPILE) --extra demo -c requirements-dev.lock -o requirements-demo.lock pyproject.toml
	$(PIP_COMPILE) -c requirements-dev.lock -o requirements.lock pyproject.toml
	sed -i '/^# The following packages/,$$d' requirements*.lock

clean:
	rm -rf $(VENV) $(FAST) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up. The stamps make a second call instant; a changed lock file or pyproject.toml sets up again.

$(VENV)/.created $(FAST)/.created:
	@python=; \
	for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python=$$candidate; break; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Tenure needs Python 3.11 or newer; python3 here is: $$(python3 --version 2>&1)." >&2; \
	  echo 'Install one and run make again, or name it: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "$$python has no venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	fi; \
	echo "Setting up $(@D) with $$("$$python" --version) (once; a minute or two)"; \
	"$$python" -m venv $(@D) && touch $@

$(VENV)/.demo-ready: requirements-demo.lock pyproject.toml $(VENV)/.created
	@$(PIP) install -r requirements-demo.lock
	@$(PIP) install --no-deps --editable .
	@touch $@

$(VENV)/.dev-ready: requirements-dev.lock pyproject.toml $(VENV)/.created
	@$(PIP) install -r requirements-dev.lock
	@$(PIP) install --no-deps --editable .
	@touch $@

# A wheel in an environment of its own: nothing compiled may lie in src/, where it would hide sources that change.
$(FAST)/.ready: requirements.lock pyproject.toml setup.py packaging/build_backend.py $(SOURCES) $(FAST)/.created
	@if ! command -v "$${CC:-cc}" >/dev/null; then \
	  echo 'make fast needs a C compiler. On Debian and Ubuntu: apt install gcc libc6-dev' >&2; exit 1; \
	fi
	@if ! $(FAST)/bin/python -c 'import sysconfig, pathlib; \
	  raise SystemExit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'; then \
	  echo 'make fast needs the C headers of Python. On Debian and Ubuntu: apt install python3-dev' >&2; exit 1; \
	fi
	@$(FAST)/bin/python -m pip --disable-pip-version-check --quiet install -r requirements.lock
	@echo 'Compiling the core (two minutes or so)'
	@rm -rf $(FAST)/dist
	@TENURE_COMPILE=1 $(FAST)/bin/python -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir $(FAST)/dist .
	@$(FAST)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --force-reinstall $(FAST)/dist/*.whl
	@touch $@
