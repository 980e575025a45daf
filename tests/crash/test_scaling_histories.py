"""Partitions are added while processes publish and consume and are killed, as the broker is: keys stay in order."""

import threading
from contextlib import suppress
from pathlib import Path

from goqueue.client import Client
from goqueue.errors import GoQueueError
from goqueue.testing.history.events import StoredEvent
from tests.crash.group_run import GroupRun
from tests.crash.life import telling

SHARE = 10
"""Kills of the storage engine alone for each kill here."""
PARTITIONS_AT_THE_END = 8
NOTES_MAX = 60
KILL_SECONDS = 0.03
"""About as long as an addition takes: a kill within comes anywhere in it."""


def add_partitions(run: GroupRun, count: int) -> None:
    """Ask for so many partitions, sometimes kill the broker meanwhile, and repeat that until there are so many."""
    with Client(run.url) as client:
        while client.topic("t").partitions < count:
            asked = threading.Thread(target=_ask, args=(client, count))
            asked.start()
            if run.chance.random() < 0.5:
                asked.join(run.chance.uniform(0, KILL_SECONDS))
                run.kill_broker()
            asked.join()


def _ask(client: Client, count: int) -> None:
    with suppress(GoQueueError):
        client.scale_topic("t", count)


def test_keys_stay_in_order_while_partitions_are_added_and_processes_are_killed(
    tmp_path: Path, seed: str, kills: int
) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), GroupRun(tmp_path, seed, partitions=1) as run:
        producers = [run.start("group_producer", f"producer-{number}") for number in range(3)]
        consumers = [
            run.start(
                "group_consumer",
                f"consumer-{number}",
                style=("batches", "in passing")[number % 2],
                session="2s",
                visibility="2s",
                nacks=0.02,
                rejects=0.02,
            )
            for number in range(4)
        ]
        partitions = 1
        while partitions < PARTITIONS_AT_THE_END:
            run.go_on(run.chance.randint(1, NOTES_MAX))
            partitions *= 2
            add_partitions(run, partitions)
            for _ in range(max(kills // 3, 1)):
                run.go_on(run.chance.randint(1, NOTES_MAX))
                if run.chance.random() < 0.4:
                    run.kill_broker()
                else:
                    consumers.append(run.kill(consumers.pop(run.chance.randrange(len(consumers)))))
        run.go_on(NOTES_MAX)
        run.end(producers)
        run.end(consumers)
        run.drain()
        events, report = run.judge()
        assert report.counts.acked
        used = {event.partition for event in events if isinstance(event, StoredEvent) and event.topic == "t"}
        assert used == set(range(PARTITIONS_AT_THE_END)), "every partition was used"
