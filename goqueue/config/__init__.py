"""The configuration: settings, their sources and validation."""

from goqueue.config.problem import Origin, Problem
from goqueue.config.settings import SETTINGS, Config, Setting, StorageConfig
from goqueue.config.sources import load

__all__ = ["SETTINGS", "Config", "Origin", "Problem", "Setting", "StorageConfig", "load"]
