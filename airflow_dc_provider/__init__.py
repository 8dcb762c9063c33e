"""Quality gates on rules between rows, as Airflow tasks.

This package runs inside Airflow. It may import the light parts of ``dc_engine`` (language, request,
verdict), never pyspark, numba or Great Expectations at import time.
"""

__version__ = "0.1.0"
