"""A screen of the dashboard as an SVG: for the documentation, and for tests that compare."""

import re

from textual.pilot import Pilot


async def settle(pilot: "Pilot[None]") -> None:
    """Until everything that is known is drawn."""
    for _ in range(3):
        await pilot.pause()
    await pilot.wait_for_scheduled_animations()


def without_fonts(svg: str) -> str:
    """Remove the font rules, so that viewers use their own fonts."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
