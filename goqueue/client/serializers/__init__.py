"""Values as payloads of schemas in the registry, and back.

`serializer` and `deserializer` are what programs make; `topic_encoding` and `message_decoding` are how producers,
readers and consumers use them; `known_schemas` is what a client remembers of the registry. Nothing here waits:
procedures that need the registry are generators of requests.
"""
