"""The limits of schemas and payloads, with unit and reason."""

SCHEMA_ID_MAX = 2**31 - 1  # clients hold ids in 32 bits with a sign
SCHEMA_BYTES_MAX = 1024 * 1024  # of a schema's text; large ones in use have some 100 KiB
SCHEMA_DEPTH_MAX = 100  # of nested types, so that no recursion reaches Python's limit of 1,000 frames
SCHEMA_NODES_MAX = 50_000  # types, fields and keywords together: each costs memory in every cache
SCHEMA_REFERENCES_MAX = 200  # schemas that one needs, those of its references included
SCHEMA_WIDTH_MAX = 5_000  # schemas that one value is compared with: alternatives multiply by references
SCHEMA_COMPARISONS_MAX = 20_000  # pairs of types in one check: nested choices multiply; about 0.5 s
SCHEMA_COMPARISON_DEPTH_MAX = 60  # nested comparisons, each of which takes about 10 frames of Python
SCHEMA_INCOMPATIBILITIES_MAX = 100  # reported for one pair of schemas
PAYLOAD_PROBLEMS_MAX = 20  # reported for one message
PAYLOAD_DETAILED_ERRORS_MAX = 2_000  # values times schemas: at most 60 ms to explain a payload of JSON
PAYLOAD_LISTED_ERRORS_MAX = 20_000  # the same without quotations: at most 0.2 s
PAYLOAD_DEPTH_MAX = 100  # of nested values: Protobuf's parsers use the same
PATTERN_BYTES_MAX = 1024 * 1024  # of one compiled regular expression
PATTERN_STEPS_MAX = 10_000  # of backtracking in one regular expression: about a millisecond

assert SCHEMA_COMPARISON_DEPTH_MAX < SCHEMA_DEPTH_MAX < SCHEMA_REFERENCES_MAX < SCHEMA_NODES_MAX
