"""Pages in the Airflow UI: verdicts, histories and dependencies, where people work."""
