"""What a task sends, and how often it takes until the broker has it.

Messages gather for each partition of a topic; what has gathered goes as one request, with a section for each of
them. One request is under way at a time, and the next one is encoded meanwhile.

What must stay true:

- The sequence of a message is its number among those that this identity writes to its partition. So it is the same
  in each attempt of a task, wherever requests are cut.
- A section follows one that was stored, or begins at 0: the broker believes a producer that it does not know, and
  would take one that comes too early for the first.
- What the broker expects next says what it has. It remembers a few batches only, so that is how a task that begins
  again learns what it need not send; and it is stored for sure only once the log is durable up to there.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from goqueue.client import Client, publications
from goqueue.client.accumulator import identified, section
from goqueue.client.attempts import Attempts
from goqueue.client.blocking import Connection
from goqueue.client.calls import Call
from goqueue.client.publications import Section
from goqueue.client.transactions import Whose
from goqueue.errors import ChecksumMismatch, GoQueueError, RequestTimedOut, SequenceOutOfOrder, TransientError
from goqueue.limits import MIB, SEQUENCE_COUNT
from goqueue.spark.sink.frames import Encoded
from goqueue.spark.sink.identity import Identity
from goqueue.storage import frame

REQUEST_BYTES = 4 * MIB
"""Of frames in one request: enough that a request costs little for each message, little enough to be soon durable."""
GATHERED_BYTES = 16 * MIB
"""Of all topics together, before the fullest one is sent."""
_LOOK_SECONDS = 0.02  # between two looks at how far a log is durable


@dataclass(slots=True, eq=False)
class Lane:
    """The messages of one task for one partition."""

    topic: str
    partition: int
    gathered: list[Encoded] = field(default_factory=list)
    count: int = 0
    """Those that were handed over: the number of the next one."""
    gathered_from: int = 0
    stored: int = 0
    """Those before it need not be sent: the broker has them."""
    durable: int = 0
    """Those before it will be there after a crash as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """Messages of a lane on their way, from this number on."""

    lane: Lane
    first: int
    pieces: tuple[Encoded, ...]

    @property
    def end(self) -> int:
        return self.first + sum(map(len, self.pieces))

    def behind(self, number: int) -> "Parcel | None":
        """What of it has to be sent when everything before this number is stored."""
        first, pieces = self.first, list(self.pieces)
        while pieces and first + len(pieces[0]) <= number:
            first += len(pieces.pop(0))
        if not pieces:
            return None
        if first < number:
            pieces[0] = pieces[0].rows(number - first, len(pieces[0]))
        return replace(self, first=max(first, number), pieces=tuple(pieces))

    def section(self, identity: Identity) -> bytes:
        """As a request carries it: the first message says who sends how many."""
        head = self.pieces[0]
        message = frame.decode(head.content.data, int(head.edges[0]))
        origin = (
            message.value,
            message.key or b"",
            frame.encode_headers(message.headers),
            message.priority,
            message.flags & ~frame.HAS_HEADERS,
        )
        sequence = self.first % SEQUENCE_COUNT
        first = identified(origin, (identity.producer, identity.epoch), sequence, self.end - self.first)
        others = (piece.content.data[int(piece.edges[0]) : int(piece.edges[-1])] for piece in self.pieces[1:])
        return section(self.lane.partition, [first, head.bytes_behind_first, *others])


class Wire:
    """A connection on which a request is under way while the next one is made."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection = connection
        self._timeout = timeout
        self._refused: GoQueueError | None = None

    def send(self, call: Call[list[Section]]) -> None:
        self._refused = None
        try:
            self._connection.send(call, time.monotonic() + self._timeout)
        except GoQueueError as error:
            self._refused = error

    def receive(self, call: Call[list[Section]]) -> list[Section]:
        """The answer to what was sent last. It is sent again as long as that can help."""
        refused = self._refused
        if refused is None:
            try:
                # Counted from now: an answer that lies there already has not been late.
                return call.decode(self._connection.receive(time.monotonic() + self._timeout))
            except GoQueueError as error:
                refused = error
        return self.repeat(call, refused)

    def repeat(self, call: Call[list[Section]], refused: GoQueueError) -> list[Section]:
        attempts = Attempts(call, self._timeout)
        while True:
            if not isinstance(refused, ChecksumMismatch):  # what was damaged on its way is whole when it comes again
                attempts.pause(refused)
            try:
                return call.decode(self._connection.exchange(call, attempts.left()))
            except GoQueueError as error:
                refused = error

    def close(self) -> None:
        self._connection.close()


class Delivery:
    """Of one task. Nothing is delivered for sure before `finish`."""

    def __init__(
        self, client: Client, wire: Wire, identity: Identity, timeout: float, whose: Whose | None = None
    ) -> None:
        """With `whose`, all of it in that transaction."""
        self._client = client
        self._wire = wire
        self._identity = identity
        self._timeout = timeout
        self._whose = None if whose is None else whose.identity
        self._lanes: dict[str, dict[int, Lane]] = {}
        self._sizes: dict[str, int] = {}
        self._sent: tuple[list[Parcel], Call[list[Section]]] | None = None

    def add(self, topic: str, partition: int, frames: Encoded) -> None:
        """Take messages, which may send those before them."""
        lanes = self._lanes.setdefault(topic, {})
        lane = lanes.setdefault(partition, Lane(topic, partition))
        first = 0
        while first < len(frames):
            room = REQUEST_BYTES - self._sizes.get(topic, 0)
            end = int(frames.edges.searchsorted(frames.edges[first] + room, side="right")) - 1
            if end <= first:
                if self._sizes.get(topic, 0):
                    self._send(topic)
                    continue
                end = first + 1  # a message that is larger than a request goes alone
            piece = frames.rows(first, end)
            lane.gathered.append(piece)
            lane.count += len(piece)
            self._sizes[topic] = self._sizes.get(topic, 0) + piece.size
            first = end
        if sum(self._sizes.values()) > GATHERED_BYTES:
            self._send(max(self._sizes, key=self._sizes.__getitem__))

    def finish(self) -> list[Lane]:
        """Send what is left, and wait until all of it is durable."""
        for topic, size in list(self._sizes.items()):
            if size:
                self._send(topic)
        self._conclude()
        lanes = [lane for lanes in self._lanes.values() for lane in lanes.values()]
        for lane in lanes:
            _check_end(lane)
        for topic in {lane.topic for lane in lanes if lane.durable < lane.count}:
            self._await_durable(topic)
        return lanes

    # --- requests ---

    def _send(self, topic: str) -> None:
        parcels = [self._packed(lane) for lane in self._lanes[topic].values() if lane.gathered]
        self._sizes[topic] = 0
        parcels = _still_needed(parcels)
        call = self._call(parcels)
        self._conclude()
        needed = _still_needed(parcels)  # the answer may have told of more that is stored
        if needed != parcels:
            call = self._call(needed)
        if call is not None:
            self._wire.send(call)
            self._sent = needed, call

    def _packed(self, lane: Lane) -> Parcel:
        parcel = Parcel(lane, lane.gathered_from, tuple(lane.gathered))
        lane.gathered, lane.gathered_from = [], lane.count
        return parcel

    def _call(self, parcels: Sequence[Parcel]) -> Call[list[Section]] | None:
        if not parcels:
            return None
        sections = [parcel.section(self._identity) for parcel in parcels]
        return publications.publish_frames(parcels[0].lane.topic, sections, "leader", self._whose)

    def _conclude(self) -> None:
        """Take the answer to what is under way, and see to what it refuses."""
        if self._sent is None:
            return
        (parcels, call), self._sent = self._sent, None
        for parcel, outcome in zip(parcels, self._outcomes(parcels, call), strict=True):
            self._settle(parcel, outcome)

    def _outcomes(
        self, parcels: list[Parcel], call: Call[list[Section]], refused: GoQueueError | None = None
    ) -> list[Section | GoQueueError]:
        try:
            results = self._wire.receive(call) if refused is None else self._wire.repeat(call, refused)
        except SequenceOutOfOrder as error:
            if len(parcels) > 1:
                raise
            return [error]
        return [result.refusal or result for result in results]

    def _settle(self, parcel: Parcel, outcome: Section | GoQueueError) -> None:
        """Until it is stored."""
        lane, left = parcel.lane, parcel
        while isinstance(outcome, GoQueueError):
            if isinstance(outcome, SequenceOutOfOrder):
                self._learn(left, outcome)
                rest, refused = left.behind(lane.stored), None
                if rest is None:
                    return
                left = rest
            elif isinstance(outcome, TransientError):
                refused = outcome
            else:
                raise outcome
            call = self._call([left])
            assert call is not None
            if refused is None:
                self._wire.send(call)
            (outcome,) = self._outcomes([left], call, refused)
        lane.stored = lane.durable = max(lane.stored, left.end)

    def _learn(self, parcel: Parcel, error: SequenceOutOfOrder) -> None:
        """What the broker expects next is behind what it has."""
        expected = error.details.get("expected")
        if not isinstance(expected, int):
            raise error
        ahead = (expected - parcel.first) % SEQUENCE_COUNT
        if not 0 < ahead < SEQUENCE_COUNT // 2:  # messages of this very task are missing in the log
            raise error
        parcel.lane.stored = parcel.first + ahead

    # --- what others have sent ---

    def _await_durable(self, topic: str) -> None:
        """Wait for what the broker had before this task, and may be about to write."""
        late = [lane for lane in self._lanes[topic].values() if lane.durable < lane.count]
        ends = {row["partition"]: row["log_end"] for row in self._client.partitions(topic)}
        deadline = time.monotonic() + self._timeout
        while True:
            now = {row["partition"]: row["durable_end"] for row in self._client.partitions(topic)}
            if all(now[lane.partition] >= ends[lane.partition] for lane in late):
                break
            if time.monotonic() > deadline:
                raise RequestTimedOut(
                    f"what was written to {topic} did not become durable within {self._timeout:g} seconds"
                )
            threading.Event().wait(_LOOK_SECONDS)
        for lane in late:
            lane.durable = lane.count


def _check_end(lane: Lane) -> None:
    if lane.stored > lane.count:
        raise SequenceOutOfOrder(
            f"{lane.topic}/{lane.partition} has {lane.stored} messages of this task, which has {lane.count}: "
            "an earlier attempt had other rows",
            hint="the rows of a task, and their order, must be the same each time; a writeId is for one write",
        )


def _still_needed(parcels: Sequence[Parcel]) -> list[Parcel]:
    found = (parcel if parcel.first >= parcel.lane.stored else parcel.behind(parcel.lane.stored) for parcel in parcels)
    return [parcel for parcel in found if parcel is not None]
