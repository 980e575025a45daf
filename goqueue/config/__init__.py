"""The configuration: what can be set, where a setting may come from, and what is wrong with it.

`settings` has the one table of settings, from which the check, the templates, the flags and the
documentation are made. `sources` reads flags, environment and file; `document` reads the YAML.
"""

from goqueue.config.problem import Origin, Problem
from goqueue.config.settings import SETTINGS, Config, Setting, StorageConfig
from goqueue.config.sources import load

__all__ = ["SETTINGS", "Config", "Origin", "Problem", "Setting", "StorageConfig", "load"]
