"""The table that people read."""

from collections.abc import Iterable, Sequence

from benchmarks.harness.host import BUSY_CORES
from benchmarks.harness.result import Reading, Reference, Result, Run

HEADINGS = ("what", "measured", "unit", "spread", "budget", "verdict", "machine", "GoQueue", "before")
LEFT = {0, 2, 5}
NOTES = (
    "measured: the median of the samples; spread: from the least to the greatest of them, as a part of it",
    "machine: the same if nothing but the parts of the machine that it needs took any time",
    "GoQueue: GoQueue in this run, compared with the peer of the row; above 1 GoQueue is better",
    "before: compared with the run before, or with --compare; above 1 is better",
)


def table(run: Run, reference: Reference) -> str:
    """Facts, a row a figure, and how to read it."""
    lines = [f"{name + ':':10}{value}" for name, value in run.facts.items()]
    if run.is_quick:
        lines.append("quick:    small amounts, which say less; budgets for totals do not apply")
    rows: list[tuple[str, ...]] = [HEADINGS]
    suite = None
    for result in run.results:
        if result.suite != suite:
            suite = result.suite
            rows.append((f"{suite}", *[""] * (len(HEADINGS) - 1)))
        rows += _rows(result, run, reference)
    lines += ["", *_aligned(rows), "", *NOTES]
    if any(result.others_cores > BUSY_CORES for result in run.results):
        lines.append(f"~: other processes used more than {BUSY_CORES} cores meanwhile: measure again when it is quiet")
    return "\n".join(lines)


def _rows(result: Result, run: Run, reference: Reference) -> Iterable[tuple[str, ...]]:
    for word, reason in (("failed", result.failure), ("absent", result.absent)):
        if reason is not None:
            yield (f"  {result.name}", word, reason, *[""] * (len(HEADINGS) - 3))
    ours = {reading.key: reading for reading in run.readings}
    disturbed = " ~" if result.others_cores > BUSY_CORES else ""
    for reading in result.readings:
        before = reference.medians.get(reading.key)
        own = ours.get((reading.suite, reading.ours))
        yield (
            f"  {reading.name}{disturbed}",
            number(reading.value),
            reading.unit,
            f"{reading.spread:.0%}",
            _budget(reading),
            {True: "met", False: "MISSED", None: ""}[reading.is_met],
            number(reading.machine_best) if reading.machine_best is not None else "",
            f"{own.ratio_to(reading.value):.2f}" if own is not None else "",
            f"{reading.ratio_to(before):.2f}" if before is not None else "",
        )


def _budget(reading: Reading) -> str:
    if reading.budget is None:
        return ""
    return f"{'≤' if reading.less_is_better else '≥'} {number(reading.budget)}"


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    # A reason says more than its column holds, and must not stretch it.
    shown = [row for row in rows if row[1] not in ("failed", "absent")]
    widths = [max(len(row[place]) for row in shown) for place in range(len(HEADINGS))]
    widths[0] = max(len(row[0]) for row in rows)
    for row in rows:
        cells = (
            cell.ljust(width) if place in LEFT else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
        if row is HEADINGS:
            yield "  ".join("-" * width for width in widths)


def number(value: float) -> str:
    """Four digits that matter, or all of a large one in front of the point."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if not value:
        return "0"
    places = max(0, 3 - len(str(int(abs(value)))) + (1 if abs(value) < 1 else 0))
    return f"{value:.{places}f}"
