"""The engine: it runs on Spark and knows nothing of Airflow or Great Expectations."""

from dc_engine.settling import settle_engine

settle_engine(__path__)
