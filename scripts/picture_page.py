"""Take the pictures of docs/page.md: the page over the world of the demo, in the browser of the page's tests.

python scripts/picture_page.py [FOLDER]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.page.browser import Browser, find_chromium  # noqa: E402
from tests.page.conftest import PageWorld, start_world  # noqa: E402

PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "page-home": ("", {}),
    "page-palette": ("#/memory/{migrations}", {}),
    "page-search": ("#/search?q=why%20is%20the%20shipment%20cache%20stale%3F", {}),
    "page-search-dark": ("#/search?q=Redis%20out%20of%20memory", {"dark": True}),
    "page-memory": ("#/memory/{ttl now}", {}),
    "page-timeline": ("#/timeline", {}),
    "page-told": ("#/told", {}),
    "page-guards": ("#/told/guards", {}),
    "page-inbox": ("#/told/inbox", {}),
    "page-records": ("#/records", {}),
    "page-health": ("#/health", {"height": 880}),
    "page-settings": ("#/settings?edit=session.hold_calls", {}),
    "page-small": ("#/search", {"width": 390, "height": 780}),
}
"""Name of each picture, with the view and the browser it shows. `{name}` is the id of a memory of the demo."""
READY = "!document.body.innerText.includes('Loading') && document.querySelector('main h1') && document.querySelector('.card .block, .home-part .use, .row, .tl-entries, .told-table, .replay-hit, .inbox-item .markdown p, .record, .tile, .setting')"


def take(world: PageWorld, browser: Browser, folder: Path) -> None:
    """Take all pictures."""
    world.browser = browser
    for name, (fragment, emulated) in PICTURES.items():
        for memory, identity in world.ids.items():
            fragment = fragment.replace(f"{{{memory}}}", identity)  # noqa: PLW2901
        tab = world.open(fragment, **emulated)
        tab.wait(READY)
        time.sleep(0.5)  # what is loaded after the text
        if name == "page-palette":
            tab.press("k", control=True)
            tab.wait("document.querySelector('dialog.palette[open]')")
        tab.picture(folder / f"{name}.png")
        print(folder / f"{name}.png")


def main(folder: Path) -> int:
    """Fill a temporary home, serve it and take the pictures."""
    program = find_chromium()
    if program is None:
        print("no Chromium is installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="lorelog-pictures-") as place:
        os.environ.update(LORELOG_HOME=f"{place}/home", LORELOG_DAEMON_WARM="off")
        project = Path(place) / "harbor"
        project.mkdir()
        for world in start_world(project, Path(place) / "home"):
            with Browser(program) as browser:
                take(world, browser, folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "assets"))
