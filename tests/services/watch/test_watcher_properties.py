"""The strongest promise of watching: after any sequence of changes, the index is as if it had been made of what is there."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.watch.watching import Watch, engine_in, eventually, tree

from lorelog.services.places.root_selection import IndexTargets

NAMES = ("a.md", "b.md", "c.markdown", "x.txt", ".h.md", "a.md~")
FOLDERS = ("", "one", "two", "one/deep", ".hidden")

Step = tuple[str, str, str, str]

steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "append", "atomic", "move", "delete", "move directory", "delete directory"]),
        st.sampled_from([f"{folder}/{name}".lstrip("/") for folder in FOLDERS for name in NAMES]),
        st.sampled_from([f"{folder}/{name}".lstrip("/") for folder in FOLDERS for name in NAMES]),
        st.sampled_from(["otter", "beaver", "heron and otter"]),
    ),
    min_size=1,
    max_size=12,
)


def carry_out(top: Path, step: Step) -> None:
    """Do one thing to the tree; what cannot be done is left."""
    what, at, to, text = step
    path, other = top / at, top / to
    if what in {"write", "append", "atomic"} and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_name("saving.tmp") if what == "atomic" else path
        with written.open("a" if what == "append" else "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
        written.rename(path)
    elif what == "move" and path.is_file():
        other.parent.mkdir(parents=True, exist_ok=True)
        path.rename(other)
    elif what == "delete" and path.is_file():
        path.unlink()
    elif what == "move directory" and path.parent.is_dir() and path.parent != top:
        away = other.parent if other.parent != top else top / "moved"
        if not away.exists() and path.parent not in away.parents:
            away.parent.mkdir(parents=True, exist_ok=True)
            path.parent.rename(away)
    elif what == "delete directory" and path.parent.is_dir() and path.parent != top:
        shutil.rmtree(path.parent)


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, steps)
def test_the_index_equals_a_new_index(
    home: Path, monkeypatch: pytest.MonkeyPatch, first: list[Step], second: list[Step]
) -> None:
    """Whatever was done to the files, in one burst or two, the index that followed equals one made anew."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    shutil.rmtree(home, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder).resolve()
        notes = project / "notes"
        notes.mkdir()
        with engine_in(project) as engine:
            engine.maintenance().index(IndexTargets((str(notes),), keep_empty=True))
        with Watch(project) as watch:
            for step in first:
                carry_out(notes, step)
            watch.at_rest()
            for step in second:
                carry_out(notes, step)
            with engine_in(project, "fresh") as engine:
                engine.maintenance().index(IndexTargets((str(notes),)))
                fresh = {
                    document.source: document.file_hash
                    for document in engine.memories().list(documents=True, limit=1000).documents
                }

            def same() -> bool:
                with engine_in(project) as engine:
                    found = engine.memories().list(documents=True, limit=1000).documents
                    return {item.source: item.file_hash for item in found} == fresh

            eventually(same, f"the tree is {[str(path) for path in tree(notes)]}, and should be {fresh}")
