"""Every limit of the program, with its unit and its reason, and how the limits relate.

A limit that is a setting has its default here; one that the format fixes says so.
"""

KIB = 1024
MIB = 1024 * KIB

# --- the frame (fixed by the format) ---
FRAME_HEADER_BYTES = 34
KEY_BYTES_MAX = 0xFFFF  # a u16 holds the length
HEADERS_BYTES_MAX = 0xFFFF  # a u16 holds the length
VALUE_BYTES_MAX = 16 * MIB  # the field could say 4 GiB: a flipped bit must not ask for that much memory
FRAME_BYTES_MAX = FRAME_HEADER_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX + HEADERS_BYTES_MAX
OFFSET_MAX = 2**63 - 1  # a signed 64-bit number, so that every language and JSON library can hold it
PRIORITY_COUNT = 5

# --- segments ---
INDEX_BLOCK_BYTES = 4 * KIB  # one index entry a block: a seek then walks some 30 frames of 100 bytes
SEGMENT_BYTES = 64 * MIB  # small enough to expire and compact in steps, large enough to keep files few
SEGMENT_BYTES_MIN = 4 * KIB
SEGMENT_BYTES_MAX = 2047 * MIB  # below 2 GiB: Arrow counts bytes in an int32, and one segment must fit one array
SEGMENT_AGE_SECONDS = 7 * 24 * 3600  # so that a quiet log still gives retention something to remove
SEGMENT_AGE_SECONDS_MIN = 1  # younger ones would be files of a few messages
SEGMENT_AGE_SECONDS_MAX = 3650 * 24 * 3600  # ten years; whoever asks for more means "by size alone"

# --- memory ---
TAIL_BYTES = 64 * MIB  # newest frames of all logs together, kept to serve readers at the tail
TAIL_BYTES_MIN = MIB  # less, and every reader goes to the disk
TAIL_BYTES_MAX = 1024 * 1024 * MIB  # 1 TiB: what lies beyond is a mistaken unit
SCAN_CHUNK_BYTES = 4 * MIB  # fits the last-level cache: vectorised steps gain nothing beyond it
READERS_MAX = 128  # open segments with their indexes: at most 50 MiB at the default sizes
WRITERS_MAX = 192  # logs with an active segment open, three files each: with the readers below the usual 1,024

# --- durability ---
FLUSH_INTERVAL_SECONDS = 1.0
FLUSH_INTERVAL_SECONDS_MIN = 0.001  # a sync takes about as long on a good disk
FLUSH_INTERVAL_SECONDS_MAX = 60  # nobody means to lose more than a minute
WRITE_BUFFERS_MAX = 1024  # buffers of one gathered write: the kernel's IOV_MAX

# --- compaction ---
TOMBSTONE_GRACE_SECONDS = 24 * 3600  # a reader this far behind still learns of a deletion
PINNED_SEGMENTS_MAX = 64  # replaced files that stay open for readers until the log knows the new ones
COMPACTION_KEYS_MAX = 5_000_000  # remembered by one pass, counted between segments: some 1 GiB for keys of 100 bytes

# --- configuration ---
CONFIG_BYTES_MAX = MIB  # of a file; a complete one has a few KiB
CONFIG_DEPTH_MAX = 8  # of nested sections
CONFIG_NODES_MAX = 10_000  # keys and values together; a hostile file is then refused in half a second
CONFIG_PROBLEMS_MAX = 100  # reported of one file at a time, which is more than a person reads

# --- names ---
LOG_NAME_BYTES_MAX = 255  # of one part; the file systems' own limit
LOG_DEPTH_MAX = 4  # parts of a name: topic, partition, and a log that belongs to a partition

assert VALUE_BYTES_MAX < 2**32
assert FRAME_BYTES_MAX < SEGMENT_BYTES <= SEGMENT_BYTES_MAX
assert INDEX_BLOCK_BYTES <= SEGMENT_BYTES_MIN
assert SCAN_CHUNK_BYTES % INDEX_BLOCK_BYTES == 0
assert SEGMENT_AGE_SECONDS_MIN <= SEGMENT_AGE_SECONDS <= SEGMENT_AGE_SECONDS_MAX
assert TAIL_BYTES_MIN <= TAIL_BYTES <= TAIL_BYTES_MAX
assert FLUSH_INTERVAL_SECONDS_MIN <= FLUSH_INTERVAL_SECONDS <= FLUSH_INTERVAL_SECONDS_MAX
assert FLUSH_INTERVAL_SECONDS_MAX < SEGMENT_AGE_SECONDS
