"""Lists that the broker gives in pages, as a whole."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.client import Client, GroupDetails

_GROUPS = 1000  # of a page: nearly always all that there are


def all_groups(client: "Client") -> "Iterator[GroupDetails]":
    """In the order of their names."""
    after = None
    while page := client.group_details(_GROUPS, after):
        yield from page
        if len(page) < _GROUPS:
            break
        after = page[-1].group_id
