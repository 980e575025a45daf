"""The examples of the SDK's page run, in their order, against a broker."""

import os
import re
import subprocess
import sys
from pathlib import Path

from goqueue.client.producing import Options
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker

__all__ = ["broker"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sdk.md"


def test_every_example_runs(broker: LocalBroker) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        environment = {**os.environ, "GOQUEUE_SERVER": broker.url}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", example],
            env=environment,
            cwd=PAGE.parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), example
        assert done.stdout


def test_every_option_of_a_producer_is_on_the_page() -> None:
    rows = "".join(re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == set(Options.__slots__)
