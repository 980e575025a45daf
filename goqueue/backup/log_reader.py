"""Reading the messages of a log in a backup."""

from collections.abc import Iterator

from goqueue.backup.manifest import LogEntry
from goqueue.backup.pieces import MemoryFile
from goqueue.backup.restore import load_pieces
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame
from goqueue.storage.scan import Frames
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment


def sound_frames(content: Content, first_offset: int) -> Iterator[Frames]:
    """Yield the frames of a piece that are not damaged. A yielded buffer is reused for the next."""
    for found in scan_segment(MemoryFile(content), ScanRange(0, len(content), first_offset)):
        if not isinstance(found, Damage):
            yield found


def read_messages(target: BackupTarget, log: LogEntry, below: int = OFFSET_MAX) -> Iterator[frame.StoredMessage]:
    """Yield the messages of a log below an offset, without control records."""
    for segment in log.segments:
        if segment.base_offset >= below:
            return
        for content in load_pieces(target, segment.pieces, lambda _: None):
            for found in sound_frames(content, segment.base_offset):
                for position in found.record_positions():
                    message = frame.decode(found.buffer.data, position)
                    if message.offset >= below:
                        return
                    yield message
