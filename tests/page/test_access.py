"""Who may use the page, what a browser is allowed to do with it, and that memory text stays data."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.page.conftest import PageWorld
from tests.surfaces.http.conftest import Client, Reply

from lorelog.surfaces.http.tickets import announce_server, find_server, issue_ticket, redeem_ticket
from lorelog.surfaces.page.app import POLICY, STATIC, render_tree

MAX_SHIPPED_BYTES, MAX_SOURCE_BYTES = 99_500, 295_000
MAX_REQUESTS = 24
HTML = {"Accept": "text/html"}
JSON = {"Content-Type": "application/json"}


def send(
    world: PageWorld, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | None = None
) -> Reply:
    return Client(world.server.port).send(method, path, body, headers)


def log_in(world: PageWorld) -> dict[str, str]:
    """Return the header of a browser that came with a ticket."""
    parts = urlsplit(world.address())
    reply = send(world, "GET", f"{parts.path}?{parts.query}", HTML)
    assert reply.status == 303
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    return {"Cookie": cookie.partition(";")[0]}


def test_files_of_the_page_are_small() -> None:
    """All files of the page together have at most 99.5 KB as they are sent, and 295 KB unpacked, licences aside."""
    files = [path for path in STATIC.rglob("*.*") if path.suffix in {".js", ".css", ".html", ".svg"}]

    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= MAX_SHIPPED_BYTES
    assert sum(path.stat().st_size for path in files) <= MAX_SOURCE_BYTES


def test_files_are_sent_compressed_on_request(served: PageWorld) -> None:
    """A browser that takes gzip gets each file so; a program that does not gets it as it is."""
    plain = send(served, "GET", "/page/style.css")
    packed = send(served, "GET", "/page/style.css", {"Accept-Encoding": "gzip, br"})

    assert plain.headers.get("content-encoding") is None
    assert packed.headers["content-encoding"] == "gzip"
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert len(packed.body) < len(plain.body) / 2


def test_nothing_is_inline_and_nothing_comes_from_outside() -> None:
    """No file has an inline script or style, HTML made of text, or an address of another host."""
    for path in STATIC.rglob("*.*"):
        if path.suffix not in {".js", ".css", ".html"} or "vendor" in path.parts:
            continue
        text = path.read_text("utf-8")
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=\"|\son\w+=\"", text), path
        assert not re.search(r"innerHTML|dangerouslySet|document\.write|\beval\(|new Function", text), path
        assert not re.search(r"https?://(?!www\.w3\.org)", text), path


def test_libraries_have_their_licences_and_are_as_vendored() -> None:
    """Each vendored file has the digest that was noted, and each library its licence."""
    import hashlib

    folder = STATIC / "vendor"
    for line in (folder / "SHA256SUMS").read_text("utf-8").splitlines():
        digest, name, _ = line.split()
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    assert {path.name for path in folder.glob("LICENSE-*")} >= {"LICENSE-preact.txt", "LICENSE-htm.txt"}


def test_a_ticket_works_once_and_for_its_port_only(home: Path) -> None:
    """A ticket is used up by its first use or after some minutes, and another server cannot use it."""
    ticket = issue_ticket(str(home), 8222)
    assert redeem_ticket(str(home), ticket, 8223) is None
    assert redeem_ticket(str(home), ticket, 8222) == ""
    assert redeem_ticket(str(home), ticket, 8222) is None
    ticket = issue_ticket(str(home), 8222)
    for path in (home / "run" / "tickets").iterdir():
        os.utime(path, (0, 0))
    assert redeem_ticket(str(home), ticket, 8222) is None


def test_a_server_is_found_while_it_runs(home: Path) -> None:
    """The recorded server is found as long as its process holds the record."""
    assert find_server(str(home)) is None
    with announce_server(str(home), "http://127.0.0.1:8222", 8222):
        assert find_server(str(home)) == ("http://127.0.0.1:8222", 8222)
    assert find_server(str(home)) is None


def test_the_page_needs_a_ticket(served: PageWorld) -> None:
    """Its interface refuses a browser without the cookie, also one with the bearer token, which is for programs."""
    for headers in ({}, {"Authorization": "Bearer a-token-of-the-page-tests"}, {"Cookie": "lorelog-session=x"}):
        assert send(served, "GET", "/api/page/session", headers).status == 401
    assert send(served, "GET", "/api/page/session", log_in(served)).status == 200
    shell = send(served, "GET", "/", HTML)
    assert shell.status == 200
    assert shell.headers["content-security-policy"] == POLICY
    assert send(served, "GET", "/", {"Accept": "application/json"}).status == 401


def test_a_link_logs_in_here_by_its_ticket_only(served: PageWorld) -> None:
    """A path that a browser would read as a host is made an ordinary path; a link with the token opens nothing."""
    reply = send(served, "GET", f"//evil.example/?{urlsplit(served.address()).query}", HTML)
    assert (reply.status, reply.headers["location"].partition("?")[0]) == (303, "/evil.example/")
    opened = send(served, "GET", "/api/ops?token=a-token-of-the-page-tests")
    assert (opened.status, "set-cookie" in opened.headers) == (401, False)


def test_other_sites_can_neither_read_nor_write(served: PageWorld) -> None:
    """With a valid cookie, a request of another origin, of another site or for another host name is refused."""
    cookie = log_in(served)
    call = "/api/page/call/memory.stats"
    assert send(served, "POST", call, {**cookie, **JSON}, "{}").status == 200
    foreign = (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
    )
    for headers in foreign:
        assert send(served, "POST", call, {**cookie, **JSON, **headers}, "{}").status == 403, headers
        assert send(served, "GET", "/api/page/session", {**cookie, **headers}).status == 403, headers
    assert send(served, "POST", call, {**cookie, "Content-Type": "text/plain"}, "{}").status == 415


def test_the_page_acts_for_the_person_and_names_no_files(served: PageWorld) -> None:
    """What is written in the page is the user's own word; a conversation cannot be named by a path."""
    cookie = {**log_in(served), **JSON}
    added = send(served, "POST", "/api/page/call/memory.add", cookie, '{"text": "Tea at four."}').json
    assert added["origin"] == "user"
    body = json.dumps({"place": str(served.project / "t.jsonl")})
    assert send(served, "POST", "/api/page/call/memory.transcript", cookie, body).status == 400
    assert send(served, "POST", "/api/page/call/memory.reset", cookie, "{}").status == 403


def test_markdown_never_becomes_markup() -> None:
    """HTML, scripts, images and dangerous links of a memory are text; hidden characters are named."""
    text = (
        "<script>alert(1)</script> <img src=x onerror=alert(1)> [a](javascript:alert(1)) [b](file:///etc/passwd) "
        "![pixel](https://evil.example/p.png) [c](https://example.test/x) admin\u202etxt.exe\n\n<svg onload=alert(1)>"
    )
    tree = json.dumps(render_tree(text), ensure_ascii=False)
    assert '"script"' not in tree
    assert '"img"' not in tree
    assert '"svg"' not in tree
    assert tree.count('"href"') == 1
    assert "⟨U+202E⟩" in tree
    assert "<!-- memory:x -->" not in json.dumps(render_tree("# A\n<!-- memory:x -->\ntext"))


def test_markdown_takes_steps_in_proportion_to_its_length() -> None:
    """Whatever is repeated, a character costs at most 200 calls."""
    for piece in ("[", "![", "*[", "[\n", "[`", "[a][", "[[a]", "**[a**", "[](", "**a", "<!--\n", "> "):
        calls = itertools.count()
        sys.setprofile(lambda *_, calls=calls: next(calls))
        render_tree((piece * 1_000)[:1_000])
        sys.setprofile(None)
        assert next(calls) < 200 * 1_000, piece


@pytest.mark.slow
def test_the_first_load_is_small(page: PageWorld) -> None:
    """Today and the list load at most 24 files and replies; what an icon or a key opens is loaded then."""
    page.call("memory.search", {"query": "cache"})  # what was just written is indexed
    for fragment, shown in (("", ".home-part .use"), ("#/search", ".card .block")):
        tab = page.open(fragment)
        tab.wait(f"document.querySelector({shown!r})")
        tab.wait_quiet(1.0)
        loaded = tab.run("performance.getEntriesByType('resource').map(r => r.name)")
        assert len(loaded) < MAX_REQUESTS, loaded
        assert not any(name in url for url in loaded for name in ("palette", "memory_verbs", "health"))


@pytest.mark.slow
def test_hostile_memories_stay_text(page: PageWorld) -> None:
    """Memories with scripts, markup, deceptive links and a line of a megabyte run nothing and load nothing from outside."""
    hostile = (
        "<script>window.pwned = 1</script><img src='https://evil.example/a.png' onerror='window.pwned = 1'>"
        "<svg/onload=window.pwned=1> [click](javascript:window.pwned=1) ![x](https://evil.example/b.png) \u202egnp.exe "
    )
    added = page.call("memory.add", {"text": hostile + "zebra crossing", "type": "fact"})
    long = page.call("memory.add", {"text": "zebra " + "a" * 900_000})
    tab = page.open("#/search?q=zebra")
    tab.wait("document.querySelectorAll('.row').length > 1")
    for memory in (added["memory"], long["memory"]):
        tab.go(page.address(f"#/memory/{memory}"))
        tab.wait("document.querySelector('.card .markdown p, .card .markdown li')")
        assert tab.run("window.pwned") is None
        assert (
            tab.run("document.querySelectorAll('.card script, .card .markdown img, .card .markdown svg').length") == 0
        )
    assert all(url.startswith((page.server.url, "about:", "data:")) for url in tab.requests)
