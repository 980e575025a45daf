"""The table of endpoints as a page has it.

`python -m goqueue.api.reference` renews it in `docs/http.md` of the directory it is started in; a test asserts
that it is current.
"""

from pathlib import Path

import msgspec

from goqueue.api.endpoint import Endpoint
from goqueue.api.status import status_of
from goqueue.api.table import ENDPOINTS

PAGE = Path("docs/http.md")
BEGIN, END = "<!-- endpoints -->\n", "<!-- end of endpoints -->\n"


def table() -> str:
    """A row for each endpoint; what any request may be refused for is left out."""
    lines = ["| endpoint | what it does | parameters | refused with |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_row, ENDPOINTS)]) + "\n"


def _row(row: Endpoint) -> str:
    parameters = ", ".join(f"`{name}`" for name in _parameters(row))
    return f"| `{row.method} {row.path}` | {row.summary} | {parameters} | {_refusals(row)} |"


def _parameters(row: Endpoint) -> list[str]:
    return [] if row.query is None else [field.encode_name for field in msgspec.structs.fields(row.query)]


def _refusals(row: Endpoint) -> str:
    by_status: dict[int, list[str]] = {}
    for kind in sorted(set(row.errors), key=lambda kind: kind.code):
        by_status.setdefault(status_of(kind), []).append(f"`{kind.code}`")
    return "; ".join(f"{status}: {', '.join(codes)}" for status, codes in sorted(by_status.items()))


def renewed(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{behind}"


def main() -> None:
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
