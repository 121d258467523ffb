"""`lorelog doctor --store` and `lorelog store`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.docs.pages import read
from tests.surfaces.conftest import Shell, write


@pytest.mark.slow
def test_the_doctor_compares_and_mends_the_store(shell: Shell, project: Path, home: Path) -> None:
    """Missing rows in Milvus are reported with status 1 and repaired with --repair, without embedding."""
    write(project / "a.md", "# A\n\nan otter\n\n# B\n\na beaver\n")
    assert shell("config", "set", "store.uri", "lite.db").status == 0
    shell("index", ".")
    assert "all of them" in shell("doctor", "--store").out
    shutil.rmtree(home / "lite.db")

    told = shell("doctor", "--store", "--json")
    mended = shell("doctor", "--store", "--repair")

    assert told.status == 1
    assert "missing" in told.json["checks"][0]["message"]
    assert told.json["checks"][0]["hint"] == "lorelog doctor --store --repair"
    assert mended.status == 0
    assert "repaired" in mended.out
    assert shell("doctor", "--store").status == 0
    assert len(shell("search", "otter", "--json").json["hits"]) >= 1


def test_the_doctor_looks_at_the_embedded_store_too(shell: Shell, project: Path) -> None:
    """Without Milvus the local search index is checked; --repair alone is rejected."""
    write(project / "a.md", "# A\n\nan otter\n")
    shell("index", ".")

    assert "beside the catalog" in shell("doctor", "--store").out
    assert shell("doctor", "--store", "--repair").status == 0
    assert shell("search", "otter", "--json").json["hits"]
    assert shell("doctor", "--repair").status == 2


@pytest.mark.slow
def test_a_store_is_moved_by_its_setting(shell: Shell, project: Path) -> None:
    """With another store.uri the index goes there, and back, without embedding anything."""
    write(project / "a.md", "# A\n\nan otter\n\n# B\n\na beaver\n")
    shell("index", ".")
    for uri in ("lite.db", ""):
        shell("config", "set", "store.uri", uri)
        assert shell("index", ".", "--json").json["embedded"] == 0
        assert shell("search", "otter", "--json").json["hits"]


@pytest.mark.slow
def test_a_store_that_is_not_used_any_more_is_left(shell: Shell, project: Path, home: Path) -> None:
    """Leaving deletes this index's rows there and nothing here; the place in use, or no place, cannot be left."""
    write(project / "a.md", "# A\n\nan otter\n")
    shell("config", "set", "store.uri", "old.db")
    shell("config", "set", "store.shared", "true")
    shell("index", ".")
    assert len(list((home / "old.db" / "collections").glob("*"))) == 2  # the project's, and what is told to others
    refused = shell("store", "leave", "--at", "old.db")
    assert refused.status == 2
    assert "is in use" in refused.err
    shell("config", "set", "store.uri", "")

    assert shell("store", "leave", "--at", "old.db", "--json").json == {"left": str(home / "old.db")}

    assert not list((home / "old.db" / "collections").glob("*"))
    assert shell("search", "otter", "--json").json["hits"]
    for nowhere in ("embedded", ""):
        assert shell("store", "leave", "--at", nowhere).status != 0
    assert "`left`" in read("docs/json.md")


def test_a_place_that_cannot_be_is_refused(shell: Shell, project: Path) -> None:
    """An address with a password, or no address at all, is refused before anything is done, and not repeated."""
    for uri in ("http://me:secret@host:19530", "nowhere", "ftp://host/x.db"):
        refused = shell("store", "leave", "--at", uri)
        assert refused.status != 0
        assert "secret" not in refused.err


@pytest.mark.slow
def test_a_milvus_that_is_down_is_one_line(shell: Shell, project: Path) -> None:
    """If Milvus does not respond, index and search name it with a hint, without a traceback."""
    write(project / "a.md", "# A\n\nan otter\n")
    shell("index", ".")
    shell("config", "set", "store.uri", "http://127.0.0.1:9")

    for words in (("search", "otter"), ("doctor", "--store", "--repair")):
        said = shell(*words)
        assert said.status != 0
        assert "http://127.0.0.1:9 cannot be reached" in said.err + said.out
        assert "Traceback" not in said.err
    assert shell("list", "--json").status == 0
