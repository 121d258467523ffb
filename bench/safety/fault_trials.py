"""Fault trials: a full disk, a read-only home, deleted, cut and changed files. What was acknowledged must be found again."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.safety.children import load_modules, run_child
from bench.safety.kill_trials import TrialHome

from lorelog.core.errors import LorelogError

_WORDS = ("walrus", "otter", "ferry")
_FULL_MOUNT = 'mount -t tmpfs -o size=32m tmpfs "$0"'
_READ_ONLY_MOUNT = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
_MAX_FILE_BYTES = 4096
"""Size limit of files where a disk cannot be filled: appends fail as they do on a full disk."""
_TIMEOUT_S = 120
_TRUTH_SUFFIXES = (".md", ".jsonl", ".json")


@dataclass(frozen=True, slots=True)
class FaultReport:
    """Result of a fault trial."""

    name: str
    how: str
    """How the fault was made; why it could not be made if `ran` is false."""
    ran: bool = True
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.faults


def try_full_disk(place: TrialHome) -> FaultReport:
    """What is acknowledged on a full disk is whole; the rest is refused with a message; space heals it."""
    if _can_mount():
        return FaultReport("full disk", "a file system of 32 MB", faults=_run_mounted(_FULL_MOUNT, place, "full"))
    place.project.mkdir()
    _fill(place)
    return FaultReport("full disk", "a limit on the size of files", faults=_in_child(lambda: _meet_size_limit(place)))


def try_read_only_home(place: TrialHome) -> FaultReport:
    """A read-only home answers searches, and refuses writes with a message."""
    place.project.mkdir()
    _fill(place)
    if _can_mount():
        faults = _run_mounted(_READ_ONLY_MOUNT, place, "read-only")
        return FaultReport("read-only home", "a read-only mount", faults=faults)
    if os.geteuid() == 0:
        return FaultReport(
            "read-only home", "the superuser may write everywhere, and nothing can be mounted", ran=False
        )
    for path in (place.home, *place.home.rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        return FaultReport("read-only home", "file modes", faults=_in_child(lambda: meet_read_only(place)))
    finally:
        for path in (place.home, *place.home.rglob("*")):
            path.chmod(0o700 if path.is_dir() else 0o600)


def try_lost_cache(place: TrialHome) -> FaultReport:
    """Without its cache, the home answers as before after `index`."""
    place.project.mkdir()
    _fill(place)
    shutil.rmtree(place.home / "cache")
    return FaultReport("lost cache", "the cache folder is deleted", faults=_in_child(lambda: _find_all(place)))


def try_changed_cache(place: TrialHome) -> FaultReport:
    """Each file of the cache, cut or with changed bytes: after `index` every memory is found."""
    place.project.mkdir()
    _fill(place)
    whole, faults, count = place.root / "whole", [], 0
    shutil.copytree(place.home, whole, ignore=_ignore_sockets)
    for path in sorted(_regular_files(whole / "cache")):
        for change in (_cut, _change_bytes):
            _replace_tree(whole, place.home)
            change(place.home / path.relative_to(whole))
            count += 1
            name = f"{change.__name__.strip('_').replace('_', ' ')}: {path.relative_to(whole)}"
            faults += [f"{name}: {fault}" for fault in _in_child(lambda: _find_all(place))]
    return FaultReport("changed cache", f"{count} files cut or changed, one at a time", faults=tuple(faults))


def try_torn_files(place: TrialHome) -> FaultReport:
    """Each file that cannot be rebuilt, ending in half a line or in zeros: everything before it is found, and writes go on."""
    place.project.mkdir()
    _fill(place)
    whole, faults, count = place.root / "whole", [], 0
    journals = place.project / ".lorelog"
    for name, folder in (("home", place.home), ("project", journals)):
        shutil.copytree(folder, whole / name, ignore=_ignore_sockets)
    for name, folder in (("home", place.home), ("project", journals)):
        for path in sorted(_regular_files(whole / name)):
            if path.suffix not in _TRUTH_SUFFIXES or "cache" in path.parts:
                continue
            for tail in (b'{"half": "a li', b"\x00" * 64, b"half a ferr\xe6\xb5"):
                _replace_tree(whole / "home", place.home)
                _replace_tree(whole / "project", journals)
                with (folder / path.relative_to(whole / name)).open("ab") as file:
                    file.write(tail)
                count += 1
                named = f"{path.relative_to(whole)} ending in {tail[:12]!r}"
                faults += [f"{named}: {fault}" for fault in _in_child(lambda: _find_all(place, writes=True))]
    return FaultReport("torn files", f"{count} ends, one at a time", faults=tuple(faults))


# -- what runs inside a fault ------------------------------------------------------------------------------------------


def meet_full_disk(place: TrialHome) -> Iterator[str]:
    """Write on a disk that is full, then on one with space again, and yield what was wrong."""
    place.project.mkdir()
    _write_memories(place)
    ballast = place.root / "ballast"
    _fill_disk(ballast)
    yield from _expect_refusals(place)
    yield from _find_words(place, _WORDS)
    ballast.unlink()
    yield from _find_all(place, writes=True)


def meet_read_only(place: TrialHome) -> Iterator[str]:
    """Search and write in a read-only home, and yield what was wrong."""
    yield from _find_words(place, _WORDS)
    yield from _expect_refusals(place)


def _meet_size_limit(place: TrialHome) -> Iterator[str]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE_BYTES, limits[1]))
    yield from _expect_refusals(place)
    yield from _find_words(place, _WORDS)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    yield from _find_all(place, writes=True)


def _expect_refusals(place: TrialHome) -> Iterator[str]:
    """Yield an error that is not one of ours, and an acknowledged write that cannot be read back."""
    long_text = "refused " * 2000
    for name in ("add", "task"):
        try:
            with place.open() as memory:
                if name == "add":
                    memory.add(long_text)
                else:
                    memory.task.start(goal=long_text[:4000])
        except LorelogError:
            continue
        except BaseException as error:  # noqa: BLE001  (it is what the trial looks for)
            yield f"{name}: {type(error).__name__}: {error}"
            continue
        if not place.count("refused"):
            yield f"{name} was acknowledged and is not there"


def _find_all(place: TrialHome, *, writes: bool = False) -> Iterator[str]:
    """Index, write if asked, and yield each memory that is not found."""
    words = list(_WORDS)
    with place.open() as memory:
        if writes:
            memory.add("The heron stands still.")
            memory.task.start(goal="Count the herons")
            words.append("heron")
        memory.index()
    yield from _find_words(place, words)
    with place.open() as memory:
        if not memory.call("ledger.verify")["ok"]:
            yield "the ledger does not verify"


def _find_words(place: TrialHome, words: Sequence[str]) -> Iterator[str]:
    with place.open() as memory:
        for word in words:
            if not any(word in hit.content for hit in memory.search(word).hits):
                yield f"{word} is not found"


# -- making faults -----------------------------------------------------------------------------------------------------


def _fill(place: TrialHome) -> None:
    """Write the memories and the record that every trial looks for, in a process of its own."""

    def fill(tell: Callable[[object], None]) -> None:
        _write_memories(place)
        tell(list(sys.modules))

    done = run_child(fill)
    if not done.ok:
        raise LorelogError(f"a new home cannot be filled: {done.reported}")
    load_modules(done.reported[-1])


def _write_memories(place: TrialHome) -> None:
    with place.open() as memory:
        for word in _WORDS:
            memory.add(f"The {word} rests by the river.")
        memory.task.start(goal="Count the animals")
        memory.search("river")


def _fill_disk(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"\x00" * size)
            except OSError:
                continue


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _change_bytes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    chance = random.Random(path.name)
    for _ in range(min(len(data), 64)):
        data[chance.randrange(len(data))] ^= 0x55
    path.write_bytes(data)


def _replace_tree(source: Path, target: Path) -> None:
    shutil.rmtree(target)
    shutil.copytree(source, target)


def _regular_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)


def _ignore_sockets(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if (Path(folder) / name).is_socket()}


def _in_child(look: Callable[[], Iterator[str]]) -> tuple[str, ...]:
    done = run_child(lambda tell: tell(list(look())))
    return tuple(done.reported[-1]) if done.ok else (f"a command failed: {done.reported}",)


def _can_mount() -> bool:
    """Return True if a process may mount in a namespace of its own."""
    if not shutil.which("unshare"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "-Urm", "sh", "-c", _FULL_MOUNT, folder]
        return subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_S).returncode == 0


def _run_mounted(mount: str, place: TrialHome, what: str) -> tuple[str, ...]:
    command = ["unshare", "-Urm", "sh", "-c", f'{mount} && exec "$@"', str(place.root)]
    command += [sys.executable, "-m", __name__, what, str(place.root)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_S, text=True)
    if done.returncode:
        return (f"the trial itself failed: {done.stderr.strip()[-300:]}",)
    return tuple(json.loads(done.stdout))


def _main() -> None:
    """Run one trial inside a mount, and print its faults as JSON."""
    what, root = sys.argv[1:]
    meet = {"full": meet_full_disk, "read-only": meet_read_only}[what]
    print(json.dumps(list(meet(TrialHome(Path(root))))))


if __name__ == "__main__":
    _main()
