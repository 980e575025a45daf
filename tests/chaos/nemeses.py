"""Faults. Each nemesis does harm when it begins, and undoes it when it ends."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from tests.chaos.nodes import CLIENT, ChaosCluster
from tests.crash.device import Device

MESSAGES = 0.5
"""The part of damaged files that have messages."""
Target = Callable[[], str | None]
"""Names a node that is worth harming, such as the controller, or None."""


@dataclass
class Nemesis(ABC):
    """One fault in progress."""

    cluster: ChaosCluster
    chance: Random
    targets: tuple[Target, ...] = ()
    chosen: tuple[str, ...] = ()
    """The nodes that are harmed."""
    seconds: float = 2.0
    """How long it lasts."""
    what: list[str] = field(default_factory=list)
    """What was harmed of these nodes, for people."""

    needs_devices = False

    def choose(self) -> str:
        """Prefer a node that does something special."""
        known = [name for target in self.targets if (name := target()) is not None and name in self.cluster.up]
        up = self.cluster.up
        return self.chance.choice(known if known and self.chance.random() < 0.7 else up)

    def others(self, *names: str) -> list[str]:
        return [name for name in self.cluster.names if name not in names]

    @abstractmethod
    def begin(self) -> None:
        """Do the harm."""

    def end(self) -> None:
        """Undo it."""
        self.cluster.network.restore(resets=self.chance.random() < 0.5)

    def minority(self) -> list[str]:
        """Choose a minority, with one that does something special in it."""
        first = self.choose()
        count = (len(self.cluster.names) - 1) // 2
        return [first, *self.chance.sample(self.others(first), self.chance.randint(1, count) - 1)]


class KillOne(Nemesis):
    """SIGKILL."""

    def begin(self) -> None:
        self.chosen = (self.choose(),)
        self.cluster.end(*self.chosen)

    def end(self) -> None:
        self.cluster.start(*self.chosen)


class StopOne(KillOne):
    """A clean stop."""

    def begin(self) -> None:
        self.chosen = (self.choose(),)
        self.cluster.stop(*self.chosen)


class Wipe(KillOne):
    """A node loses its disk and starts with an empty one. Only one of a cluster does; otherwise it is just killed."""

    def begin(self) -> None:
        if self.cluster.wiped:
            super().begin()
            return
        self.chosen = (self.choose(),)
        self.cluster.wipe(*self.chosen)


class KillAll(Nemesis):
    """SIGKILL of all at once; they come back in any order."""

    loses_power = False

    def begin(self) -> None:
        self.chosen = self.cluster.names
        self.cluster.end(*self.chosen, loses_power=self.loses_power)

    def end(self) -> None:
        if self.chance.random() < 0.5:
            self.cluster.start(*self.chosen)
            return
        for name in self.chance.sample(self.chosen, len(self.chosen)):
            self.cluster.start(name)


class KillStaggered(Nemesis):
    """SIGKILL of one after the other, each before the one before is back."""

    def begin(self) -> None:
        order = self.chance.sample(self.cluster.names, len(self.cluster.names))
        self.chosen = tuple(order)
        down: list[str] = []
        for name in order:
            self.cluster.end(name)
            down.append(name)
            if len(down) > 1:
                self.cluster.start(down.pop(0))
        self.cluster.start(*down)

    def end(self) -> None:
        pass


class PowerLossOne(KillOne):
    """The power of one node goes: what was not synced is lost, in whole or in part."""

    needs_devices = True

    def begin(self) -> None:
        self.chosen = (self.choose(),)
        self.cluster.end(*self.chosen, loses_power=True)


class PowerLossAll(KillAll):
    """The power of all goes."""

    needs_devices = True
    loses_power = True


class Pause(Nemesis):
    """SIGSTOP, up to longer than any timeout."""

    def begin(self) -> None:
        self.chosen = (self.choose(),)
        for name in self.chosen:
            self.cluster.nodes[name].pause()

    def end(self) -> None:
        for name in self.chosen:
            self.cluster.nodes[name].resume()


class PauseMajority(Pause):
    """SIGSTOP of a majority, which wakes one after the other."""

    def begin(self) -> None:
        count = len(self.cluster.names) // 2 + 1
        self.chosen = tuple(self.chance.sample(self.cluster.names, count))
        for name in self.chosen:
            self.cluster.nodes[name].pause()


class Isolate(Nemesis):
    """A minority and the rest do not hear each other; clients reach all."""

    def begin(self) -> None:
        few = self.minority()
        self.chosen = tuple(few)
        rest = self.others(*few)
        self.cluster.network.silence(self.cluster.links(few, rest) | self.cluster.links(rest, few))


class IsolateFromAll(Nemesis):
    """One node hears neither nodes nor clients."""

    def begin(self) -> None:
        name = self.choose()
        self.chosen = (name,)
        rest = [*self.others(name), CLIENT]
        self.cluster.network.silence(self.cluster.links([name], rest) | self.cluster.links(rest, [name]))


class Refuse(Nemesis):
    """Connections between a minority and the rest are reset and refused, as by a firewall."""

    def begin(self) -> None:
        few = self.minority()
        self.chosen = tuple(few)
        rest = self.others(*few)
        self.cluster.network.refuse(self.cluster.links(few, rest) | self.cluster.links(rest, few))


class Ring(Nemesis):
    """Each node hears a majority, but none hears the same: one pair of three, two neighbours of five."""

    def begin(self) -> None:
        order = self.chance.sample(self.cluster.names, len(self.cluster.names))
        count = len(order)
        if count == 3:
            cut = {(order[0], order[1]), (order[1], order[0])}
        else:
            cut = {
                (one, other)
                for place, one in enumerate(order)
                for step in range(2, count - 1)
                for other in [order[(place + step) % count]]
            }
        self.chosen = tuple(sorted({name for pair in cut for name in pair}))
        self.cluster.network.silence(cut)


class Asymmetric(Nemesis):
    """One node is not heard, or hears nothing."""

    def begin(self) -> None:
        name = self.choose()
        self.chosen = (name,)
        sends, hears = self.cluster.links([name], self.others(name)), self.cluster.links(self.others(name), [name])
        self.cluster.network.silence(self.chance.choice((sends, hears)))


class SlowLinks(Nemesis):
    """Delays, jitter, little bandwidth, and bytes in slices, on some links."""

    def begin(self) -> None:
        for link in self.cluster.network.links.values():
            if self.chance.random() < 0.5:
                link.delay_seconds = self.chance.choice((0.005, 0.05))
                link.jitter_seconds = self.chance.choice((0.0, 0.05))
                link.slice_bytes = self.chance.choice((None, 100, 1400))
                link.bytes_per_second = self.chance.choice((None, 1e6))


class _DiskFault(Nemesis):
    """Something about the disk of one node; it may be killed meanwhile."""

    needs_devices = True

    def begin(self) -> None:
        self.chosen = (self.choose(),)
        for name in self.chosen:
            self.harm(name)

    @abstractmethod
    def harm(self, name: str) -> None:
        """Do it to the disk of a node."""

    def end(self) -> None:
        for name in self.chosen:
            node = self.cluster.nodes[name]
            dies = self.restarts or self.chance.random() < 0.3
            if dies:
                self.cluster.end(name)
            node.mend_disk()
            if dies:
                self.cluster.start(name)

    restarts = False
    """Whether only a new start brings it back."""


class FullDisk(_DiskFault):
    """No space is left on the disk of one node: it takes no part in the cluster until it starts anew."""

    restarts = True

    def harm(self, name: str) -> None:
        self.cluster.nodes[name].fill_disk()


class SlowDisk(_DiskFault):
    """Each sync of one node takes a second."""

    def harm(self, name: str) -> None:
        self.cluster.nodes[name].slow_syncs(self.chance.choice((0.2, 1.0)))


class FailingDisk(_DiskFault):
    """Syncs of one node fail: it fences its logs until it starts anew."""

    restarts = True

    def harm(self, name: str) -> None:
        self.cluster.nodes[name].fail_syncs()


class BadBlocks(_DiskFault):
    """Some blocks of the logs of one node cannot be read."""

    def harm(self, name: str) -> None:
        self.cluster.nodes[name].lose_blocks()

    def end(self) -> None:
        super().end()
        for name in self.chosen:
            self.cluster.await_repair(name)


class _DamagedFile(Nemesis):
    """Files of a minority are changed while its processes are down. What a node refuses to start on is put back."""

    needs_devices = True

    def begin(self) -> None:
        self.chosen = tuple(self.minority())
        self.cluster.end(*self.chosen)
        self._before: list[tuple[str, str, bytes]] = []
        for name in self.chosen:
            device = self.cluster.nodes[name].device
            path = self._choose(device)
            self._before.append((name, path, device.read(path)))
            device.write(path, self.changed(device.read(path)))
        self.what = [f"{name}{path}" for name, path, _ in self._before]

    def _choose(self, device: Device) -> str:
        """Choose a file: often one with messages, else one of any kind."""
        kinds = defaultdict[str, list[str]](list)
        for path in device.files():
            if (kind := _kind(path)) is not None and device.read(path):
                kinds[kind].append(path)
        messages = [kind for kind in kinds if kind.endswith(" log") and not kind.startswith("__")]
        chosen = messages if messages and self.chance.random() < MESSAGES else sorted(kinds)
        return self.chance.choice(kinds[self.chance.choice(chosen)])

    @abstractmethod
    def changed(self, content: bytes) -> bytes:
        """Return another content of a file."""

    def end(self) -> None:
        for name, path, content in self._before:
            if (refusal := self.cluster.try_start(name)) is not None:
                assert "Traceback" not in refusal, refusal
                assert path.rpartition("/")[2] in refusal or path.split("/")[-3] in refusal, (path, refusal)
                self.cluster.nodes[name].device.write(path, content)
                self.cluster.start(name)
        for name in self.chosen:  # or the next fault could take what another node lacks
            self.cluster.await_repair(name)


def _kind(path: str) -> str | None:
    """Return what kind of file this is; None for those that hold nothing which a node needs."""
    parts = path.strip("/").split("/")
    if parts[0] == "logs":
        return f"{parts[1]} {parts[-1].rpartition('.')[2]}"
    return parts[0] if len(parts) == 1 and parts[0] not in ("lock", "reserve", "clock") else None


class FlippedBit(_DamagedFile):
    """One bit of a file of each node of a minority changes."""

    def changed(self, content: bytes) -> bytes:
        changed = bytearray(content)
        changed[self.chance.randrange(len(changed))] ^= 1 << self.chance.randrange(8)
        return bytes(changed)


class TruncatedFile(_DamagedFile):
    """A file of each node of a minority ends early."""

    def changed(self, content: bytes) -> bytes:
        return content[: self.chance.randrange(len(content))]


class ClockJump(Nemesis):
    """The wall clock of one node jumps by up to an hour, and back."""

    needs_devices = True

    def begin(self) -> None:
        self.chosen = (self.choose(),)
        for name in self.chosen:
            self.cluster.nodes[name].shift_clock(self.chance.choice((-3600.0, -5.0, 5.0, 3600.0)))

    def end(self) -> None:
        for name in self.chosen:
            self.cluster.nodes[name].shift_clock(0)


NEMESES: dict[str, type[Nemesis]] = {
    "kill": KillOne,
    "stop": StopOne,
    "kill-all": KillAll,
    "kill-staggered": KillStaggered,
    "wipe": Wipe,
    "pause": Pause,
    "pause-majority": PauseMajority,
    "isolate": Isolate,
    "isolate-all": IsolateFromAll,
    "refuse": Refuse,
    "ring": Ring,
    "asymmetric": Asymmetric,
    "slow-links": SlowLinks,
    "power": PowerLossOne,
    "power-all": PowerLossAll,
    "full-disk": FullDisk,
    "slow-disk": SlowDisk,
    "failing-disk": FailingDisk,
    "bad-blocks": BadBlocks,
    "flipped-bit": FlippedBit,
    "truncated-file": TruncatedFile,
    "clock": ClockJump,
}


def end_faults(cluster: ChaosCluster) -> None:
    """Undo everything."""
    for node in cluster.nodes.values():
        node.resume()
        with suppress(FileNotFoundError):
            node.mend_disk()
    cluster.network.restore(resets=True)
    cluster.start(*cluster.down)
