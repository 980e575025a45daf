"""Reading the pieces of a backup, verified, and the messages in them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from goqueue.backup.manifest import LogEntry, Piece
from goqueue.backup.pieces import MemoryFile, check_piece
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame
from goqueue.storage.scan import Frames
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment

Progress = Callable[[int], None]
"""Called with the bytes that were done since the last call."""


def load_piece(target: BackupTarget, piece: Piece) -> Content:
    """Raises BackupDamaged."""
    content = target.get_object(piece)
    check_piece(piece, content)
    return content


def read_ahead(target: BackupTarget, pieces: Sequence[Piece]) -> Iterator[Future[Content]]:
    """Yield each content as a future, whose result may raise BackupDamaged. The next is read while one is used."""
    if not pieces:
        return
    with ThreadPoolExecutor(1, "goqueue-backup-reader") as reader:
        coming = reader.submit(load_piece, target, pieces[0])
        for following in pieces[1:]:
            present = coming
            present.exception()  # so that at most two pieces are in memory
            coming = reader.submit(load_piece, target, following)
            yield present
        yield coming


def load_pieces(
    target: BackupTarget, pieces: Sequence[Piece], progress: Progress = lambda _: None
) -> Iterator[Content]:
    """Yield the contents of pieces. Raises BackupDamaged."""
    for piece, content in zip(pieces, read_ahead(target, pieces), strict=True):
        yield content.result()
        progress(piece.size)


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
        for content in load_pieces(target, segment.pieces):
            for found in sound_frames(content, segment.base_offset):
                for position in found.record_positions():
                    message = frame.decode(found.buffer.data, position)
                    if message.offset >= below:
                        return
                    yield message
