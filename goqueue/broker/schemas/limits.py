"""The limits of the schema registry, with unit and reason."""

SUBJECT_CHARACTERS_MAX = 1_000  # a topic's name, a record's full name, and what stands between them
VERSION_BYTES = 800  # of memory for each version, besides its text
REGISTRY_BYTES_MAX = 512 * 1024 * 1024  # of all texts and versions: they are in memory
LOG_SEGMENT_BYTES = 8 * 1024 * 1024  # of the log, before it may be compacted
PARSED_SCHEMAS_MAX = 500  # in a cache: some 10 KiB each, a few of them much more
SCHEMAS_PAGE_MAX = 1_000  # versions in one list, as with Confluent's registry
SCHEMAS_PAGE_BYTES = 4 * 1024 * 1024  # of texts in it, the last of which may exceed that
COMPILED_SCHEMAS_MAX = 1_000  # for checks of messages, in a cache
COMPILED_BYTES_MAX = 64 * 1024 * 1024  # of all of them, as estimated by the next two
COMPILED_BYTES_BASE = 10 * 1024  # of one, whatever its text
COMPILED_BYTES_FACTOR = 15  # times the length of the text and of those that it refers to: 7 to 30 were measured
CHECK_PROBLEMS_MAX = 20  # messages of one batch that a refusal names
CHECK_MESSAGE_PROBLEMS_MAX = 3  # named for each of them
CHECK_BYTES_MAX = 256 * 1024 * 1024  # of uncompressed values in one batch: about a second
CHECK_INDEXES_MAX = 1_000  # of invalid messages that a refusal lists, so that a client can send the others
CHECK_EXPLAINED_BYTES_MAX = 1024 * 1024  # of invalid payloads in one batch: 1 MiB takes up to 0.2 s to explain
CHECK_SCHEMAS_MAX = 100  # in one batch, which keeps them in memory until its end
