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

# --- HTTP ---
PORT = 8080
HTTP_HEADER_BYTES = 32 * KIB  # of one request's headers; browsers with many cookies stay below 16
HTTP_HEADER_COUNT = 100  # a client behind three proxies sends some 30
HTTP_URL_BYTES = 8 * KIB  # what servers and proxies agree on
HTTP_BODY_BYTES = 32 * MIB  # the largest message twice over: as JSON with base64 it needs 22
HTTP_HEADER_SECONDS = 10  # from the first byte of a request to the end of its headers
HTTP_BODY_SECONDS = 30  # for each further step of a body
HTTP_BODY_STEP_BYTES = 512 * KIB  # 17 KiB/s; so the largest body is in after half an hour at the latest
HTTP_IDLE_SECONDS = 75  # beyond the 60 that load balancers keep a connection, so that they are the ones to close it
HTTP_WRITE_SECONDS = 30  # for each further step of an answer to be taken by its reader
HTTP_WRITE_STEP_BYTES = 64 * KIB  # what uvloop buffers before it asks for a pause
HTTP_CONNECTIONS = 10_000  # some 10 KiB each
HTTP_CONNECTIONS_SPARE = 256  # beyond the limit, to tell clients that it is reached; what comes on top is cut
HTTP_BODIES_BYTES = 256 * MIB  # bodies of all requests that are unfinished or unanswered
HTTP_PIPELINED = 16  # requests of one connection that wait behind the one being answered
HTTP_DRAIN_BYTES = 64 * MIB  # thrown away behind a refusal: a client that only sends would not see it otherwise
HTTP_DRAIN_SECONDS = 5
HTTP_SLICE_BYTES = 4 * KIB  # handed to the parser at once: it cannot be stopped within, and 4 KiB are 160 requests
HTTP_JOINED_BYTES = 64 * KIB  # larger bodies are written as they are; below, one copy is cheaper than two writes
HTTP_BACKLOG = 2048  # connections the kernel holds until they are accepted

# --- topics ---
PARTITIONS = 3  # of a topic for which nobody said how many
PARTITIONS_MAX = 1_000  # of one topic; each costs some 0.3 ms when it is created, all in one go
RETENTION_HOURS = 168.0  # a week, so that a weekend's trouble can still be looked at
RETENTION_HOURS_MAX = 100 * 365 * 24  # whoever wants longer wants null
RETENTION_BYTES_MAX = 2**62  # fits a signed 64-bit number with room for sums
MESSAGE_BYTES = MIB  # larger things belong in a store of files, with their address in the message
MESSAGE_BYTES_MIN = KIB
TOPIC_NAME_CHARACTERS_MAX = 255

# --- producers ---
PRODUCER_IDS_RESERVED = 1_000  # given out for each record of the catalog; a restart loses what is left of them
PRODUCER_WINDOW = 5  # batches of one producer and partition that are known again
PRODUCERS_MAX = 10_000  # remembered of one partition, the latest; some 1 KiB each
SEQUENCE_COUNT = 2**31  # sequences are below it, and begin at 0 again
SNAPSHOT_RECORDS = 1_000  # replayed at most, beside the snapshot: a few milliseconds

# --- reads ---
READ_BYTES = MIB  # of an answer that does not say how much; large enough that a request costs little for each message
READ_BYTES_MAX = 16 * MIB
READ_MESSAGES = 100  # of a JSON answer that does not say how many
READ_MESSAGES_MAX = 10_000
WAIT_SECONDS_MAX = 60  # of a long poll: below what proxies allow
PUBLISH_MESSAGES_MAX = 10_000  # of a JSON request: more would hold the event loop for longer than 50 ms

# --- groups ---
GROUPS_MAX = 10_000  # each some KiB, and more for its members
GROUP_MEMBERS_MAX = 1_000  # of one group; what a rebalance records grows with them
GROUP_TOPICS_MAX = 100  # that one member subscribes to
GROUP_LOGS = 8  # that all groups are spread over: a sync covers many groups, and one that fails not all of them
GROUP_LOG_BYTES = 4 * MIB  # of one of them before what still holds is told again, so that the rest may go
GROUP_SEGMENT_BYTES = MIB
GROUP_RETENTION_SECONDS = 7 * 24 * 3600  # without a member: as long as messages are kept
CLIENT_ID_CHARACTERS_MAX = 200
SESSION_SECONDS = 30.0  # without a sign of life
SESSION_SECONDS_MIN = 1.0  # below, a pause of the garbage collector ends a membership
SESSION_SECONDS_MAX = 30 * 60.0  # a crashed member keeps its partitions for as long
HEARTBEAT_SECONDS = 3.0  # ten of them to a session: some may be lost
REVOCATION_SECONDS = 60.0  # for a member to finish what it has to give up
JOIN_GATHER_SECONDS = 0.02  # joins and leaves that come within it are one rebalance

# --- delivery ---
VISIBILITY_SECONDS = 30.0
VISIBILITY_SECONDS_MIN = 0.1  # below, messages come back before an answer can reach the broker
VISIBILITY_SECONDS_MAX = 12 * 3600.0
RETRIES_MAX = 3
RETRY_SECONDS = 1.0  # before the first retry; twice as long before each further one
RETRY_SECONDS_MAX = 60.0
RETRY_DELAY_SECONDS_MAX = 12 * 3600.0  # that a consumer may ask for
IN_FLIGHT_MESSAGES = 1_000  # leased to one member
IN_FLIGHT_MESSAGES_MAX = 1_000_000
CURSOR_RUNS_MAX = 100_000  # ranges one group has open in one partition before nothing new is begun there: some 10 MB
STANDS_BYTES = 2 * MIB  # of one record that tells what a group has open in one partition; more takes several records
POLL_MESSAGES = 500
POLL_LEASES_MAX = 100  # of one answer: retries may be many small ranges
POLL_SECONDS = 30.0
RECEIPTS_MAX = 10_000  # of one request
REASON_CHARACTERS_MAX = 500  # of why a message was refused; it becomes a header of the dead letter
DEAD_LETTERS_AT_ONCE = 100  # moved together: read, published and settled in one go
REDRIVE_MAX = 10_000  # dead letters sent back by one request: a hundred goes of three syncs, some seconds
REDRIVE_DEFAULT = 1_000  # of a request that does not say how many
REDRIVE_SECONDS = 25.0  # of one request: below what clients and proxies wait for an answer
REDRIVE_RATE_MIN = 0.1  # a second; with less, a request would end before it has sent its second message
REDRIVE_SCAN_MESSAGES = 100_000  # dead letters that one request looks at: a second or two of one core
REDRIVE_SCAN_BYTES = 256 * MIB  # the same where they are large

# --- work under way ---
IN_FLIGHT_BYTES = 256 * MIB  # accepted and not yet durable; half a second of a fast disk
STOP_SECONDS = 10.0  # for requests in progress when the broker stops
UPKEEP_SECONDS = 30.0  # between two looks at what retention and compaction could remove

# --- what operators see ---
REQUESTS_LOGGED = 100  # in one second: a busy broker must not spend its time, or its disk, on telling so
LAG_SECONDS = 0.5  # between two looks at how late the event loop is

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
assert SESSION_SECONDS_MIN <= HEARTBEAT_SECONDS < SESSION_SECONDS <= SESSION_SECONDS_MAX
assert VISIBILITY_SECONDS_MIN <= VISIBILITY_SECONDS <= VISIBILITY_SECONDS_MAX
assert RETRY_SECONDS <= RETRY_SECONDS_MAX <= RETRY_DELAY_SECONDS_MAX
assert IN_FLIGHT_MESSAGES <= IN_FLIGHT_MESSAGES_MAX
assert DEAD_LETTERS_AT_ONCE <= REDRIVE_MAX <= REDRIVE_SCAN_MESSAGES
