"""A screen with keys that change something: where nothing may be changed, it has none of them."""

from textual.screen import Screen


class Changing(Screen[None]):
    """Those keys have the action `change`."""

    def changed(self) -> None:
        """Something was changed from here: what was known of it may not be so any more."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False takes a key away, and its line at the foot and in the help with it."""
        if action == "change" and getattr(self.app, "read_only", False):
            return False
        return super().check_action(action, parameters)
