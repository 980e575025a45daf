"""`goqueue-cli worker`: runs the handlers and schedules of a module."""

import importlib
import sys
import traceback
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

import goqueue
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.session import Session, stream_flags
from goqueue.errors import GoQueueError, TopicNotFound
from goqueue.nearest import nearest

if TYPE_CHECKING:
    from goqueue.client import Worker


@stream_flags
def worker(
    app: Annotated[
        str, typer.Argument(metavar="MODULE[:NAME]", help="Module, and the name of its Worker if it has several.")
    ],
    *,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1000, help="Calls at a time of each handler. Default: its own, or 1."),
    ] = None,
    session: Session,
) -> None:
    """Run the handlers and schedules of a worker until ^C or SIGTERM.

    \b
      goqueue-cli worker billing:app
      goqueue-cli worker billing --concurrency 8

    billing.py in this directory:

    \b
      from goqueue.client import Worker
      app = Worker("billing")

    \b
      @app.handler("payments", max_retries=3)
      def charge(message):
          print(message.value)

    A handler that raises does not end the worker: the message is retried, and dead-lettered after too many failures.
    Logs go to stderr. ^C and SIGTERM let running handlers finish for 20 s, or the worker's grace, then release their
    messages without counting a failure; a second one releases them at once. A broker that is away is waited for.
    """
    found = _load(app)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what handlers print is seen at once, in files and pipes too
    with doing(f"run worker {found.group}"):
        try:
            found.run(
                session.server,
                api_key=session.api_key,
                tenant=session.tenant,
                tls=session.tls,
                concurrency=concurrency,
            )
        except TopicNotFound as error:
            error.hint = f"`goqueue-cli topic create {error.details.get('topic', 'TOPIC')}` creates it"
            raise


def _load(place: str) -> "Worker":
    from goqueue.client import Worker  # noqa: PLC0415 - not before the command line is understood

    name, _, attribute = place.partition(":")
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        raise UsageInvalid(f"{place!r} names no module", hint="write MODULE:NAME, such as billing:app, without .py")
    module = _import(name)
    workers = [key for key, value in vars(module).items() if isinstance(value, Worker)]
    known = f"module {name} has " + (", ".join(workers) or 'no Worker: write app = Worker("GROUP")')
    if not attribute:
        if len(workers) != 1:
            raise UsageInvalid(f"module {name} has {len(workers)} workers, and one must be named", hint=known)
        attribute = workers[0]
    if not hasattr(module, attribute):
        guess = nearest(attribute, workers)
        hint = f"did you mean {name}:{guess}?" if guess else known
        raise UsageInvalid(f"module {name} has no {attribute!r}", hint=hint)
    found = getattr(module, attribute)
    if not isinstance(found, Worker):
        raise UsageInvalid(f"{name}:{attribute} is of type {type(found).__name__}, and must be a Worker", hint=known)
    return found


def _import(name: str) -> ModuleType:
    """Import a module from the working directory, or one that is installed."""
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise UsageInvalid(
                f"there is no module {error.name}",
                hint=f"run the command in the directory of {error.name}.py, or set PYTHONPATH",
            ) from None
        raise UsageInvalid(f"module {name} imports {error.name}, which is not installed", hint="install it") from error
    except SyntaxError as error:
        place = f"{error.filename}, line {error.lineno}"
        raise UsageInvalid(f"module {name} cannot be imported: {error.msg} in {place}", hint="correct it") from error
    except GoQueueError as error:
        raise UsageInvalid(f"module {name}: {error.sentence}, in {_place(error)}", hint=error.hint) from error
    except Exception as error:
        raise UsageInvalid(
            f"module {name} cannot be imported: {type(error).__name__}: {error}, in {_place(error)}",
            hint="`--debug` shows the traceback",
        ) from error


def _place(error: Exception) -> str:
    """Return the last line of the traceback that is not of this package."""
    own = str(Path(goqueue.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    last = next((frame for frame in reversed(frames) if not frame.filename.startswith(own)), frames[-1])
    return f"{last.filename}, line {last.lineno}"
