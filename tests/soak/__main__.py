"""The soak run: `make soak SECONDS=3600`. Everything that is random and long, until the time is over.

It begins with the crash suite, with many kills. Then come rounds. Each has a fresh directory and a seed of its own,
runs mixed traffic while everything goes wrong at once, drains what is left and checks all that was seen; after each,
random lives are simulated for a while. Every step prints a line. A round that fails keeps its directory.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from goqueue.testing.history.report import HistoryReport
from tests.simulation.lives import MIXES, live
from tests.soak.damage import FLIP_KINDS
from tests.soak.round import DISTURBANCES, Plan, Round

KEPT_MAX = 3
"""Failed rounds, with --keep-going: then the run ends, so that directories do not fill the disk."""


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a round ends its processes
    plan = Plan(options.events, options.flips, options.round)
    directory = Path(options.directory or tempfile.mkdtemp(prefix="goqueue-soak-"))
    directory.mkdir(parents=True, exist_ok=True)
    seed = options.seed if options.seed is not None else SystemRandom().randrange(2**31)
    say(f"soak run of {options.seconds:g} s in {directory}, seeds from {seed}")
    deadline, failures, number = time.monotonic() + options.seconds, 0, 0
    if options.kills:
        command = [sys.executable, "-m", "pytest", "-q", "tests/crash", f"--kills={options.kills}"]
        failures += subprocess.run(command, check=False).returncode != 0
    while time.monotonic() < deadline and failures < (KEPT_MAX if options.keep_going else 1):
        failures += not play(directory / f"round-{seed + number}", seed + number, plan)
        failures += not simulate(seed + number, options.round / 3)
        number += 1
    say(f"{number} rounds, {failures} failed" + (f"; their directories are in {directory}" if failures else ""))
    if not failures and options.directory is None:
        shutil.rmtree(directory)
    return 1 if failures else 0


def play(path: Path, seed: int, plan: Plan) -> bool:
    """One round, and whether it was clean."""
    path.mkdir()
    began, report = time.monotonic(), None
    run = Round(path, str(seed), plan)
    try:
        with run:
            report = run.play()
        failure = None if report.ok else str(report)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    say(line(seed, time.monotonic() - began, run, report, failure is not None))
    if failure is None:
        shutil.rmtree(path)
        return True
    for flip in run.flips:
        say(f"    {flip}")
    say(failure)
    say(f"    repeat with --seed {seed}; the directory is {path}")
    return False


def simulate(seed: int, seconds: float) -> bool:
    """Simulate random lives of all traffic mixes for a while, and return whether every invariant held."""
    deadline, chance, count = time.monotonic() + seconds, Random(seed), 0
    while time.monotonic() < deadline:
        mix = chance.choice([*MIXES])
        try:
            live(mix, chance.getrandbits(32))
        except Exception:
            say(traceback.format_exc())
            return False
        count += 1
    say(f"clean  {count} simulated lives")
    return True


def line(seed: int, seconds: float, run: Round, report: HistoryReport | None, failed: bool) -> str:
    events = ", ".join(f"{count} {event}" for event, count in sorted(run.happened.items()))
    words = [f"{'FAILED' if failed else 'clean '} seed {seed}, {seconds:.0f} s", events]
    if report is not None:
        counts = report.counts
        words.append(
            f"{counts.published:,} published, {counts.received:,} received, {counts.redelivered:,} again, "
            f"{counts.seen:,} read, {counts.transactions:,} transactions, {len(report.violations):,} violations"
        )
    return "; ".join(words)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="Begin no round after this time. Default: 300.")
    parser.add_argument("--round", type=float, default=45, help="Seconds of traffic in a round. Default: 45.")
    parser.add_argument("--seed", type=int, help="Seed of the first round; the next has the next. Default: random.")
    parser.add_argument("--kills", type=int, default=200, help="Kills of the crash suite; 0 skips it. Default: 200.")
    parser.add_argument("--directory", help="Where the rounds keep their files. Default: a temporary directory.")
    parser.add_argument("--keep-going", action="store_true", help=f"Go on after a failure, up to {KEPT_MAX} of them.")
    parser.add_argument(
        "--events",
        type=names(tuple(DISTURBANCES)),
        default=tuple(DISTURBANCES),
        help=f"What may happen, separated by commas: {', '.join(DISTURBANCES)}. Default: all.",
    )
    parser.add_argument(
        "--flips",
        type=names(FLIP_KINDS),
        default=FLIP_KINDS,
        help=f"Where bits may flip, separated by commas: {', '.join(FLIP_KINDS)}. Default: all.",
    )
    return parser.parse_args()


def names(known: tuple[str, ...]) -> Callable[[str], Any]:
    """Parse a list of such names."""

    def parse_names(text: str) -> tuple[str, ...]:
        chosen = tuple(text.split(","))
        if unknown := set(chosen).difference(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: known are {', '.join(known)}")
        return chosen

    return parse_names


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
