# Each target sets up what it needs: a virtual environment in .venv, installed again when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: demo test airflow bench java clean

demo: java $(INSTALLED)    ## three loads through the gate of the example DAG
	@$(BIN)/python dags_examples/demo.py demo_output

test: java $(INSTALLED)    ## lint, types, all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadgroup

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
