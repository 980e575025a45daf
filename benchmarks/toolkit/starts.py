"""Duration of a command that does next to nothing. Its files are cached: it is not the first of the day."""

from collections.abc import Iterator

from benchmarks.harness.suite import Bench, Budget, Figure, Measurement, Sample, at_most, measurement
from benchmarks.toolkit.program import ADMIN, CLI, Caller, calling

REPEATS, REPEATS_QUICK = 20, 5
TOPICS = 100


def _alone(name: str, flag: str, budget: Budget) -> Measurement:
    """A call that needs no broker."""

    @measurement(f"{name} {flag}", _figure(budget), repeats=REPEATS, repeats_quick=REPEATS_QUICK)
    def measure(bench: Bench) -> Iterator[Sample]:
        del bench
        caller = Caller()
        caller.seconds(name, flag)
        while True:
            yield caller.seconds(name, flag) * 1000

    return measure


def _asking(name: str, words: tuple[str, ...]) -> Measurement:
    """A call with one request to a broker on the same machine."""

    @measurement(
        f"{name} {' '.join(words)}, {TOPICS} topics",
        _figure(at_most(100)),
        repeats=REPEATS,
        repeats_quick=REPEATS_QUICK,
    )
    def measure(bench: Bench) -> Iterator[Sample]:
        with calling(bench) as (broker, caller):
            for number in range(TOPICS):
                broker.create(f"topic-{number}")
            caller.seconds(name, *words)
            while True:
                yield caller.seconds(name, *words) * 1000

    return measure


def _figure(budget: Budget) -> Figure:
    return Figure("ms", budget=budget, less_is_better=True)


alone = tuple(
    _alone(name, flag, at_most(most)) for name in (CLI, ADMIN) for flag, most in (("--version", 30), ("--help", 100))
)
asking = (_asking(CLI, ("topic", "list")), _asking(ADMIN, ("broker", "describe")))
