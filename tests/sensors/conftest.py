"""An Airflow home of its own, as the tests of the operators have it."""

from tests.operators.conftest import failing, fake_spark, gate, passing, rules, state, ti  # noqa: F401
