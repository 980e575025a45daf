"""The limits of tenants, with unit and reason."""

TENANTS_MAX = 10_000  # with their records in memory: about 1 KiB each
TENANT_ID_CHARACTERS_MAX = 63  # it stands before the names of topics and groups, which have 255
TENANT_NAME_CHARACTERS_MAX = 200
TENANT_TEXT_CHARACTERS_MAX = 2_000  # of a description
TENANT_METADATA_MAX = 64  # entries
TENANT_METADATA_CHARACTERS_MAX = 1_000  # of a key or value
LOG_SEGMENT_BYTES = 1024 * 1024  # of the log, before it may be compacted
PLAN_NAMES_MAX = 1_000  # names of each kind in a plan; the counts are exact
USAGE_SEGMENT_BYTES = 8 * 1024 * 1024  # of the log of usage: hours of many tenants, before it may be compacted
