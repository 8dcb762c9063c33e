"""What waits in Airflow's triggerer, in place of a task."""
