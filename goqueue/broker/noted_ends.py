"""How far the logs of topics were when the catalog noted it, read from a data directory that no broker uses."""

import msgspec

from goqueue.broker.broker import CATALOG
from goqueue.broker.catalog import Catalog, decode_record
from goqueue.broker.topic import log_name
from goqueue.errors import GoQueueError
from goqueue.storage import frame
from goqueue.storage.disk import Disk
from goqueue.storage.recovery import find_segments
from goqueue.storage.survey import Damage, Stretch, survey


def read_noted_ends(disk: Disk, root: str) -> dict[str, int]:
    """The noted ends by the names of the logs below `root`; what cannot be read of the catalog is left out."""
    catalog, directory = Catalog(), f"{root}/{log_name(CATALOG, 0)}"
    entries = disk.entries(directory) if disk.kind(directory) == "directory" else []
    for segment in find_segments(directory, entries):
        try:
            _replay(disk, catalog, segment.path, Stretch(0, segment.size, segment.base_offset))
        except GoQueueError:
            continue
    return {f"{topic.name}/{log}": end for topic in catalog.topics.values() for log, end in topic.ends.items()}


def _replay(disk: Disk, catalog: Catalog, path: str, stretch: Stretch) -> None:
    for piece in survey(disk.open(path, "read"), stretch):
        if isinstance(piece, Damage):
            continue
        for position in piece.positions.tolist():
            try:
                catalog.apply(decode_record(frame.decode(piece.buffer.data, position)))
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue
