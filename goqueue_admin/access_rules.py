"""`goqueue-admin acl` and `role`: which keys and roles may do what, and why."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import typer

from goqueue.console import exit_codes, terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.flags import Consent
from goqueue.console.formatting import format_ago, format_names
from goqueue.console.names import reject_empty_names
from goqueue.console.rows import Column, struct_to_row
from goqueue.console.session import Session, require_confirmation, session_flags

_Action = Literal["read", "write", "create", "delete", "describe", "alter"]
_KIND_FLAGS = ("topic", "group", "transactional_id", "subject")

_TopicFlag = Annotated[
    str | None, typer.Option("--topic", metavar="PATTERN", help="Topics, such as orders or orders.*")
]
_GroupFlag = Annotated[str | None, typer.Option("--group", metavar="PATTERN", help="Consumer groups.")]
_IdFlag = Annotated[str | None, typer.Option("--transactional-id", metavar="PATTERN", help="Transactional ids.")]
_SubjectFlag = Annotated[str | None, typer.Option("--subject", metavar="PATTERN", help="Schema subjects.")]
_ClusterFlag = Annotated[bool, typer.Option("--cluster", help="The broker itself: statistics, logs, keys.")]
_PrincipalFlag = Annotated[
    str, typer.Option("--principal", "-p", metavar="PRINCIPAL", help="key:NAME, role:NAME, or * for all keys.")
]

_RULES = (
    Column("ID", "id"),
    Column("PRINCIPAL", "principal"),
    Column("EFFECT", "effect"),
    Column("ACTIONS", "actions", format_names),
    Column("KIND", "kind"),
    Column("PATTERN", "pattern"),
    Column("MATCH", "match"),
    Column("CREATED", "created_at", format_ago, wide=True),
    Column("CREATED-BY", "created_by", wide=True),
)
_ROLES = (
    Column("NAME", "name"),
    Column("KEYS", "keys"),
    Column("BUILT-IN", "builtin"),
    Column("SUMMARY", "summary"),
    Column("RULES", "rules", lambda rules: "; ".join(map(_rule_text, rules)), wide=True),
)


def _rule_text(rule: dict[str, Any]) -> str:
    match = rule.get("match", "literal")
    pattern = rule.get("pattern", "cluster") if match == "literal" else f"{match} {rule['pattern']}"
    return f"{rule.get('effect', 'allow')} {','.join(rule['actions'])} on {rule['kind']} {pattern}"


@session_flags
def list_rules(
    principal: Annotated[
        str | None,
        typer.Option("--principal", "-p", metavar="PRINCIPAL", help="Only rules of key:NAME, role:NAME or *."),
    ] = None,
    *,
    session: Session,
) -> None:
    """List access rules.

    \b
      goqueue-admin acl list
      goqueue-admin acl list --principal key:billing

    `goqueue-admin role list -o wide` shows the rules of roles.
    """
    with doing("list access rules"), session.client() as client:
        rows = [struct_to_row(one) for one in client.access_rules() if principal in (None, one.principal)]
    session.write([{"name": str(row["id"]), **row} for row in rows], _RULES)
    if not rows:
        session.note("there are no access rules" if principal is None else f"{principal} has no access rules")


@session_flags
def create_rule(  # noqa: PLR0913 - the parts of a rule
    principal: _PrincipalFlag,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="ACTION", help="An action to allow; may be repeated.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="ACTION", help="An action to deny; may be repeated.")
    ] = None,
    topic: _TopicFlag = None,
    group: _GroupFlag = None,
    transactional_id: _IdFlag = None,
    subject: _SubjectFlag = None,
    *,
    cluster: _ClusterFlag = False,
    session: Session,
) -> None:
    """Create access rules for a key, a role, or all keys.

    \b
      goqueue-admin acl create -p key:till --allow read --topic orders --group t
      goqueue-admin acl create -p role:producer --deny write --topic 'audit.*'
      goqueue-admin acl create -p key:prometheus --allow describe --cluster

    Actions are read, write, create, delete, describe and alter; each allowed one includes describe. A pattern is a
    name, a prefix that ends with *, or a glob with * and ?. A denying rule wins over all that allow. For several
    kinds there is a rule each.
    """
    if (allow is None) == (deny is None):
        raise UsageInvalid("name the actions with either --allow or --deny", hint="add `--allow read`, for example")
    given = {"topic": topic, "group": group, "transactional_id": transactional_id, "subject": subject}
    resources = list(_resources(given, cluster=cluster))
    with doing(f"create access rules for {principal}"), session.client() as client:
        made = [
            client.create_access_rule(
                principal, kind, allow or deny or [], pattern, match=match, effect="allow" if allow else "deny"
            )
            for kind, pattern, match in resources
        ]
    session.write([{"name": str(one.id), **struct_to_row(one)} for one in made], _RULES)


def _resources(given: dict[str, str | None], *, cluster: bool) -> Iterator[tuple[Any, str, Any]]:
    """Yield kind, pattern and match of each resource of the command line."""
    chosen = {kind: pattern for kind, pattern in given.items() if pattern is not None}
    if not chosen and not cluster:
        raise UsageInvalid(
            "name what the rule is about", hint="--topic, --group, --transactional-id, --subject, --cluster"
        )
    reject_empty_names(*chosen.values(), noun="pattern")
    for kind, pattern in chosen.items():
        yield kind, *_pattern(pattern)
    if cluster:
        yield "cluster", "cluster", "literal"


def _pattern(text: str) -> tuple[str, str]:
    """Return a pattern and how it is matched: `orders.*` is a prefix."""
    stem = text.removesuffix("*")
    if not any(character in stem for character in "*?"):
        return (text, "literal") if stem == text else (stem, "prefix") if stem else ("*", "glob")
    return text, "glob"


@session_flags
def delete_rules(
    numbers: Annotated[list[int], typer.Argument(metavar="ID...", min=1, help="Ids of rules, as the list has them.")],
    *,
    consent: Consent,
    session: Session,
) -> None:
    """Delete access rules.

    \b
      goqueue-admin acl delete 17
      goqueue-admin acl delete 17 18 --yes
    """
    names = " ".join(map(str, numbers))
    if consent.dry_run:
        terminal.say(f"that would delete the rules {names}")
        return
    require_confirmation(session, f"delete the access rules {names}", name=names, consent=consent)
    with doing(f"delete the access rules {names}"), session.client() as client:
        rows = [{"name": str(number), **client.delete_access_rule(number)} for number in numbers]
    session.write(rows, (Column("ID", "id"), Column("DELETED", "deleted")))


@session_flags
def explain(  # noqa: PLR0913 - the parts of a question
    principal: _PrincipalFlag,
    action: Annotated[
        _Action, typer.Argument(metavar="ACTION", help="read, write, create, delete, describe or alter.")
    ],
    topic: _TopicFlag = None,
    group: _GroupFlag = None,
    transactional_id: _IdFlag = None,
    subject: _SubjectFlag = None,
    *,
    cluster: _ClusterFlag = False,
    session: Session,
) -> None:
    """Test whether a key or role may do something, and show which rule decides.

    \b
      goqueue-admin acl test -p key:billing read --topic orders
      goqueue-admin acl test -p role:operator alter --cluster

    The exit code is 0 if it is allowed, 1 if it is not.
    """
    given = {"topic": topic, "group": group, "transactional_id": transactional_id, "subject": subject}
    rows = []
    with doing(f"test {principal}"), session.client() as client:
        for kind, name, _ in _resources(given, cluster=cluster):
            decision = client.test_access(principal, action, kind, name)
            answer = {"name": name, "principal": principal, "action": action, "kind": kind}
            rows.append({**answer, **struct_to_row(decision)})
    columns = (
        Column("ACTION", "action"),
        Column("KIND", "kind"),
        Column("NAME", "name"),
        Column("ALLOWED", "allowed"),
        Column("BECAUSE", "reason"),
    )
    session.write(rows, columns)
    if not all(row["allowed"] for row in rows):
        raise typer.Exit(exit_codes.FAILED)


@session_flags
def list_roles(*, session: Session) -> None:
    """List the built-in and the custom roles.

    \b
      goqueue-admin role list
      goqueue-admin role list -o wide
    """
    with doing("list roles"), session.client() as client:
        rows = [struct_to_row(one) for one in client.roles()]
    session.write(rows, _ROLES)


@session_flags
def create_role(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the role.")],
    rule: Annotated[
        list[str],
        typer.Option(
            "--rule", metavar="RULE", help="ACTION,... KIND:PATTERN, with ! before it to deny; may be repeated."
        ),
    ],
    summary: Annotated[str, typer.Option("--summary", metavar="TEXT", help="What the role is for.")] = "",
    *,
    session: Session,
) -> None:
    """Create a role from rules.

    \b
      goqueue-admin role create orders-team --rule 'read,write topic:orders.*'
      goqueue-admin role create scraper --rule 'describe cluster'
      goqueue-admin role create clerk --rule 'read topic:*' --rule '!read topic:x'

    A role that is in use cannot be changed: create another one and give it to new keys.
    """
    reject_empty_names(name, noun="role")
    rules = [_parse_rule(text) for text in rule]
    with doing(f"create role {name}"), session.client() as client:
        made = client.create_role(name, rules, summary)
    session.write([struct_to_row(made)], _ROLES)


def _parse_rule(text: str) -> dict[str, Any]:
    """Parse `read,write topic:orders.*`; a `!` before it makes it a rule that denies."""
    actions, _, resource = text.strip().removeprefix("!").strip().partition(" ")
    kind, _, pattern = resource.strip().partition(":")
    kind = kind.replace("-", "_")
    if kind not in (*_KIND_FLAGS, "cluster") or (kind != "cluster" and not pattern):
        raise UsageInvalid(
            f"{text!r} is not a rule", hint="write it as in 'read,write topic:orders.*' or 'read cluster'"
        )
    name, match = _pattern(pattern) if kind != "cluster" else ("cluster", "literal")
    effect = "deny" if text.strip().startswith("!") else "allow"
    return {"kind": kind, "pattern": name, "match": match, "actions": actions.split(","), "effect": effect}


@session_flags
def delete_role(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a custom role.")],
    *,
    consent: Consent,
    session: Session,
) -> None:
    """Delete a role that no key and no rule has.

    \b
      goqueue-admin role delete orders-team
    """
    reject_empty_names(name, noun="role")
    if consent.dry_run:
        terminal.say(f"that would delete role {name}")
        return
    require_confirmation(session, f"delete role {name}", name=name, consent=consent)
    with doing(f"delete role {name}"), session.client() as client:
        done = client.delete_role(name)
    session.write([done], (Column("NAME", "name"), Column("DELETED", "deleted")))
