"""Spark in a JVM of our own: which Java, which classes, which settings, and the way into it."""
