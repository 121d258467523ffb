"""docs/json.md describes what `lorelog code index` and `lorelog code status` print, field by field and in both directions."""

from __future__ import annotations

import json
from pathlib import Path

from tests.docs.pages import blocks, read, rows, sections, spans
from tests.docs.test_json_page import fields
from tests.surfaces.conftest import Shell, write

PAGE = sections(read("docs/json.md"))
NAMED = ("languages.", "left_out.", "trees[].languages.")
"""Objects whose keys are names of things, not fields."""


def told(value: object) -> set[str]:
    return {name for name in fields(value) if not name.startswith(NAMED)}


def documented(section: str) -> set[str]:
    return {spans(row[0])[0] for row in rows(PAGE[section]) if row[0].startswith("`")}


def test_code_index_and_status_are_documented(shell: Shell, project: Path) -> None:
    """Every field of both is documented, and no other; what is shown has the same ones."""
    write(project / "a.py", "def alpha(): pass\n")
    write(project / "min.js", "x=1;" * 5_000)
    (project / "bad\udcff.py").write_text("def beta(): pass\n")
    report = shell("code", "index", "--json")
    status = shell("code", "status", "--json").json
    forgotten = shell("code", "index", "--forget", "--json").json

    assert report.status == 1
    assert told(report.json) == documented("code index")
    assert told(status) == documented("code status")
    assert set(forgotten) == {"root", "files"}
    for section, real in (("code index", report.json), ("code status", status)):
        shown = json.loads(blocks(PAGE[section], "json")[0])
        assert told(shown) <= told(real)
