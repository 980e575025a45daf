"""Avro: types and names, texts, resolution of a writer's schema with a reader's, payloads.

`types` reads a schema, `texts` writes it, `resolution` compares two, `payloads` checks encoded data.
"""
