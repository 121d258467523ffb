"""The transcript of the README, typed again."""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks, lorelog_words, read
from tests.surfaces.conftest import Outcome, Shell

PLACE = re.compile(r"(\S+\.md:\d+-\d+)(?=\s|$)")
IDENTITY = re.compile(r"(\S+\.md:\d+-\d+)  .*?([0-9a-f]{8})[0-9a-f]*$", re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """Return each command of the transcript with what it printed; `add` was typed on a day of its own."""
    (block,) = (block for block in blocks(read("README.md"), "console") if "lorelog index memory" in block)
    typed = (part.partition("\n")[::2] for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:])
    today = date.today().isoformat()  # noqa: DTZ011  (a journal has its writer's day)
    return [(line, re.sub(r"(?<=\.lorelog/memory/)[\d-]+", today, out)) for line, out in typed]


def words_of(line: str, shown: dict[str, str], real: dict[str, str]) -> list[str]:
    """Return a command's words, ids of the transcript replaced by those that the same places have here."""
    (words,) = lorelog_words(line)
    if words[0] == "expand":
        place = next(place for place, identity in shown.items() if identity.startswith(words[1]))
        words[1] = real[place]
    return words


def identities(text: str) -> dict[str, str]:
    """Return the ids that hits are shown with, by place."""
    return dict(IDENTITY.findall(text))


@pytest.mark.slow
def test_the_transcript_is_true(shell: Shell, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the README, with the built-in model, find the places and print the sections that it shows."""
    monkeypatch.delenv("LORELOG_EMBEDDING_PROVIDER")
    shutil.copytree(ROOT / "examples" / "fortnight" / "memory", project / "memory")
    (first, _), *typed = steps()
    assert first.startswith("cp -r examples/fortnight ")
    shown: dict[str, str] = {}
    real: dict[str, str] = {}
    verbs = []
    for line, out in typed:
        words = words_of(line, shown, real)
        done: Outcome = shell(*words)
        verbs.append(words[0])
        shown |= identities(out)
        real |= identities(done.out)

        assert (done.status, done.err) == (0, ""), line
        assert PLACE.findall(done.out) == PLACE.findall(out), line
        if words[0] == "expand":
            assert done.out.strip() == out.strip()
        if words[0] == "index":
            assert done.out.rpartition(",")[0] == out.strip().rpartition(",")[0]

    assert verbs == ["index", "search", "expand", "add", "search"]
