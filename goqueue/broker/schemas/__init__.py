"""The schema registry: records, the state that they make, decisions, and the parsing of schemas with references."""
