"""Great Expectations: the stored verdict of a load as a checkpoint, and its page in Data Docs.

The only folder that imports great_expectations, which takes seconds: nothing outside imports this folder before a task
runs. It knows nothing of Airflow, so anyone with the package can run a checkpoint again.
"""

import os

# Nothing about anyone's data is sent anywhere, unless the environment asks for it.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
