"""What moves the work: reads rows from their source, and runs the steps of the other rooms on workers or right here.

The steps themselves are pure: Arrow batches in, Arrow batches out. An ``Engine`` decides where they run. Spark is one
(``spark.py``); whoever has another kind of source gives another.
"""
