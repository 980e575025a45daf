"""A screen of the dashboard as an SVG: for the documentation, and for tests that compare."""

import re
from collections.abc import Callable, Iterable

from textual.pilot import Pilot

from goqueue_admin.dashboard.app import Dashboard

TURNS_MAX = 500


async def picture(
    app: Dashboard,
    size: tuple[int, int],
    keys: Iterable[str] = (),
    ready: Callable[[Dashboard], bool] = lambda _: True,
) -> str:
    """What `app` shows at a size (columns, lines) after some keys, as soon as it is `ready`."""
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
        for _ in range(TURNS_MAX):
            if ready(app):
                break
            await pilot.pause(0.02)
        await settle(pilot)
        return without_fonts(app.export_screenshot(title="GoQueue", simplify=True))


async def settle(pilot: "Pilot[None]") -> None:
    """Until everything that is known is drawn."""
    for _ in range(3):
        await pilot.pause()
    await pilot.wait_for_scheduled_animations()


def without_fonts(svg: str) -> str:
    """With the fonts of whoever looks, instead of some that would be fetched."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
