"""`docs/http.md`: its table is the table of endpoints, and its examples do what it says."""

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from goqueue.api.reference import renewed
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker

__all__ = ["broker"]

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/http.md").read_text(encoding="utf-8")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def test_the_table_of_endpoints_is_current() -> None:
    assert renewed(PAGE) == PAGE, "renew it: python -m goqueue.api.reference"


def test_the_examples_print_what_the_page_says(broker: LocalBroker) -> None:
    examples = re.findall(r"^```sh\n(.*?)^```\n\n```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) == PAGE.count("```sh")
    for command, expected in examples:
        there = command.replace("localhost:8080", urlsplit(broker.url).netloc)
        done = subprocess.run(["bash", "-euc", there], capture_output=True, text=True, check=True)
        assert TIME.sub("TIME", done.stdout) == TIME.sub("TIME", expected.strip()), command
