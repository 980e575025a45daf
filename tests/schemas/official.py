"""Run the official JSON-Schema-Test-Suite through the validator: `python -m tests.schemas.official DIRECTORY`.

The suite is the directory `json` in the source distribution of the package `jsonschema`. Exceptions are listed here
with their reasons; the command fails for any other difference, and for an exception that is none any more.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goqueue.errors import SchemaInvalid
from goqueue.schemas.formats import schema_format
from goqueue.schemas.json_schema.document import ADDRESSES, DRAFTS
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind, SchemaReference

DIRECTORIES = {"draft4": 4, "draft6": 6, "draft7": 7, "draft2019-09": 2019, "draft2020-12": 2020}
SERVED = "http://localhost:1234/"

EXCEPTIONS = {
    ": retrieved nested refs resolve relative to their URI not $id": (
        "a schema is read before others refer to it, so its address is its identifier, not where it was found"
    ),
    ": schema that uses custom metaschema with with no validation vocabulary": (
        "the runner states the draft; meta-schemas of users are refused, since rules of compatibility cannot know them"
    ),
}
"""Parts of the names of cases that differ (`draft/file: group: test`), with reasons."""


def cases(root: Path, draft: str) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    """Yield name, schema and tests of each group; optional ones are not part of it."""
    for path in sorted((root / "tests" / draft).glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            yield f"{draft}/{path.stem}: {group['description']}", group["schema"], group["tests"]


def remotes(root: Path) -> dict[str, Any]:
    """Return what the suite serves under addresses; one schema may use that of another draft."""
    found = {}
    for path in sorted((root / "remotes").rglob("*.json")):
        found[SERVED + path.relative_to(root / "remotes").as_posix()] = json.loads(path.read_text(encoding="utf-8"))
    return found


def stated(schema: Any, draft: int) -> str:
    """Return the text of a schema that names its draft."""
    if isinstance(schema, dict) and schema.get("$schema", "").rstrip("#") not in DRAFTS:
        schema = {"$schema": ADDRESSES[draft]} | {name: value for name, value in schema.items() if name != "$schema"}
    return json.dumps(schema)


def parsed(schema: Any, draft: int, served: dict[str, Any]) -> ParsedSchema:
    """Parse with those remote schemas that are needed, which a caller would have to add as references."""
    return schema_format(SchemaKind.JSON).parse(stated(schema, draft), needed(schema, draft, served))


def needed(schema: Any, draft: int, served: dict[str, Any]) -> list[SchemaReference]:
    text = json.dumps(schema)
    if SERVED not in text and "localhost:1234" not in text:
        return []
    found = []
    for address, value in served.items():
        try:
            one = schema_format(SchemaKind.JSON).parse(stated(value, draft))
        except SchemaInvalid:
            continue
        found.append(SchemaReference(address, one))
    return found


def differences(root: Path, draft: str) -> Iterator[tuple[str, bool]]:
    """Yield each test with whether its result is the expected one."""
    served = remotes(root)
    for name, schema, tests in cases(root, draft):
        try:
            validator = schema_format(SchemaKind.JSON).validator(parsed(schema, DIRECTORIES[draft], served))
        except SchemaInvalid as error:
            print(f"{name}: {error}")
            yield from ((f"{name}: {test['description']}", False) for test in tests)
            continue
        for test in tests:
            problems = validator.problems(json.dumps(test["data"]).encode())
            yield f"{name}: {test['description']}", (not problems) == test["valid"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    root = parser.parse_args().directory
    failed, excused = [], set()
    for draft in DIRECTORIES:
        results = list(differences(root, draft))
        wrong = [name for name, is_right in results if not is_right]
        print(f"{draft}: {len(results) - len(wrong):,} of {len(results):,} as expected")
        for name in wrong:
            reason = next((part for part in EXCEPTIONS if part in name), None)
            if reason is None:
                failed.append(name)
            else:
                excused.add(reason)
    stale = EXCEPTIONS.keys() - excused
    for name in (*failed, *(f"no exception any more: {one}" for one in sorted(stale))):
        print(f"different: {name}")
    return 1 if failed or stale else 0


if __name__ == "__main__":
    sys.exit(main())
