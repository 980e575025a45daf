"""A script that asks about topics does not wait for what only messages need."""

import os
import subprocess
import sys

from goqueue.testing.broker import LocalBroker

SCRIPT = """
import sys
from goqueue.client import Client

with Client() as client:
    client.create_topic("t")
    client.topics()
print(*sys.modules)
"""
HEAVY = {"asyncio", "crc32c", "dataclasses", "encodings.idna", "importlib.metadata", "numpy", "ssl"}


def test_calls_about_topics_load_nothing_heavy(broker: LocalBroker) -> None:
    there = {**os.environ, "GOQUEUE_SERVER": broker.url}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=there, capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()


def test_every_name_of_the_package_is_there() -> None:
    script = "import goqueue.client as sdk; print(*(getattr(sdk, name).__name__ for name in sdk.__all__))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Producer" in done.stdout.split()
