"""What the SDK's page says of consumers is all there is, and its examples run."""

import os
import re
import subprocess
import sys
from pathlib import Path

from goqueue.client import Batch, ConsumerOptions, Delivered
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker

__all__ = ["broker"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sdk.md"


def section() -> str:
    _, _, rest = PAGE.read_text().partition("## Consuming")
    return rest.partition("\n## ")[0]


def test_every_option_of_a_consumer_is_on_the_page() -> None:
    _, _, table = section().partition("| about |")
    named = set(re.findall(r"`(\w+)`", table))
    assert set(ConsumerOptions.__slots__) <= named
    assert named <= {*ConsumerOptions.__slots__}


def test_everything_that_is_said_of_a_message_is_on_the_page() -> None:
    said = set(re.findall(r"`(\w+)\(", section().partition("| said |")[2].partition("\n\n")[0]))
    for kind in (Batch, Delivered):
        assert said == {"ack", "nack", "reject", "release", "extend"} <= vars(kind).keys()


def test_every_example_about_consumers_runs(broker: LocalBroker) -> None:
    found = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    examples = [example for example in found if "client.consumer(" in example]
    assert len(examples) == 5
    for example in examples:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", example],
            env={**os.environ, "GOQUEUE_SERVER": broker.url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), example
        assert done.stdout
