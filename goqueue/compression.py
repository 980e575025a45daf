"""Compressed values. Reading is limited: a small value must not claim all memory."""

import threading
from functools import cache
from typing import Any

from goqueue.errors import FrameInvalid
from goqueue.limits import VALUE_BYTES_MAX

_FIRST_BLOCK = 64 * 1024
_PAYS = 0.8
"""The share of its size that a content must come down to: else reading it is dearer than its space."""


def compress(value: bytes) -> bytes | None:
    """Return the value as one zstd frame, or None if that is not smaller."""
    shorter: bytes = _tools.compressor().compress(value)
    return shorter if len(shorter) < len(value) else None


def decompress(value: bytes) -> bytes:
    """Return a compressed value, up to the size limit of values."""
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


def compress_content(content: bytes | bytearray) -> bytes | None:
    """Return a large content as one zstd frame; None where that saves too little, as its first block tells."""
    tool = _tools.fast_compressor()
    first = content[:_FIRST_BLOCK]
    if len(tool.compress(first)) > _PAYS * len(first):
        return None
    shorter: bytes = tool.compress(content)
    return shorter if len(shorter) <= _PAYS * len(content) else None


def decompress_content(content: bytes | bytearray | memoryview, size_max: int) -> bytes:
    """Return what `compress_content` was given."""
    library = _library()
    try:
        size = library.frame_content_size(content)
        if not 0 <= size <= size_max:
            raise FrameInvalid(f"a compressed content says that it has {size} bytes, {size_max} is the most")
        whole: bytes = _tools.decompressor().decompress(content)
    except library.ZstdError as error:
        raise FrameInvalid(f"a compressed content cannot be read: {error}") from None
    return whole


def uncompressed_size(value: bytes) -> int:
    """Return the size that a compressed value states; -1 if it states none, or more than the limit."""
    library = _library()
    try:
        size: int = library.frame_content_size(value)
    except library.ZstdError:
        return -1
    return size if size <= VALUE_BYTES_MAX else -1


def _bounded(value: bytes) -> bytes:
    """Return a value whose size is not stated."""
    whole: bytes = _tools.decompressor().stream_reader(value).read(VALUE_BYTES_MAX + 1)
    return whole


@cache
def _library() -> Any:
    import zstandard  # noqa: PLC0415 - saves eight milliseconds where it is not needed

    return zstandard


class _Tools(threading.local):
    """The compressor and the decompressor of a thread; creating them takes longer than most values."""

    def __init__(self) -> None:
        self.compressor = cache(lambda: _library().ZstdCompressor(level=3))
        self.fast_compressor = cache(lambda: _library().ZstdCompressor(level=1))
        self.decompressor = cache(lambda: _library().ZstdDecompressor())


_tools = _Tools()
