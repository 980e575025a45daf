"""Contexts: the brokers that somebody uses, each with how it is spoken to, in one file.

    current-context: local
    contexts:
      local:
        server: http://127.0.0.1:8080
      production:
        server: https://queue.example.com
        api-key-file: ~/.goqueue/production.key
        timeout: 1m
        protected: true

Values of this module never change; the file itself is read and written by `context_file`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from goqueue.console.nearest import nearest
from goqueue.errors import ConfigInvalid
from goqueue.quantities import quoted

NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"


class Context(NamedTuple):
    """One broker. What is None is left to the defaults."""

    server: str | None = None
    api_key: str | None = None
    api_key_file: str | None = None
    timeout: str | None = None
    output: str | None = None
    protected: bool = False

    def __repr__(self) -> str:
        """Without the key, which a log would keep."""
        return f"<Context of {self.server}>"


KEYS = tuple(name.replace("_", "-") for name in Context._fields)


class Contexts(NamedTuple):
    """All of the file at `path`, which need not exist."""

    path: str
    current: str | None = None
    contexts: Mapping[str, Context] = MappingProxyType({})

    def find(self, name: str) -> Context:
        found = self.contexts.get(name)
        if found is None:
            raise ConfigInvalid(f"there is no context {quoted(name)}", hint=self._instead(name))
        return found

    def _instead(self, name: str) -> str:
        if not self.contexts:
            return f"`config create {name} --server URL` creates it"
        near = nearest(name, self.contexts)
        return f"did you mean {near}?" if near else f"there are {', '.join(sorted(self.contexts))}"

    def added(self, name: str, context: Context) -> "Contexts":
        """With one more; the first becomes the current one."""
        check_name(name)
        if name in self.contexts:
            raise ConfigInvalid(f"there is a context {name} already", hint=f"`config edit {name}` changes it")
        return self._replace(current=self.current or name, contexts={**self.contexts, name: context})

    def changed(self, name: str, **values: Any) -> "Contexts":
        return self._replace(contexts={**self.contexts, name: self.find(name)._replace(**values)})

    def without(self, name: str) -> "Contexts":
        self.find(name)
        left = {other: context for other, context in self.contexts.items() if other != name}
        return self._replace(current=None if self.current == name else self.current, contexts=left)

    def using(self, name: str) -> "Contexts":
        self.find(name)
        return self._replace(current=name)


def check_name(name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise ConfigInvalid(
            f"{quoted(name)} cannot be the name of a context",
            hint="a name has 1 to 64 letters, digits, dots, dashes and underscores, and begins with none of - and .",
        )
