"""One call of `goqueue-cli publish` as one transaction: all of its messages, or none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from goqueue.console import exits, terminal
from goqueue.errors import GoQueueError, TransientError
from goqueue_cli.interruption import after_this_step

if TYPE_CHECKING:
    from goqueue.client import Producer, Transaction


@contextmanager
def in_one_transaction(producer: "Producer", topic: str, name: str) -> Iterator["Transaction"]:
    """Gives what messages are sent in. It is committed at the end of the block; before that, whatever happens aborts
    it. Once the broker is asked to commit, ^C waits for the answer."""
    is_open = is_committing = False
    try:
        with producer, producer.transaction() as transaction:
            is_open = True
            yield transaction
            producer.flush()
            with after_this_step():
                is_committing = True
                transaction.commit()
    except KeyboardInterrupt as error:
        terminal.say(f"interrupted: {_unsure(name) if is_committing else _aborted(topic, error)}")
        raise typer.Exit(exits.INTERRUPTED) from None
    except Exception as error:
        if is_committing and isinstance(error, TransientError):
            error.hint = f"whether it was committed is not known: `goqueue-cli transaction describe {name}` says it"
        elif is_open and isinstance(error, GoQueueError):
            terminal.say(_aborted(topic, error))
        raise


def _unsure(name: str) -> str:
    return f"whether the transaction was committed is not known; `goqueue-cli transaction describe {name}` says it"


def _aborted(topic: str, error: BaseException) -> str:
    """The client leaves a note where the broker could not be told."""
    late = "the transaction is aborted by its timeout" if hasattr(error, "__notes__") else "the transaction was aborted"
    return f"nothing is published to {topic}: {late}"
