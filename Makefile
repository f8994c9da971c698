# Works with nothing but Python 3.11 to 3.13 and make. `make` alone lists the targets.

UV_VERSION := 0.13.7
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
TESTS_AT_ONCE := 2

.DEFAULT_GOAL := help
.PHONY: help setup up test check bench soak dashboards lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[-a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMPS)/installed ## Environment, Java if there is none, Kafka, Spark's connector; no network needed after it
	@$(BIN)/penstock fetch

up: setup ## Set up, then run the whole system in the foreground
	@$(BIN)/penstock up

# Most tests wait most of the time, so several run side by side, file by file; those about time have the machine to
# themselves afterwards.
test: setup ## Set up, then run all tests that this machine can run
	@$(BIN)/pytest -n $(TESTS_AT_ONCE) --dist loadfile --no-loadscope-reorder -m "not alone"; beside=$$?; \
	$(BIN)/pytest -m alone && exit $$beside

# Without these programs their tests are skipped, or fail where CI is set; so does this target.
test-tools: ## Chromium, promtool and openssl from Debian's packages, if they are missing
	@missing=""; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing="chromium fonts-dejavu-core"; \
	command -v promtool >/dev/null || missing="$$missing prometheus"; \
	command -v openssl >/dev/null || missing="$$missing openssl"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "not installed (that takes root and apt-get): $$missing" >&2; test -z "$$CI"; exit; \
	fi; \
	echo "installing: $$missing" >&2; export DEBIAN_FRONTEND=noninteractive; \
	{ apt-get update -qq && apt-get install -qq -y --no-install-recommends $$missing >/dev/null; } || \
	  { echo "could not be installed: $$missing" >&2; test -z "$$CI"; }

check: $(STAMPS)/installed ## Format, lint, types, imports
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: setup ## The benchmark: a table on the screen, JSON in bench/results/
	@$(BIN)/python -m bench

soak: setup ## Thirty minutes under load with faults of all kinds; every promise is checked (FLAGS="--minutes 5")
	@$(BIN)/python -m tests.harness $(FLAGS)

dashboards: $(STAMPS)/installed ## Grafana's dashboards, rules for alerts and the page of metrics, from the list of metrics
	@$(BIN)/python -m penstock.telemetry.generated

lock: $(STAMPS)/uv ## Write requirements.lock anew from pyproject.toml
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-header --no-annotate \
	  --output-file requirements.lock

clean: ## Remove the environment and what tools left; data directories and the cache folder stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

# A Python that is found may still not run (shims do that), so each candidate is tried. An environment that is there
# and works is kept, whoever made it: making it anew under a running process would pull the ground from under it.
SUITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
$(STAMPS)/venv:
	@if $(BIN)/python -c '$(SUITS)' >/dev/null 2>&1 && $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  mkdir -p $(STAMPS) && touch $@; exit 0; \
	fi; \
	for candidate in python3.13 python3.12 python3.11 python3 python; do \
	  if $$candidate -c '$(SUITS)' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "error: no Python 3.11 to 3.13 with venv was found on PATH" >&2; \
	  echo "hint: install one (on Debian: apt install python3 python3-venv) and try again" >&2; exit 1; \
	fi; \
	echo "environment: $$($$python -V) in $(VENV)" >&2; \
	$$python -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/uv: $(STAMPS)/venv Makefile
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# The lock file carries the hash of every file, and uv refuses what does not match.
$(STAMPS)/synced: requirements.lock $(STAMPS)/uv
	@echo "packages: as in requirements.lock" >&2
	@$(BIN)/uv pip sync --python $(BIN)/python --require-hashes requirements.lock
	@touch $@

$(STAMPS)/installed: pyproject.toml $(STAMPS)/synced
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@
