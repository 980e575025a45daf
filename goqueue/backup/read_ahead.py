"""Reading the pieces of a backup, verified: the next one is read and hashed while one is used."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from goqueue.backup.manifest import Piece
from goqueue.backup.pieces import check_piece
from goqueue.backup.target import BackupTarget
from goqueue.backup.target_storage import Content


def load_piece(target: BackupTarget, piece: Piece) -> Content:
    """Raises BackupDamaged."""
    content = target.get_object(piece)
    check_piece(piece, content)
    return content


def read_ahead(target: BackupTarget, pieces: Sequence[Piece]) -> Iterator[Future[Content]]:
    """Yield each content as a future, whose result may raise BackupDamaged."""
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
