"""What a screen may expect of the application that it is in."""

from abc import abstractmethod

from textual.app import App
from textual.dom import DOMNode
from textual.screen import Screen

from goqueue_admin.dashboard.pages import Place
from goqueue_admin.dashboard.service import Service


class Host(App[None]):
    """The dashboard, as its screens see it."""

    service: Service
    context: str
    protected: bool
    read_only: bool
    is_paused: bool

    @abstractmethod
    def go(self, place: Place) -> None:
        """Show another screen."""

    @abstractmethod
    def go_to(self, text: str) -> None:
        """Show what was typed."""

    @abstractmethod
    def look(self, *, fresh: bool = False) -> None:
        """Ask what the screen wants to know; `fresh` at once, whatever is under way."""

    @abstractmethod
    async def copy(self, text: str) -> None:
        """Copy, and say what and which way."""

    @abstractmethod
    def recall(self, page: Screen[None]) -> None:
        """Make a screen look as it did when it was left."""


def host_of(node: DOMNode) -> Host:
    """The dashboard that a screen or a window is in."""
    assert isinstance(node.app, Host)
    return node.app
