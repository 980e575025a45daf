"""`goqueue-cli group wait`: until groups are where a script wants them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import doing
from goqueue.console.groups import UsageInvalid
from goqueue.console.names import refuse_empty, short
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import wait
from goqueue.errors import GroupNotFound
from goqueue.quantities import format_duration
from goqueue_cli.groups.conditions import Condition, parse_condition

if TYPE_CHECKING:
    from goqueue.client import Client

_LOOK_SECONDS = 0.25


@session_flags
def wait_for(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the groups.")],
    conditions: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="CONDITION", help="What to wait for; several must hold at once."),
    ] = None,
    *,
    session: Session,
) -> None:
    """Wait until groups are where they should be.

    \b
      goqueue-cli group wait billing --for lag=0 --timeout 5m
      goqueue-cli group wait billing shipping --for 'lag<100' --for 'members>=2'
      goqueue-cli group wait billing --for state=empty --for in-flight=0

    A condition compares (= != < <= > >=) lag, members, in-flight, waiting or lost with a number, behind with a
    duration, or state (= !=) with stable, rebalancing or empty. It must hold for all of the groups. A group that is
    not there yet is waited for as well. It ends with 6 when --timeout is over, which is 30s unless told.
    """
    refuse_empty(*names, noun="group")
    if not conditions:
        raise UsageInvalid("nothing says what to wait for", hint="write it as in --for lag=0 or --for 'members>=2'")
    wanted = [parse_condition(text) for text in conditions]
    unique = list(dict.fromkeys(names))
    missing: set[str] = set()
    what = f"{' and '.join(one.text for one in wanted)} of {', '.join(map(short, unique))}"

    with doing(f"wait for group {', '.join(map(short, unique))}"), session.client() as client:

        def look() -> tuple[bool, str]:
            return _look(client, unique, wanted, missing)

        wait(what, look, timeout=session.timeout, every=_LOOK_SECONDS)


def _look(client: "Client", names: Sequence[str], wanted: Sequence[Condition], missing: set[str]) -> tuple[bool, str]:
    """Whether all hold, and of the first group for which they do not, how it stands."""
    for name in names:
        try:
            group = client.group(name)
        except GroupNotFound as error:
            if name not in missing:
                missing.add(name)
                guess = f", {error.hint}" if error.hint and error.hint.startswith("did you mean") else ""
                terminal.say(f"{error.sentence} yet{guess}")
            return False, error.sentence
        unmet = [one for one in wanted if not one.met(group)]
        if unmet:
            told = ", ".join(dict.fromkeys(one.told(group) for one in unmet))
            return False, f"{name} has {told}{_estimate(group, unmet)}"
    return True, ""


def _estimate(group: dict[str, Any], unmet: Sequence[Condition]) -> str:
    """When the lag will be gone, if that is what is waited for."""
    if not any(one.word in {"lag", "behind"} for one in unmet):
        return ""
    drain = group["drain_seconds"]
    return ", not getting less" if drain is None else f", gone in {format_duration(drain)}"
