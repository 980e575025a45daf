"""Plans of what a job reads, and how Spark's workers read it."""
