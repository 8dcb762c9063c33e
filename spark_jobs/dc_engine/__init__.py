"""The engine: it runs on Spark and knows nothing of Airflow or Great Expectations."""
