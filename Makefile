# Each target sets up what it needs: a virtual environment in .venv, installed again when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
CLASSES := .venv/spark.jsa
# A Java that ends after seconds: its classes come from an archive, and it compiles them only as far as that pays.
SHORT_LIVED = -XX:SharedArchiveFile="$(CURDIR)/$(CLASSES)" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
PORT ?= 8080
# Where this is set (as in many containers), every process compiles all that it imports anew: Airflow takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-fast test-versions lint airflow bench java clean

help:                      ## what can be made
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: java $(INSTALLED)    ## three loads through the gate of the example DAG
	@$(BIN)/python dags_examples/demo.py demo_output

test: java                 ## lint, types, all tests
	@$(MAKE) --no-print-directory --jobs 2 lint $(CLASSES)
	SPARK_SUBMIT_OPTS='$(SHORT_LIVED)' $(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder

# What is fast: not what shares a Spark, an Airflow or a browser (it is in a group), nor the few that take long alone.
# Hypothesis' own profile "ci" tries fewer cases, the same ones each time.
FAST := tests/constraints tests/dags_examples tests/detection tests/engines tests/jobs tests/state tests/test_*.py \
	-m 'not xdist_group' --ignore=tests/jobs/test_histories.py \
	--deselect=tests/constraints/test_hostile.py::test_no_text_ends_the_process_or_takes_long

test-fast: lint            ## lint, types, the tests without Spark, Airflow and browser, in a minute
	HYPOTHESIS_PROFILE=ci $(BIN)/pytest -n 2 $(FAST)

# What a version can change: all that is asked of Spark by the engine. The versions of Spark that a cluster may have, but
# for the one in .venv, which `make test` tries; and those of Python, where there is an interpreter.
OLDER_SPARKS ?= 4.0.2 4.1.3
OTHER_PYTHONS ?= 3.12 3.13
ON_SPARK := tests/detection tests/discovery tests/engines tests/jobs -m xdist_group

test-versions: java        ## the engine's tests on other versions of Spark, and of Python where they are found
	@for one in $(OLDER_SPARKS); do $(MAKE) --no-print-directory spark-$$one || exit 1; done
	@for one in $(OTHER_PYTHONS); do \
		if python$$one -c '' 2>/dev/null; then $(MAKE) --no-print-directory python-$$one || exit 1; \
		else echo "Python $$one is not tested: there is no python$$one here."; fi; done

spark-%: .venv-spark-%/installed
	.venv-spark-$*/bin/pytest -n 2 --dist loadgroup $(ON_SPARK)

python-%: .venv-python-%/installed
	.venv-python-$*/bin/pytest -n 2 --dist loadgroup $(ON_SPARK)
	.venv-python-$*/bin/pytest -n 2 --dist loadgroup tests/operators

.PRECIOUS: .venv-spark-%/installed .venv-python-%/installed

.venv-spark-%/installed: $(INSTALLED)
	@echo "Setting up an environment with Spark $* ..."
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-spark-$*
	@printf 'pyspark==%s\n' $* > .venv-spark-$*/overrides && printf 'pyspark-client==%s\n' $* >> .venv-spark-$*/overrides
	@$(BIN)/uv pip install --quiet --python .venv-spark-$* --overrides .venv-spark-$*/overrides -e '.[dev]'
	@touch $@

.venv-python-%/installed: $(INSTALLED)
	@echo "Setting up an environment with Python $* ..."
	@$(BIN)/uv venv --quiet --clear --python "$$(python$* -c 'import sys; print(sys.executable)')" .venv-python-$*
	@$(BIN)/uv pip install --quiet --python .venv-python-$* -e '.[dev]'
	@touch $@

lint: $(INSTALLED)         ## lint, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

airflow: java $(INSTALLED) ## Airflow with the example DAGs and three loads, without login; PORT=8080
	@$(BIN)/python -m dags_examples.start .airflow $(PORT)

bench: java $(INSTALLED)   ## the tables of docs/benchmarks.md
	$(BIN)/python -m benchmarks

java:
	@$(PYTHON) -I spark_jobs/dc_engine/java.py

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 to 3.13 is needed: make PYTHON=python3.12")'
	@echo "Setting up .venv (once; about a minute) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]'
	@touch $@

$(CLASSES): $(INSTALLED) tests/archive.py
	@echo "Archiving the classes of Spark, so that each Spark of the tests starts in half the time (once) ..."
	@$(BIN)/python -m tests.archive $@

clean:                     ## all that was made here
	rm -rf .venv .venv-* .airflow demo_output build dist spark-warehouse .pytest_cache .mypy_cache .ruff_cache .hypothesis
