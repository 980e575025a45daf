"""How a group may be called."""

from goqueue.broker.name import check_name, check_new_name
from goqueue.errors import GroupNameInvalid


def check_group_name(name: str) -> None:
    check_name(name, "group", GroupNameInvalid)


def check_new_group_name(name: str) -> None:
    check_new_name(name, "group", GroupNameInvalid)
