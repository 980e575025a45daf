"""The chaos run: `make chaos MINUTES=30`. A cluster of real processes, and one fault after the other.

It comes in rounds. Each has fresh directories and a seed of its own; after it all faults end, and all that clients
saw is judged. A round that fails keeps its directory. The table at the end says how long each fault stopped the
cluster.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from random import Random, SystemRandom
from statistics import median

from tests.chaos.nemeses import NEMESES
from tests.chaos.run import ChaosRun, Fault
from tests.chaos.workloads import WORKLOADS

SECONDS = 0.3, 5.0
"""How long a fault lasts."""
LONG_SECONDS = 30.0
LONG = 0.05
"""The part of faults that last much longer."""
CALM_SECONDS = 1.0


def main() -> int:
    options = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a round ends its processes
    directory = Path(options.directory or tempfile.mkdtemp(prefix="goqueue-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    seed = options.seed if options.seed is not None else SystemRandom().randrange(2**31)
    deadline, number, failures, faults = time.monotonic() + options.minutes * 60, 0, 0, list[Fault]()
    _say(f"chaos for {options.minutes:g} minutes in {directory}, seeds from {seed}")
    while time.monotonic() < deadline and not failures:
        failures += not _play(directory / f"round-{seed + number}", seed + number, options, deadline, faults)
        number += 1
    _say(_table(faults))
    _say(f"{number} rounds, {failures} failed, load {' '.join(f'{one:.1f}' for one in os.getloadavg())}")
    if not failures and options.directory is None:
        shutil.rmtree(directory)
    return 1 if failures else 0


def _play(path: Path, seed: int, options: argparse.Namespace, deadline: float, faults: list[Fault]) -> bool:
    """Play one round; return whether it was clean."""
    path.mkdir()
    chance, began = Random(seed), time.monotonic()
    end = min(deadline, began + options.round)
    count = options.nodes or chance.choice((3, 3, 5))
    try:
        with ChaosRun(
            path,
            str(seed),
            count=count,
            partitions=options.partitions,
            has_devices=True,
            workloads=options.workloads,
        ) as run:
            while time.monotonic() < end:
                seconds = LONG_SECONDS if chance.random() < LONG else chance.uniform(*SECONDS)
                seconds = seconds if options.seconds is None else options.seconds
                faults.append(run.harm(chance.choice(options.nemeses), seconds, CALM_SECONDS))
                _say(f"    {faults[-1]}")
            verdict = run.judge()
        failure = None if verdict.ok else str(verdict)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
        (path / "failure.txt").write_text(traceback.format_exc())
    lasted = f"{time.monotonic() - began:.0f} s"
    if failure is None:
        _say(f"clean  seed {seed}, {count} nodes, {lasted}; {verdict.counts}; {dict(verdict.answers)}")
        shutil.rmtree(path)
        return True
    _say(f"FAILED seed {seed}, {count} nodes, {lasted}: {failure}")
    _say(f"    the choices once more: --seed {seed} --nodes {count}; the directory is {path}")
    return False


def _table(faults: list[Fault]) -> str:
    """Return median and longest of each fault: without a controller, and without progress of each workload."""
    found = defaultdict[str, list[Fault]](list)
    for fault in faults:
        found[fault.nemesis].append(fault)
    workloads = [*dict.fromkeys(name for fault in faults for name in fault.unavailable)]
    lines = [f"| Fault | Times | Without a controller | {' | '.join(workloads)} |"]
    lines.append("| --- " * (3 + len(workloads)) + "|")
    for name, those in sorted(found.items()):
        columns = [[one.without_controller for one in those]]
        columns += [[one.unavailable.get(workload, 0.0) for one in those] for workload in workloads]
        cells = " | ".join(f"{median(column):.1f}, {max(column):.1f} s" for column in columns)
        lines.append(f"| {name} | {len(those)} | {cells} |")
    return "\n".join(lines)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="How long to go on. Default: 5.")
    parser.add_argument("--round", type=float, default=60, help="Seconds of a round. Default: 60.")
    parser.add_argument("--seconds", type=float, help="How long each fault lasts. Default: 0.3 to 5, sometimes 30.")
    parser.add_argument("--seed", type=int, help="Seed of the first round. Default: random.")
    parser.add_argument("--nodes", type=int, choices=(1, 3, 5), help="Number of nodes. Default: 3 or 5.")
    parser.add_argument("--partitions", type=int, default=3, help="Partitions of a topic. Default: 3.")
    parser.add_argument("--directory", help="Where the rounds keep their files. Default: a temporary directory.")
    parser.add_argument(
        "--nemeses",
        type=lambda text: _names(text, NEMESES),
        default=tuple(NEMESES),
        help=f"What may go wrong, separated by commas: {', '.join(NEMESES)}. Default: all.",
    )
    parser.add_argument(
        "--workloads",
        type=lambda text: _names(text, WORKLOADS),
        default=tuple(WORKLOADS),
        help=f"What clients do, separated by commas: {', '.join(WORKLOADS)}; none: only controllers. Default: all.",
    )
    return parser.parse_args()


def _names(text: str, known: Collection[str]) -> tuple[str, ...]:
    chosen = () if text == "none" else tuple(text.split(","))
    if unknown := set(chosen).difference(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
    return chosen


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
