"""The states of a transaction, and what leads from one to the other: a table.

A decision is made with the step into a prepared state, and nothing takes it back: what is prepared is carried out,
after a crash too. With every end the epoch of the producer is raised, so a state speaks of one transaction only.
"""

from typing import Final, Literal

State = Literal["empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit", "complete_abort"]
Event = Literal["begin", "commit", "abort", "complete", "init"]

TABLE: Final[dict[tuple[State, Event], State]] = {
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

MEANINGS: Final[dict[State, str]] = {
    "empty": "the producer has its epoch, and nothing has begun",
    "ongoing": "open: readers of what is committed wait behind its first message",
    "prepare_commit": "it will be committed, whatever happens; the markers are being written",
    "prepare_abort": "it will be aborted, whatever happens; the markers are being written",
    "complete_commit": "committed everywhere",
    "complete_abort": "aborted everywhere: nobody sees anything of it",
}

OPEN: Final = frozenset[State]({"ongoing", "prepare_commit", "prepare_abort"})
"""Those that hold something back."""
COMPLETE: Final = frozenset[State]({"complete_commit", "complete_abort"})
PREPARED: Final = frozenset[State]({"prepare_commit", "prepare_abort"})


def following(state: State, event: Event) -> State:
    """The state that an event leads to."""
    assert (state, event) in TABLE, f"a transaction that is {state} does not {event}"
    return TABLE[state, event]
