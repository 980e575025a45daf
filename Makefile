# Everything runs in .venv, which is made on first use and brought up to date when pyproject.toml or
# constraints.txt changes. `make run` and `make demo` install what the broker needs, the other targets also what tests and
# tools need. Needed beforehand: Python 3.11 or newer with venv, and make. PYTHON chooses the
# interpreter when .venv is made; to change it later, `make clean` first.

.DEFAULT_GOAL := help

PYTHON ?=
ARGS ?=
SUITE ?=
SECONDS ?= 300
MINUTES ?= 5
LANGUAGES ?=

RUNTIME := .venv/runtime
INSTALLED := .venv/installed
RUN := .venv/bin/python -m

# Version managers leave a `python3.x` on the path for versions that are not chosen, which fails when
# run: only an interpreter that proves itself counts.
define FIND_PYTHON
for python in $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3); do \
	"$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; \
	python=; \
done; \
if [ -z "$$python" ]; then \
	echo "error: $(if $(PYTHON),$(PYTHON) is not,found no) Python 3.11 or newer with venv;" \
		"install one, or name one: make PYTHON=/path/to/python3" >&2; \
	exit 1; \
fi
endef

.PHONY: help run demo test soak chaos check fmt docs pictures bench clients clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUNTIME) ## start the broker (ARGS="..." goes to goqueue serve)
	@exec .venv/bin/goqueue serve $(ARGS)

demo: $(RUNTIME) ## start a temporary broker with traffic (ARGS="..." goes to goqueue demo)
	@exec .venv/bin/goqueue demo $(ARGS)

test: $(INSTALLED) ## run the tests (ARGS="..." goes to pytest)
	@$(RUN) pytest $(ARGS)

soak: $(INSTALLED) ## mixed traffic while everything goes wrong, checked (SECONDS=3600, ARGS="...")
	@$(RUN) tests.soak --seconds $(SECONDS) $(ARGS)

chaos: $(INSTALLED) ## a cluster while everything goes wrong, checked (MINUTES=30, ARGS="...")
	@$(RUN) tests.chaos --minutes $(MINUTES) $(ARGS)

check: $(INSTALLED) ## lint, formatting and types
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) mypy

fmt: $(INSTALLED) ## format, fix what the linter can, and generate the client's sync half
	@$(RUN) ruff check --fix-only
	@$(RUN) ruff format
	@.venv/bin/python docs/sync_client.py
	@.venv/bin/python docs/proto_stubs.py

docs: $(INSTALLED) ## write the reference and the completions anew
	@.venv/bin/python docs/generate.py

pictures: $(INSTALLED) ## make the pictures of the documentation anew, from what really runs
	@.venv/bin/python docs/pictures.py
	@.venv/bin/python docs/screens.py

bench: $(INSTALLED) ## measure (SUITE=name for one suite, ARGS="..." goes on)
	@$(RUN) benchmarks $(SUITE) $(ARGS)

clients: $(INSTALLED) ## generate, build and test the clients in other languages (LANGUAGES="go" for some)
	@$(RUN) clients.check $(LANGUAGES)

clean: ## remove the environment, caches and build results
	@rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -rf clients/typescript/node_modules clients/typescript/build clients/typescript/dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): WHAT := .
$(INSTALLED): WHAT := .[dev]
$(RUNTIME) $(INSTALLED): pyproject.toml constraints.txt
	@$(FIND_PYTHON); \
	if ! { { test -e $(RUNTIME) || test -e $(INSTALLED); } && .venv/bin/python -c 'import pip' 2>/dev/null; }; then \
		echo "making .venv with $$("$$python" --version)" >&2; \
		"$$python" -m venv --clear .venv; \
	fi
	@echo "installing GoQueue$(if $(findstring dev,$(WHAT)), and its tools) into .venv" >&2
	@$(RUN) pip install -q --disable-pip-version-check -c constraints.txt -e '$(WHAT)'
	@touch $(RUNTIME) $@
