"""One round of the soak run: everything at once on a fresh data directory, then drained and checked completely."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from goqueue.testing.history.events import DamagedEvent
from goqueue.testing.history.report import HistoryReport
from tests.crash.group_run import GROUP, TOPIC, WorkerProcess
from tests.crash.power_run import Ending, PowerRun
from tests.crash.transaction_worker import OUTPUTS
from tests.soak.damage import Damager, Flip, FlipKind

TRANSFORMERS = "h"
"""The group whose members consume, transform and produce in transactions."""
NOTES_MAX = 150
QUIET_SECONDS_MAX = 2.0
"""What passes at most before something else goes wrong, however little the clients get done."""
SESSION, VISIBILITY, TIMEOUT = "2s", "3s", "2s"
PAUSE_SECONDS = 0.2, 4.5
"""Of the broker or of a client: some pauses are longer than any session, lease or transaction lasts."""
FULL_SECONDS = 0.2, 1.5
WEIGHTS = {"flip": 4, "power-cut": 3, "kill": 2}
"""How often something happens beside the rest."""
SEQUENCE_LOST = "errors.SequenceOutOfOrder"
DATA_KINDS: tuple[FlipKind, ...] = ("sealed", "active")
ENDINGS: tuple[Ending, ...] = get_args(Ending)
STYLES = ("batches", "in passing", "one by one", "slowly")


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices of a soak run."""

    events: tuple[str, ...]
    flips: tuple[FlipKind, ...]
    seconds: float
    """Of traffic in each round; draining and checking come on top."""


class Round(PowerRun):
    """Producers, transactions, groups and readers, around a broker to which everything happens."""

    groups = (GROUP, TRANSFORMERS)
    skip_damage = True
    settings = ("--storage-segment-bytes", "4KiB")

    def __init__(self, path: Path, seed: str, plan: Plan) -> None:
        super().__init__(path, seed, partitions=6)
        self.happened: Counter[str] = Counter()
        self._plan = plan
        self._damager = Damager(self.device, self.chance, (TOPIC, *OUTPUTS), plan.flips)
        self._priorities = self.chance.random() < 0.5
        self._order = self.chance.choice(("none", "none", "key"))
        self._protocol = self.chance.choice(("cooperative", "cooperative", "eager"))

    @property
    def flips(self) -> list[Flip]:
        return self._damager.flips

    # --- the traffic ---

    def play(self) -> HistoryReport:
        """Let everything happen for a while; then let it end, and judge it."""
        self._start_clients()
        deadline = time.monotonic() + self._plan.seconds
        while time.monotonic() < deadline:
            self._work_on()
            weights = [WEIGHTS.get(event, 1) for event in self._plan.events]
            self._disturb(self.chance.choices(self._plan.events, weights)[0])
        self._check_clients()
        self._end_clients()
        self._record_damage()
        _, report = self.examine(in_order=not self._priorities and self._order == "none")
        return report

    def _start_clients(self) -> None:
        self.read("read_committed", skip_damage=True)
        self.read("read_uncommitted", skip_damage=True)
        for number in range(2):
            self.start("group_producer", f"producer-{number}", mixed=True, priorities=self._priorities)
        common: dict[str, Any] = {
            "session": SESSION,
            "visibility": VISIBILITY,
            "skip_damage": True,
        }
        group = {"protocol": self._protocol, "order": self._order, "nacks": 0.02, "rejects": 0.01}
        for number, style in enumerate(self.chance.sample(STYLES, 2)):
            self.start("group_consumer", f"consumer-{number}", style=style, **common, **group)
        self.start("group_members", "crowd", members=4, quits=True, **common, **group)
        for number in range(2):
            options = {"group": TRANSFORMERS, "timeout": TIMEOUT, "aborts": 0.05}
            self.write(f"transformer-{number}", "transaction_transformer", **common, **options)
            self.write(f"writer-{number}", timeout=TIMEOUT, aborts=0.1)

    def _work_on(self) -> None:
        """Until the clients got something done, or for a while."""
        self.progress.has_come_to(self.progress.count + self.chance.randint(1, NOTES_MAX), QUIET_SECONDS_MAX)
        self._check_clients()
        for group in self.groups:
            self.observe(group)

    def _check_clients(self) -> None:
        """Each goes on, but for a producer whose only batch was damaged: its sequence numbers are lost with it, so its
        next batch is refused, and the application has to begin anew."""
        is_damaged = any(flip.kind in DATA_KINDS for flip in self.flips)
        for worker in [*self.workers]:
            if is_damaged and SEQUENCE_LOST in (worker.failure or ""):
                self.happened["producer begun anew"] += 1
                self.kill(worker)
            else:
                worker.check_alive()

    # --- what happens ---

    def _disturb(self, event: str) -> None:
        DISTURBANCES[event](self)
        self.happened[event] += 1

    def flip_bit(self) -> None:
        """Flip a bit in a file of a broker that was ended in any way."""
        self.end_broker(self.chance.choice(ENDINGS))
        flip = self._damager.damage()
        if flip is not None:
            self.happened[f"{flip.kind} flip"] += 1
        self.begin_broker()

    def stall_broker(self) -> None:
        self.pause_broker(self.chance.uniform(*PAUSE_SECONDS))

    def run_out_of_space(self) -> None:
        """For a while; the broker may be ended while the disk is full."""
        self.fill_disk()
        threading.Event().wait(self.chance.uniform(*FULL_SECONDS))
        ending: Ending | None = self.chance.choice((None, None, "killed", "power lost"))
        if ending is not None:
            self.end_broker(ending)
        self.free_disk()
        if ending is not None:
            self.begin_broker()

    def kill_client(self) -> None:
        self.kill(self._choose(lambda worker: worker.kind != "transaction_reader"))

    def stall_client(self) -> None:
        with self._choose(lambda _: True).stopped():
            threading.Event().wait(self.chance.uniform(*PAUSE_SECONDS))

    def replace_client(self) -> None:
        """Another one takes over its transactional id; one that has begun nothing is killed."""
        chosen = self._choose(lambda worker: bool(worker.job.transactional_id))
        if self.has_begun(chosen):
            self.replace(chosen)
        else:
            self.kill(chosen)

    def _choose(self, fits: Callable[[WorkerProcess], bool]) -> WorkerProcess:
        return self.chance.choice([worker for worker in self.workers if fits(worker)])

    # --- the end ---

    def _end_clients(self) -> None:
        self.end([worker for worker in self.workers if worker.kind == "group_producer"])
        self.end([worker for worker in self.workers if worker.job.transactional_id])
        self.finish()
        self.end([*self.workers])
        self.drain(protocol=self._protocol, skip_damage=True)
        self.drain(TRANSFORMERS, skip_damage=True)

    def _record_damage(self) -> None:
        """Record messages that may be missing: in a topic if the broker says so, in a delayed log anyway."""
        for flip in self.flips:
            segment = flip.segment
            if segment is None or segment.is_internal:
                continue
            if segment.is_delayed or self._is_named(segment.topic, segment.partition, flip.offset):
                self._seen.record(DamagedEvent(segment.topic, segment.partition, flip.offset, flip.value))

    def _is_named(self, topic: str, partition: int, offset: int) -> bool:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            connection.request(
                "GET",
                f"/topics/{topic}/partitions/{partition}/messages?offset={offset}&limit=1&isolation=read_uncommitted",
            )
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if answer.get("code") != "range_damaged":
            return False
        details = answer["details"]
        return bool(details["first_offset"] <= offset < details["next_offset"])


DISTURBANCES: dict[str, Callable[[Round], object]] = {
    "kill": Round.kill_broker,
    "power-cut": Round.cut_power,
    "restart": Round.restart_broker,
    "pause": Round.stall_broker,
    "full-disk": Round.run_out_of_space,
    "flip": Round.flip_bit,
    "client-kill": Round.kill_client,
    "client-pause": Round.stall_client,
    "client-replaced": Round.replace_client,
}
