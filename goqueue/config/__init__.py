"""The configuration: settings, their sources and validation."""

from goqueue.config.backup_settings import BackupConfig
from goqueue.config.problem import Origin, Problem
from goqueue.config.settings import SETTINGS, Config, Setting, StorageConfig
from goqueue.config.sources import load

__all__ = ["SETTINGS", "BackupConfig", "Config", "Origin", "Problem", "Setting", "StorageConfig", "load"]
