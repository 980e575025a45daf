"""`goqueue-cli schema`: a life of a subject, from its first version to its deletion."""

import json
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.cli.programs import cli

_ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
_NOTE = '{"name":"note","type":"string","default":""}'


def test_schema_is_registered_compared_and_deleted(broker: LocalBroker, tmp_path: Path) -> None:
    files = {"a": _ORDER, "b": _ORDER.replace("]", f",{_NOTE}]"), "c": _ORDER.replace("long", "string")}
    paths = {name: str(tmp_path / f"{name}.avsc") for name in files}
    for name, text in files.items():
        Path(paths[name]).write_text(text, encoding="utf-8")
    assert cli(broker.url, "schema", "list").err == "there are no schemas\n"
    assert cli(broker.url, "schema", "register", "o", paths["a"]).out.split()[-3:] == ["o", "1", "1"]
    assert cli(broker.url, "schema", "register", "o", paths["b"]).out.split()[-3:] == ["o", "2", "2"]
    refused = cli(broker.url, "schema", "register", "o", paths["c"])
    assert (refused.code, "schema_incompatible" in refused.err) == (1, True)
    checked = cli(broker.url, "schema", "check", "o", paths["c"])
    assert (checked.code, checked.out.split()[-1]) == (1, "no")
    assert "cannot read as string" in checked.err
    assert f"\n  {checked.err.splitlines()[0]}\n" in refused.err, "the reasons are the lines of a check"
    assert "{" not in refused.err
    assert "`goqueue-cli schema config SUBJECT --compatibility LEVEL`" in refused.err
    unknown = cli(broker.url, "schema", "diff", "o", "1", "9")
    assert (unknown.code, "`goqueue-cli schema list SUBJECT --all-versions`" in unknown.err) == (5, True)
    assert cli(broker.url, "schema", "check", "o", paths["b"], "--version", "1").code == 0
    differing = cli(broker.url, "schema", "diff", "o")
    assert differing.code == 1
    assert '     {"name": "id", "type": "long"},\n+' in differing.out, "its comma is there, and no difference"
    assert [line for line in differing.out.splitlines()[3:] if line[0] != " "] == [
        '+    {"name": "note", "type": "string", "default": ""}'
    ]
    assert cli(broker.url, "schema", "diff", "o", "--file", paths["b"]).code == 0
    assert cli(broker.url, "schema", "list").out.split("\n")[1].split() == ["o", "2", "2", "AVRO"]
    (row,) = json.loads(cli(broker.url, "schema", "describe", "--id", "1", "-o", "json").out)
    assert (row["schema"], row["subject"], row["version"]) == (_ORDER, "o", 1)
    assert '"name": "Order"' in cli(broker.url, "schema", "describe", "o", "--version", "1").out
    set_to = cli(broker.url, "schema", "config", "o", "--compatibility", "full", "--mode", "readonly")
    assert set_to.out.split("\n")[1].split() == ["o", "FULL", "no", "READONLY"]
    assert "READWRITE" in cli(broker.url, "schema", "config", "o", "--reset").out
    assert cli(broker.url, "schema", "delete", "o").code == 2, "it must be confirmed"
    assert cli(broker.url, "schema", "delete", "o", "--version", "1", "--yes").out.split()[-2:] == ["o", "1"]
    again = cli(broker.url, "schema", "delete", "o", "--version", "1", "--yes")
    assert ("permanent=true" in again.err, "`--permanent` deletes it" in again.err) == (False, True)
    early = cli(broker.url, "schema", "delete", "o", "--permanent", "--yes")
    assert "without `--permanent` first" in early.err
    assert "did you mean o?" in cli(broker.url, "schema", "describe", "oo").err
    assert cli(broker.url, "schema", "delete", "o", "--yes").out.split()[-2:] == ["o", "2"]
    assert cli(broker.url, "schema", "delete", "o", "--permanent", "--yes").code == 0
    missing = cli(broker.url, "schema", "describe", "o")
    assert (missing.code, "subject_not_found" in missing.err) == (5, True)
    assert "hint: `goqueue-cli schema list` shows" in missing.err


def test_arguments_that_cannot_be_meant_are_refused_before_any_request(tmp_path: Path) -> None:
    file = tmp_path / "a.avsc"
    file.write_text(_ORDER, encoding="utf-8")
    nowhere = "http://127.0.0.1:1"
    wrong = (
        ("describe",), ("describe", "o", "--id", "1"), ("describe", "o", "--version", "x"),
        ("register", "o", str(file), "--reference", "Order"), ("config", "o", "--reset", "--mode", "import"),
    )  # fmt: skip
    for arguments in wrong:
        assert cli(nowhere, "schema", *arguments).code == 2, arguments
    assert "cannot be read" in cli(nowhere, "schema", "register", "o", str(tmp_path / "none.avsc")).err
