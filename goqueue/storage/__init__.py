"""Bytes on disk: frames, segments, logs, and the thread that makes them durable."""
