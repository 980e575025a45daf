"""Backups in an object store that is not ours, and what happens where it fails."""

import json
import os
import pickle
from collections.abc import Callable
from functools import partial

import pytest

from goqueue.backup.catalog import BackupCatalog
from goqueue.backup.lease import machine_id
from goqueue.backup.opening import open_target
from goqueue.backup.verify import store_verification, verify_backup
from goqueue.config import BackupConfig
from goqueue.errors import BackupTargetInvalid, DataDirectoryInUse
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.backup.backups import back_up_to, held, name_of, problems_in, restore_from, restored
from tests.backup.object_store import CREDENTIALS, FaultyWay, MotoServer, either, first, settings
from tests.backup.test_backup import filled, write


def test_object_store_has_what_a_directory_has(store: MotoServer) -> None:
    disk, clock, bucket = FaultyDisk(), ManualClock(), store.bucket()
    name, given = f"s3://{bucket}/of/broker-1", settings(store.url)
    target = open_target(name, given)
    assert target.ids() == []
    logs = filled(disk, clock)
    made = back_up_to(target, disk, logs)
    write(logs, clock, 12)
    expected = held(logs)
    grown = back_up_to(target, disk, logs, 1)
    assert 0 < grown.new_objects < grown.new_objects + made.new_objects == len(target.objects())
    assert len(target.objects()) > 7, "a listing has several pages"
    again, more = pickle.loads(pickle.dumps((name, given)))  # noqa: S301 - as Spark does
    other = open_target(again, more)
    assert [problems_in(other, number) for number in range(2)] == [[], []]
    restore_from(other, disk, 1)
    assert restored(disk) == expected
    assert {one.partition("/")[0] for one in store.names(bucket)} == {"of"}
    lock = target.open("a test")
    BackupCatalog(target).delete(name_of(1))
    lock.release()
    assert problems_in(other) == []
    store.client.put_object(Bucket=bucket, Key="mail/letter", Body=b"x")
    with pytest.raises(BackupTargetInvalid, match="holds no backups but 'mail', 'of'"):
        open_target(f"s3://{bucket}", given).open("a test")


def test_next_backup_writes_again_what_a_verification_found_damaged(store: MotoServer) -> None:
    disk, clock, bucket = FaultyDisk(), ManualClock(), store.bucket()
    target = open_target(f"s3://{bucket}", settings(store.url))
    logs = filled(disk, clock)
    first_made = back_up_to(target, disk, logs)
    lost, damaged = sorted(first_made.objects())[:2]
    store.client.delete_object(Bucket=bucket, Key=f"objects/{lost[:2]}/{lost}")
    store.client.put_object(Bucket=bucket, Key=f"objects/{damaged[:2]}/{damaged}", Body=b"x")
    found = verify_backup(target, name_of(0))
    assert found.objects == {lost, damaged}
    assert back_up_to(target, disk, logs, 1).new_objects == 1, "the damage of the other one is not known yet"
    lock = target.open("a test")
    store_verification(target, found, 10)
    lock.release()
    back_up_to(target, disk, logs, 2)
    assert [problems_in(target, number) for number in range(3)] == [[], [], []]


def test_failures_of_a_store_that_pass_are_survived(store: MotoServer) -> None:
    disk, clock, bucket = FaultyDisk(), ManualClock(), store.bucket()
    logs = filled(disk, clock)
    with FaultyWay(store.port) as way:
        target = open_target(f"s3://{bucket}", settings(way.url))
        back_up_to(target, disk, logs)
        write(logs, clock, 1)
        expected = held(logs)
        writing = [
            first(1, "lost", method="PUT", path="/lock"),
            first(1, "lost", method="PUT", path="/backups/2"),
            first(1, 503, method="PUT", path="/objects/"),
            first(1, 500, method="GET", path="/FORMAT"),
            first(1, "cut", method="PUT", path="/objects/"),
        ]
        reading = [
            first(1, "cut", method="GET", path="/objects/"),
            first(1, "cut", method="GET", path="/backups/2"),
            first(1, 404, method="GET", path="/objects/"),
            first(1, 503, method="GET", path="list-type"),
        ]
        way.fault = either(*writing)
        back_up_to(target, disk, logs, 1)
        way.fault = either(*reading)
        restore_from(target, disk, 1)
        happened = [one(method, path) is None for one in (*writing, *reading) for method, path in way.requests]
        assert all(happened)
        assert restored(disk) == expected
    assert problems_in(open_target(f"s3://{bucket}", settings(store.url)), 1) == []


def test_store_that_cannot_be_used_is_told_in_one_sentence(store: MotoServer, closed_url: str) -> None:
    disk, clock, bucket = FaultyDisk(), ManualClock(), store.bucket()
    logs = filled(disk, clock)
    with FaultyWay(store.port) as way:
        given = settings(way.url)
        target = open_target(f"s3://{bucket}", given)
        back_up_to(target, disk, logs)
        for fault, said, hint in (
            (500, "answers 500 (InternalError)", "see the state of the store"),
            (403, "refuses the credentials (SignatureDoesNotMatch)", "AWS_ACCESS_KEY_ID"),
        ):
            for path in ("/objects/", "/backups/2", "lock")[: 1 if fault == 500 else 3]:
                write(logs, clock, 1)
                way.fault = first(10**6, fault, method="PUT", path=path)
                refused = refusal(lambda: back_up_to(target, disk, logs, 1))
                assert said in refused.sentence
                assert hint in str(refused.hint)
                assert target.ids() == [name_of(0)]
        way.fault = first(10**6, "unconditional")
        assert "ignores conditional writes" in refusal(lambda: back_up_to(target, disk, logs, 1)).sentence
        way.fault = first(0, 500)
        for name in store.names(bucket):
            store.client.delete_object(Bucket=bucket, Key=name)
        assert "has no backups any more" in refusal(target.refuse_vanished).sentence
        store.client.delete_bucket(Bucket=bucket)
        assert "its bucket does not exist" in refusal(target.refuse_vanished).sentence
    for name, config, said in (
        ("s3://no-such-bucket", settings(store.url), "its bucket does not exist"),
        ("s3://bucket/x", settings(closed_url), "cannot be reached"),
        ("s3://bucket/x", BackupConfig(endpoint=store.url), "has no TLS"),
        ("s3://bucket/x", settings(store.url, credentials_file="/dev/null"), "has no credentials"),
        ("s3://bucket/x", settings(store.url, credentials_file="/none"), "cannot be read"),
        ("ftp://bucket/x", settings(store.url), "no kind of object store"),
        ("s3://key:secret@bucket/x", settings(store.url), "an address has no credentials"),
    ):
        refused = refusal(lambda name=name, config=config: open_target(name, config).ids())  # type: ignore[misc]
        assert said in refused.sentence
        assert "secret@" not in str(refused)


def refusal(use: Callable[[], object]) -> BackupTargetInvalid:
    with pytest.raises(BackupTargetInvalid) as refused:
        use()
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in f"{refused.value} {refused.value.hint}"
    assert "\n" not in refused.value.sentence
    return refused.value


def test_lease_is_for_one_process_until_it_ends(store: MotoServer) -> None:
    bucket = store.bucket()
    target, other = (open_target(f"s3://{bucket}/p", settings(store.url)) for _ in range(2))
    lock = target.open("the first")
    with pytest.raises(DataDirectoryInUse, match=r"in use by the first on .*: its lease ends in"):
        other.open("the second")
    lock.release()
    other.open("the second").release()

    for change, is_taken in (
        ({"expires_ns": 1}, True),
        ({"process": "another machine/1/1"}, False),
        ({"process": f"{machine_id()}/{os.getpid()}/0"}, True),  # the id is given to a later process
    ):
        lock = target.open("the first")
        record = json.loads(store.content(bucket, "p/lock")) | change
        held_by = open_target(f"s3://{bucket}/p", settings(store.url))
        store.client.put_object(Bucket=bucket, Key="p/lock", Body=json.dumps(record).encode())
        if not is_taken:
            with pytest.raises(DataDirectoryInUse):
                held_by.open("the second")
            store.client.delete_object(Bucket=bucket, Key="p/lock")
        taken = held_by.open("the second")
        harms: tuple[Callable[[], None], ...] = (
            partial(target.delete_manifest, name_of(0)),
            partial(target.put_manifest, name_of(0), b"x"),
        )
        for harm in harms:
            with pytest.raises(BackupTargetInvalid, match="another process has taken the lock"):
                harm()
        assert not lock.is_in_place()
        lock.release()
        assert json.loads(store.content(bucket, "p/lock"))["owner"] == "the second"
        taken.release()
    assert target.ids() == []
