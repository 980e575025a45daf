"""The clients in other languages, as far as Python can look at them; `make clients` runs their own tests."""

import json
import re

from clients import generate

CLIENTS = generate.CLIENTS


def test_generated_code_is_that_of_the_proto_files() -> None:
    assert generate.outdated() == []


def test_examples_of_readmes_are_the_tested_ones() -> None:
    readmes = sorted(CLIENTS.glob("*/README.md"))
    assert readmes
    for readme in readmes:
        ((path, shown),) = re.findall(r"<!-- (examples/\S+) -->\n```\w+\n(.*?)```", readme.read_text(), re.DOTALL)
        assert (readme.parent / path).read_text() == shown, path


def test_modules_of_go_are_public_and_have_sums() -> None:
    module = (CLIENTS / "go" / "go.mod").read_text()
    needed = re.findall(r"^\t(\S+ v\S+)", module, re.MULTILINE)
    assert needed
    assert "replace" not in module
    sums = {line.rpartition(" ")[0] for line in (CLIENTS / "go" / "go.sum").read_text().splitlines()}
    assert {one + part for one in needed for part in ("", "/go.mod")} <= sums


def test_lock_file_of_npm_names_no_registry() -> None:
    locked = json.loads((CLIENTS / "typescript" / "package-lock.json").read_text())
    assert not [name for name, package in locked["packages"].items() if "resolved" in package]
