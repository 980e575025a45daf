"""Pipelines declared in a file: what is read, what is made of it step by step, and where the results go."""
