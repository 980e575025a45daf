"""`goqueue-cli undo`: what it lists, restores, and refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.wire import until
from tests.brokers import ask, broker, create, publish
from tests.cli.letterbox import settle
from tests.cli.programs import cli, on_a_terminal

__all__ = ["broker"]


@pytest.fixture
def home(tmp_path: Path) -> str:
    return str(tmp_path)


def written(home: str, **content: Any) -> str:
    """A file as a command leaves it."""
    directory = Path(home, ".goqueue", "undo")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{content['kind']}.json"
    path.write_text(json.dumps({"name": "billing", "made_at": "2026-03-01T12:00:00.000000000Z", **content}))
    return path.name


def three_read(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", *"abc", partition=0)
    settle(broker.url, lambda message: message.ack())


def offsets(broker: LocalBroker) -> Any:
    return ask(broker.url, "GET", "/groups/billing/offsets").json["offsets"]


def test_without_a_file_it_lists_those_that_there_are(broker: LocalBroker, home: str) -> None:
    nothing = cli("", "undo", HOME=home)
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "there is nothing to undo\n")
    assert cli("", "undo", "-o", "json", HOME=home).out == "[]\n"
    three_read(broker)
    for place in ("0", "1"):
        cli(broker.url, "group", "reset", "billing", "--partition", "0", "--to", place, "--yes", HOME=home)
    Path(home, ".goqueue", "undo", "stray.txt").write_text("nothing")
    newest, oldest = json.loads(cli("", "undo", "-o", "json", HOME=home).out)
    assert newest["made_at"] > oldest["made_at"]
    assert (newest["kind"], newest["of"], newest["server"]) == ("group-reset", "billing", broker.url)
    assert newest["name"] in cli("", "undo", HOME=home).out


def test_a_dry_run_shows_what_would_be_restored(broker: LocalBroker, home: str) -> None:
    three_read(broker)
    file = written(home, kind="group-reset", server=broker.url, offsets={"orders": {"0": 1, "1": None}})
    done = cli(broker.url, "undo", file, "--dry-run", HOME=home)
    assert (done.code, done.out.splitlines()[1].split()) == (0, ["orders/0", "3", "1", "2", "0"])
    assert done.err == (
        "1 partition had not been read before: left as it is now\nthat would mean at most 2 messages read again\n"
    )
    assert offsets(broker) == {"orders": {"0": 3, "1": 0}}


def test_it_asks_on_a_terminal(broker: LocalBroker, home: str) -> None:
    three_read(broker)
    file = written(home, kind="group-reset", server=broker.url, offsets={"orders": {"0": 1, "1": 0}})
    kept = on_a_terminal(broker.url, "undo", file, typed="n\n", HOME=home)
    assert (kept.code, offsets(broker)["orders"]["0"]) == (1, 3)
    assert "restore group billing, at most 2 messages read again? [y/N] nothing was changed\n" in kept.err
    path = str(Path(home, ".goqueue", "undo", file))
    assert on_a_terminal(broker.url, "undo", path, typed="y\n", HOME=home).code == 0
    assert offsets(broker) == {"orders": {"0": 1, "1": 0}}


def test_a_group_that_was_made_by_a_reset_is_deleted_to_undo_it(broker: LocalBroker, home: str) -> None:
    three_read(broker)
    words = ["group", "reset", "shipping", "--create", "--topic", "orders", "--to", "latest", "--yes"]
    assert cli(broker.url, *words, HOME=home).code == 0
    (file,) = Path(home, ".goqueue", "undo").iterdir()
    done = cli(broker.url, "undo", file.name, "--yes", HOME=home)
    assert done.code == 0
    assert "nothing to restore: `goqueue-cli group delete shipping` forgets the group\n" in done.err


def test_another_broker_is_not_touched(broker: LocalBroker, home: str) -> None:
    three_read(broker)
    file = written(home, kind="group-reset", server="http://shop:8080", offsets={"orders": {"0": 0}})
    done = cli(broker.url, "undo", file, "--yes", HOME=home)
    assert (done.code, done.out) == (2, "")
    assert f"error: that was done at http://shop:8080, and this would go to {broker.url}\n" in done.err
    assert f"hint: `goqueue-cli undo {file} --server http://shop:8080`\n" in done.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"kind": "group-reset"}, "is damaged: it does not say what was changed"),
        ({"kind": "group-reset", "offsets": {"orders": {"0": "five"}}}, "is damaged: it does not say what was changed"),
        ({"kind": "group-reset", "offsets": {"orders": [1]}}, "is damaged: it does not say what was changed"),
        ({"kind": "redrive", "moved": [{"source": "orders.dlq/0"}]}, "is damaged: it does not say what was changed"),
        ({"kind": "teapot"}, "is about 'teapot', which this program has not done"),
    ],
)
def test_what_cannot_be_undone_is_said(home: str, content: dict[str, Any], said: str) -> None:
    done = cli("", "undo", written(home, **content), "--yes", HOME=home)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_file_that_is_not_there_is_told_with_where_they_are(home: str) -> None:
    done = cli("", "undo", "nothing.json", HOME=home)
    assert (done.code, done.out) == (2, "")
    assert "hint: the files are under ~/.goqueue/undo" in done.err


def test_an_offset_that_never_was_is_refused(broker: LocalBroker, home: str) -> None:
    three_read(broker)
    file = written(home, kind="group-reset", server=broker.url, offsets={"orders": {"0": 900}})
    done = cli(broker.url, "undo", file, "--yes", HOME=home)
    assert (done.code, done.out) == (5, "")
    assert "cause: offset_out_of_range: orders/0 has no offset 900" in done.err


def test_an_offset_that_retention_has_removed_becomes_the_earliest(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    with LocalBroker(str(tmp_path / "data"), storage__upkeep_interval="100ms") as local:
        create(local.url, "orders", segment_bytes=4096, retention_bytes=4096)
        settle(local.url, lambda message: message.ack())
        for _ in range(20):
            publish(local.url, "orders", "x" * 1000)
        until(local.url, lambda: earliest(local.url) > 0)
        file = written(home, kind="group-reset", server=local.url, offsets={"orders": {"0": 0}})
        done = cli(local.url, "undo", file, "--yes", "-o", "jsonl", HOME=home)
        assert (done.code, json.loads(done.out)["after"]) == (0, earliest(local.url))


def earliest(url: str) -> int:
    found: int = ask(url, "GET", "/topics/orders").json["partition_offsets"]["0"]["earliest"]
    return found


def test_what_is_gone_is_left_out_of_what_is_restored(broker: LocalBroker, home: str) -> None:
    three_read(broker)
    offsets_before = {"gone": {"0": 3}, "orders": {"0": 1, "7": 2}}
    file = written(home, kind="group-reset", server=broker.url, offsets=offsets_before)
    done = cli(broker.url, "undo", file, "--yes", "-o", "jsonl", HOME=home)
    assert [(row["topic"], row["partition"], row["after"]) for row in map(json.loads, done.out.splitlines())] == [
        ("orders", 0, 1)
    ]
    assert done.err.startswith(
        "there is no topic 'gone' any more: what the group had read of it is left out\n"
        "topic 'orders' has no partition 7 any more: what the group had read of it is left out\n"
    )
    assert offsets(broker)["orders"]["0"] == 1
