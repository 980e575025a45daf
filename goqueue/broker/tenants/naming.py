"""Names of tenants: `{tenant}.{name}` on the broker, `{name}` in the tenant's own world."""

import re

from goqueue.broker.tenants.limits import TENANT_ID_CHARACTERS_MAX
from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted

SEPARATOR = "."
_ID = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{TENANT_ID_CHARACTERS_MAX - 1}}}")
_ID_HINT = f"1 to {TENANT_ID_CHARACTERS_MAX} of a-z 0-9 _ -, the first of a-z 0-9"


def check_tenant_id(text: str) -> None:
    """Refuse an id that no tenant can have. It has no dot, so a full name belongs to one tenant at most."""
    if not _ID.fullmatch(text):
        raise RequestInvalid(f"{quoted(text[:200])} is not a valid id of a tenant", hint=_ID_HINT, problems=[])


def id_from_name(name: str) -> str:
    """Make the id of a tenant from its name, as in `team-a` from `Team A`."""
    found = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:TENANT_ID_CHARACTERS_MAX].strip("-_")
    if not found:
        raise RequestInvalid(f"no id can be made from the name {quoted(name)}", hint="send an id as well", problems=[])
    return found


def prefix_of(tenant: str) -> str:
    return tenant + SEPARATOR


def tenant_of(name: str) -> str:
    """Return the id of the tenant that a full name would belong to; empty for a name of the broker itself."""
    head, dot, _ = name.partition(SEPARATOR)
    return head if dot else ""


class TenantNames:
    """The names of one tenant: full ones as the broker knows them, short ones as the tenant does."""

    __slots__ = ("prefix", "tenant")

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.prefix = prefix_of(tenant)

    def full(self, name: str) -> str:
        return self.prefix + name

    def short(self, name: str) -> str:
        """Return the tenant's own name of something; a name of something else stays as it is."""
        return name.removeprefix(self.prefix)

    def owns(self, name: str) -> bool:
        return name.startswith(self.prefix)
