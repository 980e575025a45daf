"""Running one measurement: preparation, repeats, and an end that it cannot outlast."""

import gc
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from types import FrameType

from benchmarks.harness.host import Watch
from benchmarks.harness.result import Result, readings
from benchmarks.harness.suite import SECONDS_MAX, Absent, Bench, Measurement, Sample


class TookTooLong(SystemExit):
    """Time is up. An event loop lets nothing but a option to exit through."""


def run(
    suite: str,
    measured: Measurement,
    directory: str,
    *,
    is_quick: bool,
    parts: Mapping[str, float],
    is_long: bool = False,
) -> Result:
    """Take all samples. A failure becomes part of the result: the others are still worth having."""
    room = tempfile.mkdtemp(dir=directory)
    watch = Watch()
    try:
        with _time_limit(SECONDS_MAX):
            samples = _samples(measured, Bench(room, is_quick, is_long))
    except Absent as missing:
        return Result(suite, measured.name, absent=str(missing))
    except (Exception, TookTooLong) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Result(suite, measured.name, failure=reason)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    found = readings(suite, measured, samples, is_quick=is_quick, parts=parts)
    return Result(suite, measured.name, found, watch.others_cores())


def _samples(measured: Measurement, bench: Bench) -> list[tuple[float, ...]]:
    samples = []
    repeats = measured.repeats_quick if bench.is_quick else measured.repeats
    with closing(_generator(measured, bench)) as trial:
        for _ in range(repeats):
            gc.collect()
            sample = next(trial)
            samples.append(sample if isinstance(sample, tuple) else (sample,))
    return samples


def _generator(measured: Measurement, bench: Bench) -> Generator[Sample, None, None]:
    yield from measured.run(bench)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _time_is_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _time_is_up(_number: int, _frame: FrameType | None) -> None:
    raise TookTooLong(f"more than {SECONDS_MAX} seconds")
