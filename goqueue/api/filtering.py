"""Filters in requests."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from goqueue.broker.filters.grammar import parse_filters
from goqueue.broker.filters.search import Search
from goqueue.broker.filters.sieve import Sieve
from goqueue.limits import FILTERS_MAX

Filters = Annotated[
    list[str],
    msgspec.Meta(max_length=FILTERS_MAX, description="FIELD OP TEXT, as in json.order.total>40; all have to hold."),
]
"""How long each may be is the grammar's business, like all else that it says."""


def sieve_of(texts: Iterable[str]) -> Sieve:
    """What the filters of a request let through; RequestInvalid says which of them cannot be read."""
    return Sieve(parse_filters(texts))


def headers_of(search: Search) -> tuple[tuple[str, str], ...]:
    """What an answer in frames says of a search."""
    return (("x-goqueue-scanned", str(search.scanned)), ("x-goqueue-matched", str(search.matched)))
