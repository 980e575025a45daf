"""Snapshots are kept as what they are: a browser shows them."""

from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]

SVGImageExtension.file_extension = "svg"
