"""Values that their producer compressed. What is read is bounded: a small value must not ask for all memory."""

import threading
from functools import cache
from typing import Any

from goqueue.errors import FrameInvalid
from goqueue.limits import VALUE_BYTES_MAX


def compress(value: bytes) -> bytes | None:
    """The value as one zstd frame, or None where that would not make it shorter."""
    shorter: bytes = _tools.compressor().compress(value)
    return shorter if len(shorter) < len(value) else None


def decompress(value: bytes) -> bytes:
    """A compressed value, up to the size that a value may have."""
    library = _library()
    try:
        size = library.frame_content_size(value)
        if size > VALUE_BYTES_MAX:
            raise FrameInvalid(f"a compressed value says that it has {size} bytes, {VALUE_BYTES_MAX} is the most")
        whole = _tools.decompressor().decompress(value) if size >= 0 else _bounded(value)
    except library.ZstdError as error:
        raise FrameInvalid(f"a compressed value cannot be read: {error}") from None
    if len(whole) > VALUE_BYTES_MAX:
        raise FrameInvalid(f"a compressed value has more than {VALUE_BYTES_MAX} bytes")
    if size >= 0 and len(whole) != size:
        raise FrameInvalid(f"a compressed value ends after {len(whole)} of {size} bytes")
    return whole


def unpacked_size(value: bytes) -> int:
    """How large a compressed value says that it is; -1 where it does not say, or would not be unpacked."""
    library = _library()
    try:
        size: int = library.frame_content_size(value)
    except library.ZstdError:
        return -1
    return size if size <= VALUE_BYTES_MAX else -1


def _bounded(value: bytes) -> bytes:
    """A value that does not say how large it is."""
    whole: bytes = _tools.decompressor().stream_reader(value).read(VALUE_BYTES_MAX + 1)
    return whole


@cache
def _library() -> Any:
    import zstandard  # noqa: PLC0415 - eight milliseconds that only compressed values cost

    return zstandard


class _Tools(threading.local):
    """Each thread has its own: they keep what they work with, and to make one takes longer than most values do."""

    def __init__(self) -> None:
        self.compressor = cache(lambda: _library().ZstdCompressor(level=3))
        self.decompressor = cache(lambda: _library().ZstdDecompressor())


_tools = _Tools()
