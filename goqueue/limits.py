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
SECTOR_BYTES = 512  # the least that a device writes in one step; larger units are multiples of it
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
RESERVE_BYTES = 256 * KIB  # kept for records of deletions: one block would do, and file systems free space in extents
ROOM_SECONDS = 1.0  # between two looks whether a disk that has refused writes takes them again
COPY_SYNC_SECONDS = 0.25  # between two syncs of the copies of internal logs, for which no client waits
WRITE_BUFFERS_MAX = 1024  # buffers of one gathered write: the kernel's IOV_MAX

# --- compaction ---
TOMBSTONE_GRACE_SECONDS = 24 * 3600  # a reader this far behind still learns of a deletion
PINNED_SEGMENTS_MAX = 64  # replaced files that stay open for readers until the log knows the new ones
OTHER_FILES_MAX = 64  # directories and caches that are open for a moment, the event loop's own, standard streams
STORAGE_FILES_MAX = 3 * WRITERS_MAX + READERS_MAX + PINNED_SEGMENTS_MAX + OTHER_FILES_MAX  # kept free of connections
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
HTTP_WRITE_STEP_BYTES = 64 * KIB  # as much as is buffered before writing pauses
HTTP_WRITE_BUFFER_BYTES = 64 * KIB  # of answers to one connection, before it gets no further one until all is taken
HTTP_CONNECTIONS = 10_000  # some 10 KiB each
HTTP_CONNECTIONS_LEAST = 16  # whatever the limit of open files is: an operator has to come in
HTTP_CONNECTIONS_SPARE = 256  # beyond the limit, to tell clients that it is reached; what comes on top is cut
HTTP_BODIES_BYTES = 256 * MIB  # bodies of all requests that are unfinished or unanswered
HTTP_ANSWERS_BYTES = 256 * MIB  # large answers that their readers have not taken yet, of all connections together
HTTP_ANSWERS_SPARE_BYTES = 32 * MIB  # beyond it, for what an operator needs just then, such as metrics
HTTP_ANSWERS_SHARE_HIGH = 0.75  # of it, from which on nothing large is read for an answer that could be refused
HTTP_PIPELINED = 16  # requests of one connection that wait behind the one being answered
HTTP_DRAIN_BYTES = 64 * MIB  # thrown away behind a refusal: a client that only sends would not see it otherwise
HTTP_DRAIN_SECONDS = 5
HTTP_SLICE_BYTES = 4 * KIB  # handed to the parser at once: it cannot be stopped within, and 4 KiB are 160 requests
HTTP_JOINED_BYTES = 64 * KIB  # larger bodies are written as they are; below, one copy is cheaper than two writes
HTTP_KNOWN_HOSTS = 64  # values of the host header that are not checked again: a broker has a few names and ports
HTTP_PREFLIGHT_SECONDS = 600  # for which a browser need not ask again; Chrome keeps no answer longer than 7200
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
PRODUCER_BLOCK_IDS = 1_024  # given out for each record of the catalog, whose format fixes it; a start begins another
PRODUCER_BLOCK_BITS = 43  # of a block's number: ids stay below 2^53, which is what JSON numbers hold everywhere
PRODUCER_IDS_CHOSEN = 2**62  # and above: ids that clients may choose for themselves
PRODUCER_WINDOW = 5  # batches of one producer and partition that are known again
PRODUCERS_MAX = 10_000  # remembered of one partition, the latest; some 1 KiB each
SEQUENCE_COUNT = 2**31  # sequences are below it, and begin at 0 again
CATALOG_SEGMENT_BYTES = 4 * MIB  # of `__metadata`, before it is compacted: each end that is noted tells the whole topic
END_NOTE_SECONDS = 1.0  # after a partition's roll, before its end is noted: others that roll meanwhile go with it
LOST_OFFSETS = 100_000_000  # behind the noted end of a lost log, that may have been given out since it was noted
SNAPSHOT_RECORDS = 1_000  # replayed at most, beside the snapshot: a few milliseconds

# --- transactions ---
TRANSACTION_SECONDS = 60.0  # without a sign of life, before a transaction is aborted
TRANSACTION_SECONDS_MIN = 1.0
TRANSACTION_SECONDS_MAX = 900.0  # that a transaction lasts, whatever is heard of it: others wait behind it
TRANSACTIONAL_ID_CHARACTERS_MAX = 255
TRANSACTIONAL_IDS_MAX = 100_000  # each some KiB while its transaction is open, else less than one
TRANSACTION_PARTICIPANTS_MAX = 1_000  # partitions and groups: all of them are named in each of its records
TRANSACTION_RETENTION_SECONDS = 7 * 24 * 3600  # of an id that nobody uses
TRANSACTIONAL_IDS_FORGOTTEN = 1_000  # at once: some ten milliseconds
TRANSACTION_SEGMENT_BYTES = 8 * MIB  # of their log, before it may be compacted: what a crash has to read again
TRANSACTION_HUNG_SECONDS = 30.0  # half of what a silent one is given: by then somebody should know
EARLIER_PRODUCERS = 8  # of one transactional id that are known to be fenced: one for each start that it was used in
EPOCH_MAX = 2**15 - 1  # of a producer; then it gets a new id
MARKER_RANGES_MAX = 65_536  # of one control record: a megabyte
ABORTED_RANGES_KEPT = 1024  # of aborted messages of one sealed segment, in memory always: 16 KiB
ABORTED_RANGES_MAX = 10_000  # told in one answer: some milliseconds
ABORTED_HELD = 8  # sealed segments with more of them that one partition has in memory

# --- lanes ---
LANE_WEIGHTS = (50, 25, 15, 7, 3)  # of a hundred messages, while all lanes have some; by priority
LANE_WEIGHT_MAX = 1_000  # a lane that gets less than a thousandth of another one is turned off, not slowed down
LANE_BOOST_SECONDS = 30.0  # that a lane with messages may be passed over
LANE_BOOST_SECONDS_MAX = 24 * 3600.0
LANES_HELD = 8  # sealed segments whose lanes one partition has in memory; where lanes alternate, 10 MiB each
LANE_RUNS_KEPT = 64  # of a segment that has no more than these they stay in memory: that is as little as a digest
LANE_SPANS_MAX = 5_000  # stretches that one poll takes from one lane: as many as its record should name
LANE_READS_MAX = 64  # of one poll from one lane, where other lanes have much in between: a millisecond of the loop
LANE_GAP_BYTES = 32 * KIB  # read over where other lanes have that much in between; another read would cost more

# --- reads ---
READ_BYTES = MIB  # of an answer that does not say how much; large enough that a request costs little for each message
READ_BYTES_MAX = 16 * MIB
SEGMENT_READ_BYTES = 8 * MIB  # of a raw read that does not say how much: whoever decodes it fits it into its cache
UNPACKED_BYTES = 256 * MIB  # of compressed values in answers that are being made, of all requests together
READ_MESSAGES = 100  # of a JSON answer that does not say how many
READ_MESSAGES_MAX = 10_000
WAIT_SECONDS_MAX = 60  # of a long poll: below what proxies allow
PUBLISH_MESSAGES_MAX = 10_000  # of a JSON request: more would hold the event loop for longer than 50 ms
BATCH_MESSAGES_MAX = 250_000  # of one batch of frames: 32 MiB with values of 100 bytes have no more
MESSAGE_HEADERS_MAX = 256  # of one message; other brokers allow 10 to 100, and each costs ten times its bytes

# --- bodies of requests ---
REQUEST_BYTES = 4 * MIB  # of any request but publishing: 10,000 receipts of the greatest length fit
REQUEST_VALUES_MAX = 200_000  # in the JSON of one: 10,000 entries of `settle` with all their fields have 160,000
PUBLISH_VALUES_MAX = 1_000_000  # 10,000 messages with all their fields and 25 headers each
JSON_DEPTH_MAX = 64  # of nested lists and objects; no request has a use for ten
DECODED_AT_ONCE = 256 * KIB  # of JSON, on the loop or under the GIL: some 10 ms where all of it is small values
EXPLAINED_AT_ONCE = 16 * KIB  # of a body that is wrong: to look at each value takes a microsecond or two
LONG_TEXT_BYTES = 64 * KIB  # of a string that is decoded on its own, in pieces; no key or header is longer
SECTIONS_MAX = 2 * PARTITIONS_MAX  # of a body in frames: two of each partition, one of them delayed

# --- filters on reads ---
FILTERS_MAX = 10  # of one request; each looks at every message that the ones before have let through
FILTER_CHARACTERS_MAX = 500  # of one filter: ten of them, escaped, still fit into a URL
FILTER_STEPS_MAX = 16  # of a path into JSON: each goes once more through what lies within
FILTER_INDEX_MAX = 99  # in a list; what stands before it is looked at as well
FILTER_PIECE_BYTES = 256 * KIB  # looked at in one go: about a millisecond that the event loop may have to wait
FILTER_SCAN_BYTES = 16 * MIB  # looked at for one answer: as much as a read without filters may carry
FILTER_SCAN_SECONDS = 0.05  # of one look, waiting for a turn included: who waits for messages looks again
FILTER_REST_SECONDS = 0.05  # between two looks of a search that waits, while what comes does not fit
FILTER_UNPACKED_BYTES = 16 * MIB  # of compressed values within one piece: few bytes may ask for very much memory

# --- groups ---
GROUPS_MAX = 10_000  # each some KiB, and more for its members
GROUP_ROWS = 1_000  # of a list with details that does not say how many: with ten partitions each, a second or so
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
RECEIPTS_AT_ONCE = 2_000  # of them, in one turn of the loop: some ten milliseconds
REASON_CHARACTERS_MAX = 500  # of why a message was refused; it becomes a header of the dead letter
DEAD_LETTERS_AT_ONCE = 100  # moved together: read, published and settled in one go
REDRIVE_MAX = 10_000  # dead letters sent back by one request: a hundred goes of three syncs, some seconds
REDRIVE_DEFAULT = 1_000  # of a request that does not say how many
REDRIVE_SECONDS = 25.0  # of one request: below what clients and proxies wait for an answer
REDRIVE_RATE_MIN = 0.1  # a second; with less, a request would end before it has sent its second message
REDRIVE_SCAN_MESSAGES = 100_000  # dead letters that one request looks at: a second or two of one core
REDRIVE_SCAN_BYTES = 256 * MIB  # the same where they are large

# --- delayed messages ---
DELAY_SECONDS_MAX = 366 * 24 * 3600.0  # ahead; a year, leap years too
DELAY_EXPIRY_SECONDS_MIN = 1.0  # late by some milliseconds is everything
DELAY_TICK_NS = 10_000_000  # what is due within one tick goes out together: 100 rounds of two syncs a second at most
DELAY_SPREAD_ENTRIES = 20_000  # of deadlines brought nearer in one go: some milliseconds
DELAY_CHUNK_ROWS = 65_536  # of the table of delayed messages that are looked at in one go: a millisecond or so
DELAY_BATCH_MESSAGES = 2_000  # delivered together: some 10 ms, of which the event loop has two
DELAY_BATCH_BYTES = 4 * MIB  # the same where they are large; one is delivered always
DELAY_FETCH_MESSAGES = (
    20_000  # read ahead for the batches that follow: deadlines and places in the log may be strangers
)
DELAY_FETCH_BYTES = 16 * MIB  # the same where they are large
DELAY_FETCH_GAP_BYTES = 16 * KIB  # between two messages: less is read along, more is two reads
DELAY_DECISION_MESSAGES = 1_000  # cancelled, moved or delivered by one record, where a request means many
DELAY_SECONDS_FOR_REQUEST = 20.0  # that a request which means many goes on: below what clients and proxies wait
DELAY_SEARCH_BYTES = 16 * MIB  # of a topic that may have to be searched for what was delivered before a crash
DELAY_TIMER_SECONDS = 1.0  # between two looks at the clock, which may have been set
DELAY_CLOCK_BACK_NS = 1_000_000_000  # below, a clock that goes backward makes messages late by as much, and no more
DELAY_RETRY_SECONDS = 1.0  # before what the disk refused is tried again
DELAY_SKIP_MAX = 1_000_000  # messages of a list that are passed over
DELAY_SNAPSHOT_BYTES = 64 * MIB  # of a delayed log that would have to be read at a start, before a snapshot is made
DELAY_RETOLD_MESSAGES = 50_000  # of one record that tells new deadlines again: less than a megabyte
DELAY_LIVE_SHARE = 0.5  # of a segment of a delayed log: with fewer messages pending it is written anew

# --- work under way ---
IN_FLIGHT_BYTES = 256 * MIB  # accepted and not yet durable; half a second of a fast disk
STOP_SECONDS = 10.0  # for requests in progress when the broker stops
UPKEEP_SECONDS = 30.0  # between two looks at what retention and compaction could remove
CLOCK_JUMP_SECONDS = 60.0  # that wall time may run ahead of monotonic time before it counts as a jump: NTP steps less
CLOCK_DOUBT_SECONDS = 3600.0  # after a jump, during which retention is limited: time for an operator to see it
RETENTION_JUMP_PERCENT = 10  # of a topic, that may go within that time although only the jump made it old

# --- stalls of the broker itself ---
STALL_SECONDS = 0.5  # without a turn of the loop; a session of one second with three heartbeats in it outlasts that
BEAT_SECONDS = 0.125  # between two signs of life of the loop: four of them before it counts as a stall

# --- what operators see ---
REQUESTS_LOGGED = 100  # in one second: a busy broker must not spend its time, or its disk, on telling so
LAG_SECONDS = 0.5  # between two looks at how late the event loop is
SAMPLE_SECONDS = 1.0  # between two numbers of the history
HISTORY_SECONDS = 300  # that are remembered: what somebody wants to see who comes when it has just gone wrong
RATE_SECONDS = 5  # that a rate of now looks back: long enough not to jump, short enough to be of now
SURVEY_SHARE = 0.05  # of one core for summing up the lag of all groups, however many there are

# --- what the doctor finds worth telling ---
DOCTOR_WINDOW_SECONDS = 60  # that speeds are looked at over: long enough that one pause is not a finding
DOCTOR_LOOKS_MIN = 5  # seconds in which something was seen, before a speed is judged
DOCTOR_SETTLED_SECONDS = 120.0  # after a start, before speeds of groups are judged: rates look back a minute
DOCTOR_FINDINGS_MAX = 20  # of one code, which is what a person reads; the rest are counted
DOCTOR_PLACES_MAX = 1_000  # partitions of groups that are looked at closely: each costs some reads of an index
DOCTOR_SLICE_SECONDS = 0.005  # of the loop's time for one slice of an examination
DISK_FREE_LOW = 0.15  # of the disk: below, file systems become slow, and nobody has much time left
DISK_FREE_LOW_BYTES = 64 * 1024 * MIB  # 64 GiB: on a large disk a share alone would be told months too early
DISK_FREE_LEAST = 0.03
DISK_FREE_LEAST_BYTES = 8 * 1024 * MIB  # 8 GiB: compaction needs room beside what it replaces
DISK_FREE_NEEDED_BYTES = 512 * MIB  # on a disk of any size: some segments of each kind
DISK_FULL_SECONDS = 4 * 3600.0  # until it is full if all goes on so: further than that, minutes do not tell
DISK_FULL_SECONDS_LEAST = 3600.0  # below, somebody has to come at once
LOOP_SLOW_SECONDS = 0.1  # that every request waits before anybody looks at it
LOOP_STUCK_SECONDS = 1.0  # clients with short timeouts give up
FLUSH_SLOW_SECONDS = 0.25  # ten times what a turning disk needs
FLUSH_STUCK_SECONDS = 2.0
IN_FLIGHT_SHARE_HIGH = 0.75  # of what is accepted and not yet durable; at all of it, clients are turned away
FILES_SHARE_HIGH = 0.85  # of the limit of open files
CONNECTIONS_SHARE_HIGH = 0.85
GROUPS_SHARE_HIGH = 0.9  # of GROUPS_MAX
RANGES_SHARE_HIGH = 0.5  # of CURSOR_RUNS_MAX: a group that has that many open has lost its way long ago
CLOCK_BEHIND_SECONDS = 5.0  # clocks that are kept by NTP stay within a fraction of one
GROUP_STUCK_SECONDS = 300.0  # ten times the usual time of one message
GROUP_ABANDONED_SECONDS = 1_800.0  # longer than a deployment
GROUP_BEHIND_SECONDS = 120.0  # of age, before a group that is too slow is told of
GROUP_BEHIND_MESSAGES = 1_000  # fewer come and go with each batch
GROUP_BEHIND_RATIO = 1.1  # of what comes in to what is done: below, it may be a matter of measuring
GROUP_REBALANCE_SECONDS = 30.0  # mostly a rebalance takes some milliseconds; after REVOCATION_SECONDS it is forced
EXPIRY_SHARE_LEFT = 0.2  # of a topic's retention, for messages that a group has not had yet
EXPIRY_AGE_SECONDS = 60.0  # of messages that may be told to expire: a topic may keep them for seconds on purpose
LETTERS_STUCK_SECONDS = 60.0  # that a message may be on its way to the dead letters: mostly it is milliseconds
LETTERS_MANY = 1_000  # of one topic: no single message is wrong then, but whoever handles them
ORDEAL_DELIVERIES = 10  # of one message: three times as many as its retries allow by default
ORDEALS_LOOKED_AT = 1_000  # leases and retries of one place, the first ones: a place may have a hundred thousand
DELAYED_LATE_SECONDS = 30.0  # of a delayed message: mostly it is milliseconds, and after a start some seconds
TRANSACTION_STUCK_SECONDS = 10.0  # that the end of a transaction is decided and not carried out: mostly milliseconds
STALL_LONG_SECONDS = 5.0  # of one stall, before the doctor tells it: clients with short timeouts have given up
STALL_TOLD_SECONDS = 3600.0  # that it is worth telling
UNCLEAN_START_SECONDS = 24 * 3600.0  # that it is worth telling

# --- names ---
LOG_NAME_BYTES_MAX = 255  # of one part; the file systems' own limit
LOG_DEPTH_MAX = 4  # parts of a name: topic, partition, and a log that belongs to a partition

assert VALUE_BYTES_MAX < 2**32
assert PRODUCER_BLOCK_IDS << PRODUCER_BLOCK_BITS == 2**53
assert FRAME_BYTES_MAX < SEGMENT_BYTES <= SEGMENT_BYTES_MAX
assert LOST_OFFSETS > SEGMENT_BYTES_MAX // FRAME_HEADER_BYTES  # ends are noted at each roll
assert INDEX_BLOCK_BYTES <= SEGMENT_BYTES_MIN
assert SCAN_CHUNK_BYTES % INDEX_BLOCK_BYTES == 0
assert SEGMENT_AGE_SECONDS_MIN <= SEGMENT_AGE_SECONDS <= SEGMENT_AGE_SECONDS_MAX
assert TAIL_BYTES_MIN <= TAIL_BYTES <= TAIL_BYTES_MAX
assert FLUSH_INTERVAL_SECONDS_MIN <= FLUSH_INTERVAL_SECONDS <= FLUSH_INTERVAL_SECONDS_MAX
assert FLUSH_INTERVAL_SECONDS_MAX < SEGMENT_AGE_SECONDS
assert SESSION_SECONDS_MIN <= HEARTBEAT_SECONDS < SESSION_SECONDS <= SESSION_SECONDS_MAX
assert BEAT_SECONDS * 2 < STALL_SECONDS < SESSION_SECONDS_MIN * 2 / 3
assert STALL_SECONDS < TRANSACTION_SECONDS_MIN * 2 / 3
assert STALL_SECONDS <= STALL_LONG_SECONDS
assert VISIBILITY_SECONDS_MIN <= VISIBILITY_SECONDS <= VISIBILITY_SECONDS_MAX
assert RETRY_SECONDS <= RETRY_SECONDS_MAX <= RETRY_DELAY_SECONDS_MAX
assert IN_FLIGHT_MESSAGES <= IN_FLIGHT_MESSAGES_MAX
assert DEAD_LETTERS_AT_ONCE <= REDRIVE_MAX <= REDRIVE_SCAN_MESSAGES
assert DELAY_DECISION_MESSAGES <= DELAY_BATCH_MESSAGES
assert DELAY_BATCH_MESSAGES <= DELAY_FETCH_MESSAGES
assert DELAY_BATCH_BYTES <= DELAY_FETCH_BYTES
assert SEGMENT_READ_BYTES <= READ_BYTES_MAX
assert len(LANE_WEIGHTS) == PRIORITY_COUNT < LANES_HELD  # a reader may have each of its lanes in another segment
assert all(0 < weight <= LANE_WEIGHT_MAX for weight in LANE_WEIGHTS)
assert REQUEST_BYTES <= HTTP_BODY_BYTES
assert EXPLAINED_AT_ONCE <= DECODED_AT_ONCE <= REQUEST_BYTES
assert max(KEY_BYTES_MAX, HEADERS_BYTES_MAX) < LONG_TEXT_BYTES
assert FILTER_PIECE_BYTES <= FILTER_SCAN_BYTES <= READ_BYTES_MAX
assert UNPACKED_BYTES >= READ_BYTES_MAX + VALUE_BYTES_MAX
assert FILTER_UNPACKED_BYTES >= VALUE_BYTES_MAX  # so that any value can be looked at
assert DISK_FREE_NEEDED_BYTES < DISK_FREE_LEAST_BYTES < DISK_FREE_LOW_BYTES
assert 0 < DISK_FREE_LEAST < DISK_FREE_LOW < 1
assert LOOP_SLOW_SECONDS < LOOP_STUCK_SECONDS < FLUSH_STUCK_SECONDS
assert JOIN_GATHER_SECONDS < GROUP_REBALANCE_SECONDS < REVOCATION_SECONDS < GROUP_STUCK_SECONDS
assert TRANSACTION_STUCK_SECONDS < TRANSACTION_HUNG_SECONDS < TRANSACTION_SECONDS
assert ORDEAL_DELIVERIES > RETRIES_MAX + 1
