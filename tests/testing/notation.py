"""A notation for histories: statements separated by commas, such as `log ab, m got a, m acks a, offset 1`.

Letters are values. The home of a value is t/0 at its number in the alphabet; that of i and j is in/0 at 0 and 1,
that of x and y t/1 at 0 and 1.

    log ab                      a and b are published, answered and stored at home, and t/0 ends behind them
    inputs ij                   i and j are published to in/0 and answered
    drained ij                  in/0 was read to its end, and its group has committed all of it
    send a t/0/0                published and answered; `sending a t` and `published a t/0/0` are the halves
    stored a t/0/0, scheduled a t, damaged a t/0/0, end t/0/5
    begin T, committing T, committed T, aborted T; `commit T` is the request and its answer
    write T                     begins T and sends a to t/0/0 and b to u/1/0 in it; `ends` are the ends of both logs
    transform T                 m receives i, sends a to t/0/0 and acks i, all in T
    m joins, m leaves, m owns   assignment; `joins in` is about in/0
    m got a #2                  delivery with its attempt
    m acks a-c                  `acking` and `acked`, from a to c; also `rejects`, `rejecting`, `rejected`, `nacked`
    r saw a t/0/0               a plain read; `peeked` reads uncommitted messages as well
    child xy                    x and y, which are later than what was sent before, are published, answered and stored
    offset 2                    the committed offset of group g; `offset 2 in` is about in/0, `offset 2 t/1` about t/1

A statement may end with `in T` (transaction), `gen 2` (generation), `of h` (group), `by p` (process), `asked 5` and
`at 9` (times).
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from goqueue.testing.history.events import (
    AbortedEvent,
    AckedEvent,
    AckSentEvent,
    BegunEvent,
    CommitSentEvent,
    CommittedEvent,
    DamagedEvent,
    EndEvent,
    Event,
    Isolation,
    JoinedEvent,
    LeftEvent,
    NackedEvent,
    OwnedEvent,
    PublishedEvent,
    PublishSentEvent,
    ReceivedEvent,
    RejectedEvent,
    RejectSentEvent,
    ScheduledEvent,
    SeenEvent,
    SettledEvent,
    StoredEvent,
)

Place = tuple[str, int, int]
Options = dict[str, str]
OPTIONS = ("in", "gen", "of", "by", "asked", "at")
MACROS = {
    "write": "begin {0}, send a t/0/0 in {0}, send b u/1/0 in {0}",
    "ends": "end t/0/5, end u/1/5",
    "transform": "inputs i, m got i, begin {0}, send a t/0/0 in {0}, m acks i in {0}",
}


def history(text: str) -> list[Event]:
    """Return the events in the order of the statements, each later than the one before unless it names its time."""
    events = [event for statement in text.split(",") for event in _events(statement.split())] if text else []
    return [replace(event, at_ns=event.at_ns or 10 * number) for number, event in enumerate(events, start=1)]


def _events(words: list[str]) -> Iterator[Event]:
    if words[0] in MACROS:
        for statement in MACROS[words[0]].format(*words[1:]).split(","):
            yield from _events(statement.split())
        return
    options: Options = {}
    while len(words) > 2 and words[-2] in OPTIONS:
        options[words[-2]] = words[-1]
        words = words[:-2]
    times = {"at_ns": int(options.get("at", 0)), "process": options.get("by", "")}
    for event in _statement(words, options):
        yield replace(event, **times)


def _statement(words: list[str], options: Options) -> Iterator[Event]:
    if words[0] in BROKER:
        yield from BROKER[words[0]](*words[1:], options)
    else:
        yield from MEMBER[words[1]](words[0], *words[2:], options)


def _place(text: str) -> Place:
    topic, partition, offset = text.split("/")
    return topic, int(partition), int(offset)


def _home(value: str) -> Place:
    if value in "ij":
        return "in", 0, "ij".index(value)
    return ("t", 1, "xy".index(value)) if value in "xy" else ("t", 0, ord(value) - ord("a"))


# --- messages ---


def _sending(value: str, topic: str, options: Options) -> Iterator[Event]:
    yield PublishSentEvent("p", topic, "k", value, options.get("in", ""))


def _send(value: str, place: str, options: Options) -> Iterator[Event]:
    yield from _sending(value, _place(place)[0], options)
    yield PublishedEvent(value, *_place(place))


def _log(values: str, _: Options) -> Iterator[Event]:
    for offset, value in enumerate(values):
        yield from _send(value, f"t/0/{offset}", {})
        yield StoredEvent("t", 0, offset, value)
    yield EndEvent("t", 0, len(values))


def _inputs(values: str, _: Options) -> Iterator[Event]:
    for offset, value in enumerate(values):
        yield from _send(value, f"in/0/{offset}", {})


def _drained(values: str, _: Options) -> Iterator[Event]:
    for offset, value in enumerate(values):
        yield StoredEvent("in", 0, offset, value)
    yield EndEvent("in", 0, len(values))
    yield SettledEvent("g", "in", 0, len(values))


def _commit(name: str, _: Options) -> Iterator[Event]:
    yield CommitSentEvent(name)
    yield CommittedEvent(name)


def _child(values: str, _: Options) -> Iterator[Event]:
    for offset, value in enumerate(values):
        yield from _send(value, f"t/1/{offset}", {})
        yield StoredEvent("t", 1, offset, value)
    yield EndEvent("t", 1, len(values))


def _offset(*words: Any) -> Iterator[Event]:
    offset, topic, options = words if len(words) == 3 else (words[0], "t", words[1])
    name, _, partition = topic.partition("/")
    yield SettledEvent(options.get("of", "g"), name, int(partition or 0), int(offset))


BROKER: dict[str, Callable[..., Iterator[Event]]] = {
    "log": _log,
    "child": _child,
    "inputs": _inputs,
    "drained": _drained,
    "sending": _sending,
    "send": _send,
    "published": lambda value, place, _: iter((PublishedEvent(value, *_place(place)),)),
    "scheduled": lambda value, topic, _: iter((ScheduledEvent(value, topic),)),
    "stored": lambda value, place, _: iter((StoredEvent(*_place(place), value),)),
    "damaged": lambda value, place, _: iter((DamagedEvent(*_place(place), value),)),
    "end": lambda place, _: iter((EndEvent(*_place(place)),)),
    "begin": lambda name, _: iter((BegunEvent(name, "p"),)),
    "committing": lambda name, _: iter((CommitSentEvent(name),)),
    "committed": lambda name, _: iter((CommittedEvent(name),)),
    "aborted": lambda name, _: iter((AbortedEvent(name),)),
    "commit": _commit,
    "offset": _offset,
}


# --- members and readers ---


def _got(member: str, value: str, *words: Any) -> Iterator[Event]:
    *rest, options = words
    place, attempt = _home(value), 1
    isolation: Isolation = "read_committed"
    for word in rest:
        if word == "uncommitted":
            isolation = "read_uncommitted"
        elif word.startswith("#"):
            attempt = int(word[1:])
        else:
            place = _place(word)
    asked = int(options.get("asked", 0))
    group, generation = options.get("of", "g"), int(options.get("gen", 1))
    yield ReceivedEvent(group, member, generation, *place, attempt, value, asked, isolation)


def _saw(isolation: Any) -> Callable[..., Iterator[Event]]:
    return lambda reader, value, place, _: iter((SeenEvent(reader, *_place(place), value, isolation),))


def _settling(*kinds: Any) -> Callable[..., Iterator[Event]]:
    def statement(member: str, values: str, options: Options) -> Iterator[Event]:
        topic, partition, first = _home(values[0])
        end = _home(values[-1])[2] + 1
        transaction = {"transaction": options["in"]} if "in" in options else {}
        for kind in kinds:
            yield kind(options.get("of", "g"), member, topic, partition, first, end, **transaction)

    return statement


def _joins(member: str, *words: Any) -> Iterator[Event]:
    topic, options = words if len(words) == 2 else ("t", words[0])
    yield JoinedEvent("g", member, int(options.get("gen", 1)), ((topic, 0),))


MEMBER: dict[str, Callable[..., Iterator[Event]]] = {
    "got": _got,
    "joins": _joins,
    "leaves": lambda member, _: iter((LeftEvent("g", member),)),
    "owns": lambda member, options: iter((OwnedEvent("g", int(options.get("gen", 1)), member, "t", 0),)),
    "saw": _saw("read_committed"),
    "peeked": _saw("read_uncommitted"),
    "acking": _settling(AckSentEvent),
    "acked": _settling(AckedEvent),
    "acks": _settling(AckSentEvent, AckedEvent),
    "nacked": _settling(NackedEvent),
    "rejecting": _settling(RejectSentEvent),
    "rejected": _settling(RejectedEvent),
    "rejects": _settling(RejectSentEvent, RejectedEvent),
}
