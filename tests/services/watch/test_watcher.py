"""Watching: whatever happens to files, the index is soon as if it had been made anew."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.services.watch.watching import PATIENCE_S, Watch, engine_in, eventually, index, tree

from lorelog.core.errors import StoreBusy
from lorelog.core.memory import NewMemory
from lorelog.core.options import WatchOptions
from lorelog.core.query import Filters
from lorelog.engine import Engine
from lorelog.models.embed import builtin
from lorelog.services.indexing.incremental import FileChanges
from lorelog.services.indexing.run import roll_back
from lorelog.services.places.root_selection import IndexTargets
from lorelog.services.watch.watcher import outermost_paths
from lorelog.wiring import resolve_location, settings_at


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one indexed note."""
    place = (tmp_path / "app").resolve()
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    write(place / "notes" / "a.md", "otter")
    monkeypatch.chdir(place)
    index(place, place / "notes")
    return place


def write(path: Path, text: str) -> tuple[Path, str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", "utf-8")
    return path, text


def save_atomically(path: Path, text: str) -> tuple[Path, str]:
    """Save as most editors do: another file, renamed over the old one."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_text(text + "\n", "utf-8")
    beside.replace(path)
    return path, text


# -- what happens to files -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_of_editors_are_ignored(project: Path) -> None:
    """Swap files, backups, temporary and hidden files, and files that are no Markdown are not followed."""
    notes = project / "notes"
    with Watch(project) as watch:
        for name in (".a.md.swp", "a.md~", ".#a.md", "4913", "a.md.tmp", "#a.md#", "picture.png", ".hidden.md"):
            (notes / name).write_text("x", "utf-8")
            (notes / name).unlink()
        (notes / ".git").mkdir()
        (notes / ".git" / "x.md").write_text("x", "utf-8")
        watch.sees(write(notes / "b.md", "beaver"), (notes / "a.md", "otter"))
        watch.at_rest()

        assert len(watch.passes) == 1


@pytest.mark.slow
def test_excluded_files_stay_out(project: Path) -> None:
    """A file that appears under a pattern stays out, and a changed ignore file changes what is indexed."""
    notes = project / "notes"
    kept = (notes / "a.md", "otter")
    with Watch(project) as watch:
        (notes / ".lorelogignore").write_text("drafts/\n", "utf-8")
        write(notes / "drafts" / "x.md", "draft")
        new = write(notes / "b.md", "beaver")
        watch.sees(kept, new)
        (notes / ".lorelogignore").unlink()
        watch.sees(kept, new, (notes / "drafts" / "x.md", "draft"))


@pytest.mark.slow
def test_a_storm_of_changes_is_one_pass(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five thousand files that change within one quiet time are one pass."""
    notes = project / "notes"
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "none")
    # A quiet time that no pause of this machine is as long as.
    with Watch(project, WatchOptions(debounce_ms=3000, reconcile_s=0)) as watch:
        for number in range(5000):
            write(notes / f"{number % 40}" / f"{number}.md", f"beaver {number}")
        eventually(lambda: bool(watch.passes))
        watch.at_rest()

        assert [(pass_.error, pass_.report and pass_.report.changed) for pass_ in watch.passes] == [("", 5000)]
        assert len(watch.indexed()) == 5001


@pytest.mark.slow
def test_a_deleted_cache_is_rebuilt(project: Path, home: Path) -> None:
    """If the whole cache is deleted while files are watched, all of them are in the index again soon after."""
    with Watch(project, WatchOptions(reconcile_s=0)) as watch:
        watch.sees((project / "notes" / "a.md", "otter"))
        shutil.rmtree(home / "cache")
        watch.sees((project / "notes" / "a.md", "otter"))
        assert (home / "cache" / "default" / "catalog.db").exists()


# -- roots ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_single_file_is_followed(project: Path) -> None:
    """A file indexed by itself is followed through edits, atomic saves, deletion and return; its neighbours are not."""
    single = project / "single.md"
    write(single, "heron")
    index(project, single)
    kept = (project / "notes" / "a.md", "otter")
    with Watch(project) as watch:
        write(project / "neighbour.md", "not indexed")
        watch.sees(kept, write(single, "heron, edited"))
        watch.sees(kept, save_atomically(single, "heron, saved"))
        single.unlink()
        watch.sees(kept)
        watch.sees(kept, write(single, "heron, back"))


@pytest.mark.slow
def test_a_root_that_is_a_link_is_followed_where_it_leads(project: Path) -> None:
    """The index knows real paths, and so does the watcher."""
    real = write(project.parent / "elsewhere" / "x.md", "heron")
    (project / "link").symlink_to(project.parent / "elsewhere")
    index(project, project / "link")
    with Watch(project) as watch:
        watch.sees((project / "notes" / "a.md", "otter"), write(real[0], "heron, edited"))


@pytest.mark.slow
def test_a_root_that_vanishes_keeps_its_documents_and_is_followed_when_it_returns(project: Path) -> None:
    """A directory may come back, as a drive does: nothing of it is dropped, and it is then watched as before."""
    notes = project / "notes"
    with Watch(project) as watch:
        notes.rename(project / "gone")
        eventually(lambda: watch.watcher.state()["missing"] == [str(notes)])
        assert list(watch.indexed()) == [str(notes / "a.md")]
        (project / "gone").rename(notes)
        eventually(lambda: watch.watcher.state()["missing"] == [])
        watch.sees(write(notes / "a.md", "otter, back"))


@pytest.mark.slow
def test_a_root_that_is_created_again_is_watched(project: Path) -> None:
    """Deleted and made again at once, a root is another directory, and is listened to like the first."""
    notes = project / "notes"
    with Watch(project) as watch:
        shutil.rmtree(notes)
        new = write(notes / "b.md", "beaver")
        watch.sees(new)
        watch.sees(new, write(notes / "c.md", "heron"))


@pytest.mark.slow
def test_roots_are_added_and_removed_while_watching(project: Path) -> None:
    """What others add to the list of roots, or take out, holds for a watcher that is running."""
    kept = (project / "notes" / "a.md", "otter")
    more = write(project / "more" / "x.md", "heron")
    with Watch(project) as watch:
        index(project, project / "more")
        eventually(lambda: str(project / "more") in watch.watcher.state()["roots"])
        watch.sees(kept, write(more[0], "heron, edited"))
        with engine_in(project) as engine:
            engine.maintenance().forget_roots([str(project / "more")])
        eventually(lambda: str(project / "more") not in watch.watcher.state()["roots"])
        write(more[0], "heron, unseen")
        watch.sees(write(kept[0], "otter, seen"))


@pytest.mark.slow
def test_each_tenant_and_project_has_its_own(project: Path) -> None:
    """Roots of several tenants and projects are followed into their own indexes, under their own projects."""
    other = project.parent / "other"
    write(other / "x.md", "heron")
    with engine_in(other, "second") as engine:
        from lorelog.services.places.root_selection import IndexTargets

        engine.maintenance().index(IndexTargets((str(other),)))
    with Watch(project) as watch:
        watch.sees(write(project / "notes" / "a.md", "otter, edited"))
        write(other / "x.md", "heron, edited")

        def seen() -> bool:
            with engine_in(other, "second") as engine:
                return [(memory.chunk.content, memory.project) for memory in engine.memories().list().memories] == [
                    ("heron, edited", str(other))
                ]

        eventually(seen)


@pytest.mark.slow
def test_a_root_inside_another_keeps_its_exclusions(project: Path) -> None:
    """A change in the outer root does not bring in what the inner one leaves out."""
    inner = project / "notes" / "inner"
    write(inner / "x.md", "heron")
    write(inner / "x.tmp.md", "excluded")
    with engine_in(project) as engine:
        from lorelog.services.places.root_selection import IndexTargets

        engine.maintenance().index(IndexTargets((str(inner),), patterns=("*.tmp.md",)))
    with Watch(project) as watch:
        new = write(project / "notes" / "new" / "b.md", "beaver")
        watch.sees((project / "notes" / "a.md", "otter"), (inner / "x.md", "heron"), new)


@pytest.mark.parametrize(
    ("paths", "kept"), [(["/a", "/a/b", "/ab"], ["/a", "/ab"]), (["/a/b", "/a/b/c", "/a/b"], ["/a/b"]), (["/"], ["/"])]
)
def test_a_tree_inside_another_is_heard_with_it(paths: list[str], kept: list[str]) -> None:
    """Nothing is watched twice, and a namesake is not taken for something inside."""
    assert outermost_paths(paths) == kept


# -- what events miss ----------------------------------------------------------------------------------------------------


def test_earlier_changes_are_found_at_the_start(project: Path) -> None:
    """Changes made while nobody watched are followed when someone does."""
    edited = write(project / "notes" / "a.md", "otter, edited before")
    with Watch(project) as watch:
        watch.sees(edited)


@pytest.mark.slow
def test_a_reconcile_finds_changes_without_events(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no event at all, the comparison that is due after watch.reconcile_s finds what changed."""
    monkeypatch.setattr("lorelog.services.watch.watcher._EventListener._listen", lambda self: self._stopped.wait())
    monkeypatch.setenv("LORELOG_WATCH_RECONCILE_S", "0.3")
    with Watch(project, settings_at(resolve_location()).options(WatchOptions)) as watch:
        watch.sees(write(project / "notes" / "a.md", "otter, missed"))
        (project / "notes" / "a.md").unlink()
        watch.sees()


@pytest.mark.slow
def test_a_reconcile_without_changes_writes_nothing(project: Path) -> None:
    """Comparing makes no pass, takes no lock and leaves the index as it is."""
    with engine_in(project) as engine:
        before = engine.store.revision()
    with Watch(project, WatchOptions(debounce_ms=50, reconcile_s=0.1)) as watch:
        first = watch.watcher.state()["reconciled_at"]
        eventually(lambda: watch.watcher.state()["reconciled_at"] != first)
        assert watch.passes == []
    with engine_in(project) as engine:
        assert engine.store.revision() == before


def test_being_woken_compares_at_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows better need not wait for the next comparison."""
    monkeypatch.setattr("lorelog.services.watch.watcher._EventListener._listen", lambda self: self._stopped.wait())
    with Watch(project) as watch:
        edited = write(project / "notes" / "a.md", "otter, missed")
        watch.watcher.wake()
        watch.sees(edited)


@pytest.mark.slow
def test_a_name_that_is_not_utf8_does_not_end_watching(project: Path) -> None:
    """A file whose name is not UTF-8 is more than the listener can say; everything else is followed all the same."""
    notes = project / "notes"
    with Watch(project) as watch:
        (notes / os.fsdecode(b"\xff.md")).write_bytes(b"x")
        watch.sees(write(notes / "a.md", "otter, edited"))
        watch.sees((notes / "a.md", "otter, edited"), write(notes / "b.md", "beaver"))


# -- what goes wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_edit_is_followed_while_a_long_run_goes_on(project: Path) -> None:
    """A file that is known is read by itself, and waits for nobody's run."""
    with Watch(project) as watch, engine_in(project) as engine, engine.store.run(wait_s=0):
        watch.sees(write(project / "notes" / "a.md", "otter, edited"))


@pytest.mark.slow
def test_a_fault_does_not_end_watching(project: Path) -> None:
    """An exception in a pass is reported until the changes have been indexed by a later pass."""
    broken = threading.Event()
    broken.set()

    def engine_at(tenant: str, directory: str) -> Engine:
        if broken.is_set() and threading.current_thread().name == "lorelog-watch" and watching.is_set():
            raise ZeroDivisionError("a fault")
        return engine_in(directory, tenant)

    watching = threading.Event()
    with Watch(project, engine_at=engine_at) as watch:
        watching.set()
        edited = write(project / "notes" / "a.md", "otter, edited")
        eventually(lambda: watch.watcher.state()["last_error"] is not None)
        assert watch.watcher.state()["last_error"]["message"] == "ZeroDivisionError: a fault"
        broken.clear()
        watch.sees(edited)
        eventually(lambda: watch.watcher.state()["last_error"] is None)


@pytest.mark.slow
def test_it_stops_in_the_middle_of_a_pass(project: Path) -> None:
    """Told to stop, a watcher leaves its pass; the next one finishes it."""
    for number in range(2000):
        write(project / "notes" / f"{number}.md", f"beaver {number}")
    watch = Watch(project)
    watch.watcher.start()
    eventually(lambda: len(watch.indexed()) > 1 or bool(watch.passes))

    assert watch.watcher.stop(PATIENCE_S)
    assert not watch.watcher.state()["running"]
    with Watch(project) as again:
        eventually(lambda: len(again.indexed()) == 2001)


def test_a_watcher_that_never_started_can_be_stopped(project: Path) -> None:
    """A daemon that leaves at once may stop what it had no time to start."""
    assert Watch(project).watcher.stop()


# -- limits of the system ------------------------------------------------------------------------------------------------

_LIMITED = """
import os, sys, time
from pathlib import Path
open("/proc/sys/user/max_inotify_watches", "w").write("3")
from lorelog.core.memory import NewMemory
from lorelog.core.options import WatchOptions
from lorelog.services import watch
from tests.services.watch.watching import Watch, eventually
watch._POLL_S = 0.2
project = Path(sys.argv[1])
with Watch(project, WatchOptions(debounce_ms=50, reconcile_s=0)) as one:
    assert one.watcher.state()["mode"] == "polling", one.watcher.state()
    assert "limit" in one.watcher.state()["why"], one.watcher.state()
    (project / "notes" / "a.md").write_text("otter, polled\\n")
    one.sees((project / "notes" / "a.md", "otter, polled"))
print("polled")
"""


@pytest.mark.slow
def test_without_enough_watches_roots_are_compared_instead(project: Path) -> None:
    """Where the system allows fewer watches than there are directories, changes are found all the same, and it says so."""
    import subprocess
    import sys

    for number in range(10):
        (project / "notes" / f"d{number}").mkdir()
    unshare = ["unshare", "--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("needs a user namespace, in which the limit can be lowered")
    here = Path(__file__).parents[3]
    done = subprocess.run(
        [*unshare, sys.executable, "-c", _LIMITED, str(project)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(here)},
        timeout=300,
    )

    assert done.stdout == "polled\n", done.stderr


@pytest.mark.slow
def test_a_broken_settings_file_is_reported_and_others_are_followed(project: Path) -> None:
    """One project's mistake is reported, and does not keep others from being followed."""
    other = project.parent / "other"
    write(other / "x.md", "heron")
    index(other, other)
    (other / ".lorelog.toml").write_text("[index\n", "utf-8")
    with Watch(project) as watch:
        write(project / "notes" / "a.md", "otter, edited")
        eventually(lambda: "otter, edited" in watch.indexed().values())
        assert ".lorelog.toml" in watch.watcher.state()["last_error"]["message"]


def test_following_reports_busy_instead_of_waiting(project: Path) -> None:
    """Following never waits for another run: it would hold up everything else that is watched."""
    with engine_in(project) as holder, holder.store.run(wait_s=0), engine_in(project) as engine:
        started = time.monotonic()
        with pytest.raises(StoreBusy):
            engine.maintenance().follow(FileChanges(roots={str(project / "notes")}))
        assert time.monotonic() - started < PATIENCE_S


def test_it_does_not_remember_a_root_that_was_removed_meanwhile(project: Path) -> None:
    """A change that was heard before its root was removed brings nothing back."""
    with engine_in(project) as engine:
        engine.maintenance().forget_roots([str(project / "notes")])
        heard = FileChanges({str(project / "notes")}, {str(project / "notes" / "a.md")})
        assert engine.maintenance().follow(heard) is None
        assert engine.maintenance().list_roots() == []


@pytest.mark.slow
def test_an_update_that_replaces_the_built_in_model_makes_new_vectors_by_itself(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an update the watcher's pass embeds an index of the former built-in model anew, beside the old vectors, and switches.

    Until then a search says that keywords must do, adding a memory mixes nothing into the old vectors, and they are kept.
    """
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "builtin")
    change = FileChanges(suspected={str(project / "notes")})
    with monkeypatch.context() as before:
        before.setattr(builtin, "MODEL_NAME", "e5-small-v2")
        before.setattr(builtin, "name_weights", lambda _: "e5-small-v2")
        with engine_in(project) as former:
            former.maintenance().index(reembed=True)
            served = former.store.coverage(Filters())
            assert (former.store.reembed_state().served, served.with_vectors) == ("builtin/e5-small-v2", served.chunks)

    with engine_in(project) as engine:
        assert engine.store.reembed_state().is_outdated
        assert any("replaces builtin/e5-small-v2" in note for note in engine.search("otter").notes)
        engine.memories().add([NewMemory("a heron, too")])
        assert engine.store.reembed_state().served == "builtin/e5-small-v2"
        report = engine.maintenance().follow(change)
        state = engine.store.reembed_state()
        assert report is not None
        assert report.reembedding is not None
        assert report.reembedding.swapped
        assert (state.served, state.is_outdated, engine.store.serves_model()) == ("builtin/lorelog-2", False, True)
        assert engine.search("otter").notes == ()
        roll_back(engine.store)
        assert engine.maintenance().follow(change) is None or not engine.store.serves_model()
        assert engine.store.reembed_state().served == "builtin/e5-small-v2"


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
