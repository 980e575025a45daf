"""Backups as sources of logs: what they give is what the restored directory gives, of which only what is asked for is
read."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.backup.opening import open_target
from goqueue.backup.target import BackupTarget
from goqueue.client import Client
from goqueue.config import BackupConfig
from goqueue.errors import BackupKeyMismatch, BackupNotFound, BackupTargetInvalid, RangeDamaged
from goqueue.spark.logs.backup import BackupLogs
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.reading.options import read_options
from goqueue.spark.reading.plan import EARLIEST, LATEST, ReadBound, TimePoint, TopicSelection, make_plan
from goqueue.spark.reading.tasks import Extract
from goqueue.spark.typed.schema_sources import LogSchemas
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.backup.backups import name_of
from tests.backup.conftest import moto, store
from tests.backup.keys import key_file
from tests.backup.object_store import MotoServer, settings
from tests.spark.backed_up import ROUNDS, BackedUp
from tests.spark.programs import Inspect
from tests.spark.stock import rows, splits
from tests.spark.test_source import collected, refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["moto", "store"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> BackedUp:
    path = tmp_path_factory.mktemp("plain")
    return BackedUp(path, str(path / "backups"), BackupConfig())


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pieces that are fetched."""
    fetched: list[str] = []
    get = BackupTarget.get_object

    def counted(target: BackupTarget, piece: Any) -> Any:
        fetched.append(piece.sha256)
        return get(target, piece)

    monkeypatch.setattr(BackupTarget, "get_object", counted)
    return fetched


def same(logs: LogSource, directory: LogSource) -> int:
    """Compare everything that is read, however it is split; return how many rows there are."""
    expected = rows(directory, splits(directory))
    assert logs.topics() == directory.topics()
    for topic, numbers in logs.topics().items():
        for number in numbers:
            ends = [(one.base_offset, one.next_offset, one.size) for one in logs.view(topic, number).segments]
            assert ends == [
                (one.base_offset, one.next_offset, one.size) for one in directory.view(topic, number).segments
            ]
    for split_bytes in (None, 4096):
        assert rows(logs, splits(logs, split_bytes=split_bytes)) == expected
    return len(expected)


def test_backup_gives_what_its_restored_directory_gives(plain: BackedUp) -> None:
    assert len(plain.logs.view("state", 0).segments) > 1
    assert same(plain.logs, plain.directory) > ROUNDS * 40
    first = BackupLogs.at(plain.target, name_of(0))
    assert first.view("orders", 0).end < plain.logs.view("orders", 0).end
    assert first.compaction("state", 0).gaps == 0
    assert plain.logs.compaction("state", 0) == plain.directory.compaction("state", 0)
    assert plain.logs.compaction("state", 0).gaps > 0


def test_encrypted_backup_in_an_object_store_is_read_as_a_directory_is(tmp_path: Path, store: MotoServer) -> None:
    key = key_file(tmp_path / "key")
    made = BackedUp(tmp_path, f"s3://{store.bucket()}/nightly", settings(store.url, key_file=str(key)))
    assert same(made.logs, made.directory) > ROUNDS * 40
    logs = read_options({**made.options, "backupId": name_of(0)}).logs()
    assert logs.view("orders", 0).end < made.logs.view("orders", 0).end


def test_only_the_pieces_of_the_asked_offsets_and_times_are_fetched(plain: BackedUp, requests: list[str]) -> None:
    logs, directory = plain.logs, plain.directory
    end = logs.view("orders", 0).end
    times = {row["offset"]: row["timestamp"] for row in rows(directory, splits(directory)) if row["topic"] == "orders"}
    moment = round(times[max(times)].timestamp() * 10**9)
    selection = TopicSelection(assigned={"orders": (0,)})
    for start, stop in (
        (ReadBound(end - 3), LATEST),
        (EARLIEST, ReadBound(3)),
        (ReadBound(TimePoint(moment)), LATEST),
    ):
        plan = make_plan(logs, selection, start, stop)
        requests.clear()
        found = rows(logs, plan.splits(logs))
        expected = make_plan(directory, selection, start, stop)
        assert found == rows(directory, expected.splits(directory))
        assert found
        assert len(requests) == 1, "the others hold none of it"


def test_damaged_piece_is_damage_that_can_be_skipped(tmp_path: Path) -> None:
    made = BackedUp(tmp_path, str(tmp_path / "backups"), BackupConfig())
    segment = next(one for one in _manifest_log(made, "orders/0").segments if len(one.pieces) == ROUNDS)
    stored = segment.pieces[1].object_name
    (tmp_path / "backups/objects" / stored[:2] / stored).unlink()
    whole = rows(made.directory, splits(made.directory), fails=False)
    extract = Extract(made.logs, ("offset",))
    with pytest.raises(RangeDamaged, match=name_of(ROUNDS - 1)):
        [batch for split in splits(made.logs) for batch in extract.batches(split)]
    left = rows(made.logs, splits(made.logs), fails=False)
    assert len(whole) / 2 < len(left) < len(whole)
    assert all(row in whole for row in left)


def _manifest_log(made: BackedUp, name: str) -> Any:
    from goqueue.backup.verify import load_manifest  # noqa: PLC0415 - of the test alone

    manifest = load_manifest(open_target(made.target, made.settings), name_of(ROUNDS - 1))
    return next(log for log in manifest.logs if log.name == name)


def test_delayed_messages_and_schemas_of_a_backup_are_those_of_its_broker(tmp_path: Path) -> None:
    target, data = str(tmp_path / "backups"), str(tmp_path / "data")
    with LocalBroker(data, backup__target=target, backup__rate="0B") as broker, Client(broker.url) as client:
        client.create_topic("orders", 1)
        client.publish("orders", "later", delay="1h")
        client.publish("orders", "soon", delay="1ms")
        eventually(lambda: client.topic("orders").partition_offsets["0"].latest == 1)
        client.register_schema("orders-value", '{"type":"object"}', "JSON")
        made = client.create_backup().id
        eventually(lambda: client.backup(made).state == "complete")
    given = {"backup": target, "delayed": "true"}
    states = [
        batch.to_pylist()
        for logs in (read_options(given).logs(), DirectoryLogs.at(data, is_delayed=True))
        for split in splits(logs)
        for batch in Extract(logs, ("offset", "value", "deliver_at", "state")).batches(split)
    ]
    of_backup, of_directory = states
    assert of_backup == of_directory
    assert [(row["value"], row["state"]) for row in of_backup] == [(b"later", "pending"), (b"soon", "delivered")]
    assert LogSchemas(BackupLogs.at(target)).version("orders-value", None).text == '{"type":"object"}'


def test_wrong_targets_and_options_are_refused_with_what_to_do(plain: BackedUp, tmp_path: Path) -> None:
    with pytest.raises(BackupTargetInvalid, match="holds no backups"):
        BackupLogs.at(str(tmp_path))
    with pytest.raises(BackupNotFound, match="no backup 'nix'"):
        BackupLogs.at(plain.target, "nix")
    with pytest.raises(BackupKeyMismatch, match="is not encrypted"):
        BackupLogs.at(plain.target, None, BackupConfig(key_file=str(key_file(tmp_path / "key"))))
    for options, told in (
        ({"path": "d", "backup": "b"}, "path and backup exclude each other"),
        ({"path": "d", "backupId": "b"}, "backupId needs the option backup"),
        ({"backup": "b", "backup.allowHttp": "maybe"}, "allow_http"),
    ):
        assert told in str(refused(lambda given=options: read_options(given)))  # type: ignore[misc]


@pytest.mark.slow
def test_spark_and_its_inspections_read_a_backup(
    spark: "SparkSession", inspect_spark: Inspect, plain: BackedUp
) -> None:
    names = ("topic", "partition", "offset", "value")
    reader = spark.read.format("goqueue").option("columns", ",".join(names)).option("subscribe", "orders")
    found = collected(reader.option("splitBytes", "2KiB").option("backup", plain.target).load())
    directory = [row for row in rows(plain.directory, splits(plain.directory)) if row["topic"] == "orders"]
    assert found == [{name: row[name] for name in names} for row in directory]
    done = inspect_spark("verify", "--backup", plain.target, "-o", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, []), "what compaction has removed is no loss"
    query = "SELECT count(*) AS n, max(offset) AS last FROM orders"
    done = inspect_spark("sql", "--backup", plain.target, "--backup-id", name_of(0), query, "-o", "json")
    first = BackupLogs.at(plain.target, name_of(0))
    earlier = [row for row in rows(first, splits(first)) if row["topic"] == "orders"]
    assert json.loads(done.stdout) == [{"n": len(earlier), "last": earlier[-1]["offset"]}]


def test_command_refuses_what_does_not_fit_a_backup(inspect: Inspect, plain: BackedUp) -> None:
    for words, told in (
        (("--backup", plain.target, "--url", "http://127.0.0.1:1"), "--backup and a broker exclude each other"),
        ((plain.restored, "--backup-id", "x"), "--backup-id belongs to a backup"),
        (("--backup", plain.target, "--index"), "--index compares files, and a backup is read"),
        (("--backup", plain.target, "--backup-id", "nix"), "there is no backup 'nix'"),
    ):
        done = inspect("verify", *words)
        assert done.returncode
        assert told in done.stderr
