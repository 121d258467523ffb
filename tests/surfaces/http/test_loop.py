"""Loop's endpoints, as a client of Loop knows them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.conftest import write
from tests.surfaces.http.conftest import JSON, Client, ServedNotes
from tests.surfaces.otter_project import git_init

SEARCH, INDEX, FILES, FIND, FILE = (
    "/api/memory/search",
    "/api/memory/index",
    "/api/memory/files",
    "/api/memory/files/search",
    "/api/memory/file",
)


def test_search_answers_as_loop_does(client: Client, world: ServedNotes) -> None:
    """A hit has its file, its text, its score and its place; the directory goes before a channel, and unknown fields are passed over."""
    body = {"query": "redis cache", "top_k": 1, "dir_path": world.here, "channel_id": "c", "more": 1}
    reply = client.post(SEARCH, body)

    (hit,) = reply.json["results"]
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert hit["file_path"] == str(world.note)
    assert "Redis because it runs" in hit["content"]
    assert (type(hit["score"]), hit["chunk_index"]) == (float, 0)
    assert set(hit) == {"file_path", "content", "score", "chunk_index"}


def test_search_shows_texts_under_a_token_budget_too(world: ServedNotes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's token budget does not take the texts out of Loop's answers."""
    world.dispatcher.call("memory.search", {"query": "redis"}, world.caller)
    write(world.project / ".lorelog.toml", "[search]\ntoken_budget = 5\n")

    reply = world.serve().post(SEARCH, {"query": "redis", "dir_path": world.here})

    assert reply.json["results"][0]["content"]


def test_search_takes_any_number_of_hits(client: Client, world: ServedNotes) -> None:
    """No number, zero and less mean as many hits as usual; more than there can be is all there are."""
    for top_k in (None, 0, -3, 10**30):
        reply = client.post(SEARCH, {"query": "otters", "top_k": top_k, "dir_path": world.here})

        assert 1 <= len(reply.json["results"]) <= 5


def test_search_does_not_index_first(client: Client, world: ServedNotes) -> None:
    """A changed file is found in its new words after an index call, not by the search itself."""
    world.note.write_text("# Cache\n\nWe moved to memcached lately.\n", "utf-8")

    def found() -> bool:
        reply = client.post(SEARCH, {"query": "memcached", "dir_path": world.here})
        return any("memcached" in hit["content"] for hit in reply.json["results"])

    assert not found()
    assert client.post(INDEX, {"dir_path": world.here}).json == {"count": 1}
    assert found()
    assert client.post(INDEX, {"dir_path": world.here}).json == {"count": 0}


def test_a_project_does_not_see_another(client: Client, world: ServedNotes) -> None:
    """`dir_path` scopes: what is filed under one project is not found from another; nothing found is `[]`, never null."""
    other = world.project.parent / "other"
    git_init(other)

    for place in (str(other), "/no/such/place"):
        assert client.post(SEARCH, {"query": "redis", "dir_path": place}).json == {"results": []}
        assert client.get(FILES, dir_path=place).json == {"files": []}
    assert client.get(FILE, dir_path=str(other), path=str(world.note)).status == 403


def test_files_lists_those_that_exist(client: Client, world: ServedNotes) -> None:
    """Only files that are still there are listed, each with its project."""
    world.note.unlink()

    files = client.get(FILES, dir_path=world.here).json["files"]

    assert {file["file_path"].rpartition("/")[2] for file in files} == {"deploy.md", "Über Ötter.markdown"}
    assert {file["dir_path"] for file in files} == {world.here}


def test_files_are_searched_by_part_of_their_path(client: Client, world: ServedNotes) -> None:
    """`q` is looked for in the path, whatever its case; without it every file is found."""
    everything = client.get(FILES, dir_path=world.here).json
    assert client.get(FIND, dir_path=world.here).json == everything
    for q, names in {"DEPLOY": ["deploy.md"], "ötter": ["Über Ötter.markdown"], "nope": []}.items():
        files = client.get(FIND, dir_path=world.here, q=q).json["files"]

        assert [file["file_path"].rpartition("/")[2] for file in files] == names


def test_memories_of_a_directory_that_is_gone_are_found(client: Client, world: ServedNotes) -> None:
    """The name that memories are filed under is enough; the directory itself may be gone."""
    shutil.move(world.project, world.project.parent / "moved")

    reply = client.post(SEARCH, {"query": "redis", "dir_path": world.here})

    assert reply.json["results"][0]["file_path"] == str(world.note)


REFUSED: list[tuple[str, str, bytes | None, int, str]] = [
    ("POST", SEARCH, b"{", 400, "invalid request body"),
    ("POST", SEARCH, b"[]", 400, "invalid request body"),
    ("POST", SEARCH, b"", 400, "invalid request body"),
    ("POST", SEARCH, b'{"query": 7}', 400, "invalid request body"),
    ("POST", SEARCH, b'{"query": "x", "top_k": "5"}', 400, "invalid request body"),
    ("POST", SEARCH, b'{"query": "\xff"}', 400, "invalid request body"),
    ("POST", SEARCH, b"[" * 100_000, 400, "invalid request body"),
    ("POST", SEARCH, b"{}", 400, "query is required"),
    ("POST", SEARCH, b'{"query": ""}', 400, "query is required"),
    ("POST", SEARCH, b'{"query": null}', 400, "query is required"),
    ("POST", SEARCH, b'{"query": "x"}', 400, "dir_path or channel_id is required"),
    ("POST", SEARCH, b'{"query": "x", "dir_path": ""}', 400, "dir_path or channel_id is required"),
    (
        "POST",
        SEARCH,
        b'{"query": "x", "channel_id": "c"}',
        400,
        "channel c not found: http.channels has no entry for it",
    ),
    ("POST", SEARCH, b'{"query": "x", "dir_path": "notes"}', 400, "dir_path must be absolute"),
    ("POST", INDEX, b"nonsense", 400, "invalid request body"),
    ("POST", INDEX, b"{}", 400, "dir_path or channel_id is required"),
    ("POST", INDEX, b'{"dir_path": "/no/such"}', 400, "nothing indexed: /no/such is not a directory"),
    ("POST", INDEX, b'{"channel_id": "c"}', 400, "channel c not found: http.channels has no entry for it"),
    ("GET", FILES, None, 400, "dir_path or channel_id is required"),
    ("GET", f"{FILES}?channel_id=c", None, 400, "channel c not found: http.channels has no entry for it"),
    ("GET", f"{FIND}?q=x", None, 400, "dir_path or channel_id is required"),
    ("GET", f"{FILE}?path=/a.md", None, 400, "dir_path or channel_id is required"),
    ("GET", f"{FILE}?dir_path=/", None, 400, "path is required"),
    ("GET", f"{FILE}?dir_path=/&path=a.md", None, 400, "path must be absolute"),
    ("GET", f"{FILE}?dir_path=/&path=/etc/passwd", None, 400, "path must be a .md file"),
    ("GET", f"{FILE}?dir_path=/&path=/a%00.md", None, 400, "path must not contain NUL"),
    ("GET", f"{FILE}?dir_path=/&path=/no/such.md", None, 403, "path is not an indexed memory file"),
    ("PUT", f"{FILE}?dir_path=/&path=/no/such.md", b"x", 403, "path is not an indexed memory file"),
    ("PUT", f"{FILE}?dir_path=/&path=a.md", b"x", 400, "path must be absolute"),
    ("PUT", f"{FILE}?dir_path=/&path=/a.md", b"\xff", 400, "file must be UTF-8 text without NUL"),
    ("PUT", f"{FILE}?dir_path=/&path=/a.md", b"a\0", 400, "file must be UTF-8 text without NUL"),
    ("GET", SEARCH, None, 405, "this path does not support the method"),
    ("GET", "/api/memory/nope", None, 404, "there is no path /api/memory/nope"),
]


def test_refusals_are_plain_text(client: Client) -> None:
    """Each wrong request has Loop's status and a line of plain text."""
    for method, path, body, status, text in REFUSED:
        reply = client.send(method, path, body, JSON if method == "POST" else {})

        assert (reply.status, reply.text) == (status, f"{text}\n"), (method, path, body)
        assert reply.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_fault_of_the_index_is_500_in_plain_text(world: ServedNotes) -> None:
    """What the index says when it fails is told in one line."""
    from lorelog.core.errors import StoreDamaged

    def damaged(*_: object) -> dict[str, Any]:
        raise StoreDamaged("the index is damaged", hint="reset it")

    reply = world.serve(damaged).post(SEARCH, {"query": "x", "dir_path": world.here})

    assert (reply.status, reply.text) == (500, "the index is damaged\n")


def test_a_channel_is_the_directory_that_the_user_gave_it(world: ServedNotes, home: Path) -> None:
    """A channel of http.channels is its project; another one is the folder that Loop keeps for it, if there is one."""
    client = world.serve(channels=(f"42={world.here}", "tilde=~/elsewhere"))
    write(home.parent / ".loop" / "c7" / "work" / "note.md", "# Note\n")

    assert client.post(SEARCH, {"query": "redis cache", "channel_id": "42"}).json["results"]
    assert len(client.get(FILES, channel_id="42").json["files"]) == 3
    assert client.post(INDEX, {"channel_id": "42"}).json == {"count": 0}
    assert client.post(SEARCH, {"query": "redis cache", "channel_id": "c7"}).json == {"results": []}
    for channel in ("c8", "../c7", ".", "a/b"):
        assert client.post(SEARCH, {"query": "x", "channel_id": channel}).status == 400


def test_index_of_an_unknown_directory_is_refused_with_the_reason(client: Client, tmp_path: Path) -> None:
    """A request cannot choose the files that are read: the reply says why nothing is indexed, and how to allow it."""
    write(tmp_path / "new" / "memory" / "a.md", "# A\n\nzebras\n")

    reply = client.post(INDEX, {"dir_path": str(tmp_path / "new")})

    assert reply.status == 403
    assert "is not a known project" in reply.text
    assert "index.remote_projects" in reply.text


def test_index_of_an_allowed_directory_reads_its_memory_folder(client: Client, home: Path, tmp_path: Path) -> None:
    """Below index.remote_projects a new project's `memory/` is indexed, and nothing else of it; a link out of it is not."""
    write(tmp_path / "work" / "new" / "memory" / "a.md", "# A\n\nZebras have stripes.\n")
    write(tmp_path / "work" / "new" / "other.md", "# B\n\nZebras elsewhere.\n")
    (tmp_path / "work" / "linked").mkdir()
    (tmp_path / "work" / "linked" / "memory").symlink_to(tmp_path)
    write(home / "config.toml", f'[index]\nremote_projects = ["{tmp_path}/work"]\n')
    new = str(tmp_path / "work" / "new")

    assert client.post(INDEX, {"dir_path": new}).json == {"count": 1}
    (hit,) = client.post(SEARCH, {"query": "zebras", "dir_path": new}).json["results"]
    assert hit["file_path"].endswith("/memory/a.md")
    assert client.post(INDEX, {"dir_path": new}).json == {"count": 0}
    assert client.post(INDEX, {"dir_path": str(tmp_path / "work" / "linked")}).status == 403
    assert client.post(INDEX, {"dir_path": str(tmp_path / "working")}).status == 400


def test_a_channel_without_a_directory_is_indexed_in_loops_own_folder(world: ServedNotes, home: Path) -> None:
    """The memory of a channel that has only `~/.loop/ID/work` is indexed and found over HTTP, and nothing below that folder is."""
    write(home.parent / ".loop" / "c9" / "work" / "memory" / "a.md", "# A\n\nZebras have stripes.\n")
    write(home.parent / ".loop" / "c9" / "work" / "clone" / "memory" / "b.md", "# B\n\nZebras of a clone.\n")
    client = world.serve()

    assert client.post(INDEX, {"channel_id": "c9"}).json == {"count": 1}
    (hit,) = client.post(SEARCH, {"query": "zebras", "channel_id": "c9"}).json["results"]
    assert hit["file_path"].endswith("/c9/work/memory/a.md")
    assert client.post(INDEX, {"dir_path": str(home.parent / ".loop" / "c9" / "work" / "clone")}).status == 403


def test_a_channel_of_the_user_may_be_indexed(world: ServedNotes, home: Path, tmp_path: Path) -> None:
    """The user who names a channel's directory allows that its memory is indexed."""
    write(tmp_path / "chat" / "memory" / "a.md", "# A\n\nZebras have stripes.\n")
    write(home / "config.toml", f'[http]\nchannels = ["7={tmp_path}/chat"]\n')

    assert world.serve(channels=(f"7={tmp_path}/chat",)).post(INDEX, {"channel_id": "7"}).json == {"count": 1}
