"""`docs/admin.md` says what works, and `docs/doctor.md` knows every code with its severities."""

import re
from collections.abc import Mapping

from goqueue.observe.doctor import CHECKS
from goqueue_admin import doctor
from tests.cli.programs import ROOT

_SEVERITIES = re.compile(r"critical|warning|note")


def rows(heading: str) -> dict[str, tuple[str, ...]]:
    """The severities of each code in the table under a heading."""
    page = (ROOT / "docs/doctor.md").read_text(encoding="utf-8")
    part = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", part, re.MULTILINE)
    return {code: tuple(_SEVERITIES.findall(severities)) for code, severities in found}


def test_every_finding_of_the_broker_is_documented() -> None:
    assert rows("Findings of the broker") == {rule.code: rule.severities for check in CHECKS for rule in check.rules}


def test_every_finding_of_the_program_is_documented() -> None:
    known: Mapping[str, tuple[str, ...]] = doctor.CODES
    assert rows("Findings of the command") == known
