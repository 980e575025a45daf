"""The dark and the light theme."""

from textual.theme import BUILTIN_THEMES, Theme

DARK = Theme(
    name="goqueue-dark",
    primary="#6cb6dd",
    secondary="#9aa7e0",
    accent="#e0a872",
    success="#83c29f",
    warning="#e2bd74",
    error="#e2717c",
    foreground="#d3dae4",
    background="#11151b",
    surface="#161b23",
    panel="#1d242e",
    dark=True,
    variables={
        "border": "#2c3643",
        "footer-background": "#161b23",
        "footer-key-foreground": "#6cb6dd",
        "footer-description-foreground": "#93a0b0",
        "scrollbar": "#2c3643",
        "scrollbar-background": "#11151b",
        "scrollbar-corner-color": "#11151b",
        "input-selection-background": "#6cb6dd 30%",
    },
)
LIGHT = Theme(
    name="goqueue-light",
    primary="#1c6a97",
    secondary="#5760ad",
    accent="#a85c14",
    success="#2b7a4f",
    warning="#8f6200",
    error="#b02f3d",
    foreground="#22272e",
    background="#f8f7f3",
    surface="#f1f0ea",
    panel="#e7e5dd",
    dark=False,
    variables={
        "border": "#cfccc0",
        "footer-background": "#f1f0ea",
        "footer-key-foreground": "#1c6a97",
        "footer-description-foreground": "#5d6672",
        "scrollbar": "#cfccc0",
        "scrollbar-background": "#f8f7f3",
        "scrollbar-corner-color": "#f8f7f3",
        "input-selection-background": "#1c6a97 25%",
    },
)
THEMES = (DARK, LIGHT)


def theme_names() -> list[str]:
    """Return the names of all themes, GoQueue's first."""
    return [*(theme.name for theme in THEMES), *sorted(BUILTIN_THEMES)]
