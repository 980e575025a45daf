"""The world of a tenant: its own names for what has full names on the broker."""

import re
from copy import copy
from typing import Any

from goqueue.api.tenant_names import PARAMETERS, NameKind
from goqueue.broker.core.delivery_settings import NO_DEAD_LETTERS
from goqueue.broker.core.names import check_new_name, is_internal
from goqueue.broker.core.topic import check_topic_name
from goqueue.broker.groups.membership import check_group_name
from goqueue.broker.schemas.queries import ANY_SUBJECT
from goqueue.broker.schemas.registry import check_subject
from goqueue.broker.tenants.naming import TenantNames
from goqueue.errors import GoQueueError, TopicNameInvalid

_NAMES_KEPT_MAX = 1_000  # of each tenant


class TenantWorld:
    """The names of a tenant, translated between its world and the broker."""

    def __init__(self, tenant: str, *, is_active: bool = True) -> None:
        self.names = TenantNames(tenant)
        self.is_active = is_active
        """False also for a world that is not current any more: then the status itself decides."""
        self._in_paths: dict[tuple[str, str], str] = {}
        prefix = re.escape(self.names.prefix)
        self._in_text = re.compile(rf"(?<![A-Za-z0-9._-]){prefix}(?=\S)")

    def full(self, kind: NameKind, name: str) -> str:
        """Return the name on the broker of what a tenant names. Raises the error for an invalid name."""
        if kind == "text" or (kind == "target" and name == NO_DEAD_LETTERS):
            return name
        if kind == "new_topic":
            check_new_name(name, "topic", TopicNameInvalid)
        elif kind in ("topic", "target"):
            check_topic_name(name)
        elif kind == "group":
            check_group_name(name)
        elif kind == "subject":
            check_subject(name)
        elif kind == "prefix":
            name = name.removeprefix(ANY_SUBJECT)
        if kind in ("topic", "target", "group") and is_internal(name):
            return name  # which is in no world
        return self.names.full(name)

    def full_in_path(self, parameter: str, name: str) -> str:
        """Return the full name of a parameter of a path. Those that come often are kept."""
        known = self._in_paths.get((parameter, name))
        if known is None:
            known = self.full(PARAMETERS[parameter], name)
            if len(self._in_paths) >= _NAMES_KEPT_MAX:
                self._in_paths.clear()
            self._in_paths[parameter, name] = known
        return known

    def short(self, kind: NameKind, name: str) -> str:
        """Return the tenant's own name of what the broker names, also in a sentence."""
        return self._in_text.sub("", name) if kind == "text" else self.names.short(name)

    def shown(self, error: GoQueueError) -> GoQueueError:
        """Return an error with the tenant's own names. Others may be raised the same error, so it is a copy."""
        found = copy(error)
        found.sentence = self.short("text", error.sentence)
        found.hint = None if error.hint is None else self.short("text", error.hint)
        found.details = self._shown_detail(error.details)
        return found

    def _shown_detail(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.short("text", value)
        if isinstance(value, list | tuple):
            return [self._shown_detail(one) for one in value]
        if isinstance(value, dict):
            return {name: self._shown_detail(one) for name, one in value.items()}
        return value
