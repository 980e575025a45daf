"""Up to where logs are decided at the moment when a plan is made.

Whoever reads what is committed gets nothing from the first message of the oldest open transaction on: what is hidden
there today is shown tomorrow, and whoever goes on where he was would never see it.

What must stay true: below the end that is found here, the markers of all transactions are among what was viewed.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import among
from goqueue.spark.points import Place
from goqueue.spark.reading import Run, Split, read
from goqueue.storage.marker import of_transactions, ranges_in
from goqueue.storage.visit import LogView


def views_of(logs: Logs, places: Iterable[Place]) -> dict[Place, LogView]:
    """What may be read of these partitions, and how much of it will stay as it is.

    Transactions are asked for behind the views: whatever has begun before a view is among them.
    """
    found = {place: logs.view(*place) for place in places}
    for place, since in logs.touched().items():
        if place in found:
            found[place] = replace(found[place], stable=_first_open(logs, place, since, found[place]))
    return found


def _first_open(logs: Logs, place: Place, since: int, view: LogView) -> int | None:
    """The first message from `since` on that is of a transaction whose marker is not there."""
    left = np.empty(0, np.int64)
    first = max(since, view.earliest)
    if first < view.end:
        for piece in read(logs, Split(*place, first, view.end, view.size, view.segments)):
            if isinstance(piece, Run):
                left = np.concatenate((left, piece.frames.offsets[of_transactions(piece.frames)[0]]))
                left = left[~among(left, ranges_in(piece.frames)[0])]
    return int(left[0]) if len(left) else None
