"""The files of a run: one a process, one line of JSON an event."""

import os
from collections.abc import Iterable, Iterator
from typing import Self, Union

import msgspec

from goqueue.clock import Clock, SystemClock
from goqueue.testing.history.events import EVENTS, Event, in_order_of_time

Path = str | os.PathLike[str]

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Union[EVENTS])  # noqa: UP007 - of a tuple
_NAMES: dict[type[Event], list[str]] = {
    kind: [field.name for field in msgspec.structs.fields(kind) if field.type is str and field.name != "value_id"]
    for kind in EVENTS
}


class Recorder:
    """Writes what one process sees into a new file of its own.

    When `record` returns, the kernel has the lines: killing the process does not lose them.
    """

    def __init__(self, path: Path, process: str, clock: Clock | None = None) -> None:
        self._process = process
        self._clock = clock or SystemClock()
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - open until `close`

    def record(self, *events: Event) -> None:
        """Write events down, with one write for all of them; those without a time get the present one."""
        now = self._clock.monotonic_ns()
        stamped = (msgspec.structs.replace(one, at_ns=one.at_ns or now, process=self._process) for one in events)
        self._file.write(b"".join(_encoder.encode(one) + b"\n" for one in stamped))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Recorder of {self._process} in {self._file.name}>"


def read(paths: Iterable[Path]) -> list[Event]:
    """All events of a run in the order of time. A file may end in a torn line: its writer was killed."""
    events = [event for path in paths for event in _read(path)]
    events.sort(key=in_order_of_time)
    return events


def _read(path: Path) -> Iterator[Event]:
    words: dict[str, str] = {}
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield _shared(_decoder.decode(line), words)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if line.endswith(b"\n"):
                    raise ValueError(f"line {number} of {os.fspath(path)} is not an event: {error}") from error


def _shared(event: Event, words: dict[str, str]) -> Event:
    """The names in it are those of the events before: they would take half of the memory of a history."""
    for field in _NAMES[type(event)]:
        word = getattr(event, field)
        msgspec.structs.force_setattr(event, field, words.setdefault(word, word))
    return event
