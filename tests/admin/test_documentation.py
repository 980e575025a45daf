"""`docs/admin.md` says what works, and `docs/doctor.md` knows every code with its severities."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from goqueue.observe.findings import CHECKS
from goqueue.testing.broker import LocalBroker
from goqueue_admin import symptoms
from tests.brokers import broker
from tests.cli.programs import ROOT, environment

__all__ = ["broker"]

_SEVERITIES = re.compile(r"critical|warning|note")


def rows(heading: str) -> dict[str, tuple[str, ...]]:
    """The severities of each code in the table under a heading."""
    page = (ROOT / "docs/doctor.md").read_text(encoding="utf-8")
    part = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", part, re.MULTILINE)
    return {code: tuple(_SEVERITIES.findall(severities)) for code, severities in found}


def test_every_finding_of_the_broker_is_documented() -> None:
    assert rows("What the broker finds") == {rule.code: rule.severities for check in CHECKS for rule in check.rules}


def test_every_finding_of_the_program_is_documented() -> None:
    known: Mapping[str, tuple[str, ...]] = symptoms.CODES
    assert rows("What the program adds") == known


def test_every_command_of_the_page_runs(broker: LocalBroker) -> None:
    page = (ROOT / "docs/admin.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=ROOT,
        env=environment(GOQUEUE_SERVER=broker.url, PATH=path),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
