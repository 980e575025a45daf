"""All limits with unit and reason, and assertions on how they relate.

A limit that is also a setting has its default here.
"""

KIB = 1024
MIB = 1024 * KIB

# --- the frame (fixed by the format) ---
FRAME_HEADER_BYTES = 34
KEY_BYTES_MAX = 0xFFFF  # a u16 holds the length
HEADERS_BYTES_MAX = 0xFFFF  # a u16 holds the length
VALUE_BYTES_MAX = 16 * MIB  # the field allows 4 GiB: a flipped bit must not allocate that much
FRAME_BYTES_MAX = FRAME_HEADER_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX + HEADERS_BYTES_MAX
OFFSET_MAX = 2**63 - 1  # fits a signed 64-bit integer in every language
PRIORITY_COUNT = 5

# --- segments ---
SECTOR_BYTES = 512  # the smallest unit that a device writes at once; larger units are multiples
INDEX_BLOCK_BYTES = 4 * KIB  # one index entry per block: a seek then scans about 30 frames of 100 bytes
SEGMENT_BYTES = 64 * MIB  # small enough for retention and compaction in steps, large enough for few files
SEGMENT_BYTES_MIN = 4 * KIB
SEGMENT_BYTES_MAX = 2047 * MIB  # below 2 GiB: Arrow counts bytes in an int32, and one segment must fit one array
SEGMENT_AGE_SECONDS = 7 * 24 * 3600  # so that retention can delete segments of a log with little traffic
SEGMENT_AGE_SECONDS_MIN = 1  # below, files would hold a few messages
SEGMENT_AGE_SECONDS_MAX = 3650 * 24 * 3600  # ten years: more means "by size only"

# --- memory ---
TAIL_BYTES = 64 * MIB  # newest frames of all logs together, for readers at the end
TAIL_BYTES_MIN = MIB  # below, every reader goes to the disk
TAIL_BYTES_MAX = 1024 * 1024 * MIB  # 1 TiB: more is a mistaken unit
SCAN_CHUNK_BYTES = 4 * MIB  # fits the last-level cache: larger chunks are not faster
READERS_MAX = 128  # open segments with their indexes: at most 50 MiB at the default sizes
WRITERS_MAX = 192  # logs with an active segment open, three files each: with the readers below the usual 1,024

# --- durability ---
FLUSH_INTERVAL_SECONDS = 1.0
FLUSH_INTERVAL_SECONDS_MIN = 0.001  # about the duration of a sync on a good disk
FLUSH_INTERVAL_SECONDS_MAX = 60  # a power failure loses at most a minute
RESERVE_BYTES = 256 * KIB  # reserved for records of deletions; file systems free space in extents
DISK_RETRY_SECONDS = 1.0  # between checks whether a full disk accepts writes again
COPY_SYNC_SECONDS = 0.25  # between syncs of the backup copies of internal logs; no client waits for them
WRITE_BUFFERS_MAX = 1024  # buffers of one `writev`: the kernel's IOV_MAX

# --- compaction ---
TOMBSTONE_GRACE_SECONDS = 24 * 3600  # a reader this far behind still sees the deletion
PINNED_SEGMENTS_MAX = 64  # replaced files kept open for readers until the log uses the new ones
OTHER_FILES_MAX = 64  # directories and caches that are open for a moment, the event loop's own, standard streams
STORAGE_FILES_MAX = 3 * WRITERS_MAX + READERS_MAX + PINNED_SEGMENTS_MAX + OTHER_FILES_MAX  # kept free of connections
COMPACTION_KEYS_MAX = 5_000_000  # in memory per pass, checked between segments: about 1 GiB for keys of 100 bytes

# --- configuration ---
CONFIG_BYTES_MAX = MIB  # of a file; a complete one has a few KiB
CONFIG_DEPTH_MAX = 8  # of nested sections
CONFIG_NODES_MAX = 10_000  # keys and values together; a malicious file is refused in half a second
CONFIG_PROBLEMS_MAX = 100  # reported for one file

# --- HTTP ---
PORT = 8080
HTTP_HEADER_BYTES = 32 * KIB  # of one request's headers; browsers with many cookies stay below 16
HTTP_HEADER_COUNT = 100  # a client behind three proxies sends some 30
HTTP_URL_BYTES = 8 * KIB  # what servers and proxies agree on
HTTP_BODY_BYTES = 32 * MIB  # the largest message twice over: as JSON with base64 it needs 22
HTTP_HEADER_SECONDS = 10  # from the first byte of a request to the end of its headers
HTTP_BODY_SECONDS = 30  # for each further step of a body
HTTP_BODY_STEP_BYTES = 512 * KIB  # 17 KiB/s; so the largest body is in after half an hour at the latest
HTTP_IDLE_SECONDS = 75  # above the 60 s of load balancers, so that they close connections first
HTTP_WRITE_SECONDS = 30  # for each further step of an answer to be taken by its reader
HTTP_WRITE_STEP_BYTES = 64 * KIB  # as much as is buffered before writing pauses
HTTP_WRITE_BUFFER_BYTES = 64 * KIB  # of answers to one connection, before it gets no further one until all is taken
HTTP_CONNECTIONS = 10_000  # some 10 KiB each
HTTP_CONNECTIONS_MIN = 16  # at any limit of open files: an operator must be able to connect
HTTP_CONNECTIONS_SPARE = 256  # beyond the limit, to answer that it is reached; further ones are closed
CERTIFICATE_NAME_CHARACTERS_MAX = 1024  # SPIFFE ids have up to 2,048, and are shorter in practice
TLS_HANDSHAKE_SECONDS = 5  # from the first packet; two round trips are enough
TLS_HANDSHAKES = 256  # under way; one more ends the oldest, which a slow client must renew 50 times a second to stay
TLS_HANDSHAKE_FILES = 2  # of one under way
TLS_ACCEPTED_AT_ONCE = 64  # before other work goes on
TLS_WATCH_SECONDS = 5  # between two looks at the files
TLS_EXPIRY_NOTE_SECONDS = 30 * 86_400  # the doctor's severities
TLS_EXPIRY_WARNING_SECONDS = 7 * 86_400
TLS_EXPIRY_CRITICAL_SECONDS = 86_400
CLUSTER_HEARTBEAT_SECONDS = 3.0  # between two signs of life that the others are shown
CLUSTER_SUSPECT_SECONDS = 6.0  # of silence
CLUSTER_DEAD_SECONDS = 9.0
CLUSTER_ELECTION_SECONDS = 1.0  # at least, without a controller
CLUSTER_REPLICAS = 3
CLUSTER_REPLICAS_MAX = 7
CLUSTER_MIN_ISR = 2
CLUSTER_TOLD_AT_ONCE = 100  # records of the state in one record that tells it again
CLUSTER_TELL_BYTES = 1 << 20  # the least growth of the cluster's log until its state is rewritten
CLUSTER_TELL_GROWTH = 3  # how many times the told state the log has grown by until then
CLUSTER_CHANGES_AT_ONCE = 500  # partitions in one record of the cluster's log
CLUSTER_CATCH_UP_RATE_MAX = 100 * 1024 * MIB  # of a second
CLUSTER_MOVES_AT_ONCE = 4  # partitions of a reassignment that move at a time
CLUSTER_MOVES_MAX = 5_000  # of one reassignment: it is one record of the cluster's log
CLUSTER_REASSIGNMENTS_KEPT = 20  # that have ended, for people
CLUSTER_SESSION_SECONDS = 1.5  # of silence, until the controller fences a node
CLUSTER_ASK_SECONDS = 10.0  # for an answer of the controller
CLUSTER_LONGEST_SECONDS = 30.0  # for the replicas of a partition without a leader, until the longest one leads
CLUSTER_NODES_MAX = 1000
CLUSTER_FOLLOW_SECONDS = 10.0  # until a decision about a topic is followed by the node that asked for it
CLUSTER_WITNESS_SECONDS = 3.0  # between two nodes that see that the process of a third one is gone
CLUSTER_SETTLED_SECONDS = 60.0  # that a node is there, before it leads again what it is preferred for
CLUSTER_RETURNS_AT_ONCE = 50  # leaders in a second
CLUSTER_REPLICA_LAG_SECONDS = 1.0
CLUSTER_SECRET_CHARACTERS_MIN = 16
CLUSTER_SECRET_BYTES_MAX = 4 * KIB
CLUSTER_DATA_BYTES_MAX = 24 * MIB  # of one message with data: one frame may be larger than a slice
CLUSTER_SLICE_BYTES = MIB  # of data that is sent at once
CLUSTER_WINDOW_BYTES = 8 * MIB  # of data on its way to a node, or not on its disk yet
CLUSTER_READ_BYTES = 256 * KIB  # buffer of a connection; larger messages get one of their own
CLUSTER_QUEUED_ANSWER_BYTES = 4 * MIB  # to a node that reads at this one: further answers wait
CLUSTER_REMOTE_IDLE_SECONDS = 60.0  # without use, until a partition of other nodes is not followed any more
CLUSTER_HANDSHAKE_BYTES_MAX = 64 * KIB
CLUSTER_HANDSHAKE_SECONDS = 5.0
CLUSTER_CONNECTIONS_MAX = 64  # that have not proved to know the secret
CLUSTER_DIAL_SECONDS = 0.2  # between two attempts to reach a node, at first
CLUSTER_REDIAL_SECONDS = 0.01  # before the second attempt after a connection has ended: is the process gone?
CLUSTER_DIAL_SECONDS_MAX = 2.0
CLUSTER_OUTGOING_BYTES_MAX = 32 * MIB  # that a node has not taken: its connection is closed then
CLUSTER_RECENT_RECORDS = 10_000  # of the cluster's log, kept in memory
CLUSTER_EVENTS = 100  # of members, kept for people
CLUSTER_PROOF_SECONDS = 60.0  # between the clocks of two nodes, for a signed request
CLUSTER_LAG_MESSAGES = 100_000  # that a replica lacks: then the doctor says so
CLUSTER_REGISTER_SECONDS = 1.0  # between two attempts
HTTP_BODIES_BYTES = 256 * MIB  # bodies of all requests that are unfinished or unanswered
TENANT_BODY_BYTES = 16 * KIB  # of a body, above which its tenant is looked up before it is read
TENANT_PIPELINED = 2  # as HTTP_PIPELINED, of a broker with tenants: a flood is parsed no faster than answered
TENANT_SLICE_BYTES = KIB  # as HTTP_SLICE_BYTES, for what a client has sent before earlier requests were answered
TENANT_WINDOW_BYTES = 4 * KIB  # that the system keeps for a connection whose requests wait: a read takes all of it
TENANT_MEMORY_PERCENT = 25  # of the memory of large requests and answers, for one tenant
HTTP_ANSWERS_BYTES = 256 * MIB  # large answers that their readers have not taken yet, of all connections together
HTTP_ANSWERS_SPARE_BYTES = 32 * MIB  # beyond it, for answers to operators such as metrics
HTTP_ANSWERS_SHARE_HIGH = 0.75  # of it: above, large reads are refused
HTTP_PIPELINED = 16  # requests of one connection that wait behind the one being answered
HTTP_DRAIN_BYTES = 64 * MIB  # discarded after an error answer, so that a client that is still sending reads it
HTTP_DRAIN_SECONDS = 5
HTTP_SLICE_BYTES = 4 * KIB  # parsed at once without interruption: 4 KiB are up to 160 requests
HTTP_COALESCED_BYTES = 64 * KIB  # larger bodies are written as they are; below, one copy is cheaper than two writes
HTTP_KNOWN_HOSTS = 64  # values of the host header that are not checked again: a broker has a few names and ports
HTTP_PREFLIGHT_SECONDS = 600  # for which a browser need not ask again; Chrome keeps no answer longer than 7200
HTTP_BACKLOG = 2048  # connections the kernel holds until they are accepted

# --- gRPC ---
RPC_STREAMS = 10_000  # calls under way; one that waits holds about 20 KiB
RPC_CONNECTION_STREAMS_MIN = 100  # of one connection: a quarter of all, so that none keeps others from calling
RPC_CONNECTIONS = 1024  # each may have many calls; their files are kept free like those of HTTP
RPC_KEEPALIVE_SECONDS = 60.0  # without data, until the broker asks whether the client is there
RPC_KEEPALIVE_ANSWER_SECONDS = 20  # for the client to say so
RPC_PING_SECONDS_MIN = 10  # between pings of a client that has nothing to send: more often is an attack
RPC_READ_BYTES_MAX = 4 * MIB  # in a response: what clients of gRPC accept by default
RPC_HEARTBEAT_SECONDS = 15.0  # without messages on a stream: intermediaries close those that are silent for a minute
RPC_HEARTBEAT_SECONDS_MIN = 0.1
RPC_AHEAD_BYTES = 8 * MIB  # of all partitions of a call, read before the client takes them
RPC_PARTITION_BYTES_MIN = 64 * KIB  # of one of them at least
RPC_GATHERED_MESSAGES = 1_000  # read ahead of a stream of single messages: one request of the endpoint
RPC_PARTITIONS_MAX = 1_000  # that one call reads, each with a long poll of its own
RPC_EMPTY_POLL_SECONDS = 0.02  # between polls that return at once with nothing, as during a rebalance
RPC_HEALTH_SECONDS = 5.0  # between two looks of a watch
RPC_JOBS_PER_TURN = 64  # of the other thread, taken before other work goes on: some milliseconds
RPC_SLOW_STEP_SECONDS = 0.5  # between two looks for clients that send no request or do not take the end of a call
RPC_STOP_STEP_SECONDS = 0.02  # between two looks for streams that have become idle, when the broker stops

# --- topics ---
PARTITIONS = 3  # default of a new topic
PARTITIONS_MAX = 1_000  # of one topic; creating one takes about 0.3 ms
RETENTION_HOURS = 168.0  # a week, so that problems of a weekend can still be analyzed
RETENTION_HOURS_MAX = 100 * 365 * 24  # longer means unlimited (null)
RETENTION_BYTES_MAX = 2**62  # fits a signed 64-bit number with room for sums
MESSAGE_BYTES = MIB  # larger data belongs in a file store, with its address in the message
MESSAGE_BYTES_MIN = KIB
TOPIC_NAME_CHARACTERS_MAX = 255

# --- producers ---
PRODUCER_BLOCK_IDS = 1_024  # per catalog record (fixed by its format); each startup begins a new block
PRODUCER_BLOCK_BITS = 43  # of a block's number: ids stay below 2^53, which is what JSON numbers hold everywhere
CLIENT_PRODUCER_ID_MIN = 2**62  # ids from here on may be chosen by clients
PRODUCER_WINDOW = 5  # latest batches per producer and partition that are recognized when repeated
PRODUCERS_MAX = 10_000  # latest producers kept per partition; about 1 KiB each
SEQUENCE_COUNT = 2**31  # sequences are below it, and begin at 0 again
CATALOG_SEGMENT_BYTES = 4 * MIB  # of `__metadata`, before it is compacted: each end that is noted tells the whole topic
END_RECORD_SECONDS = 1.0  # from a new segment until its start is recorded: several are recorded together
LOST_LOG_OFFSETS_SKIPPED = 100_000_000  # offsets skipped after the recorded end of a lost log: they may have been used
SNAPSHOT_RECORDS = 1_000  # replayed at most, beside the snapshot: a few milliseconds

# --- transactions ---
TRANSACTION_SECONDS = 60.0  # without a request, before a transaction is aborted
TRANSACTION_SECONDS_MIN = 1.0
TRANSACTION_SECONDS_MAX = 900.0  # maximum duration of a transaction: other producers' messages wait behind it
TRANSACTIONAL_ID_CHARACTERS_MAX = 255
TRANSACTIONAL_IDS_MAX = 100_000  # each some KiB while its transaction is open, else less than one
TRANSACTION_PARTICIPANTS_MAX = 1_000  # partitions and groups: all of them are named in each of its records
TRANSACTION_RETENTION_SECONDS = 7 * 24 * 3600  # of an unused id
TRANSACTIONAL_IDS_DELETED_AT_ONCE = 1_000  # at once: some ten milliseconds
TRANSACTION_LOGS = 2  # in a new data directory; each has syncs of its own: four cost 8 % of all transactions
CLUSTER_TRANSACTION_LOGS = 8  # in a cluster, for good: several for each of three nodes
TRANSACTION_SEGMENT_BYTES = 8 * MIB  # of their log, before it may be compacted: what a crash has to read again
OPERATIONS_MAX = 1_000  # recorded operations; of the most frequent kind the oldest are forgotten first
OPERATIONS_FORGOTTEN_AT_ONCE = 50  # so that not every operation has to look for the oldest
OPERATION_RETENTION_SECONDS = 30 * 86_400
OPERATION_CHANGES_MAX = 20_000  # listed changes of one operation; one with more cannot be undone
OPERATION_CHANGES_KEPT = 200_000  # listed changes of all operations: about 10 MB
OPERATION_SEGMENT_BYTES = 1 * MIB  # of their log, before it may be compacted
OPERATION_CLIENT_CHARACTERS_MAX = 200

# --- keys, roles, rules and the audit trail ---
KEYS_MAX = 10_000  # valid API keys: about 5 MB
KEY_ROLES_MAX = 16  # of one key
ROLES_MAX = 1_000  # custom ones
ROLE_RULES_MAX = 100  # of one role
ACCESS_RULES_MAX = 10_000  # a key's are collected when it is first used after a change: about 2 ms
VERIFIED_KEYS_MAX = 10_000  # whose secrets need not be hashed again
DECISIONS_CACHED_MAX = 10_000  # of one key: about 2 MB; then they are decided anew
KEY_USE_SECONDS = 3600  # between records of when a key was last used
KEY_NAME_CHARACTERS_MAX = 255
ROLE_SUMMARY_CHARACTERS_MAX = 200
SECURITY_SEGMENT_BYTES = 1 * MIB  # of their log, before it may be compacted
AUDIT_RETENTION_HOURS = 365 * 24
AUDIT_SEGMENT_BYTES = 4 * MIB  # about 12,000 records
AUDIT_TEXT_CHARACTERS_MAX = 300  # of a text that a client sent
AUDIT_RECORDS_AT_ONCE = 1_000  # in one answer: about 400 KB
AUDIT_REFUSALS_AT_ONCE = 20  # different ones in one minute; the others are summed up: at most 10 MB a day
AUDIT_REFUSALS_SECONDS = 60
SECURITY_TICK_SECONDS = 1.0  # between looks for expired keys and for refusals to record
TRANSACTION_HUNG_SECONDS = 30.0  # half of the timeout: an operator should know by then
FENCED_PRODUCERS_MAX = 8  # fenced producers kept per transactional id
EPOCH_MAX = 2**15 - 1  # of a producer; then it gets a new id
MARKER_RANGES_MAX = 65_536  # of one control record: a megabyte
ABORTED_RANGES_PINNED = 1024  # of aborted messages of one sealed segment, in memory always: 16 KiB
ABORTED_RANGES_MAX = 10_000  # in one answer: some milliseconds
ABORTED_INDEXES_CACHED = 8  # sealed segments with more of them that one partition has in memory

# --- lanes ---
LANE_WEIGHTS = (50, 25, 15, 7, 3)  # of a hundred messages, while all lanes have some; by priority
LANE_WEIGHT_MAX = 1_000  # a lower share than a thousandth would stop a lane, not slow it down
LANE_BOOST_SECONDS = 30.0  # maximum wait of a lane with messages
LANE_BOOST_SECONDS_MAX = 24 * 3600.0
LANE_INDEXES_CACHED = 8  # sealed segments whose lanes one partition has in memory; where lanes alternate, 10 MiB each
LANE_RUNS_PINNED = 64  # of a segment that has no more than these they stay in memory: that is as little as a digest
LANE_SPANS_MAX = 5_000  # stretches that one poll takes from one lane: as many as its record should name
LANE_READS_MAX = 64  # of one poll from one lane, where other lanes have much in between: a millisecond of the loop
LANE_GAP_BYTES = 32 * KIB  # of other lanes read along: another read would cost more

# --- reads ---
READ_BYTES = MIB  # default of a read; large enough that the request costs little per message
READ_BYTES_MAX = 16 * MIB
SEGMENT_READ_BYTES = 8 * MIB  # default of a raw read; fits the cache of the decoding client
DECOMPRESSED_BYTES = 256 * MIB  # decompressed values in answers under construction, of all requests together
READ_MESSAGES = 100  # default of a JSON read
READ_MESSAGES_MAX = 10_000
WAIT_SECONDS_MAX = 60  # of a long poll: below what proxies allow
PUBLISH_MESSAGES_MAX = 10_000  # of a JSON request: more would hold the event loop for longer than 50 ms
BATCH_MESSAGES_MAX = 250_000  # of one batch of frames: 32 MiB with values of 100 bytes have no more
SQL_MESSAGES_MAX = 2_000_000  # default of a query on the command line: about a second; Spark reads more
MESSAGE_HEADERS_MAX = 256  # of one message; other brokers allow 10 to 100, and each costs ten times its bytes

# --- bodies of requests ---
REQUEST_BYTES = 4 * MIB  # of any request but publishing: 10,000 receipts of the greatest length fit
REQUEST_VALUES_MAX = 200_000  # in the JSON of one: 10,000 entries of `settle` with all their fields have 160,000
PUBLISH_VALUES_MAX = 1_000_000  # 10,000 messages with all their fields and 25 headers each
JSON_DEPTH_MAX = 64  # of nested lists and objects; no request has a use for ten
DECODED_AT_ONCE_BYTES = 256 * KIB  # of JSON, on the loop or under the GIL: some 10 ms where all of it is small values
EXPLAINED_BYTES_MAX = 16 * KIB  # of a body that is wrong: to look at each value takes a microsecond or two
LONG_STRING_BYTES = 64 * KIB  # of a string that is decoded on its own, in pieces; no key or header is longer
SECTIONS_MAX = 2 * PARTITIONS_MAX  # of a body in frames: two of each partition, one of them delayed

# --- filters on reads ---
FILTERS_MAX = 10  # of one request; each looks at every message that the ones before have let through
FILTER_CHARACTERS_MAX = 500  # of one filter: ten of them, escaped, still fit into a URL
FILTER_STEPS_MAX = 16  # of a path into JSON: each goes once more through what lies within
FILTER_INDEX_MAX = 99  # in a list; what stands before it is looked at as well
FILTER_PIECE_BYTES = 256 * KIB  # looked at in one go: about a millisecond that the event loop may have to wait
FILTER_SCAN_BYTES = 16 * MIB  # looked at for one answer: as much as a read without filters may carry
FILTER_SCAN_SECONDS = 0.05  # of one look, waiting for a turn included: who waits for messages looks again
FILTER_PAUSE_SECONDS = 0.05  # between two looks of a search that waits, while what comes does not fit
FILTER_DECOMPRESSED_BYTES = 16 * MIB  # of compressed values within one piece: few bytes may ask for very much memory

# --- groups ---
GROUPS_MAX = 10_000  # each some KiB, and more for its members
GROUP_ROWS = 1_000  # of a list with details that does not say how many: with ten partitions each, a second or so
GROUP_MEMBERS_MAX = 1_000  # of one group; what a rebalance records grows with them
GROUP_TOPICS_MAX = 100  # that one member subscribes to
GROUP_LOGS = 8  # shared by all groups: a sync covers many groups, and a failed log affects only some
GROUP_LOG_BYTES = 4 * MIB  # of one of them before the current state is rewritten and older segments are deleted
GROUP_SEGMENT_BYTES = MIB
GROUP_RETENTION_SECONDS = 7 * 24 * 3600  # without a member: as long as messages are kept
CLIENT_ID_CHARACTERS_MAX = 200
SESSION_SECONDS = 30.0  # without a heartbeat
SESSION_SECONDS_MIN = 1.0  # below, a pause of the garbage collector ends a membership
SESSION_SECONDS_MAX = 30 * 60.0  # a crashed member keeps its partitions this long
HEARTBEAT_SECONDS = 3.0  # ten of them to a session: some may be lost
REVOCATION_SECONDS = 60.0  # for a member to finish messages of partitions it must revoke
JOIN_BATCH_SECONDS = 0.02  # joins and leaves that come within it are one rebalance

# --- delivery ---
VISIBILITY_SECONDS = 30.0
VISIBILITY_SECONDS_MIN = 0.1  # below, messages are redelivered before an ack can arrive
VISIBILITY_SECONDS_MAX = 12 * 3600.0
RETRIES_MAX = 3
RETRIES_LIMIT = 1_000  # of a setting; more means unlimited: with a minute between them that is most of a day
RETRY_SECONDS = 1.0  # before the first retry; twice as long before each further one
RETRY_SECONDS_MIN = 0.001  # below, a failing message takes a core
RETRY_SECONDS_LIMIT = 3600.0  # of the setting: it doubles with each retry
RETRY_SECONDS_MAX = 60.0
RETRY_DELAY_SECONDS_MAX = 12 * 3600.0  # that a consumer may ask for
IN_FLIGHT_MESSAGES = 1_000  # leased to one member
IN_FLIGHT_MESSAGES_MAX = 1_000_000
CURSOR_RANGES_MAX = 100_000  # unfinished ranges of a group in a partition, before it gets no new messages; about 10 MB
CURSOR_SNAPSHOT_BYTES = (
    2 * MIB
)  # of one record with the unfinished messages of a group in a partition; more takes several records
POLL_MESSAGES = 500
POLL_LEASES_MAX = 100  # of one answer: retries may be many small ranges
POLL_SECONDS = 30.0
RECEIPTS_MAX = 10_000  # of one request
RECEIPTS_AT_ONCE = 2_000  # of them, in one turn of the loop: some ten milliseconds
REASON_CHARACTERS_MAX = 500  # of the reason of a reject; it becomes a header of the dead letter
DEAD_LETTERS_AT_ONCE = 100  # moved together: read, published and settled at once
REDRIVE_MAX = 10_000  # dead letters sent back by one request: a hundred goes of three syncs, some seconds
REDRIVE_DEFAULT = 1_000  # of a request that does not say how many
REDRIVE_SECONDS = 25.0  # of one request: below what clients and proxies wait for an answer
REDRIVE_RATE_MIN = 0.1  # a second; with less, a request would end before it has sent its second message
REDRIVE_SCAN_MESSAGES = 100_000  # dead letters that one request looks at: a second or two of one core
REDRIVE_SCAN_BYTES = 256 * MIB  # the same where they are large

# --- delayed messages ---
DELAY_SECONDS_MAX = 366 * 24 * 3600.0  # ahead; a year, leap years too
DELAY_EXPIRY_SECONDS_MIN = 1.0  # every message is some milliseconds late
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
DELAY_CHANGE_MESSAGES = 1_000  # changed by one record when a request matches many
DELAY_SECONDS_FOR_REQUEST = 20.0  # of a request that matches many: below the timeouts of clients and proxies
DELAY_SEARCH_BYTES = 16 * MIB  # of a topic that may have to be searched for what was delivered before a crash
DELAY_TIMER_SECONDS = 1.0  # between checks of the wall clock, which may have been set
DELAY_CLOCK_BACK_NS = 1_000_000_000  # below, a clock that goes backward makes messages late by as much, and no more
DELAY_RETRY_SECONDS = 1.0  # before a failed write is retried
DELAY_SKIP_MAX = 1_000_000  # messages of a list that are passed over
DELAY_SNAPSHOT_BYTES = 64 * MIB  # of a delayed log that would have to be read at a start, before a snapshot is made
DELAY_REWRITE_MESSAGES = 50_000  # of one record that tells new deadlines again: less than a megabyte
DELAY_LIVE_SHARE = 0.5  # of a segment of a delayed log: with fewer messages pending it is written anew

# --- work under way ---
IN_FLIGHT_BYTES = 256 * MIB  # being written; half a second of a fast disk
STOP_SECONDS = 10.0  # for requests in progress when the broker stops
SCRUB_RATE = 4 * MIB  # bytes a second that the scrub reads: little for any disk, and a terabyte in three days
SCRUB_RATE_MAX = 10 * 1024 * MIB
SCRUB_SECONDS = 86_400.0  # from the beginning of a pass of the scrub to the next one
SCRUB_DELAY_SECONDS = 60.0  # from the start to the first pass, at most
SCRUB_STEP_BYTES = MIB  # that the scrub reads at once: some milliseconds of a thread
UPKEEP_SECONDS = 30.0  # between runs of retention and compaction
CLOCK_JUMP_SECONDS = 60.0  # that wall time may run ahead of monotonic time before it counts as a jump: NTP steps less
CLOCK_JUMP_HOLD_SECONDS = 3600.0  # after a jump, with limited retention: time for an operator to notice
RETENTION_JUMP_PERCENT = 10  # of a topic that retention may delete by age within that time

# --- stalls of the broker itself ---
STALL_SECONDS = 0.5  # without an event loop iteration; shorter than a session of one second with three heartbeats
LOOP_HEARTBEAT_SECONDS = 0.125  # between heartbeats of the event loop: four missed ones are a stall

# --- what operators see ---
REQUESTS_LOGGED = 100  # per second: logging must not slow down a busy broker or fill its disk
RECENT_LOG_LINES = 1_000  # kept in memory of problems, requests and other lines each: about a megabyte
LOOP_LATENCY_SAMPLE_SECONDS = 0.5  # between measurements of event loop latency
SAMPLE_SECONDS = 1.0  # between two numbers of the history
HISTORY_SECONDS = 300  # kept: enough to see how a problem began
HISTORY_RINGS = ((10, 2_160), (60, 2_880))  # seconds of a row, and rows: 6 and 48 hours; today beside yesterday
HISTORY_GROUPS_MAX = 100  # in one row, those with the most lag: they make the file 9 MB
HISTORY_STEP_SECONDS_MAX = 3_600  # of one number in an answer
EXPORT_GATHER_SECONDS = 0.2  # in which records are gathered before they become spans
EXPORT_READ_BYTES = 256 * KIB  # of the messages of a record, for the spans that sent them
EXPORT_MESSAGES_EXAMINED = 128  # of a record, for these spans: more would slow consumers down
EXPORT_RECORDS_MAX = 20_000  # that wait to become spans
EXPORT_BATCH_SPANS = 512  # in one request to a collector: about 200 KB before compression
EXPORT_QUEUE_SPANS = 4_096  # waiting for a collector: a few MB of memory
EXPORT_QUEUE_SNAPSHOTS = 1  # of metrics, waiting for a collector: only the newest is of use
EXPORT_ATTEMPTS_MAX = 5  # of one batch: about 20 s with the delays between them
EXPORT_RETRY_SECONDS = 1.0  # before the second attempt; doubled for each further one
EXPORT_RETRY_SECONDS_MAX = 60.0  # also if a collector asks for more
EXPORT_STOP_SECONDS = 2.0  # for what waits when the broker stops
EXPORT_ANSWER_BYTES_MAX = 64 * KIB  # read of a collector's answer
EXPORT_FILE_BYTES_MAX = 64 * MIB  # then the file is renamed, and a new one begins
RATE_SECONDS = 5  # window of current rates: stable but recent
LAG_SURVEY_CPU_SHARE = 0.05  # of one core for summing up the lag of all groups
SIZE_SURVEY_CPU_SHARE = 0.001  # of one core for summing up the sizes of all logs, of which most are idle

# --- what the doctor finds worth telling ---
DOCTOR_WINDOW_SECONDS = 60  # window of measured speeds: one pause is not a finding
DOCTOR_SUSTAINED_SECONDS = 10  # that a limit must be near before it is a finding: bursts are normal
DOCTOR_SAMPLES_MIN = 5  # seconds with data before a speed is judged
DOCTOR_WARMUP_SECONDS = 120.0  # after startup, before group speeds are judged: rates cover a minute
DOCTOR_FINDINGS_MAX = 20  # of one code; further ones are counted
DOCTOR_PARTITIONS_MAX = 1_000  # partitions of groups that are examined closely: each needs some index reads
DOCTOR_SLICE_SECONDS = 0.005  # of the loop's time for one slice of an examination
ALERT_SECONDS = 15.0  # between examinations: one takes some milliseconds, and people react in minutes
ALERT_AFTER_SECONDS = 60.0  # a restart or a burst is over by then
ALERT_REPEAT_SECONDS = 4 * 3600.0  # half a shift
ALERT_SEND_SECONDS = 15.0  # for all requests of one delivery
ALERT_STEP_SECONDS = 5.0  # for connecting, writing and reading each
ALERT_RETRY_SECONDS_MAX = 60.0  # between attempts, from one second on
ALERT_SILENCES_MAX = 100
ALERT_SILENCE_SECONDS_MAX = 30 * 86_400  # who needs longer changes the severity or the threshold
DISK_FREE_LOW = 0.15  # of the disk: below, file systems become slow and may soon be full
DISK_FREE_LOW_BYTES = 64 * 1024 * MIB  # 64 GiB: on a large disk the share alone would warn months too early
DISK_FREE_CRITICAL = 0.03
DISK_FREE_CRITICAL_BYTES = 8 * 1024 * MIB  # 8 GiB: compaction needs room beside what it replaces
DISK_FREE_MIN_BYTES = 512 * MIB  # on a disk of any size: some segments of each kind
DISK_FULL_SECONDS = 4 * 3600.0  # until the disk is full at the current growth
DISK_FULL_CRITICAL_SECONDS = 3600.0  # below, an operator must act at once
LOOP_SLOW_SECONDS = 0.1  # that every request waits before it is processed
LOOP_STUCK_SECONDS = 1.0  # clients with short timeouts give up
FLUSH_SLOW_SECONDS = 0.25  # ten times the duration on a rotating disk
FLUSH_STUCK_SECONDS = 2.0
IN_FLIGHT_SHARE_HIGH = 0.75  # of the bytes being written; at the limit, publishing is refused
FILES_SHARE_HIGH = 0.85  # of the limit of open files
CONNECTIONS_SHARE_HIGH = 0.85
GROUPS_SHARE_HIGH = 0.9  # of GROUPS_MAX
RANGES_SHARE_HIGH = 0.5  # of CURSOR_RUNS_MAX: the consumers of such a group do not settle their messages
CLOCK_BEHIND_SECONDS = 5.0  # clocks that are kept by NTP stay within a fraction of one
GROUP_TROUBLE_SECONDS = 30.0  # that a group must be in trouble before it counts: a restart takes less
GROUP_TROUBLE_MESSAGES = 100  # fewer that wait are not a group that is behind
GROUP_STUCK_SECONDS = 300.0  # ten times the usual time of one message
GROUP_ABANDONED_SECONDS = 1_800.0  # longer than a deployment
GROUP_BEHIND_SECONDS = 120.0  # age of the oldest message before a slow group is a finding
GROUP_BEHIND_MESSAGES = 1_000  # fewer come and go with each batch
GROUP_BEHIND_RATIO = 1.1  # incoming to finished messages: below, it may be a measurement error
GROUP_REBALANCE_SECONDS = 30.0  # mostly a rebalance takes some milliseconds; after REVOCATION_SECONDS it is forced
EXPIRY_SHARE_LEFT = 0.2  # of a topic's retention, for messages that a group has not had yet
EXPIRY_AGE_SECONDS = 60.0  # minimum age of messages near their retention: a topic may keep them for seconds on purpose
DEAD_LETTERS_STUCK_SECONDS = 60.0  # for moving a message to the dead-letter queue: usually milliseconds
DEAD_LETTERS_MANY = 1_000  # of one topic: the consumer is wrong then, not single messages
POISON_DELIVERIES_MIN = 10  # of one message: more than twice as many as its retries allow by default
POISON_DELIVERIES_RATIO = 2  # times what the retries of its group allow, where that is more; unlimited ones count none
POISON_LEASES_SCANNED_MAX = 1_000  # first leases and retries of a partition: it may have 100,000
DELAYED_LATE_SECONDS = 30.0  # overdue: usually milliseconds, and some seconds after startup
TRANSACTION_STUCK_SECONDS = 10.0  # between the decision to end a transaction and its end: usually milliseconds
STALL_LONG_SECONDS = 5.0  # of one pause before it is a finding: clients with short timeouts have failed
STALL_REPORT_SECONDS = 3600.0  # that it stays a finding
UNCLEAN_START_SECONDS = 24 * 3600.0  # that it stays a finding

# --- tracing ---
TRACE_RECORDS = 10_000  # in memory: about 4 MB
TRACE_RECORDS_MAX = 1_000_000
TRACE_FILE_BYTES = 8 * MIB
TRACE_FILES_BYTES = 64 * MIB  # of all trace files together: a question that reads all of them takes a second or two
TRACE_FILES_BYTES_MIN = MIB
TRACE_FILES_BYTES_MAX = 64 * 1024 * MIB
TRACE_READ_BYTES = MIB  # of a trace file at once
TRACE_WRITE_SECONDS = 0.25  # between writes: what a crash can take from the trace files
TRACE_OUTBOX_RECORDS = 50_000  # waiting to be written; what a disk does not take is dropped and counted
TRACE_RANGES_MAX = 500  # of one record
TRACE_BLOCK_OFFSETS = 1_024  # that are sampled together: as many as a usual batch
TRACE_KEPT_RANGES = 10_000  # of messages that are kept because of an error, though sampling would not
TRACE_LEASES = 20_000  # whose member and time are known when their messages are settled
TRACE_SLOW_SAMPLES = 1_000  # of which the slowest hundredth is slow
TRACE_PROMOTIONS_SECOND = 50  # searches for the earlier records of messages that failed, each of a millisecond
TRACE_HOPS_MAX = 50  # copies of one message in its journey
TRACE_EVENTS_MAX = 1_000  # of one trace; what a message that is redelivered for hours has more is left out
TRACE_COPY_SCAN_BYTES = 8 * MIB  # of a target, in which a copy is searched
TRACE_LOST_SCAN_BYTES = 64 * MIB  # of logs, for copies of which no record is left: of a trace or of a list
TRACE_ID_SCAN_BYTES = 256 * MIB  # of batches with headers, in which a trace id is searched
TRACE_FOUND_MAX = 100  # messages with the same trace id
TRACE_LIST_RECORDS = 5_000  # the newest matching ones, from which a list is made
TRACE_LIST_TRIES = 1_000  # traces that are examined for a list, each for a millisecond or two
TRACE_STATUSES = 100  # the newest traces, whose statuses are counted
TRACES = 50  # of a list that does not say how many
TRACES_MAX = 500

# --- names ---
LOG_NAME_BYTES_MAX = 255  # of one part; the file systems' own limit
LOG_DEPTH_MAX = 4  # parts of a name: topic, partition, and a log that belongs to a partition

BACKUP_OBJECT_BYTES = 16 * MIB  # of the objects of a backup, and at most a frame more: each is held in memory
BACKUP_PIECES_SPARE = 8  # pieces of a growing segment beyond the necessary ones; then it is copied anew in few
BACKUP_BYTES_PER_SECOND = 10 * MIB  # of a backup beside publishes, whose syncs share the device
BACKUP_LOOK_SECONDS = 30.0  # between looks at the schedule
BACKUP_TARGET_CHECK_SECONDS = 5.0  # that the doctor waits for the target of backups
BACKUP_RETRY_SECONDS = 600.0  # after a failed backup of the schedule
BACKUP_OLD_SECONDS = 36 * 3600  # without a schedule: a nightly backup that is missing
BACKUP_LEASE_SECONDS = 60.0  # of the lock of an object store; another process may take it some time after its end
BACKUP_LEASE_RENEWAL_SECONDS = 15.0  # several attempts within a lease
BACKUP_LEASE_DOUBT_SECONDS = 30.0  # between the end of a lease and its loss: by so much clocks may differ
STORE_PART_BYTES = 8 * MIB  # of an upload; larger contents are sent in several parts
STORE_PARTS_AT_ONCE = 4  # each is held in memory
STORE_REQUEST_SECONDS = 60.0  # for one part over a slow connection
STORE_CONNECT_SECONDS = 5.0
STORE_RETRIES = 4  # of a request that fails by the network or the store
STORE_RETRY_SECONDS = 20.0  # from the first attempt on
BACKUP_RUNS_KEPT = 100  # failed and cancelled backups that are listed

assert VALUE_BYTES_MAX < 2**32
assert PRODUCER_BLOCK_IDS << PRODUCER_BLOCK_BITS == 2**53
assert FRAME_BYTES_MAX < SEGMENT_BYTES <= SEGMENT_BYTES_MAX
assert LOST_LOG_OFFSETS_SKIPPED > SEGMENT_BYTES_MAX // FRAME_HEADER_BYTES  # ends are noted at each roll
assert INDEX_BLOCK_BYTES <= SEGMENT_BYTES_MIN
assert SCAN_CHUNK_BYTES % INDEX_BLOCK_BYTES == 0
assert SEGMENT_AGE_SECONDS_MIN <= SEGMENT_AGE_SECONDS <= SEGMENT_AGE_SECONDS_MAX
assert TAIL_BYTES_MIN <= TAIL_BYTES <= TAIL_BYTES_MAX
assert FLUSH_INTERVAL_SECONDS_MIN <= FLUSH_INTERVAL_SECONDS <= FLUSH_INTERVAL_SECONDS_MAX
assert FLUSH_INTERVAL_SECONDS_MAX < SEGMENT_AGE_SECONDS
assert SESSION_SECONDS_MIN <= HEARTBEAT_SECONDS < SESSION_SECONDS <= SESSION_SECONDS_MAX
assert LOOP_HEARTBEAT_SECONDS * 2 < STALL_SECONDS < SESSION_SECONDS_MIN * 2 / 3
assert STALL_SECONDS < TRANSACTION_SECONDS_MIN * 2 / 3
assert STALL_SECONDS <= STALL_LONG_SECONDS
assert VISIBILITY_SECONDS_MIN <= VISIBILITY_SECONDS <= VISIBILITY_SECONDS_MAX
assert RETRY_SECONDS_MIN <= RETRY_SECONDS <= RETRY_SECONDS_MAX <= RETRY_SECONDS_LIMIT <= RETRY_DELAY_SECONDS_MAX
assert RETRIES_MAX <= RETRIES_LIMIT
assert IN_FLIGHT_MESSAGES <= IN_FLIGHT_MESSAGES_MAX
assert DEAD_LETTERS_AT_ONCE <= REDRIVE_MAX <= REDRIVE_SCAN_MESSAGES
assert DELAY_CHANGE_MESSAGES <= DELAY_BATCH_MESSAGES
assert DELAY_BATCH_MESSAGES <= DELAY_FETCH_MESSAGES
assert DELAY_BATCH_BYTES <= DELAY_FETCH_BYTES
assert SEGMENT_READ_BYTES <= READ_BYTES_MAX
assert (
    len(LANE_WEIGHTS) == PRIORITY_COUNT < LANE_INDEXES_CACHED
)  # a reader may have each of its lanes in another segment
assert all(0 < weight <= LANE_WEIGHT_MAX for weight in LANE_WEIGHTS)
assert REQUEST_BYTES <= HTTP_BODY_BYTES
assert EXPLAINED_BYTES_MAX <= DECODED_AT_ONCE_BYTES <= REQUEST_BYTES
assert max(KEY_BYTES_MAX, HEADERS_BYTES_MAX) < LONG_STRING_BYTES
assert FILTER_PIECE_BYTES <= FILTER_SCAN_BYTES <= READ_BYTES_MAX
assert DECOMPRESSED_BYTES >= READ_BYTES_MAX + VALUE_BYTES_MAX
assert FILTER_DECOMPRESSED_BYTES >= VALUE_BYTES_MAX  # so that any value can be looked at
assert DISK_FREE_MIN_BYTES < DISK_FREE_CRITICAL_BYTES < DISK_FREE_LOW_BYTES
assert 0 < DISK_FREE_CRITICAL < DISK_FREE_LOW < 1
assert LOOP_SLOW_SECONDS < LOOP_STUCK_SECONDS < FLUSH_STUCK_SECONDS
assert TRACE_FILES_BYTES_MIN <= TRACE_FILE_BYTES < TRACE_FILES_BYTES <= TRACE_FILES_BYTES_MAX
assert TRACE_RECORDS <= TRACE_OUTBOX_RECORDS <= TRACE_RECORDS_MAX
assert JOIN_BATCH_SECONDS < GROUP_REBALANCE_SECONDS < REVOCATION_SECONDS < GROUP_STUCK_SECONDS
assert GROUP_TROUBLE_SECONDS < GROUP_BEHIND_SECONDS < GROUP_STUCK_SECONDS < GROUP_ABANDONED_SECONDS
assert TRANSACTION_STUCK_SECONDS < TRANSACTION_HUNG_SECONDS < TRANSACTION_SECONDS
assert EXPORT_BATCH_SPANS <= EXPORT_QUEUE_SPANS
assert POISON_DELIVERIES_MIN > RETRIES_MAX + 1
