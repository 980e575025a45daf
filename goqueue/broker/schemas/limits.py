"""The limits of the schema registry, with unit and reason."""

SUBJECT_CHARACTERS_MAX = 1_000  # a topic's name, a record's full name, and what stands between them
VERSION_BYTES = 800  # of memory for each version, besides its text
REGISTRY_BYTES_MAX = 512 * 1024 * 1024  # of all texts and versions: they are in memory
LOG_SEGMENT_BYTES = 8 * 1024 * 1024  # of the log, before it may be compacted
PARSED_SCHEMAS_MAX = 500  # in a cache: some 10 KiB each, a few of them much more
SCHEMAS_PAGE_MAX = 1_000  # versions in one list, as with Confluent's registry
SCHEMAS_PAGE_BYTES = 4 * 1024 * 1024  # of texts in it, the last of which may exceed that
