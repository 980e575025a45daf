"""The daemon of Spark's Python workers with their modules loaded: each worker is forked from it.

A short task spends most of its time on loading them. Users' workers load them after the fork, as is Spark's way.
"""

import os
from importlib import import_module

from pyspark.daemon import manager

MODULES = ("pandas", "pyarrow", "pyspark.worker", "goqueue.spark.source")

if __name__ == "__main__":
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # a fork has its own thread alone
    for name in MODULES:
        import_module(name)
    manager()
