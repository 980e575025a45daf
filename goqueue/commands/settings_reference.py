"""Generated from the table of settings: configuration files, and the page that documents the settings.

`python -m goqueue.commands.settings_reference` writes `docs/configuration.md` and `configs/` below the current
directory; a test asserts that they are current.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goqueue.config import SETTINGS, Config, Setting
from goqueue.config.settings import SECTIONS
from goqueue.config.value_types import BOOLEAN
from goqueue.quantities import DURATION_UNITS, SIZE_UNITS

_WIDTH = 112


@dataclass(frozen=True, slots=True)
class ConfigTemplate:
    """The values for one kind of use, each with the reason for the difference from the default."""

    title: str
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict)


PURPOSES = {
    "default": ConfigTemplate("GoQueue: every setting with its default."),
    "dev": ConfigTemplate(
        "GoQueue on a developer's machine: little memory, small files, fast on a slow disk.",
        {
            "topics.auto_create": ("true", "a program under development may publish before anything is set up."),
            "storage.flush": ("interval", "test data may be lost with the power; waiting for a slow disk costs more."),
            "storage.segment_bytes": ("8MiB", "segments roll often enough to be seen rolling."),
            "storage.segment_age": ("1d", "a topic that gets a message now and then rolls as well."),
            "storage.tail_bytes": ("16MiB", "the memory is left to the programs under development."),
        },
    ),
    "production": ConfigTemplate(
        "GoQueue in production: a publish is answered when its messages are on the disk.",
        {
            "data_dir": (
                "/var/lib/goqueue",
                "a disk of its own can be mounted there, which keeps other programs from filling it.",
            ),
            "server.host": ("0.0.0.0", "other machines use the broker."),  # noqa: S104
            "tls.cert": ("/etc/goqueue/tls/server.pem", "other machines are refused without TLS."),
            "tls.key": ("/etc/goqueue/tls/server.key", "readable by the user of the broker alone."),
            "security.authentication": ("keys", "other machines are refused without API keys."),
            "log.format": ("json", "a collector of logs takes the lines apart without guessing."),
            "storage.tail_bytes": ("256MiB", "consumers that are a little behind are still served from memory."),
        },
    ),
}


def template(purpose: str) -> str:
    """Return a complete configuration file with comments."""
    chosen = PURPOSES[purpose]
    lines = [f"# {chosen.title}", "# A flag is stronger than an environment variable, and that than this file."]
    section = ""
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            lines += ["", *_comment(SECTIONS[section], ""), f"{section}:"]
        else:
            lines.append("")
        value, reason = chosen.values.get(setting.key, (setting.format(setting.default), ""))
        lines += _setting_lines(setting, value, reason)
    return "\n".join(lines) + "\n"


def _setting_lines(setting: Setting, value: str, reason: str) -> Iterator[str]:
    indent = "  " if setting.section else ""
    yield from _comment(setting.rule.sentence, indent)
    facts = [setting.rule.kind.name.capitalize(), setting.bounds, setting.variable]
    if reason:
        facts.insert(2, f"default {setting.format(setting.default)}")
    yield from _comment("; ".join(fact for fact in facts if fact), indent)
    if reason:
        yield from _comment(f"Why {value}: {reason}", indent)
    yield f"{indent}{setting.name}: {_scalar(setting, value)}"


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def settings_yaml(config: Config) -> str:
    """Return the settings in effect as a file that sets the same values."""
    lines, section = [], ""
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            lines.append(f"{section}:")
        indent = "  " if section else ""
        lines.append(f"{indent}{setting.name}: {_scalar(setting, setting.format(config.value(setting)))}")
    return "\n".join(lines) + "\n"


def _scalar(setting: Setting, text: str) -> str:
    """Format a value: plain if every YAML reader takes it for text or a number, otherwise quoted and escaped."""
    if setting.rule.kind is BOOLEAN:
        return text
    plain = re.fullmatch(r"[A-Za-z0-9./][A-Za-z0-9./_-]*", text)
    if plain and text.lower() not in {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    shown = (character if character.isprintable() else f"\\U{ord(character):08X}" for character in escaped)
    return f'"{"".join(shown)}"'


def page() -> str:
    """`docs/configuration.md`."""
    parts = [_INTRODUCTION, *_tables(), _PLACES, "## A complete file\n", f"```yaml\n{template('default')}```\n"]
    return "\n".join(parts)


def _tables() -> Iterator[str]:
    yield "## Settings\n"
    for section in ("", *SECTIONS):
        if section:
            yield f"### `{section}`\n\n{SECTIONS[section]}\n"
        for setting in SETTINGS:
            if setting.section == section:
                yield _entry(setting)


def _entry(setting: Setting) -> str:
    facts = [
        ("Type", setting.rule.kind.name),
        ("Default", f"`{setting.format(setting.default)}`"),
        ("Allowed", setting.bounds),
        ("Variable", f"`{setting.variable}`"),
        ("Flag", f"`{setting.flag}`"),
    ]
    rows = "".join(f"| {name} | {value} |\n" for name, value in facts if value)
    return f"#### `{setting.key}`\n\n{setting.rule.sentence}\n\n| | |\n| --- | --- |\n{rows}"


_INTRODUCTION = f"""\
# Configuration

GoQueue runs without any configuration. What is set comes, strongest first, from flags, from
environment variables that begin with `GOQUEUE_`, from a YAML file, and from the defaults.

```sh
goqueue config template --for production > goqueue.yaml   # a complete file to start from
goqueue config check goqueue.yaml                         # every problem at once, with line and column
goqueue config show goqueue.yaml                          # what is in effect, and where it comes from
```

A size is a number with a unit, such as `64MiB`, or a number of bytes. Units:
{", ".join(f"`{unit}`" for unit in sorted(SIZE_UNITS, key=lambda unit: SIZE_UNITS[unit]))};
`KiB` is 1,024 bytes, `KB` is 1,000. A duration is one or more numbers with units from large to small,
such as `500ms` or `1h30m`, or a number of seconds. Units: {", ".join(f"`{unit}`" for unit in DURATION_UNITS)}.
"""

_PLACES = """\
## What is refused

All sources are checked, also where a stronger one hides the mistake, and all problems are reported
together; the broker does not start with any.

- In the file: keys that are no setting, keys given twice, settings without a value, values out of bounds,
  and what a configuration has no use for in YAML: tags, anchors and aliases, more than one document. A
  section may be left out or be empty. The file is UTF-8 and at most 1 MiB.
- In the environment: a variable for a setting that is empty, and a name that was evidently meant for a
  setting, such as `GOQUEUE_STORAGE_FLSH`. Other names that begin with `GOQUEUE_` are left alone:
  `GOQUEUE_SERVER`, `GOQUEUE_CONTEXT`, `GOQUEUE_API_KEY`, `GOQUEUE_API_KEY_FILE`, `GOQUEUE_CA_FILE`,
  `GOQUEUE_CLIENT_CERT`, `GOQUEUE_CLIENT_KEY`, `GOQUEUE_CONFIG`, `GOQUEUE_GRPC_ADDRESS`, `GOQUEUE_TENANT`,
  `GOQUEUE_TIMEOUT` and `GOQUEUE_OUTPUT` belong to clients, and Kubernetes adds some of its own.
- Together: `storage.segment_age` must not be shorter than `storage.flush_interval` when `storage.flush` is
  `interval`, and `groups.max_retry_delay` not shorter than `groups.retry_delay`.
"""


def main() -> None:
    Path("docs/configuration.md").write_text(page(), encoding="utf-8")
    for name in ("dev", "production"):
        Path(f"configs/{name}.yaml").write_text(template(name), encoding="utf-8")


if __name__ == "__main__":
    main()
