"""What any Spark job costs: start a session, count ten numbers, stop."""

from pyspark.sql import SparkSession

if __name__ == "__main__":
    session = SparkSession.builder.appName("empty").getOrCreate()
    assert session.range(10).count() == 10
    session.stop()
