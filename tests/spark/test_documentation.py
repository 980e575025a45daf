"""The pages about Spark: examples run, every call parses, and no option or column is missing."""

import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.client import Client
from goqueue.commands import registry
from goqueue.config import BackupConfig
from goqueue.console import command_tree
from goqueue.spark.inspections.catalog import INSPECTIONS
from goqueue.spark.pipeline.parser import load
from goqueue.spark.reading.columns import DELAYED_COLUMNS, TYPED_COLUMNS
from goqueue.spark.reading.options import READ_OPTIONS
from goqueue.spark.sink.options import WRITE_OPTIONS, WRITTEN_COLUMNS
from goqueue.testing.broker import LocalBroker
from tests.cli.programs import ROOT
from tests.spark.backed_up import BackedUp
from tests.spark.programs import Inspect
from tests.spark.test_sink import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PAGES = ("README.md", "docs/spark.md", "docs/inspections.md", "docs/pipelines.md")
URL, DIRECTORY, CHECKPOINT, BACKUPS = "http://127.0.0.1:8080", "./goqueue-data", "./checkpoint", "./goqueue-backups"
INSPECT = "goqueue spark-inspect "
ORDERS = 6
NOW_NS = 1_790_000_000 * 10**9


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)


def section(page: str, heading: str) -> str:
    return text_of(page).partition(f"## {heading}\n")[2].partition("\n## ")[0]


def named(text: str) -> set[str]:
    """Return the first column of its tables."""
    first = "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    return set(re.findall(r"`([\w.]+)`", first))


def commands() -> list[str]:
    """Every call on the pages, written over several lines or in one."""
    text = "\n".join(block for page in PAGES for kind in ("sh", "text") for block in blocks(page, kind))
    lines = text.replace("\\\n", " ").splitlines()
    return [line[line.index(INSPECT) :] for line in lines if INSPECT in line]


@pytest.fixture
def orders(broker: LocalBroker) -> LocalBroker:
    """A broker with what the examples read and write."""
    with Client(broker.url) as client:
        for name in ("orders", "orders-again", "orders-copy", "orders-enriched"):
            client.create_topic(name, 2)
        order = '{"type":"object","properties":{"total":{"type":"integer"}}}'
        client.register_schema("orders-value", order, "JSON")
        for number in range(ORDERS):
            client.publish("orders", f'{{"total": {number}}}', key=f"customer-{number % 2}")
    return broker


@pytest.mark.slow
def test_every_example_of_the_page_runs(
    spark: "SparkSession", orders: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {URL: orders.url, DIRECTORY: str(tmp_path / "data"), CHECKPOINT: str(tmp_path / "checkpoint")}
    places[BACKUPS] = BackedUp(tmp_path / "backed up", str(tmp_path / "backups"), BackupConfig()).target
    known: dict[str, Any] = {}
    for example in blocks("docs/spark.md", "python"):
        exec(compile(placed(example, places), "docs/spark.md", "exec"), known)  # noqa: S102 - it is our own page
    assert known["spark"] is spark
    assert spark.catalog.dropTempView("paid")
    for name in ("orders-again", "orders-copy", "orders-enriched"):
        assert len(read(orders.url, name)) == ORDERS
    assert "customer-1" in capsys.readouterr().out


def test_the_first_steps_run(inspect_spark: Inspect, orders: LocalBroker) -> None:
    (first,) = blocks("docs/spark.md", "sh")
    done = inspect_spark(*words_of(placed(first, {URL: orders.url}))[2:])
    assert done.returncode == 0, done.stderr
    assert re.search(r"^customer-1 +3$", done.stdout, re.MULTILINE), done.stdout


def placed(text: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        text = text.replace(name, place)
    return text


def test_every_call_on_the_pages_is_understood() -> None:
    """As far as flags and arguments tell, without anything being read."""
    root = command_tree.root_command(registry.PROGRAM)
    calls = [words_of(call)[1:] for call in commands()]
    assert len(calls) > 20
    with root.make_context("goqueue", [], resilient_parsing=True) as context:
        for group, name, *words in calls:
            with below(root, context, group) as inner:
                found = inner.command.get_command(inner, name)
                assert found is not None, name
                found.make_context(name, words, parent=inner).close()


def words_of(call: str) -> list[str]:
    """Without what the shell makes of its result."""
    return list(takewhile(lambda word: word not in (">", "|"), shlex.split(call, comments=True)))


def below(root: Any, context: Any, name: str) -> Any:
    return root.get_command(context, name).make_context(name, [], parent=context, resilient_parsing=True)


def test_every_option_is_on_the_page() -> None:
    reading = named(section("docs/spark.md", "Reading")) | named(section("docs/spark.md", "Streams"))
    reading |= named(section("docs/spark.md", "Typed columns"))
    assert set(READ_OPTIONS) - reading - {"maxTriggerDelay"} == set()
    assert "`maxTriggerDelay`" in section("docs/spark.md", "Streams")
    assert set(WRITE_OPTIONS) - named(section("docs/spark.md", "Writing")) == set()


def test_every_column_is_on_the_page() -> None:
    assert set(DELAYED_COLUMNS) - named(section("docs/spark.md", "Reading")) == set()
    assert set(TYPED_COLUMNS) - named(section("docs/spark.md", "Typed columns")) == set()
    assert set(WRITTEN_COLUMNS) - named(section("docs/spark.md", "Writing")) == set()


def test_every_command_of_spark_inspect_has_its_place_on_the_pages() -> None:
    there = {command.path.removeprefix("spark-inspect ") for command in registry.COMMANDS if " " in command.path}
    known = {path for path in there if f"spark-inspect {path}" in {command.path for command in registry.COMMANDS}}
    told = "".join(text_of(page) for page in PAGES)
    assert {path for path in known if f"{INSPECT}{path}" not in told} == set()


def test_the_pipeline_of_the_page_is_one(tmp_path: Path) -> None:
    """With each of its schedules."""
    whole, schedule = blocks("docs/pipelines.md", "yaml")
    path = tmp_path / "pipeline.yaml"
    path.write_text(whole, encoding="utf-8")
    assert [step.name for step in load(str(path), {}, {}, NOW_NS).steps] == ["spent", "peaks"]
    path.write_text(f"source:\n  path: .\nsinks:\n  lake:\n    parquet: /lake\n{schedule}", encoding="utf-8")
    assert load(str(path), {}, {}, NOW_NS).stream is not None


def test_every_inspection_is_in_the_table_of_steps() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", section("docs/pipelines.md", "Steps"), re.MULTILINE)
    told = {name: (set(re.findall(r"`(\w+)`", given)), columns.split(", ")) for name, given, columns in rows}
    assert told == {
        name: (set(one.options_by_name), [field.name for field in one.stored_fields])
        for name, one in INSPECTIONS.items()
    }
