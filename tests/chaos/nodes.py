"""The nodes of a cluster as processes, each on a device that can lose power, fill up, stall and fail.

Nodes and clients reach each other over relays alone. All ports stay the same, however often a process starts.
"""

import shutil
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from signal import SIGCONT, SIGSTOP
from typing import Self

from goqueue.clock import NANOSECONDS
from goqueue.testing.disk import Keep
from tests.brokers import ask
from tests.chaos.relay import LoopThread, Network
from tests.cluster.processes import SECRET
from tests.crash.device import Device
from tests.crash.power_process import AHEAD
from tests.processes import Served

REPAIR_SECONDS = 60.0
CLIENT = "client"
"""The place of all clients."""


class _Process(Served):
    """A broker whose messages go to a file as long as it lives."""

    def __init__(self, log: Path, *words: str) -> None:
        super().__init__("--log-level", "warning", *words)
        self._log = log
        self._writer = threading.Thread(target=self._write, daemon=True)

    def await_start(self) -> Self:
        try:
            super().await_start()
        finally:
            self._writer.start()
        return self

    def _write(self) -> None:
        with self._log.open("a") as file:
            file.writelines(f"{line}\n" for line in self.banner)
            for line in self.process.stderr:
                file.write(line)
                file.flush()

    def _end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        if self._writer.ident is None:
            return super()._end(number)
        self.process.wait()
        self._writer.join()
        self.process.stderr.close()
        return self.process.returncode, ""


class ChaosNode:
    """One node, with its directory, its device and its ports."""

    def __init__(self, name: str, path: Path, words: tuple[str, ...], *, seed: str, has_device: bool) -> None:
        self.name = name
        self.data = path / name
        self.served: _Process | None = None
        self.is_paused = False
        self._words = words
        self._journal = path / f"{name}.journal"
        self._device = Device(self.data, self._journal, f"{seed} {name}") if has_device else None
        self._said = path / f"{name}.log"

    @property
    def is_up(self) -> bool:
        return self.served is not None and not self.is_paused

    def launch(self) -> None:
        served = _Process(self._said, "--data-dir", str(self.data), *self._words)
        if self._device is not None:
            served.program = "tests.crash.power_process", str(self.data), str(self._journal)
        self.served = served.launch()

    def await_start(self) -> None:
        assert self.served is not None
        self.served.await_start()

    def end(self, *, loses_power: bool = False, keep: Keep | None = None) -> None:
        """Kill the process; the power may go with it, and take what was not synced."""
        self.resume()
        if self.served is not None:
            self.served.kill()
        self.served = None
        if self._device is None:
            assert not loses_power, "this run has no devices"
        elif loses_power:
            self._device.power_lost(keep)
        else:
            self._device.process_ended()

    def wipe(self) -> None:
        """Kill the process, and give it an empty disk."""
        self.end()
        shutil.rmtree(self.data)
        self._device = None if self._device is None else Device(self.data, self._journal, f"{self.name} again")

    def stop(self) -> int:
        """Stop it as an operator does; return its exit code."""
        assert self.served is not None
        code, _ = self.served.stop()
        self.served = None
        if self._device is not None:
            self._device.process_ended()
        return code

    def pause(self) -> None:
        assert self.served is not None
        self.served.process.send_signal(SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        if self.is_paused and self.served is not None:
            self.served.process.send_signal(SIGCONT)
        self.is_paused = False

    # --- its disk ---

    @property
    def device(self) -> Device:
        assert self._device is not None, "this run has no devices"
        return self._device

    def fill_disk(self) -> None:
        self._fault("full").touch()

    def slow_syncs(self, seconds: float) -> None:
        self._fault("slow").write_text(str(seconds))

    def fail_syncs(self) -> None:
        self._fault("failing").touch()

    def lose_blocks(self) -> None:
        """Have some blocks of logs be unreadable."""
        self._fault("unreadable").touch()

    def shift_clock(self, seconds: float) -> None:
        """Set the wall clock ahead, or back."""
        with self._fault("clock").open("r+b") as file:
            file.write(AHEAD.pack(round(seconds * NANOSECONDS)))

    def mend_disk(self) -> None:
        for kind in ("full", "slow", "failing", "unreadable"):
            self._fault(kind).unlink(missing_ok=True)

    def _fault(self, kind: str) -> Path:
        return Path(f"{self._journal}.{kind}")

    def __repr__(self) -> str:
        return f"<{self.name} {'paused' if self.is_paused else 'up' if self.served else 'down'}>"


class ChaosCluster:
    """Some nodes and the network between them. At the end of its block no process is left."""

    def __init__(self, path: Path, seed: str, *words: str, count: int = 3, has_devices: bool = False) -> None:
        self.chance = Random(f"{seed} cluster")
        self.path = path
        self.names = tuple(f"n{number}" for number in range(1, count + 1))
        self.nodes: dict[str, ChaosNode] = {}
        self._stack = ExitStack()
        self.thread = LoopThread()
        self._stack.callback(self.thread.close)
        self.network = Network(self.thread, self.chance)
        self._stack.callback(self.network.close)
        self._ports = _KeptPorts(self._stack)
        self.addresses: dict[str, str] = {}
        """Where clients reach the nodes."""
        self.wiped: list[str] = []
        """Nodes that got an empty disk: they have no vote any more."""
        (path / "secret").write_text(SECRET)
        self._build(words, seed, has_devices)

    def _build(self, words: tuple[str, ...], seed: str, has_devices: bool) -> None:
        peer_ports, client_ports = ({name: self._ports.next() for name in self.names} for _ in range(2))
        for name in self.names:
            relayed = self._ports.next()
            self.network.add(CLIENT, name, relayed, client_ports[name])
            self.addresses[name] = f"http://127.0.0.1:{relayed}"
        for name in self.names:
            ways = {name: peer_ports[name]}
            for other in self.names:
                if other != name:
                    ways[other] = self._ports.next()
                    self.network.add(name, other, ways[other], peer_ports[other])
            peers = ", ".join(f"{other}=127.0.0.1:{port}" for other, port in sorted(ways.items()))
            self.nodes[name] = ChaosNode(
                name,
                self.path,
                (
                    *("--port", str(client_ports[name]), "--cluster-node-id", name, "--cluster-peers", peers),
                    *("--cluster-secret-file", str(self.path / "secret")),
                    *("--cluster-advertise", self.addresses[name], *words),
                ),
                seed=seed,
                has_device=has_devices,
            )

    def __enter__(self) -> Self:
        try:
            self.start(*self.names)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.end()
        self._stack.close()

    # --- processes ---

    @property
    def up(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.is_up]

    @property
    def down(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.served is None]

    def start(self, *names: str) -> None:
        """Start processes that are down, all at once, and wait until they serve."""
        for name in names:
            self.nodes[name].launch()
            self.network.set_up(name, is_up=True)
        for name in names:
            self.nodes[name].await_start()

    def try_start(self, name: str) -> str | None:
        """Start a process; return what it says if it refuses."""
        try:
            self.start(name)
        except AssertionError as refusal:
            self.nodes[name].end()
            self.network.set_up(name, is_up=False)
            return str(refusal)
        return None

    def await_repair(self, name: str) -> None:
        """Wait until a node has read all its logs, and none is damaged any more."""
        deadline, passes = time.monotonic() + REPAIR_SECONDS, -1.0
        while True:
            with suppress(OSError):
                text = ask(self.addresses[name], "GET", "/metrics").body.decode()
                values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("goqueue_"))
                found = float(values["goqueue_scrub_passes_total"])
                passes = found if passes < 0 else passes
                if found >= passes + 2 and not float(values["goqueue_cluster_damaged_replicas"]):
                    return
            assert time.monotonic() < deadline, f"{name} is not repaired"
            threading.Event().wait(0.1)

    def end(self, *names: str, loses_power: bool = False) -> None:
        """Kill processes."""
        for name in names:
            served = self.nodes[name].served
            if served is not None:
                served.process.kill()
            self.network.set_up(name, is_up=False)
        for name in names:
            self.nodes[name].end(loses_power=loses_power)

    def wipe(self, name: str) -> None:
        self.end(name)
        self.nodes[name].wipe()
        self.wiped.append(name)

    def stop(self, *names: str) -> None:
        for name in names:
            assert self.nodes[name].stop() == 0, f"{name} does not stop cleanly"
            self.network.set_up(name, is_up=False)

    def links(self, one: Iterable[str], other: Iterable[str]) -> set[tuple[str, str]]:
        """Return the ways from some places to others."""
        return {(sender, receiver) for sender in one for receiver in other if sender != receiver}


class _KeptPorts:
    """Ports that no other program gets while the run goes on."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def next(self) -> int:
        held = self._stack.enter_context(socket.socket())
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
