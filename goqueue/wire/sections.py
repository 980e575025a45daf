"""The body of a publish request in frames: one section for each partition, back to back.

    u32 partition, u32 length, then that many bytes of frames

With `DELAYED` set in the partition the section is for the delayed log: each of its frames says when it is due.

A batch of an idempotent producer has `PRODUCER_HEADER` as the first header of its first frame:

    i64 producer id, i16 epoch, u32 sequence of the first message, u32 number of messages
"""

import struct

SECTION = struct.Struct(">II")
DELAYED = 0x8000_0000

ProducerIdentity = tuple[int, int]
"""Producer id and epoch."""

PRODUCER_HEADER = "__producer"
PRODUCER = struct.Struct(">qhII")
PRODUCER_PREFIX = struct.pack(">H", len(PRODUCER_HEADER)) + PRODUCER_HEADER.encode() + struct.pack(">H", PRODUCER.size)
"""What stands before the value: the length of the name, the name, the length of the value."""
PRODUCER_HEADER_BYTES = len(PRODUCER_PREFIX) + PRODUCER.size
"""What it adds to the headers of a frame."""

ORIGIN_HEADER = "__moved"
"""The first header of a message that the broker has copied: where its original is."""
