"""Histories of real runs: processes write down what they see, and afterwards it is checked as a whole.

What is checked, and what is on purpose not held against the broker, is told in `docs/checker.md`.
"""
