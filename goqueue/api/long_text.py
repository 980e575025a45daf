"""Long strings of a JSON text, decoded a piece at a time.

A decoder does not let other threads run, and it makes text of four bytes a character where one character needs them.
In pieces neither matters. What must stay true: the pieces come to what the whole string would come to.
"""

import base64

import msgspec

from goqueue.limits import KIB

_PIECE_BYTES = 256 * KIB
_ESCAPE_BYTES = 6  # of \u0041; two of them may be one character
_SECOND_HALVES = (b"c", b"d", b"e", b"f")  # of a pair for one character: \udc00 to \udfff


def decode_text(body: bytes | bytearray, start: int, end: int) -> bytes:
    """The UTF-8 bytes of the string between two quotes; a msgspec.DecodeError says what is wrong with it."""
    parts = []
    while start < end:
        cut = end if end - start <= _PIECE_BYTES else _cut(body, start + _PIECE_BYTES)
        parts.append(msgspec.json.decode(b'"' + body[start:cut] + b'"', type=str).encode())
        start = cut
    return b"".join(parts)


def _cut(body: bytes | bytearray, stop: int) -> int:
    """Where a piece ends that would end here, so that no character and no escape is cut in two."""
    last = body.rfind(b"\\", stop - 2 * _ESCAPE_BYTES, stop)
    if last < 0:
        inside = next((back for back in range(4) if body[stop - back] & 0xC0 != 0x80), 0)  # bytes of a character
        return stop - inside
    before = bytes(body[stop - _PIECE_BYTES : last + 1])
    if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:  # each two are one character
        return last + 1
    is_second_half = body[last : last + 3].lower() == b"\\ud" and body[last + 3 : last + 4].lower() in _SECOND_HALVES
    return last - _ESCAPE_BYTES if is_second_half else last


def decode_base64(text: bytes) -> bytes:
    """What base64 means; a ValueError says what is wrong with it."""
    parts = []
    for start in range(0, len(text), _PIECE_BYTES):
        piece = text[start : start + _PIECE_BYTES]
        if piece.endswith(b"=") and start + _PIECE_BYTES < len(text):
            raise ValueError("Excess data after padding")
        parts.append(base64.b64decode(piece, validate=True))
    return b"".join(parts)


def encode_base64(content: bytes) -> str:
    """The way back."""
    step = _PIECE_BYTES * 3
    return "".join(base64.b64encode(content[start : start + step]).decode() for start in range(0, len(content), step))
