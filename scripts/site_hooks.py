"""Hooks of mkdocs: pages of the repository outside docs/ become pages of the website, links follow them, and the start has a hero.

In the repository, links are relative to the file that has them. On the website, a link to one of PAGES leads to its page there,
and a link to any other file outside docs/ is shown as its text.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "bench/README.md": "project/bench.md",
}
"""Pages outside docs/, and their place on the website."""

_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>[^)#\s]*)(?P<fragment>#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside docs/."""
    structure = importlib.import_module("mkdocs.structure.files")  # not installed where types are checked
    for source, target in PAGES.items():
        files.append(structure.File.generated(config, target, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Return a page with the links of the website."""
    place = page.file.src_uri
    source = next((path for path, target in PAGES.items() if target == place), f"docs/{place}")
    parts = _FENCE.split(markdown)
    return "".join(
        part if index % 2 else _LINK.sub(lambda link: site_link(link, source, place), part)
        for index, part in enumerate(parts)
    )


def on_page_content(html: str, page: Any, **_: object) -> str:
    """Return the start page with what stands above its first heading as the hero: see docs/assets/site.css."""
    if page.file.src_uri != "index.md":
        return html
    hero, heading, rest = html.partition("<h2")
    return f'<section class="hero">{hero}</section>{heading}{rest}'


def site_link(link: re.Match[str], source: str, place: str) -> str:
    """Return a link of the file `source` as a link of the page at `place`."""
    if not link["path"] or "://" in link["path"]:
        return link[0]
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["path"]))
    target = PAGES.get(wanted) or (wanted.removeprefix("docs/") if wanted.startswith("docs/") else "")
    if not target:
        return link["text"]
    if posixpath.splitext(target)[1] == "":  # a folder: its start page
        target = posixpath.join(target, "README.md")
    relative = posixpath.relpath(target, posixpath.dirname(place) or ".")
    return f"[{link['text']}]({relative}{link['fragment'] or ''})"
