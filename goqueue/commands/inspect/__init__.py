"""`goqueue spark-inspect`: what Spark finds in logs, a module a command."""
