"""A program that watches what it is handed: a line of JSON on stdin for each look, or a word for one that fails."""

import json
import os
import sys

import typer

from goqueue.console import failure, watch
from goqueue.console.rows import Column, Row
from goqueue.console.session import Session
from goqueue.errors import BrokerUnreachable, TopicNotFound

COLUMNS = (Column("NAME", "name"), Column("LAG", "lag"), Column("STATE", "state"), Column("NOTE", "note", wide=True))


def look() -> list[Row]:
    line = sys.stdin.readline().strip()
    if line == "away":
        raise BrokerUnreachable("no broker answers")
    if line == "deleted":
        raise TopicNotFound("there is no topic 'orders'")
    rows: list[Row] = json.loads(line)
    return rows


def main() -> int:
    order = next(iter(sys.argv[2:]), None)
    session = Session(
        None,
        sys.argv[1],
        True,
        30,
        True,
        context="production",
        broker_context="production",
        guard="production",
        sort_by=order,
    )
    try:
        watch.watch(session, look, COLUMNS, every=0.01)
    except Exception as error:
        return failure.report_error(error, debug=False)
    except KeyboardInterrupt:
        return 99
    return 0


if __name__ == "__main__":
    try:
        code = main()
    except typer.Exit as end:
        code = end.exit_code
    sys.stdout.flush()
    os._exit(code)  # a request that waits for its line must not delay the exit
