"""A backup in the middle of mixed load, restored: the state of one moment, over messages, groups, transactions and
delays.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from goqueue.backup.opening import open_target
from goqueue.backup.restore import plan_restore, restore_backup
from goqueue.backup.verify import load_manifest, verify_backup
from goqueue.client import Client
from goqueue.storage.disk import SystemDisk
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually
from tests.api.members import Member
from tests.brokers import ask, create, read

Answered = dict[str, float]
"""When the broker acknowledged what."""
PARTITIONS = 2
TOPICS = ("orders", "pairs", "later")


class MixedLoad:
    """Publishes, consumes, commits transactions and delays messages, each on a thread."""

    def __init__(self, url: str, client: Client, answered: dict[str, Answered]) -> None:
        self._url, self._answered = url, answered
        self._over = threading.Event()
        self._producer = client.producer(linger=0)
        self._pairs = client.producer(transactional_id="pairs")
        self.member = Member(url).join()
        self._threads = ThreadPoolExecutor(4)
        acts = {"orders": self._publish, "pairs": self._transact, "later": self._delay, "polls": self._consume}
        self._running = [self._threads.submit(self._repeat, kind, act) for kind, act in acts.items()]

    def end(self) -> None:
        self._over.set()
        for one in self._running:
            one.result()
        self._producer.close()
        self._pairs.close()

    def _repeat(self, kind: str, act: Callable[[int], None]) -> None:
        number = 0
        while not self._over.is_set():
            act(number)
            self._answered[kind][str(number)] = time.monotonic()
            number += 1

    def _publish(self, number: int) -> None:
        self._producer.send("orders", str(number), partition=number % PARTITIONS).result()

    def _transact(self, number: int) -> None:
        with self._pairs.transaction() as transaction:
            for partition in range(PARTITIONS):
                transaction.send("pairs", str(number), partition=partition)

    def _delay(self, number: int) -> None:
        due = {"value": str(number), "delay": f"{number % 7 * 40}ms", "partition": number % PARTITIONS}
        assert ask(self._url, "POST", "/topics/later/messages", {"messages": [due]}).status == 200

    def _consume(self, _: int) -> None:
        poll = f"/poll?member_id={self.member.id}&max_messages=5&timeout=50ms"
        for message in self.member.ask("GET", poll).json["messages"]:
            receipt = {"receipt_handle": message["receipt_handle"]}
            assert ask(self._url, "POST", "/messages/ack", receipt).status == 200
            self._answered["acked"][message["value"]] = time.monotonic()


def values(url: str, topic: str) -> list[list[str]]:
    return [[one["value"] for one in read(url, topic, number, "limit=10000")] for number in range(PARTITIONS)]


def test_backup_under_mixed_load_is_the_state_of_one_moment(tmp_path: Path) -> None:
    answered: dict[str, Answered] = {kind: {} for kind in ("orders", "pairs", "later", "polls", "acked")}
    cut: dict[str, Any] = {}

    given = {"backup__target": str(tmp_path / "backups"), "backup__rate": "0B"}
    with LocalBroker(str(tmp_path / "data"), **given) as broker, Client(broker.url) as client:
        for topic in TOPICS:
            create(broker.url, topic, PARTITIONS)
        load = MixedLoad(broker.url, client, answered)
        try:
            eventually(lambda: all(len(found) > 30 for found in answered.values()))
            cut["before"] = time.monotonic()
            made = cut["id"] = ask(broker.url, "POST", "/admin/backup", {}).json["id"]
            eventually(lambda: ask(broker.url, "GET", f"/admin/backup/{made}").json["state"] == "complete")
            cut["after"] = time.monotonic()
            counts = {kind: len(found) for kind, found in answered.items()}
            eventually(lambda: all(len(answered[kind]) > count for kind, count in counts.items()))
        finally:
            load.end()
        before_end = {topic: values(broker.url, topic) for topic in TOPICS}
    disk, target = SystemDisk(), open_target(str(tmp_path / "backups"), disk=SystemDisk())
    assert verify_backup(target, cut["id"]).is_sound
    restore_backup(disk, target, plan_restore(disk, load_manifest(target, cut["id"]), str(tmp_path / "new")), "test")
    with LocalBroker(str(tmp_path / "new")) as broker:
        check(broker.url, answered, cut, before_end, load.member)


def check(
    url: str, answered: dict[str, Answered], cut: dict[str, Any], before_end: dict[str, list[list[str]]], former: Member
) -> None:
    def owed(kind: str) -> set[str]:
        """Return the names that were acknowledged before the backup was requested."""
        return {name for name, moment in answered[kind].items() if moment < cut["before"]}

    orders = values(url, "orders")
    for found, all_of_them in zip(orders, before_end["orders"], strict=True):
        assert found == all_of_them[: len(found)], "the same messages at the same offsets, and none between is missing"
    held = {value for partition in orders for value in partition}
    assert owed("orders") <= held
    assert len(held) < len(answered["orders"]), "it went on behind the cut"

    pairs = values(url, "pairs")
    assert set(pairs[0]) == set(pairs[1]), "transactions are whole"
    assert owed("pairs") <= set(pairs[0])

    eventually(lambda: ask(url, "GET", "/delay/stats").json["pending_count"] == 0)
    later = Counter(value for partition in values(url, "later") for value in partition)
    assert owed("later") <= later.keys()
    assert set(later.values()) == {1}, "each delayed message is delivered once"

    former.url = url
    former.leave()  # it is known here, with what it had in flight
    member, again = Member(url).join(), set[str]()
    settled = {value for value, moment in answered["acked"].items() if moment < cut["after"]}
    while held - again - settled:
        found = member.ask("GET", f"/poll?member_id={member.id}&max_messages=500&timeout=5s").json["messages"]
        assert found, f"{sorted(held - again - settled)} are never delivered"
        again |= {one["value"] for one in found}
        receipts = {"receipt_handles": [one["receipt_handle"] for one in found]}
        assert ask(url, "POST", "/messages/ack", receipts).status == 200
    assert not again & owed("acked"), "what was acknowledged does not come back"
