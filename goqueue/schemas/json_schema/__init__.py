"""JSON Schema, drafts 4 to 2020-12: documents, containment of one schema in another, payloads.

`document` reads a text and resolves its references; `subschema` has the facts that keywords state; `containment`
decides whether each value that one schema accepts is accepted by another, with `object_rules`, `array_rules` and
`value_rules`; `json_format` is what callers use.
"""
