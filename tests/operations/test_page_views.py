"""Operations that were made for the page's views: growth, hosts, the wiki."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorelog.core.errors import NotFound
from lorelog.operations.dispatch import ClientIdentity, Dispatcher


@pytest.fixture
def person(tmp_path: Path, home: Path) -> ClientIdentity:
    """A person in an empty project, whose hosts are below a directory of the test."""
    (tmp_path / "p").mkdir()
    environment = {"LORELOG_EMBEDDING_PROVIDER": "fake", "HOME": str(tmp_path), "PATH": ""}
    return ClientIdentity(str(tmp_path / "p"), environment, str(home))


def call(person: ClientIdentity, op: str, **arguments: Any) -> dict[str, Any]:
    return Dispatcher().call(op, arguments, person)


def test_growth_counts_documents_by_their_day(person: ClientIdentity) -> None:
    """Chunks and bytes are counted on the day of their journal, and older ones on the first day."""
    texts = {
        "2020-01-02.md": "# Old\n\none\n",
        "2024-05-01.md": "# A\n\ntwo\n",
        "2024-05-03.md": "# B\n\nthree\n\n# C\n\nfour\n",
    }
    for name, text in texts.items():
        Path(person.directory, name).write_text(text, "utf-8")
    call(person, "memory.index", paths=["."])
    days = {line["day"]: line for line in call(person, "memory.stats", growth_since="2024-01-01")["growth"]}
    assert list(days) == ["2024-01-01", "2024-05-01", "2024-05-03"]
    assert days["2024-05-03"]["bytes"] == len(texts["2024-05-03.md"])
    assert days["2024-05-03"]["chunks"] >= days["2024-05-01"]["chunks"] == 1
    assert sum(line["chunks"] for line in days.values()) == call(person, "memory.stats")["chunks"]


def test_hosts_are_found_where_the_caller_is_at_home(person: ClientIdentity, tmp_path: Path) -> None:
    """A host with a folder in the caller's home is found and not installed; the others are not found."""
    (tmp_path / ".claude").mkdir()
    hosts = {host["host"]: host for host in call(person, "session.hosts")["hosts"]}
    assert (hosts["claude"]["found"], hosts["claude"]["installed"]) == (True, "missing")
    assert not hosts["codex"]["found"]


def test_a_page_of_the_wiki_is_read_without_files(person: ClientIdentity) -> None:
    """The index lists the pages, a page has its text without the mark, and nothing is written."""
    assert call(person, "artifact.read_wiki")["pages"] == []
    call(person, "artifact.decision", summary="Otters are counted at dawn, not at [noon]", writer="mara")
    index = call(person, "artifact.read_wiki")
    assert "decisions.md" in [page["page"] for page in index["pages"]]
    page = call(person, "artifact.read_wiki", page="decisions.md")
    assert page["text"].startswith("# Decisions")
    assert "Otters are counted at dawn" in page["text"]
    assert not Path(person.directory, ".lorelog", "wiki").exists()
    with pytest.raises(NotFound, match="no page"):
        call(person, "artifact.read_wiki", page="../../etc/passwd")
