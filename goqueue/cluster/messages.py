"""The messages between the Raft cores of nodes, and the effects that a core asks its shell for."""

from typing import Literal, NamedTuple

from msgspec import Struct


class NodeIdentity(NamedTuple):
    """A node on its data directory. A node with another directory, such as an empty one, is another voter."""

    node: str
    directory: str


class Vote(NamedTuple):
    """The term of a node, and the candidate that it voted for in this term. It never falls, and is kept on disk."""

    term: int
    candidate: NodeIdentity | None = None


# --- messages; `term` is that of the sender ---


class VoteRequest(Struct, frozen=True, array_like=True, tag="vote"):
    """Asks for a vote, or in a pre-vote whether there would be one. A pre-vote has the term that would follow."""

    term: int
    last_epoch: int
    end: int
    pre_vote: bool = False
    transfer: bool = False
    """The leader wants this election, so no voter defends it."""


class VoteAnswer(Struct, frozen=True, array_like=True, tag="voted"):
    """A granted answer has the term of the request, a denial that of the voter."""

    term: int
    granted: bool
    pre_vote: bool = False


class Append(Struct, frozen=True, array_like=True, tag="append"):
    """Records of the leader's log from one offset to another; a heartbeat has none."""

    term: int
    prev_epoch: int
    """The epoch of the record before `base`."""
    base: int
    end: int
    epochs: tuple[tuple[int, int], ...]
    """The epochs that begin in this range, with their starts."""
    commit: int
    sent_ns: int
    """The time of the leader's own clock; returned by the answer."""
    content: bytes = b""
    voters: tuple[tuple[int, tuple[NodeIdentity, ...]], ...] = ()
    """The records in this range that change the voters, by offset, with the voters from there on."""


class Ack(Struct, frozen=True, array_like=True, tag="ack"):
    """Confirms up to where the follower has the leader's log durably."""

    term: int
    end: int
    sent_ns: int


class Conflict(Struct, frozen=True, array_like=True, tag="conflict"):
    """The follower's log does not reach the append, or differs before it: where it stands."""

    term: int
    last_epoch: int
    end: int
    sent_ns: int


class Diverged(Struct, frozen=True, array_like=True, tag="diverged"):
    """The answer to a conflict: the greatest epoch of the leader up to that of the follower, and where it ends."""

    term: int
    asked_epoch: int
    asked_end: int
    epoch: int
    end: int


class LogStart(Struct, frozen=True, array_like=True, tag="log_start"):
    """The answer to a conflict where the leader's log begins later: the state is rewritten from there on."""

    term: int
    asked_epoch: int
    asked_end: int
    start: int
    epoch: int
    """Of the record before it."""


class StaleTerm(Struct, frozen=True, array_like=True, tag="stale"):
    """The answer to a leader of an earlier term."""

    term: int


class TimeoutNow(Struct, frozen=True, array_like=True, tag="timeout_now"):
    """Asks the receiver to begin an election at once: the leader hands over."""

    term: int


RaftMessage = VoteRequest | VoteAnswer | Append | Ack | Conflict | Diverged | LogStart | StaleTerm | TimeoutNow


# --- effects: the shell executes them in their order, before its next input ---

Role = Literal["observer", "follower", "pre_candidate", "candidate", "leader"]


class SaveVote(NamedTuple):
    """Write the vote durably, then call `vote_saved`."""

    vote: Vote


class Send(NamedTuple):
    """Send a message. The content of an append is added by the shell."""

    to: NodeIdentity
    message: RaftMessage


class BeginEpoch(NamedTuple):
    """Append the epoch frame of this term to the log, then call `appended`."""

    epoch: int


class Store(NamedTuple):
    """Append the content of this message to the log as it is; call `durable` when it is on the device."""

    append: Append


class Truncate(NamedTuple):
    """Cut the log back to this offset, durably. Everything in it is durable."""

    end: int


class SkipTo(NamedTuple):
    """Go on at this offset, in this epoch, which is noted durably. What the log has stays, until the state is told."""

    start: int
    epoch: int


class Committed(NamedTuple):
    """Everything below this offset is committed."""

    end: int


class RoleChanged(NamedTuple):
    """The role, the term or the leader has changed."""

    role: Role
    term: int
    leader: NodeIdentity | None


Effect = SaveVote | Send | BeginEpoch | Store | Truncate | SkipTo | Committed | RoleChanged
