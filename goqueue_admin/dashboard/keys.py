"""Every key, one row each: its id is what a keymap would change, its words are what help shows."""

from textual.binding import Binding, BindingType


def _key(key: str, action: str, words: str, id: str, *, show: bool = False, display: str | None = None) -> Binding:  # noqa: A002
    return Binding(key, action, words, show=show, key_display=display, id=id)


EVERYWHERE: list[BindingType] = [
    _key("colon", "prompt_go", "Go", "go", show=True, display=":"),
    _key("question_mark,f1", "help", "Help", "help", show=True, display="?"),
    _key("escape", "up", "Up", "up", show=True, display="esc"),
    _key("left_square_bracket", "history(-1)", "Back", "back", display="["),
    _key("right_square_bracket", "history(1)", "Forward", "forward", display="]"),
    _key("r", "look", "Refresh", "refresh"),
    _key("p", "pause", "Pause", "pause"),
    _key("c", "copy", "Copy", "copy"),
    _key("y", "copy_command", "Copy as command", "command"),
    _key("q", "quit", "Quit", "quit", show=True),
]
MOVING = [
    _key("up,k", "move(-1)", "Line up", "table.up"),
    _key("down,j", "move(1)", "Line down", "table.down"),
    _key("pageup", "leaf(-1)", "Page up", "table.pageup"),
    _key("pagedown", "leaf(1)", "Page down", "table.pagedown"),
    _key("home,g", "first", "First line", "table.first"),
]
TABLE: list[BindingType] = [
    _key("enter", "choose", "Open", "table.open", show=True, display="⏎"),
    _key("slash", "screen.prompt_filter", "Filter", "table.filter", show=True, display="/"),
    _key("s", "sort", "Sort", "table.sort", show=True),
    _key("S", "turn", "Sort the other way", "table.turn"),
    _key("space", "mark", "Mark", "table.mark", show=True, display="␣"),
    *MOVING,
    _key("end,G", "last", "Last line", "table.last"),
]
TAIL: list[BindingType] = [
    _key("enter", "choose", "Open", "tail.open", show=True, display="⏎"),
    _key("slash", "screen.prompt_filter", "Filter", "tail.filter", show=True, display="/"),
    _key("t", "screen.prompt_time", "Time", "tail.time", show=True),
    _key("space,p", "screen.pause", "Pause", "tail.pause", show=True, display="␣"),
    _key("n", "screen.partition", "Partition", "tail.partition", show=True),
    _key("l", "screen.live", "Live", "tail.live", show=True),
    *MOVING,
    _key("end,G", "last", "Newest", "tail.last"),
]
