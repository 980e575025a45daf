"""What is recorded of a transactional id: always all of it, so that its latest record tells everything."""

import re
from typing import NamedTuple

import msgspec

from goqueue.broker.transactions.states import State
from goqueue.broker.transactions.whose import Whose
from goqueue.errors import RequestInvalid
from goqueue.limits import EARLIER_PRODUCERS, TRANSACTIONAL_ID_CHARACTERS_MAX
from goqueue.quantities import quoted
from goqueue.storage import frame

_FIT = re.compile(r"[A-Za-z0-9._:@-]+")
_UNFIT = frozenset({".", "..", "stats"})
"""What in the place of an id means something else in a path."""


class Spot(NamedTuple):
    """A partition, or its delayed log."""

    topic: str
    partition: int
    is_delayed: bool = False


class Touched(NamedTuple):
    """A partition that a transaction has written to, or will in a moment."""

    spot: Spot
    topic_ns: int
    """When the topic was created: one of the same name that is made later is another."""
    since: int
    """Nothing of the transaction stands before this offset."""


class Ended(NamedTuple):
    """The transaction before the one that the epoch speaks of."""

    whose: Whose
    state: State
    began_ns: int
    ended_ns: int
    reason: str = ""
    note: str = ""
    """What whoever committed it wanted to be kept with it."""


class Registered(msgspec.Struct, frozen=True, tag="transactional_id", tag_field="record", omit_defaults=True):
    """A producer with a transactional id, and its transaction."""

    id: str
    producer: int
    epoch: int
    state: State
    timeout_ns: int
    changed_ns: int
    """When it came to this state."""
    began_ns: int = 0
    partitions: list[Touched] = []
    groups: list[str] = []
    members: list[int] = []
    """Producers that publish in it besides; the epoch of their marks is 0."""
    counted: list[int] | None = None
    """Those of them whose messages are committed; None: of all."""
    reason: str = ""
    """Why it is aborted."""
    note: str = ""
    last: Ended | None = None
    earlier: list[int] = []
    """Producers that had this id before, the latest: calls with one of them are fenced."""
    former: Whose | None = None
    """What whoever has called `init` had before, if it said so: asked once more, the answer is the same."""

    @property
    def whose(self) -> Whose:
        return Whose(self.producer, self.epoch)

    def before(self, whose: Whose) -> list[int]:
        """The producers that had the id before this one, of which the record knows."""
        return self.earlier if whose.producer == self.producer else [*self.earlier, self.producer][-EARLIER_PRODUCERS:]

    @property
    def epochs(self) -> dict[int, int]:
        """Of the marks in its batches, by their producers."""
        return {self.producer: self.epoch, **dict.fromkeys(self.members, 0)}


class Forgotten(msgspec.Struct, frozen=True, tag="transactional_id_forgotten", tag_field="record"):
    """Nobody has used it for long."""

    id: str


Record = Registered | Forgotten
_DECODER = msgspec.json.Decoder(Record)
_encode = msgspec.json.encode


def encode_record(record: Record) -> bytes:
    flags = frame.TOMBSTONE if isinstance(record, Forgotten) else 0
    return frame.encode(_encode(record), record.id.encode(), flags=flags)


def decode_record(message: frame.Message) -> Record:
    record: Record = _DECODER.decode(message.value)
    return record


def check_transactional_id(name: str) -> None:
    """Refuse what would be trouble in a path, a terminal or a log."""
    if len(name) > TRANSACTIONAL_ID_CHARACTERS_MAX or _FIT.fullmatch(name) is None or name in _UNFIT:
        problem = {"place": "transactional_id", "problem": f"is {quoted(name)}, which no transactional id is"}
        raise RequestInvalid(
            f"transactional_id {problem['problem']}",
            hint=f"1 to {TRANSACTIONAL_ID_CHARACTERS_MAX} letters, digits and the characters . _ - : @, but not"
            f" {', '.join(sorted(_UNFIT))}",
            problems=[problem],
        )
