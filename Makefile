# tallyguard: `make demo` shows it, `make test` proves it. Everything lives in .venv; nothing else is installed.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
STEPS ?= 48
PEOPLE ?= 2000
PAUSE ?= 0.1
# For two cores: two of the three wait for Kafka at first, and later some wait for other processes. Each more would import and
# collect all of it once more.
WORKERS ?= 3
KEEP_FAILED = -o tmp_path_retention_policy=failed
SHARED_OUT = -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(KEEP_FAILED)
COMPARE_BITS := tests/test_readme.py tests/models/noise/test_correlated.py \
	tests/stream_app/embedded/test_restart.py::test_a_killed_run_with_tiers_or_a_budget_ends_with_the_same_files \
	$(addprefix tests/accounting/,test_audit.py exposure/test_information.py exposure/test_history.py \
	bounds/test_horizon_risk.py continuous/test_repeated_steps.py)
CODE := models accounting stream_app tallyguard tests benchmarks experiments

# The first interpreter that is new enough; PYTHON=... chooses another.
PYTHON ?= $(shell for candidate in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; done)

# Tests run side by side: an algebra library's threads would burn what the other process needs while they wait for
# each other, and hundreds of short processes read the bytecode that the first one writes.
test thorough test-fast: export OPENBLAS_NUM_THREADS := 1
# A small run waits sixty times for the disk, as long as it computes: files of tests are kept in memory where 2 GB are free.
IN_MEMORY := $(shell test "$$(df -m --output=avail /dev/shm 2>/dev/null | tail -1)" -ge 2048 2>/dev/null && echo /dev/shm)
test thorough test-fast: export PYTEST_DEBUG_TEMPROOT := $(IN_MEMORY)
# A sixth of the slow tests a day, those of a test's name and the date, so that six days run all of them.
test: export SLOW_PARTS ?= 6
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test services thorough test-fast lint docs format bench fuzz soak held-out figures tightness ceilings crowd prior-check personas real-checkins decisions designs \
	kernels wheel pythons readme style screenshots rehearsal rehearsal-cluster rehearsal-kubernetes lock install install-dev clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

# A first demo compiles what it needs and nothing else, in three processes: its page is up before that is done.
demo: $(VENV)/installed-packages ## a simulated city end to end, no broker needed (STEPS=48 PEOPLE=2000 PAUSE=0.1)
	@test -e $(VENV)/installed-runtime || for part in raw_audit noised_audit; do \
		$(BIN)/python -m stream_app.starting.warm_up $$part >/dev/null 2>&1 & done; \
	status=0; $(BIN)/tallyguard demo --steps $(STEPS) --people $(PEOPLE) --seconds-per-step $(PAUSE) || status=$$?; \
	wait; exit $$status

# What most tests need is compiled before, by some processes; each of a dozen would compile numba's own part of it.
# The second pass runs beside the first, which often waits for a broker; what it says comes last.
test: install-dev services $(VENV)/warmed-up ## every quick test, a sixth of the slow ones, and those that compare bits once more as a machine without AVX-512 sees them
	@said=$$(mktemp); \
	$(BIN)/python -m tests.bits.cpus $(KEEP_FAILED) $(COMPARE_BITS) >$$said 2>&1 & bits=$$!; \
	trap 'rm -f $$said; kill $$bits 2>/dev/null || true' EXIT; \
	status=0; $(BIN)/python -m pytest $(SHARED_OUT) || status=$$?; \
	wait $$bits || status=$$?; \
	echo "once more, as a machine without AVX-512 sees them: tests that compare bits"; cat $$said; exit $$status

# Tests of alerts, dashboards, the page, the report as a PDF (Pango, a font), MQTT and Kafka need these; without them they are
# skipped by name, with CI=true they fail. Kafka itself comes by Maven when its first test runs, and is kept in the user's cache.
HAS_PANGO = python3 -c 'from ctypes.util import find_library as find; exit(not find("pangoft2-1.0"))'
services: ## Prometheus, Chromium, Mosquitto, Pango, Java, Maven and faketime from Debian's packages, where missing and if allowed
	@missing=""; \
	for pair in prometheus:prometheus chromium:chromium java:default-jre-headless mvn:maven openssl:openssl \
			pdftotext:poppler-utils faketime:faketime mosquitto:mosquitto; do \
		command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair#*:}"; done; \
	$(HAS_PANGO) || missing="$$missing libpango-1.0-0 libpangoft2-1.0-0 fonts-dejavu-core"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing$$missing for the tests (once)"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
			apt-get install -y -qq --no-install-recommends $$missing >/dev/null || echo "could not install$$missing"; \
	elif [ -n "$$missing" ]; then echo "not installed, tests that need them are skipped:$$missing"; fi

thorough: install-dev ## every slow test, and all random cases; `make test` takes a sixth of the tests and an eighth of the cases, others each day
	@THOROUGH=1 $(BIN)/python -m pytest $(SHARED_OUT) -m "slow or thorough or hypothesis"

test-fast: install-dev ## the tests that take less than two minutes together
	@$(BIN)/python -m pytest $(SHARED_OUT) -m "not slow"

lint: docs style ## ruff, mypy --strict on the packages, and the documentation's links

# What mypy finds is kept by contents in the user's cache, as kernels are: a fresh clone checks what has changed since.
KEPT_TYPES = --cache-dir "$$(own="$${XDG_CACHE_HOME:-$${HOME:-.mypy_cache}/.cache}/tallyguard/mypy"; \
	mkdir -p "$$own" 2>/dev/null && test -w "$$own" && echo "$$own" || echo .mypy_cache)"
style: install-dev ## ruff and mypy --strict, of a user's file too; the site is built by a test
	@$(BIN)/ruff check $(wildcard $(CODE))
	@$(BIN)/ruff format --check $(wildcard $(CODE))
	@$(BIN)/mypy $(KEPT_TYPES) --strict -p models -p accounting -p stream_app -p tallyguard -p experiments -p benchmarks -m tests.tallyguard.typed_user

docs: install-dev ## the documentation as a site, in site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

format: install-dev ## rewrite the code in the house's format
	@$(BIN)/ruff check --fix $(wildcard $(CODE))
	@$(BIN)/ruff format $(wildcard $(CODE))

bench: install-dev ## each speed claim as a table of ratios measured in one run
	@$(BIN)/python -m benchmarks

fuzz: install-dev ## a million changed inputs at every parser of bytes from outside (INPUTS=1000000)
	@nice -n 19 $(BIN)/python -m tests.fuzzing --inputs $(or $(INPUTS),1000000) --results docs/results/tables

soak: install-dev services fuzz ## a hundred killed workers and two hours of events on a real broker (KILLS=100 MINUTES=120)
	@$(BIN)/python -m benchmarks.soak --kills $(or $(KILLS),100) --minutes $(or $(MINUTES),120) --results docs/results/tables

rehearsal: | $(VENV)/bin/python ## images built and the compose file run by Podman, everything killed once (as root, on Debian)
	@$(BIN)/python -m tests.rehearsal

rehearsal-kubernetes: install-dev ## the manifests before a real API server, built with Go (FOLDER=where programs are kept)
	@$(BIN)/python -m tests.rehearsal.manifests $(if $(FOLDER),--folder $(FOLDER))

rehearsal-cluster: install-dev services ## three brokers lose each other, workers are upgraded, secrets replaced, a person erased
	@$(BIN)/python -m tests.rehearsal.cluster

held-out: install-dev ## the paper's summary on real check-ins (DATA=folder with the Parquet files)
	@$(BIN)/python -m experiments.held_out $(if $(DATA),--data $(DATA)) --results docs/results/tables

papers: install-dev ## every figure and table of a paper (NAME=koga, cip, composition or diffusion; DATA=folder ONLY="5 7")
	@$(BIN)/python -m experiments.papers $(or $(NAME),koga) $(if $(DATA),--data $(DATA)) $(if $(ONLY),--only $(ONLY))

tightness: install-dev ## certified bound against the best attack on the paper's synthetic sweep
	@$(BIN)/python -m experiments.tightness --results docs/results/tables

ceilings: install-dev ## guess, best attack and running ceiling on the demo's city
	@$(BIN)/python -m experiments.ceilings --results docs/results/tables

crowd: install-dev ## what a crowd hides on the demo's city and real check-ins, three attacks beside (DATA=folder)
	@$(BIN)/python -m experiments.crowd $(if $(DATA),--data $(DATA)) --results docs/results/tables

prior-check: install-dev ## priors held against the real windows they were not fitted to (DATA=folder)
	@$(BIN)/python -m experiments.prior_check $(if $(DATA),--data $(DATA)) --results docs/results/tables

personas: install-dev ## personas where the truth is known: simulated agents, half of a survey (DATA=folder)
	@$(BIN)/python -m experiments.persona_loops $(if $(DATA),--data $(DATA)) --results docs/results/tables

real-checkins: install-dev ## every bound for every person of the real check-ins (DATA=folder)
	@$(BIN)/python -m experiments.real_checkins $(if $(DATA),--data $(DATA)) --results docs/results/tables

decisions: install-dev ## utility against risk: risk budgets beside fixed noise (DATA=folder)
	@$(BIN)/python -m experiments.decisions $(if $(DATA),--data $(DATA)) --results docs/results/tables

# The library alone: what it needs comes as wheels, the newest for every interpreter and the lowest for the first. Then its own
# wheel, from which the Python tutorial and the notebook run where nothing of the engine is installed.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
LIBRARY_TESTS := tests/tallyguard/test_front_door.py tests/accounting/test_audit.py $(addprefix tests/models/,mechanisms priors)
pythons: | $(VENV)/installed-uv ## the library's quick tests with each interpreter, and with the lowest versions allowed (PYTHONS="python3.12 python3.13")
	@folder=$$(mktemp -d); trap 'rm -rf $$folder' EXIT; status=0; \
	try() { \
		echo "$$1, $$2 versions"; \
		$(BIN)/uv venv --quiet --clear --python $$1 $$folder && \
		$(BIN)/uv pip install --quiet --python $$folder/bin/python --only-binary :all: --resolution $$2 -r pyproject.toml --extra notebook --extra build \
			'pytest>=8.3,<9.2' 'pytest-xdist>=3.6' 'hypothesis>=6.120' 'nbclient>=0.10' 'uv>=0.9' && \
		$$folder/bin/python -m pytest -m "not slow" $(LIBRARY_TESTS) && $$folder/bin/python -m pytest tests/test_package.py || status=1; }; \
	try $(firstword $(PYTHONS)) lowest-direct; \
	for python in $(PYTHONS); do try $$python highest; done; exit $$status

kernels: install-dev ## the compiled kernels as a file beside the sources, from which other machines load them
	@$(BIN)/python -m stream_app.starting.ship_kernels

# A file of kernels is for one Python, numba and kind of CPU, so there is one for each interpreter, with the newest numba,
# as pip chooses it. The repository has none: a change of a kernel leaves its part useless, and megabytes in the history.
wheel: | $(VENV)/installed-uv ## wheel with kernels compiled for each interpreter, and source distribution, in dist/ (PYTHONS="python3.12 python3.13")
	@folder=$$(mktemp -d); trap 'rm -rf $$folder' EXIT; rm -rf models/numerics/compiled; \
	for python in $(PYTHONS); do \
		$(BIN)/uv venv --quiet --clear --python $$python $$folder; \
		$(BIN)/uv pip install --quiet --python $$folder/bin/python --only-binary :all: -r pyproject.toml --extra engine; \
		$$folder/bin/python -m stream_app.starting.ship_kernels; done; \
	$(BIN)/uv build --quiet --sdist && $(BIN)/uv build --quiet --wheel && ls -l dist

readme: install-dev ## refresh the README's picture and example from a run of the demo
	@$(BIN)/python -m experiments.readme

screenshots: install-dev services ## pictures of page, report and dashboards for docs/how-to/watch.md
	@$(BIN)/python -m tests.watching.screenshots docs/screenshots

# Bytecode is written when a module is first imported: most of those installed never are. uv takes a quarter of pip's
# time; where it cannot, as behind a mirror that only pip knows of, pip installs. A failure to compile kernels does not
# end the installation: the demo and the tests show it in a better place.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
INSTALL = { $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) 2>/dev/null || $(PIP) $(1); }
WARM_UP = { $(BIN)/python -m stream_app.starting.warm_up >/dev/null && touch $(VENV)/warmed-up; } || true

install: $(VENV)/installed-runtime
install-dev: $(VENV)/installed-dev

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "tallyguard needs Python 3.11 or newer, and none was found; install it, or say PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot create virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/installed-uv: requirements-dev.lock | $(VENV)/bin/python
	@sed -n '/^uv==/,/[^\\]$$/p' requirements-dev.lock | $(PIP) --require-hashes -r /dev/stdin 2>/dev/null || true
	@touch $@

$(VENV)/installed-packages: requirements.lock pyproject.toml | $(VENV)/installed-uv
	@echo "installing tallyguard (once)"
	@$(call INSTALL,--require-hashes -r requirements.lock)
	@$(call INSTALL,--no-deps --no-build-isolation --editable .)
	@touch $@

$(VENV)/installed-runtime: $(VENV)/installed-packages
	@$(WARM_UP)
	@touch $@

# Kernels are compiled while the tools come in: of what runs, both locks name the same versions. Bytecode of the tests is
# written then, too: processes that begin at once would each write all of it.
$(VENV)/installed-dev: requirements-dev.lock $(VENV)/installed-packages
	@echo "installing its development tools (once)"
	@{ $(WARM_UP); } & status=0; $(call INSTALL,--require-hashes -r requirements-dev.lock) || status=$$?; \
	$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true; wait; exit $$status
	@touch $(VENV)/installed-runtime $@

# Once the packages are there; again where a kernel has changed since.
$(VENV)/warmed-up: $(shell grep -rl --include='*.py' models.numerics.jit models accounting stream_app 2>/dev/null) | $(VENV)/installed-dev
	@$(BIN)/python -m stream_app.starting.warm_up >/dev/null
	@touch $@

UV_COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --quiet
lock: | $(VENV)/installed-uv ## choose the newest versions and write both lock files (UPGRADE=--upgrade)
	@$(BIN)/$(UV_COMPILE) $(UPGRADE) --extra dev --output-file requirements-dev.lock
	@$(BIN)/$(UV_COMPILE) --extra engine --extra build --constraint requirements-dev.lock --no-annotate --output-file requirements.lock

clean: ## remove the environment and everything generated
	rm -rf $(VENV) site demo-output out .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
