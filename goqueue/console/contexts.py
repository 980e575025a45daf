"""Contexts: named brokers with the options to use them, in one file.

    current-context: local
    contexts:
      local:
        server: http://127.0.0.1:8080
      production:
        server: https://queue.example.com
        api-key-file: ~/.goqueue/production.key
        ca-file: ~/.goqueue/production-ca.pem
        timeout: 1m
        protected: true
      team-a:
        server: https://queue.example.com
        tenant: team-a

The file is replaced as a whole, so a reader gets the old or the new one. Mistakes are reported by line. Unknown keys
are errors: a mistyped `protected` would protect nothing. A file as `save` writes it, with comments on lines of their
own, is read without the YAML parser, whose import would take a quarter of the time of a short command.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.errors import ConfigInvalid, PathInvalid
from goqueue.limits import CONFIG_BYTES_MAX
from goqueue.nearest import nearest
from goqueue.quantities import quoted

if TYPE_CHECKING:
    from goqueue.config.document import Document, DocumentEntry

NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"


class Context(NamedTuple):
    """One broker; None means the default."""

    server: str | None = None
    api_key: str | None = None
    api_key_file: str | None = None
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    timeout: str | None = None
    output: str | None = None
    tenant: str | None = None
    protected: bool = False

    def __repr__(self) -> str:
        """Leave out the key, which must not appear in a log."""
        return f"<Context of {self.server}>"


KEYS = tuple(name.replace("_", "-") for name in Context._fields)


class Contexts(NamedTuple):
    """The content of the file at `path`, which need not exist."""

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
            return f"`goqueue-cli config create {name} --server URL` creates it"
        near = nearest(name, self.contexts)
        return f"did you mean {near}?" if near else f"there are {', '.join(sorted(self.contexts))}"

    def added(self, name: str, context: Context) -> "Contexts":
        """Return the contexts with one more; the first one becomes the current one."""
        check_name(name)
        if name in self.contexts:
            raise ConfigInvalid(f"context {name} exists already", hint=f"`config edit {name}` changes it")
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
            f"{quoted(name)} is not a valid name of a context",
            hint="a name has 1 to 64 letters, digits, dots, dashes and underscores, and does not begin with - or .",
        )


# --- the file ---


VARIABLE = "GOQUEUE_CONFIG"
DEFAULT_PATH = "~/.goqueue/config.yaml"

_PLAIN = r"[A-Za-z~/](?:[A-Za-z0-9._~/:-]*[A-Za-z0-9._~/-])?"
_YAML_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"}
_LINE = rf'( {{0,4}})([A-Za-z0-9_][A-Za-z0-9._-]*):(?: ({_PLAIN}|"[^"\\\\]*"|\{{\}}))?'
_TOO_DEEP = 9
_COMMENT = r" *(?:#[^\x00-\x08\x0b-\x1f\x7f-\x9f]*)?"


def path_of(environment: Mapping[str, str]) -> str:
    return os.path.expanduser(environment.get(VARIABLE) or DEFAULT_PATH)


def load(environment: Mapping[str, str]) -> Contexts:
    """Load the file, or raise `ConfigInvalid` with all problems; without a file there are no contexts."""
    path = path_of(environment)
    if not os.path.lexists(path):
        return Contexts(path)
    return _read_plain(path) or _read_yaml(path)


def _read_plain(path: str) -> Contexts | None:
    """Read a file in the form that `save` writes, or return None for any other form."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read(CONFIG_BYTES_MAX).split("\n")
    except (OSError, ValueError):
        return None
    found: dict[str, Any] = {}
    place: list[dict[str, Any]] = [found]
    for line in lines:
        if re.fullmatch(_COMMENT, line):
            continue
        depth, key, value = _parts(line)
        if depth >= len(place) or key in place[depth]:
            return None
        del place[depth + 1 :]
        place[depth][key] = value
        if line.endswith(":"):
            place.append(value)
    return _taken(path, found)


def _parts(line: str) -> tuple[int, str, Any]:
    """Return the depth of a line, its key and its value; another kind of line gets an invalid depth."""
    parts = re.fullmatch(_LINE, line)
    indent = len(parts[1]) if parts else 1
    if parts is None or indent % 2 or not line.isprintable() or (parts[3] or "").lower() in {"null", "~"}:
        return _TOO_DEEP, "", None
    text = parts[3]
    if text is None or text == "{}":
        return indent // 2, parts[2], {}
    return indent // 2, parts[2], json.loads(text) if text[0] == '"' else text


def _taken(path: str, found: dict[str, Any]) -> Contexts | None:
    """Build the contexts, or return None if there is a problem to report."""
    current, listed = found.pop("current-context", None), found.pop("contexts", {})
    if found or current == "" or isinstance(current, dict) or not isinstance(listed, dict):
        return None
    contexts: dict[str, Context] = {}
    for name, values in listed.items():
        if not re.fullmatch(NAME, name) or not isinstance(values, dict) or not values.keys() <= set(KEYS):
            return None
        if not all(isinstance(value, str) and value for value in values.values()):
            return None
        protected = values.pop("protected", "false").lower()
        if protected not in {"true", "false"}:
            return None
        given = {key.replace("-", "_"): value for key, value in values.items()}
        contexts[name] = Context(**given, protected=protected == "true")
    return Contexts(path, current, contexts)


def _read_yaml(path: str) -> Contexts:
    from goqueue.config import document  # noqa: PLC0415 - YAML costs twenty milliseconds

    read = document.read(path)
    found = _contexts(read)
    if read.problems:
        first = read.problems[0]
        more = f" (and {len(read.problems) - 1} more)" if len(read.problems) > 1 else ""
        raise ConfigInvalid(
            f"{first.origin}: {f'{first.key}: ' if first.key else ''}{first.sentence}{more}",
            hint=None if more else first.hint,
            problems=tuple(read.problems),
        )
    return found


def _contexts(read: "Document") -> Contexts:
    current: str | None = None
    contexts: dict[str, Context] = {}
    for entry in _known(read, read.entries, "", ("current-context", "contexts")):
        if entry.key == "current-context":
            current = _text(read, entry, "")
        elif entry.shape == "section":
            contexts = {one.key: _context(read, one) for one in entry.entries}
        elif entry.shape != "nothing":
            _report(read, entry, "", "is not a mapping of names to contexts", "write a line `name:` for each context")
    return Contexts(read.path, current, contexts)


def _context(read: "Document", entry: "DocumentEntry") -> Context:
    place = f"contexts.{entry.key}"
    if not re.fullmatch(NAME, entry.key):
        _report(
            read,
            entry,
            "contexts",
            "is not a valid name of a context",
            "use letters, digits, dots, dashes and underscores",
        )
    if entry.shape not in {"section", "nothing"}:
        _report(read, entry, "contexts", "is not a mapping", f"the keys below it are {', '.join(KEYS)}")
        return Context()
    values: dict[str, Any] = {}
    for one in _known(read, entry.entries, place, KEYS):
        text = _text(read, one, place)
        if one.key == "protected" and text is not None:
            values["protected"] = _switch(read, one, place, text)
        else:
            values[one.key.replace("-", "_")] = text
    return Context(**values)


def _known(
    read: "Document", entries: Iterable["DocumentEntry"], place: str, keys: tuple[str, ...]
) -> Iterator["DocumentEntry"]:
    for entry in entries:
        if entry.key in keys:
            yield entry
            continue
        near = nearest(entry.key.replace("_", "-"), keys)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(keys)}"
        _report(read, entry, place, f"is not a key of {'a context' if place else 'this file'}", hint)


def _text(read: "Document", entry: "DocumentEntry", place: str) -> str | None:
    if entry.shape in {"section", "list"}:
        _report(read, entry, place, f"is a {entry.shape}, and must be one value", None)
    return entry.text if entry.shape == "text" and entry.text else None


def _switch(read: "Document", entry: "DocumentEntry", place: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        _report(read, entry, place, f"is {quoted(text)}", "write true or false")
    return text.lower() != "false"


def _report(read: "Document", entry: "DocumentEntry", place: str, sentence: str, hint: str | None) -> None:
    from goqueue.config.problem import Problem, display_key  # noqa: PLC0415 - loaded with the document

    key = display_key(entry.key)
    read.problems.append(Problem(entry.key_origin, f"{place}.{key}" if place else key, sentence, hint))


def save(contexts: Contexts) -> None:
    """Replace the file, which only its owner can read: it may contain keys."""
    path = os.path.realpath(contexts.path)  # a symbolic link is kept
    directory = os.path.dirname(path)
    beside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with open(file, "w", encoding="utf-8") as opened:
                opened.write(text_of(contexts))
                opened.flush()
                os.fsync(file)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise PathInvalid(
            f"{contexts.path} cannot be written: {error.strerror or error}",
            hint=f"check owner and mode, or name another file in {VARIABLE}",
        ) from None


def text_of(contexts: Contexts) -> str:
    """Return the content of the file, with only the options that are set."""
    lines = [f"current-context: {_scalar(contexts.current)}"] if contexts.current else []
    lines.append("contexts:" if contexts.contexts else "contexts: {}")
    for name, context in contexts.contexts.items():
        rows = [(key, getattr(context, key.replace("-", "_"))) for key in KEYS]
        given = [(key, value) for key, value in rows if value]
        lines.append(f"  {_scalar(name)}:" if given else f"  {_scalar(name)}: {{}}")
        lines += [f"    {key}: {'true' if value is True else _scalar(value)}" for key, value in given]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Format a value: plain if every YAML reader takes it for text, otherwise quoted."""
    plain = re.fullmatch(_PLAIN, text) and text.lower() not in _YAML_WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)
