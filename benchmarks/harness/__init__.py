"""Runs suites of measurements: choice, repeats, comparison, and the table."""
