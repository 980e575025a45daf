"""GoQueue on this machine against its budgets: `python -m benchmarks [SUITE...]`.

A suite is a module or package here that has a `SUITE`; `harness` is what runs them.
"""
