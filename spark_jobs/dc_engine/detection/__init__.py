"""Which pairs of rows a load adds to the violations: plan, encode, probe, report.

The jobs call this room; it calls ``state``, ``constraints`` and ``kernels``. What runs on a Spark worker is a pure
function from Arrow tables (and stored files) to Arrow tables, so that it can be tested without Spark.
"""
