"""A configuration file as entries with their lines and columns, or as problems.

YAML is a language that can build objects, repeat itself without end and nest until the stack is
gone. Only its skeleton is used here: nodes are composed, never constructed, so every value stays
the text that was written; tags, anchors and aliases are refused where they stand; size, depth and
the number of problems have limits. What must stay true: any bytes give entries or problems,
nothing else.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from goqueue.config.problem import Origin, Problem, display_key
from goqueue.limits import CONFIG_BYTES_MAX, CONFIG_DEPTH_MAX, CONFIG_NODES_MAX, CONFIG_PROBLEMS_MAX
from goqueue.quantities import format_size, quoted

EntryKind = Literal["text", "section", "list", "nothing", "refused"]

_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_TAG_PREFIX = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A key and its value; list items have their index as key. A `refused` value has been reported already."""

    key: str
    key_origin: Origin
    origin: Origin
    shape: EntryKind
    text: str = ""
    entries: tuple["DocumentEntry", ...] = ()


@dataclass
class Document:
    """The entries of a file, and the problems found in it."""

    path: str
    entries: tuple[DocumentEntry, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    def report(self, sentence: str, *, at: Any = None, key: str = "", hint: str | None = None) -> None:
        self.problems.append(Problem(self.origin(at), key, sentence, hint))

    def origin(self, mark: Any = None) -> Origin:
        """Convert a mark of the parser, which counts from zero; None means the whole file."""
        if mark is None:
            return Origin("file", self.path)
        return Origin("file", self.path, mark.line + 1, mark.column + 1)


@dataclass(frozen=True, slots=True)
class _Mark:
    line: int
    column: int


def read(path: str) -> Document:
    document = Document(path)
    content = _content(document)
    text = None if content is None else _text(document, content)
    if text is not None:
        root = _root(document, text)
        if root is not None:
            document.entries = tuple(_entries(document, root, ""))
    return document


def _content(document: Document) -> bytes | None:
    try:
        with open(document.path, "rb") as file:
            content = file.read(CONFIG_BYTES_MAX + 1)
    except FileNotFoundError:
        document.report("does not exist", hint="goqueue config template writes a complete file to start from")
    except IsADirectoryError:
        document.report("is a directory, not a file", hint="name a YAML file in it")
    except OSError as error:
        document.report(f"cannot be read: {error.strerror or error}")
    except ValueError:  # a NUL, or characters that a file name cannot have
        document.report("is not a valid file name")
    else:
        if len(content) <= CONFIG_BYTES_MAX:
            return content
        document.report(f"is larger than {format_size(CONFIG_BYTES_MAX)}", hint="is it a configuration file?")
    return None


def _text(document: Document, content: bytes) -> str | None:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8", "replace")
        document.report(f"byte 0x{content[error.start]:02x} is not UTF-8", at=_mark(before), hint="save it as UTF-8")
        return None
    unfit = _UNFIT.search(text)
    if unfit is None:
        return text
    document.report(f"holds the control character U+{ord(unfit[0]):04X}", at=_mark(text[: unfit.start()]))
    return None


def _mark(before: str) -> _Mark:
    return _Mark(before.count("\n"), len(before) - before.rfind("\n") - 1)


class _DocumentRejected(Exception):
    """Raised to stop reading the file; the problem has been reported."""


class _Composer(yaml.SafeLoader):
    """Composes nodes and reports anchors, tags and excessive nesting.

    Uses the Python loader: the C loader recurses on the C stack, which has no protection against deep nesting.
    """

    def __init__(self, text: str, document: Document) -> None:
        super().__init__(text)
        self.document = document
        self.depth = 0
        self.nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        tag = getattr(event, "tag", None)
        self._count()
        if event.anchor is not None:
            self._report_anchor(event)
        if self.check_event(yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]
            return yaml.ScalarNode("refused", "", event.start_mark, event.end_mark)
        if tag is not None:
            shown = tag.replace(_TAG_PREFIX, "!!")
            self.document.report(
                f"the tag {quoted(shown)} is not allowed: values are plain text", at=event.start_mark, hint="remove it"
            )
        node: Any = self._descend(parent, index, event)
        if tag is not None:
            node.tag = "refused"
        return node

    def _count(self) -> None:
        self.nodes += 1
        if self.nodes > CONFIG_NODES_MAX:
            self.document.report(f"has more than {CONFIG_NODES_MAX:,} keys and values")
        if self.nodes > CONFIG_NODES_MAX or len(self.document.problems) > CONFIG_PROBLEMS_MAX:
            raise _DocumentRejected

    def _report_anchor(self, event: Any) -> None:
        sign, what = ("*", "alias") if isinstance(event, yaml.AliasEvent) else ("&", "anchor")
        shown = quoted(sign + event.anchor)
        self.document.report(f"the {what} {shown} is not allowed", at=event.start_mark, hint="write the value itself")

    def _descend(self, parent: Any, index: Any, event: Any) -> Any:
        if self.depth > CONFIG_DEPTH_MAX:
            self.document.report(f"is nested deeper than {CONFIG_DEPTH_MAX} levels", at=event.start_mark)
            raise _DocumentRejected
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _root(document: Document, text: str) -> yaml.MappingNode | None:
    """Return the top-level mapping of the file; None if there is none."""
    composer: Any = None
    try:
        composer = _Composer(text, document)
        root = composer.get_node() if composer.check_node() else None
        if composer.check_node():
            mark = composer.peek_event().start_mark
            document.report(
                "a second document begins here", at=mark, hint="keep only one document: remove the line ---"
            )
    except _DocumentRejected:
        return None
    except yaml.MarkedYAMLError as error:
        _report_syntax(document, error)
        return None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # A number or escape that the parser does not check, such as "\UFFFFFFFF".
        mark = None if composer is None or isinstance(error, RecursionError) else composer.get_mark()
        document.report("is not valid YAML here", at=mark)
        return None
    return _mapping(document, root)


def _mapping(document: Document, root: Any) -> yaml.MappingNode | None:
    if root is None or isinstance(root, yaml.MappingNode):
        return root
    if isinstance(root, yaml.ScalarNode) and (root.tag == "refused" or (root.value == "" and root.style is None)):
        return None  # reported already, or only comments
    what = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
    document.report(f"is {what}, not a mapping of settings", at=root.start_mark, hint="write lines of `key: value`")
    return None


def _report_syntax(document: Document, error: yaml.MarkedYAMLError) -> None:
    said = error.problem or error.context or "it cannot be read"
    mark, hint = error.problem_mark or error.context_mark, error.context
    if "end of stream" in said and error.context_mark:
        mark = error.context_mark  # the open quote is more useful than the end of the file
    elif "cannot start any token" in said:
        hint = "indent with spaces" if "'\\t'" in said else "put quotes around the value"
    document.report(f"is not valid YAML: {said[:200]}", at=mark, hint=hint and hint[:200])


def _entries(document: Document, node: yaml.MappingNode, prefix: str) -> Iterator[DocumentEntry]:
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        if len(document.problems) > CONFIG_PROBLEMS_MAX:
            return
        if not isinstance(key_node, yaml.ScalarNode):
            document.report("a key must be a name", at=key_node.start_mark, key=prefix.rstrip("."))
        elif key_node.tag != "refused":
            name = key_node.value
            key, line = prefix + name, key_node.start_mark.line + 1
            if name in lines:
                sentence = f"is given twice, on lines {lines[name]} and {line}"
                document.report(sentence, at=key_node.start_mark, key=display_key(key), hint="keep one")
            lines.setdefault(name, line)
            yield _entry(document, name, key_node, value_node, key)


def _entry(document: Document, name: str, key_node: Any, node: Any, key: str) -> DocumentEntry:
    origins = document.origin(key_node.start_mark), document.origin(node.start_mark)
    if node.tag == "refused":
        return DocumentEntry(name, *origins, "refused")
    if isinstance(node, yaml.MappingNode):
        return DocumentEntry(name, *origins, "section", entries=tuple(_entries(document, node, f"{key}.")))
    if isinstance(node, yaml.SequenceNode):
        items = (_entry(document, str(at), item, item, f"{key}[{at}]") for at, item in enumerate(node.value))
        return DocumentEntry(name, *origins, "list", entries=tuple(items))
    if node.style is None and node.tag == f"{_TAG_PREFIX}null":
        return DocumentEntry(name, *origins, "nothing", node.value)
    return DocumentEntry(name, *origins, "text", node.value)
