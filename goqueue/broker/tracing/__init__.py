"""Message tracing: records of what happened to ranges of offsets, and the journey of one message made from them."""
