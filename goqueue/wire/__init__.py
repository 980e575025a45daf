"""Names, binary layouts and types that client and broker both write on the wire.

    headers         media types and header names
    sections        the body of a publish request in frames: a section for each partition
    leases          the answer to a poll in frames: leases, then their frames; receipt handles
    trace_context   the headers of a trace, and trace ids that follow from a position

Only `struct`, `re`, `msgspec` and `mmh3` are loaded, so that importing the client stays fast.
"""
