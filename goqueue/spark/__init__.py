"""GoQueue logs for Spark: a data source and sink, and the inspections of `goqueue spark-inspect`."""
