"""The command line: which measurements, how large, compared with what."""

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import benchmarks
from benchmarks.harness import history, runner
from benchmarks.harness.host import facts, file_system, wait_for_quiet
from benchmarks.harness.result import Run
from benchmarks.harness.scratch import IN_MEMORY, NoPlace, scratch
from benchmarks.harness.suite import Measurement, Suite
from benchmarks.harness.table import number, table

MACHINE = "machine"
"""The suite that says what the machine can do; what others need of it is measured first."""
Choice = tuple[Suite, Measurement]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and say with the exit code whether it went well."""
    options = _parser().parse_args(arguments)
    try:
        suites = {suite.name: suite for suite in find_suites()}
        chosen = choose(suites, options.suites, options.k or [])
        if options.list:
            print(_listing(chosen))
            return 0
        reference = history.load(options.compare) if options.compare else history.previous(is_quick=options.quick)
        with scratch(options.dir) as directory:
            run = _run(chosen, directory, options)
    except (NoPlace, NothingChosen, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; what was written to disk is removed", file=sys.stderr)
        return 130
    print(table(run, reference))
    if options.json:
        history.write(run, options.json)
    print(f"kept as {history.keep(run)}", file=sys.stderr)
    failed = any(result.failure for result in run.results)
    missed = options.strict and any(reading.is_met is False for reading in run.readings)
    return 1 if failed or missed else 0


class NothingChosen(Exception):
    """No measurement has such a name."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description="Measure GoQueue against its budgets.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="which suites; all without")
    parser.add_argument("-k", action="append", metavar="TEXT", help="only measurements with this in their name")
    parser.add_argument("--list", action="store_true", help="say what there is, and measure nothing")
    parser.add_argument("--quick", action="store_true", help="small amounts and fewer repeats")
    parser.add_argument("--long", action="store_true", help="an hour's worth of data where memory is watched")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file as well")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="compare with this result, not with the last one")
    parser.add_argument("--dir", metavar="DIR", help="where to put data; it is removed at the end")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a budget is missed")
    parser.add_argument(
        "--patience",
        type=float,
        default=0,
        metavar="SECONDS",
        help="how long to wait, before each measurement, for other processes to be quiet",
    )
    return parser


def find_suites() -> Iterator[Suite]:
    """The modules beside the harness that have a suite."""
    for found in pkgutil.iter_modules(benchmarks.__path__):
        if found.name not in ("harness", "__main__"):
            module: ModuleType = importlib.import_module(f"benchmarks.{found.name}")
            if isinstance(suite := getattr(module, "SUITE", None), Suite):
                yield suite


def choose(suites: dict[str, Suite], names: Sequence[str], patterns: Sequence[str]) -> list[Choice]:
    """The chosen measurements, after what has to be known of the machine for them."""
    unknown = set(names) - suites.keys()
    if unknown:
        raise NothingChosen(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(sorted(suites))}")
    chosen = [
        (suite, one)
        for suite in suites.values()
        if not names or suite.name in names
        for one in suite.measurements
        if not patterns or any(pattern.lower() in one.name.lower() for pattern in patterns)
    ]
    if not chosen:
        raise NothingChosen("no measurement has such a name; --list shows them")
    parts = {part for _, one in chosen for part in one.parts}
    machine = suites[MACHINE]
    needed = [(machine, one) for one in machine.measurements if one.name in parts or (machine, one) in chosen]
    return needed + [choice for choice in chosen if choice[0] is not machine]


def _listing(chosen: Sequence[Choice]) -> str:
    lines = []
    for suite, one in chosen:
        for figure in one.figures:
            budget = figure.budget
            promise = f", {'at least' if budget.is_floor else 'at most'} {number(budget.bound)}" if budget else ""
            label = f": {figure.label}" if figure.label else ""
            lines.append(f"{suite.name:9} {one.name}{label} ({figure.unit}{promise})")
    return "\n".join(lines)


def _run(chosen: Sequence[Choice], directory: str, options: argparse.Namespace) -> Run:
    """All measurements, one after the other."""
    if file_system(directory)[0] in IN_MEMORY:
        print(f"warning: {directory} is in memory: what is said of disks means nothing", file=sys.stderr)
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = Run(started, options.quick, facts(directory))
    parts: dict[str, float] = {}
    for place, (suite, one) in enumerate(chosen, 1):
        if options.patience:
            wait_for_quiet(options.patience)
        print(f"[{place}/{len(chosen)}] {suite.name}: {one.name} ... ", end="", file=sys.stderr, flush=True)
        begin = time.monotonic()
        result = runner.run(suite.name, one, directory, is_quick=options.quick, is_long=options.long, parts=parts)
        if suite.name == MACHINE and result.readings:
            parts[one.name] = result.readings[0].value
        run.results.append(result)
        said = (
            result.failure or result.absent or ", ".join(f"{number(one.value)} {one.unit}" for one in result.readings)
        )
        print(f"{said} ({time.monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)
    return run
