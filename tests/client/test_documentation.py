"""The examples of the SDK's page run, in their order, against a broker."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.client import AsyncClient, Batch, Client, ConsumerOptions, Delivered
from goqueue.client.producer_core import Options
from goqueue.testing.broker import LocalBroker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sdk.md"
SCHEMAS = PAGE.with_name("schemas.md")
BLOCK = r"^```python\n(.*?)^```$"


@pytest.mark.slow
def test_every_example_runs(broker: LocalBroker) -> None:
    examples = {page: re.findall(BLOCK, page.read_text(), re.MULTILINE | re.DOTALL) for page in (PAGE, SCHEMAS)}
    assert {page.name: len(found) for page, found in examples.items()} == {"sdk.md": 16, "schemas.md": 2}
    for example in (*examples[PAGE], *examples[SCHEMAS]):
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
    _, _, sending = PAGE.read_text().partition("## Producer")
    rows = "".join(re.findall(r"^\| (`.*?) \|", sending.partition("## Delayed")[0], re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", rows)) == set(Options.__slots__)


def test_every_option_of_a_consumer_is_on_the_page() -> None:
    table = consumer_section().partition("| Options |")[2]
    assert set(re.findall(r"`(\w+)`", table)) == {*ConsumerOptions.__slots__}


def test_every_settlement_of_a_message_is_on_the_page() -> None:
    table = consumer_section().partition("| Method | Effect |")[2].partition("\n\n")[0]
    for kind in (Batch, Delivered):
        assert set(re.findall(r"`(\w+)\(", table)) == {"ack", "nack", "reject", "release", "extend"} <= set(dir(kind))


def consumer_section() -> str:
    return PAGE.read_text().partition("## Consumer")[2].partition("\n## ")[0]


def test_every_method_of_a_client_is_on_the_page() -> None:
    _, _, section = PAGE.read_text().partition("## Client methods")
    rows = "".join(re.findall(r"^\| (`.*?) \|", section.partition("## Producer")[0], re.MULTILINE))
    named = set(re.findall(r"`(\w+)\(", rows))
    for kind in (Client, AsyncClient):
        methods = {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
        assert named | {"call"} == methods


def test_the_pages_examples_leave_the_topics_of_the_others_alone() -> None:
    docs = PAGE.parent
    made = {
        page.name: set(re.findall(r"create_topic\(\"(\w+)|\"name\": \"(\w+)\", \"num_partitions\"", page.read_text()))
        for page in (PAGE, docs / "http.md")
    }
    first_steps = {(name, "") for name in re.findall(r"topic create (\w+)", (docs.parent / "README.md").read_text())}
    flat = [{name or other for name, other in found} for found in (*made.values(), first_steps)]
    assert all(flat)
    assert len(set().union(*flat)) == sum(map(len, flat))
