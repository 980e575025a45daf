"""What is aborted stays hidden: through segments, restarts, crashes, compaction, retention, and with caches of garbage."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.topic import TopicSettings
from goqueue.broker.upkeep import keep_up
from goqueue.broker.work import run
from goqueue.storage.retention import plan_expiry
from tests.broker.brokers import Running
from tests.broker.transactions.traffic import Traffic, read_offsets, stored_offsets

VALUE = b"v" * 300  # some ten of them are a segment
PRODUCERS = st.sampled_from([1, 2, 3])
KEYS = st.sampled_from([None, b"a", b"b", b"c"])


def started(**given: object) -> Traffic:
    running = Running()
    running.create(**given)
    return Traffic(running)


@dataclass
class Life:
    """A partition, and how it is used at random."""

    traffic: Traffic
    data: st.DataObject

    def step(self) -> None:
        kinds = ["plain", "write", "write", "commit", "abort", "abort", "roll", "store", "look", "restart", "crash"]
        getattr(self, self.data.draw(st.sampled_from([*kinds, "garbage", "retention", "compaction"])))()

    def plain(self) -> None:
        self.traffic.plain(*[VALUE] * self.data.draw(st.integers(1, 5)), key=self.data.draw(KEYS))

    def write(self) -> None:
        values = [VALUE] * self.data.draw(st.integers(1, 8))
        self.traffic.write(self.data.draw(PRODUCERS), *values, key=self.data.draw(KEYS))

    def commit(self) -> None:
        self.traffic.commit(self.data.draw(PRODUCERS))

    def abort(self) -> None:
        self.traffic.abort(self.data.draw(PRODUCERS))

    def roll(self) -> None:
        self.traffic.roll()

    def store(self) -> None:
        run(self.traffic.partition.aborted.store(self.traffic.running.disk))

    def look(self) -> None:
        """Anywhere: what is known afterwards must not be wrong later."""
        partition = self.traffic.partition
        if partition.earliest < partition.last_stable:
            run(partition.read(self.data.draw(st.integers(partition.earliest, partition.last_stable)), 500))

    def restart(self) -> None:
        self.traffic.move(self.traffic.running.restart())

    def crash(self) -> None:
        self.traffic.move(self.traffic.running.crash())

    def garbage(self) -> None:
        """In what is on disk, before the next start."""
        disk = self.traffic.running.disk
        for path in [path for path in disk.paths() if path.endswith(".aborted")]:
            match self.data.draw(st.sampled_from(["leave", "remove", "overwrite", "shorten"])):
                case "remove":
                    disk.remove(path)
                case "overwrite":
                    disk.open(path, "write").write(20, [b"garbage"])
                case "shorten":
                    disk.open(path, "write").truncate(9)
        self.restart()

    def retention(self) -> None:
        partition = self.traffic.partition
        end = min(partition.removable_end, self.data.draw(st.integers(0, len(self.traffic.states))))
        job = plan_expiry(partition.log, self.traffic.running.disk, bytes_kept=0, below=end)
        job.run()
        job.apply()

    def compaction(self) -> None:
        traffic, partition = self.traffic, self.traffic.partition
        before = set(read_offsets(partition))
        chosen = TopicSettings(cleanup="compact")
        run(keep_up(partition, chosen, traffic.running.disk, traffic.running.clock.now_ns()))
        after = set(read_offsets(partition))
        latest = {traffic.keys[offset]: offset for offset in sorted(before)}
        assert after <= before
        assert {
            offset for offset in before if latest[traffic.keys[offset]] == offset or not traffic.keys[offset]
        } <= after
        held = set(stored_offsets(partition))
        end = partition.log.segments[len(partition.log.sealed())].base_offset
        if partition.compacted_end == end:
            assert held.isdisjoint(traffic.hidden(0, end))
        for offset in range(partition.earliest, traffic.stable):
            if offset not in held:
                traffic.states[offset] = "control"  # there is no message any more

    def check(self) -> None:
        traffic, partition = self.traffic, self.traffic.partition
        assert partition.last_stable == traffic.stable
        if partition.earliest >= partition.last_stable:
            return
        first, end = sorted(
            self.data.draw(st.integers(partition.earliest, partition.last_stable), label="offset") for _ in range(2)
        )
        size = self.data.draw(st.sampled_from([1, 700, 3_000, 100_000]))
        assert read_offsets(partition, first, size) == traffic.visible(first)
        hidden = traffic.hidden(first, end)
        ranges = run(partition.aborted.within(first, end))
        assert [offset for start, stop in ranges for offset in range(start, stop)] == hidden
        assert all(one[1] < two[0] for one, two in zip(ranges, ranges[1:], strict=False))
        assert run(partition.aborted.within(first, end, 2)) == ranges[:2]
        assert run(partition.aborted.count(first, end)) == len(hidden)
        assert first == end or partition.aborted.is_clean(first, end) == (not hidden)
        assert partition.aborted.roughly(first, end) == len(hidden)


@settings(max_examples=120)
@given(st.data())
def test_reads_are_those_of_a_model(data: st.DataObject) -> None:
    life = Life(started(), data)
    for _ in range(data.draw(st.integers(1, 25))):
        life.step()
        life.check()
