"""Fakes that ship: a disk that fails on demand and a clock that moves by hand."""
