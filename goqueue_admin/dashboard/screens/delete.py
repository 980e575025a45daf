"""Forgetting groups that nobody is in."""

from collections.abc import Mapping, Sequence

from textual.content import Content

from goqueue.errors import GoQueueError
from goqueue.quantities import format_count
from goqueue_admin.dashboard import commands
from goqueue_admin.dashboard.questions import question
from goqueue_admin.dashboard.screens.action import ActionScreen, Plan, more

_LINES = 8


class DeleteScreen(ActionScreen):
    """It asks at once: there is nothing to fill in."""

    def __init__(self, groups: Sequence[str]) -> None:
        super().__init__("Delete a group" if len(groups) == 1 else "Delete groups", " ".join(groups))
        self._groups = groups

    async def plan(self, values: Mapping[str, str]) -> Plan:
        del values
        lines, empty = [], 0
        for name in self._groups:
            group = await self.dashboard.service.do(question("group", name))
            members = len(group["members"])
            empty += not members
            about = f"has {format_count(members, 'member')}: stop them first" if members else _left(group)
            lines.append(Content.assemble(name, (f"  {about}", "$warning" if members else "$foreground 62%")))
        if not empty:
            return Plan(list(more(lines, _LINES, "groups")))
        lines.append(Content("Whoever joins a group of such a name later begins anew."))
        what = f"delete {self._groups[0]}" if len(self._groups) == 1 else f"delete {format_count(empty, 'group')}"
        return Plan(list(more(lines, _LINES, "groups")), f"{what} and forget what was read")

    async def carry_out(self, values: Mapping[str, str]) -> Sequence[Content]:
        """One that is refused does not keep the others from going."""
        del values
        lines = []
        for name in self._groups:
            if self.is_stopped:
                break
            try:
                await self.dashboard.service.do(question("delete_group", name))
            except GoQueueError as error:
                lines.append(Content.styled(f"{name}: {error.sentence}", "$error"))
            else:
                lines.append(Content.styled(f"{name} is deleted", "$success"))
        return list(more(lines, _LINES, "groups"))

    def command(self, values: Mapping[str, str]) -> str:
        del values
        server = self.dashboard.service.address
        return commands.line("goqueue-cli", "group", "delete", *self._groups, "--dry-run", server=server)


def _left(group: Mapping[str, object]) -> str:
    return f"is empty, with {format_count(int(str(group['total_lag'])), 'message')} not done"
