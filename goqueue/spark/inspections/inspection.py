"""An inspection as one thing: what it takes, how it is made, and the table that it gives."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from goqueue.spark.inspections.parameters import Parameter

TIME = pa.timestamp("us", "UTC")

Row = dict[str, Any]
"""Plain: a time is a number of nanoseconds, a key is bytes. The schema tells which fields are that."""


class Clash(NamedTuple):
    """A parameter that does not go with the others."""

    parameter: str
    sentence: str
    hint: str


def apart(first: str, second: str) -> Callable[[Mapping[str, Any]], Clash | None]:
    """Only one of two may be given."""

    def clash(given: Mapping[str, Any]) -> Clash | None:
        if given.get(first) and given.get(second):
            return Clash(second, f"stands beside {first}", f"keep one of {first}, {second}")
        return None

    return clash


@dataclass(frozen=True)
class Inspection:
    """`rows(spark, logs, plan, **parameters)`, each row with fields of `schema`: one that it has not is null."""

    rows: Callable[..., list[Row]]
    schema: pa.Schema
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    clash: Callable[[Mapping[str, Any]], Clash | None] = lambda _: None
    of_files: frozenset[str] = frozenset()
    """Parameters that mean nothing to a broker."""


def schema(*others: pa.Schema, **types: pa.DataType) -> pa.Schema:
    """Fields by name, behind those of other schemas; of two with the same name the first one stays."""
    found: dict[str, pa.Field] = {}
    for one in (*(one for other in others for one in other), *(pa.field(*pair) for pair in types.items())):
        found.setdefault(one.name, one)
    return pa.schema(list(found.values()))


def table(rows: Iterable[Row], shape: pa.Schema) -> pa.Table:
    """The rows as Arrow has them; times lose what is finer than a microsecond."""
    times = {one.name for one in shape if one.type == TIME}
    content = [
        {name: _micros(row.get(name)) if name in times else row.get(name) for name in shape.names} for row in rows
    ]
    return pa.Table.from_pylist(content, shape)


def _micros(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // 1000
