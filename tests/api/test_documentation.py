"""`docs/http.md`: its table is that of the endpoints. The examples there, and beside it, do what they say."""

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from goqueue.testing.broker import LocalBroker

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
GIVEN_OUT = re.compile(r"\b(?:[0-9a-z]{33}|(?<=-)[0-9a-f]{16}|(?<!\.)[0-9]{13,16})\b")
"""Leases, producer ids, and what is unlike in the ids of members: the broker gives out others each time."""


@pytest.mark.parametrize(
    "name",
    [
        *("http.md", "groups.md", "filters.md", "delayed.md", "priorities.md"),
        *("registry.md", "schemas.md", "transactions.md"),
    ],
)
def test_documented_examples_print_the_documented_output(broker: LocalBroker, name: str) -> None:
    page = (DOCS / name).read_text(encoding="utf-8")
    examples = re.findall(r"^```sh\n(.*?)^```\n\n```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(examples) == page.count("```sh")
    ours: dict[str, str] = {}
    for command, expected in examples:
        there = command.replace("localhost:8080", urlsplit(broker.url).netloc)
        for told, given in ours.items():
            there = there.replace(told, given)
        done = subprocess.run(["bash", "-euc", there], capture_output=True, text=True, check=True)
        ours |= zip(GIVEN_OUT.findall(expected), GIVEN_OUT.findall(done.stdout), strict=True)
        assert _plain(done.stdout) == _plain(expected), command


def _plain(text: str) -> str:
    return GIVEN_OUT.sub("ID", TIME.sub("TIME", text.strip()))
