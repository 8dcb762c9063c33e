# Each target sets up what it needs: a virtual environment in .venv, installed again when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: help demo test test-fast lint airflow bench java clean

help:                      ## what can be made
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: java $(INSTALLED)    ## three loads through the gate of the example DAG
	@$(BIN)/python dags_examples/demo.py demo_output

test: java lint            ## lint, types, all tests
	$(BIN)/pytest -n 2 --dist loadgroup

# What is fast: not what shares a Spark, an Airflow or a browser (it is in a group), nor the few that take long alone.
# Hypothesis' own profile "ci" tries fewer cases, the same ones each time.
FAST := tests/constraints tests/dags_examples tests/detection tests/jobs tests/state tests/test_*.py \
	-m 'not xdist_group' --ignore=tests/jobs/test_histories.py --ignore=tests/jobs/test_long_histories.py \
	--deselect=tests/constraints/test_hostile.py::test_no_text_ends_the_process_or_takes_long

test-fast: lint            ## lint, types, the tests without Spark, Airflow and browser, in a minute
	HYPOTHESIS_PROFILE=ci $(BIN)/pytest -n 2 $(FAST)

lint: $(INSTALLED)         ## lint, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

airflow: java $(INSTALLED) ## Airflow with the example DAGs, on http://localhost:8080, without login
	AIRFLOW_HOME=$(CURDIR)/.airflow \
	AIRFLOW__CORE__DAGS_FOLDER=$(CURDIR)/dags_examples \
	AIRFLOW__CORE__LOAD_EXAMPLES=False \
	AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION=False \
	AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS=True \
	AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]"}' \
	TAX_GATE_HOME=$(CURDIR)/.airflow/tax_gate \
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/airflow standalone

bench: java $(INSTALLED)   ## the tables of docs/benchmarks.md
	$(BIN)/python -m benchmarks

java:
	@$(PYTHON) -I airflow_dc_provider/java.py

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 to 3.13 is needed: make PYTHON=python3.12")'
	@echo "Setting up .venv (once; about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]'
	@touch $@

clean:                     ## all that was made here
	rm -rf .venv .airflow demo_output build dist spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis
