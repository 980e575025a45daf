"""Records of the transaction log. Each holds the complete state of one transactional id."""

import re
from typing import Final, Literal, NamedTuple

import msgspec

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import LogRef
from goqueue.errors import RequestInvalid
from goqueue.limits import FENCED_PRODUCERS_MAX, TRANSACTIONAL_ID_CHARACTERS_MAX
from goqueue.quantities import quoted
from goqueue.storage import frame

TransactionState = Literal["empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit", "complete_abort"]
TransactionStateEvent = Literal["begin", "commit", "abort", "complete", "init"]

TRANSITIONS: Final[dict[tuple[TransactionState, TransactionStateEvent], TransactionState]] = {
    ("empty", "begin"): "ongoing",
    ("empty", "init"): "empty",
    ("ongoing", "commit"): "prepare_commit",
    ("ongoing", "abort"): "prepare_abort",
    ("prepare_commit", "complete"): "complete_commit",
    ("prepare_abort", "complete"): "complete_abort",
    ("complete_commit", "begin"): "ongoing",
    ("complete_commit", "init"): "empty",
    ("complete_abort", "begin"): "ongoing",
    ("complete_abort", "init"): "empty",
}

MEANINGS: Final[dict[TransactionState, str]] = {
    "empty": "the producer has its epoch; no transaction has begun",
    "ongoing": "open: readers of committed messages stop at its first message",
    "prepare_commit": "it will be committed; the control records are being written",
    "prepare_abort": "it will be aborted; the control records are being written",
    "complete_commit": "committed everywhere",
    "complete_abort": "aborted everywhere; its messages are never visible",
}

OPEN: Final = frozenset[TransactionState]({"ongoing", "prepare_commit", "prepare_abort"})
"""States in which committed reads wait."""
COMPLETE: Final = frozenset[TransactionState]({"complete_commit", "complete_abort"})
PREPARED: Final = frozenset[TransactionState]({"prepare_commit", "prepare_abort"})


def next_state(state: TransactionState, event: TransactionStateEvent) -> TransactionState:
    assert (state, event) in TRANSITIONS, f"a transaction that is {state} does not {event}"
    return TRANSITIONS[state, event]


_FIT = re.compile(r"[A-Za-z0-9._:@-]+")
_UNFIT = frozenset({".", "..", "stats"})
"""Names that mean something else in a path."""


class EnlistedLog(NamedTuple):
    """A log that a transaction writes to."""

    log_ref: LogRef
    topic_ns: int
    """Creation time of the topic; a topic recreated with the same name is another one."""
    since: int
    """No message of the transaction is before this offset."""


class EndedTransaction(NamedTuple):
    """The last transaction of an id that has ended."""

    whose: TransactionId
    state: TransactionState
    began_ns: int
    ended_ns: int
    reason: str = ""
    note: str = ""
    """A text that the client stores with the commit."""


class TransactionMetadata(msgspec.Struct, frozen=True, tag="transactional_id", tag_field="record", omit_defaults=True):
    """The state of a transactional id: its producer and its transaction."""

    id: str
    producer: int
    epoch: int
    state: TransactionState
    timeout_ns: int
    changed_ns: int
    began_ns: int = 0
    partitions: list[EnlistedLog] = []
    groups: list[str] = []
    members: list[int] = []
    """Further producers in the transaction; their epoch is 0."""
    counted: list[int] | None = None
    """Members whose messages are committed; None: all."""
    reason: str = ""
    """Reason of an abort."""
    note: str = ""
    last: EndedTransaction | None = None
    earlier: list[int] = []
    """The latest former producers of this id; their calls are fenced."""
    former: TransactionId | None = None
    """The former id given to `init`: a repeated call gets the same answer."""

    @property
    def whose(self) -> TransactionId:
        return TransactionId(self.producer, self.epoch)

    def before(self, whose: TransactionId) -> list[int]:
        """Return the former producers if this one becomes the next."""
        return (
            self.earlier if whose.producer == self.producer else [*self.earlier, self.producer][-FENCED_PRODUCERS_MAX:]
        )

    @property
    def epochs(self) -> dict[int, int]:
        """The epochs in the marks of its batches, by producer."""
        return {self.producer: self.epoch, **dict.fromkeys(self.members, 0)}


class TransactionalIdForgotten(msgspec.Struct, frozen=True, tag="transactional_id_forgotten", tag_field="record"):
    """An id that was removed after a long time without use."""

    id: str


TransactionRecord = TransactionMetadata | TransactionalIdForgotten
_DECODER = msgspec.json.Decoder(TransactionRecord)
_encode = msgspec.json.encode


def encode_transaction_record(record: TransactionRecord) -> bytes:
    flags = frame.TOMBSTONE if isinstance(record, TransactionalIdForgotten) else 0
    return frame.encode(_encode(record), record.id.encode(), flags=flags)


def decode_transaction_record(message: frame.StoredMessage) -> TransactionRecord:
    record: TransactionRecord = _DECODER.decode(message.value)
    return record


def check_transactional_id(name: str) -> None:
    """Refuse an id that is unsafe in a path, a terminal or a log."""
    if len(name) > TRANSACTIONAL_ID_CHARACTERS_MAX or _FIT.fullmatch(name) is None or name in _UNFIT:
        problem = {"place": "transactional_id", "problem": f"is {quoted(name)}, which is not a valid transactional id"}
        raise RequestInvalid(
            f"transactional_id {problem['problem']}",
            hint=f"1 to {TRANSACTIONAL_ID_CHARACTERS_MAX} letters, digits and the characters . _ - : @, but not"
            f" {', '.join(sorted(_UNFIT))}",
            problems=[problem],
        )
