"""Keywords as people type them into a search box, with the built-in model and the sample memory."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from lorelog.core.options import SearchOptions
from lorelog.engine import Engine
from lorelog.language.analyser import WordAnalyser
from lorelog.services.places.root_selection import IndexTargets
from lorelog.services.places.workspace import Project
from lorelog.wiring import Location, open_engine

FORTNIGHT = Path(__file__).parents[3] / "examples" / "fortnight"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("keywords")
    shutil.copytree(FORTNIGHT, folder / "notes")
    here = str(folder / "notes")
    opened = open_engine(Location(folder / "home", Project(id=here, root=here, name="notes", git=False), {}))
    opened.maintenance().index(IndexTargets((here,)))
    return opened


def test_a_word_that_one_note_has_finds_that_note(engine: Engine) -> None:
    """Whoever types a rare word gets the note that has it first, whatever the vectors say of the others."""
    analyser = WordAnalyser()
    files = "\n".join(path.read_text("utf-8") for path in sorted((FORTNIGHT / "memory").glob("*.md"))).lower()
    texts = re.sub(r"<!--.*?-->", "", files, flags=re.DOTALL)  # tags are found by filters, not by words
    stems = Counter(analyser.words(texts))
    plain = re.findall(r"(?<![\w/.`-])[a-z]{7,}(?![\w/`-])", texts)
    words = sorted({word for word in plain if [stems[stem] for stem in analyser.words(word)] == [1]})
    missed = [word for word in words if word not in _first(engine, word)]

    assert len(words) > 40
    assert len(missed) < len(words) / 20, missed  # a third, before keywords were told from questions


def _first(engine: Engine, query: str) -> str:
    hits = engine.search(query, SearchOptions(k=1)).hits
    return hits[0].content.lower() if hits else ""
