"""Only indexed Markdown is read or written, whatever lies around it and whoever moves it meanwhile."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.surfaces.conftest import write
from tests.surfaces.http.conftest import Client, ServedNotes

from lorelog.surfaces.http import loop
from lorelog.surfaces.http.calls import HttpRefusalError

FILE = "/api/memory/file"
NOT_OURS = (403, "path is not an indexed memory file\n")


def test_a_file_is_read_as_it_is(client: Client, world: ServedNotes) -> None:
    """An indexed file comes as plain text, byte for byte."""
    for path in sorted((world.project / "notes").iterdir()):
        reply = client.get(FILE, dir_path=world.here, path=str(path))

        assert (reply.status, reply.body) == (200, path.read_bytes())
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up while a file is written gives status 507, and costs nothing but the new version."""
    path = write(tmp_path / "a.md", "before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HttpRefusalError) as refused:
        loop.put_file(str(path), b"after", 100)

    assert refused.value.status == 507
    assert {item.name: item.read_text("utf-8") for item in tmp_path.iterdir()} == {"a.md": "before"}


def test_a_file_is_replaced_and_found_at_once(client: Client, world: ServedNotes) -> None:
    """A file that was put is on disk with its old mode, found by its new words, and nothing is left beside it."""
    world.note.chmod(0o640)
    text = "# Cache\n\nWe moved to memcached. Ünïcode stays.\n"

    reply = client.put(FILE, text.encode(), {"dir_path": world.here, "path": str(world.note)})

    assert (reply.status, reply.json) == (200, {"ok": True, "indexed": True})
    assert world.note.read_text("utf-8") == text
    assert stat.S_IMODE(world.note.stat().st_mode) == 0o640
    assert [path.name for path in world.note.parent.iterdir() if path.name.startswith(".")] == []
    found = client.post("/api/memory/search", {"query": "memcached", "dir_path": world.here}).json["results"]
    assert "memcached" in found[0]["content"]


def test_a_file_can_be_put_from_below_its_project(client: Client, world: ServedNotes) -> None:
    """The index is brought up to date under the file's own project, wherever one stands."""
    below = world.project / "deep" / "down"
    below.mkdir(parents=True)

    reply = client.put(FILE, b"# Deploy\n\ngreen now\n", {"dir_path": str(below), "path": str(world.note)})

    assert reply.json == {"ok": True, "indexed": True}
    assert (
        client.post("/api/memory/search", {"query": "green", "dir_path": world.here})
        .json["results"][0]["content"]
        .endswith("green now")
    )


def test_a_change_under_ones_feet_is_noticed(client: Client, world: ServedNotes) -> None:
    """With the tag of what was read, a file that changed meanwhile is not overwritten."""
    query = {"dir_path": world.here, "path": str(world.note)}
    tag = client.get(FILE, **query).headers["etag"]
    world.note.write_text("someone else was here\n", "utf-8")

    refused = client.put(FILE, b"mine", query, **{"If-Match": tag})
    fresh = client.get(FILE, **query).headers["etag"]
    taken = client.put(FILE, b"mine", query, **{"If-Match": fresh})

    assert (refused.status, refused.text) == (412, "file has changed\n")
    assert (taken.status, world.note.read_bytes()) == (200, b"mine")


def test_a_file_that_is_gone_is_not_made(client: Client, world: ServedNotes) -> None:
    """A file that is in the index and not on disk is not found, and not written."""
    world.note.unlink()
    query = {"dir_path": world.here, "path": str(world.note)}

    assert (client.get(FILE, **query).status, client.get(FILE, **query).text) == (404, "file not found\n")
    assert client.put(FILE, b"x", query).status == 404
    assert not world.note.exists()


def test_a_file_too_large_is_refused_both_ways(world: ServedNotes) -> None:
    """What may not be written may not be read either, and the file stays as it was."""
    client = world.serve(max_body_bytes=1000)
    before = world.note.read_bytes()
    query = {"dir_path": world.here, "path": str(world.note)}

    refused = client.put(FILE, b"x" * 1001, query)
    assert (refused.status, refused.text) == (413, "file too large\n")
    assert world.note.read_bytes() == before
    world.note.write_bytes(b"x" * 1001)
    assert client.get(FILE, **query).status == 413


def test_a_file_of_an_index_that_fails_is_written_all_the_same(world: ServedNotes) -> None:
    """When the index cannot follow, the file is safe and the answer says so."""
    from lorelog.core.errors import StoreBusy

    def busy(op: str, *rest: object) -> dict[str, object]:
        if op == "memory.index":
            raise StoreBusy("another process is writing")
        return world.dispatcher.call(op, *rest)  # type: ignore[arg-type]

    reply = world.serve(busy).put(FILE, b"kept", {"dir_path": world.here, "path": str(world.note)})

    assert reply.json == {"ok": True, "indexed": False, "note": "another process is writing"}
    assert world.note.read_bytes() == b"kept"


def test_a_read_only_file_stays_as_it_is(tmp_path: Path) -> None:
    """A file that its owner may not write is not replaced, though its directory would allow it."""
    path = write(tmp_path / "a.md", "before")
    path.chmod(0o400)
    script = (
        "import sys; from lorelog.surfaces.http.loop import put_file\n"
        "try: put_file(sys.argv[1], b'after', 100)\n"
        "except Exception as error: print(error)\n"
    )
    mortal = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []

    done = subprocess.run(
        [*mortal, sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )

    assert done.stdout == "no permission to read or write the file\n"
    assert path.read_text("utf-8") == "before"


def variants(world: ServedNotes) -> list[str]:
    """Ways to write a path that lead to the secret, or to the note by a detour."""
    notes, outside = world.project / "notes", world.outside
    return [
        str(outside),
        f"{notes}/../../secret.md",
        f"{notes}/./cache.md",
        f"{notes}//cache.md",
        f"/{notes}/cache.md",
        f"{notes}/../notes/cache.md",
        f"{notes}/cache.md/",
        f"{notes}/cache.md/../../../secret.md",
        f"{notes}/%2e%2e/%2e%2e/secret.md",
        f"{notes}/CACHE.MD",
        f"{notes}\\..\\..\\secret.md",
        f"{notes}/cache.md\u0000.md",
        f"file://{notes}/cache.md",
        "~/secret.md",
        f"/proc/self/root{notes}/cache.md",
        f"/proc/self/cwd{notes}/cache.md",
        "/dev/stdin.md",
        "/" + "a" * 5000 + ".md",
        "/" + "a/" * 3000 + "b.md",
    ]


def test_no_other_spelling_reaches_a_file(client: Client, world: ServedNotes) -> None:
    """Dots, doubled slashes, detours and other names are refused for reading and for writing."""
    before = (world.note.read_bytes(), world.outside.read_bytes())
    for path in variants(world):
        query = {"dir_path": world.here, "path": path}
        read, written = client.get(FILE, **query), client.put(FILE, b"overwritten", query)

        assert {read.status, written.status} <= {400, 403}, path
        assert b"nobody may read this" not in read.body
    assert (world.note.read_bytes(), world.outside.read_bytes()) == before


def test_no_component_may_be_a_link(tmp_path: Path) -> None:
    """Opening passes through no link, neither as the file nor as any directory above it, whatever was looked up before."""
    real = write(tmp_path / "a" / "b" / "c.md", "ours")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "link.md").symlink_to(real)

    for path in ("link/b/c.md", "a/link/c.md", "a/b/link.md", "a/../a/b/c.md", "a//b/c.md", "a/./b/c.md"):
        with pytest.raises(HttpRefusalError, match="not an indexed memory file"):
            loop.read_file(f"{tmp_path}/{path}", 100)
        with pytest.raises(HttpRefusalError, match="not an indexed memory file"):
            loop.put_file(f"{tmp_path}/{path}", b"x", 100)
    assert loop.read_file(str(real), 100) == b"ours"


def test_what_the_index_names_must_be_the_very_path(world: ServedNotes) -> None:
    """A file is not opened because the index knows another that is near it."""

    def near(op: str, arguments: object, *rest: object) -> dict[str, object]:
        return {"documents": [{"source": str(world.note), "project": world.here}], "memories": [], "more": False}

    reply = world.serve(near).get(FILE, dir_path=world.here, path=str(world.outside))

    assert (reply.status, reply.text) == NOT_OURS


@pytest.mark.parametrize("kind", ["directory", "pipe", "socket"])
def test_directories_pipes_and_sockets_are_refused_at_once(client: Client, world: ServedNotes, kind: str) -> None:
    """A directory, a pipe or a socket in the place of a file is refused at once."""
    import socket

    world.note.unlink()
    bound = socket.socket(socket.AF_UNIX)
    if kind == "directory":
        world.note.mkdir()
    elif kind == "pipe":
        os.mkfifo(world.note)
    else:
        before = Path.cwd()
        os.chdir(world.note.parent)
        bound.bind(world.note.name)
        os.chdir(before)
    query = {"dir_path": world.here, "path": str(world.note)}

    assert (client.get(FILE, **query).status, client.put(FILE, b"x", query).status) == (403, 403)
    bound.close()


def test_a_swap_between_check_and_open_never_leads_out(tmp_path: Path) -> None:
    """While one swaps file and directory for links as fast as they can, no read shows and no write reaches the secret."""
    real, secret = write(tmp_path / "notes" / "a.md", "ours"), write(tmp_path / "out" / "a.md", "secret")
    ended = threading.Event()

    def swap() -> None:
        moved, kept = tmp_path / "moved", tmp_path / "notes" / "kept.md"
        while not ended.is_set():
            (tmp_path / "notes").rename(moved)
            (tmp_path / "notes").symlink_to(tmp_path / "out")
            time.sleep(0.0005)
            (tmp_path / "notes").unlink()
            moved.rename(tmp_path / "notes")
            real.rename(kept)
            with suppress(FileExistsError):  # a write has put the file back in between
                real.symlink_to(secret)
            time.sleep(0.0005)
            real.unlink()
            kept.rename(real)
            time.sleep(0.0005)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes | None] = set()
    refused = set()
    try:
        for _ in range(400):
            for step in (lambda: loop.read_file(str(real), 100), lambda: loop.put_file(str(real), b"ours", 100)):
                try:
                    seen.add(step())
                except HttpRefusalError as refusal:
                    refused.add(refusal.status)
    finally:
        ended.set()
        swapper.join()

    assert seen <= {b"ours", None}
    assert refused <= {403, 404, 409}
    assert secret.read_text("utf-8") == "secret"


def test_a_file_being_appended_to_is_waited_for(tmp_path: Path) -> None:
    """Whoever appends to a journal holds its lock; a new version takes its place only after that."""
    path = write(tmp_path / "a.md", "before")
    replaced = threading.Thread(target=loop.put_file, args=(str(path), b"after", 100))
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        replaced.start()
        replaced.join(0.2)
        assert path.read_text("utf-8") == "before"
    replaced.join()

    assert path.read_text("utf-8") == "after"
