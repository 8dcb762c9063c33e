"""What moves the work: reads rows from their source, and runs the other rooms' steps on workers or in this process.

The steps themselves are pure: Arrow batches in, Arrow batches out. An ``Engine`` decides where they run. Spark is one
(``spark.py``); another kind of source needs another.
"""
