"""What search and list print at 60, 80 and 120 columns, character by character.

    GOLDEN=write python -m pytest tests/surfaces/test_golden_output.py

writes the files in `golden/` anew. Ids depend on where the tests run, so they are masked, at their width.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from tests.surfaces.conftest import Shell, write

from lorelog.surfaces.text import cell_width

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (60, 80, 120)
SCENES = {
    "search": ("search", "otter river census", "-k", 7, "--include-superseded"),
    "explain": ("search", "otter river census", "-k", 1, "--explain"),
    "list": ("list", "-n", 8, "--include-superseded"),
    "documents": ("list", "--documents", "-n", 3),
    "nothing_listed": ("list", "--tag", "censsus"),
    "nothing": ("search", "zeppelin", "--type", "decison"),
}
ID = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8}(?:[0-9a-f]{8})?\b")
JOURNAL = """# 2026-03-05

### 14:30
<!-- memory:m-old type:decision tags:census,river,wildlife,method,accepted origin:user -->
The otter census of the river is done on foot, once a year, by two people who walk both banks from the mill to the
weir and note every holt, slide and print that they find on the way.

### 15:10
<!-- memory:m-new type:decision tags:census supersedes:m-old origin:user -->
The otter census of the river is done by camera.

### 15:20
<!-- memory:m-tool type:fact origin:tool -->
Output of a tool: otter 7, census 2026, river Orb.
"""
FILES = {
    ".lorelog/memory/2026-03-05.md": JOURNAL,
    "notes/otters.md": "# Otters\n\n## What we know\n\nThe otter swims in the river; a census counts it.\n",
    "notes/水獺.md": "# 水獺\n\n河流普查：水獺（otter）在河裡游泳，每年春天由兩個人沿著兩岸步行普查一次，記錄所有的洞穴、滑道和足跡。\n",
    "notes/fieldwork/season-of-2026/upper-river-and-its-tributaries/otter-census-of-the-upper-river.md": "---\ndate: 2026-04-02\n"
    "tags: [census]\n---\n# Upper river\n\nSee https://example.org/reports/2026/otter-census-of-the-upper-river-and-its-tributaries.html\n",
    "notes/filler.md": "".join(f"## Day {n}\n\nNothing was seen on day {n}.\n\n" for n in range(60)),
}


@pytest.fixture
def census(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with notes about otters: superseded, undated, wide, from elsewhere, and with a long path."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    for name, text in FILES.items():
        write(project / name, text)
        os.utime(project / name, (1_772_000_000, 1_772_000_000))
    assert shell("index").status == 0
    assert shell("index", "notes").status == 0
    return project


def test_output_at_three_widths(shell: Shell, census: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search and list print exactly what the golden files show, at 60, 80 and 120 columns."""
    for scene, words in SCENES.items():
        shown = ""
        for width in WIDTHS:
            monkeypatch.setenv("COLUMNS", str(width))
            done = shell(*words)
            assert done.status == 0
            text = ID.sub(lambda found: "1d" * (len(found[0]) // 2), done.out + done.err)
            shown += f"{f' {width} columns ':=^{width}}\n{text}\n"
            # Only a path or an address may be wider.
            wide = [line for line in text.split("\n") if cell_width(line) > width and " " in line.strip(" 123456789.")]
            assert wide == []
        golden = GOLDEN / f"{scene}.txt"
        if os.environ.get("GOLDEN") == "write":
            golden.write_text(shown, "utf-8")
        assert shown == golden.read_text("utf-8"), f"{scene}: GOLDEN=write writes it anew"
