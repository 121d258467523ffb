"""Other sites in the same browser, which is logged in: they can neither read nor change anything.

The attacking pages are on 127.0.0.1 with another port. That is another origin but the same site, so the browser does send
the cookie: only the server's own checks stand in the way. Pages of other sites have less.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.page.browser import Tab
from tests.page.conftest import PageWorld

pytestmark = pytest.mark.slow
PLANTED = "planted by another site"


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>another site</title><body>hello</body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name in the library)
        """Print nothing."""


@pytest.fixture
def another_site() -> Iterator[str]:
    """A server of empty pages; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _EmptyPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def attack(page: PageWorld, site: str) -> tuple[Tab, Tab]:
    """Return the page's own tab and one of another site, both in the browser that is logged in."""
    assert page.browser is not None
    own = page.open("#/search")
    other = page.browser.tab(own.context, site)
    other.wait("document.body?.innerText === 'hello'")
    return own, other


def planted(page: PageWorld) -> bool:
    """Return True if the attack wrote a memory."""
    found = page.call("memory.list", {"limit": 100, "all_projects": True})["memories"]
    return any(PLANTED in memory["content"] for memory in found)


def targets(page: PageWorld) -> list[str]:
    return [f"{page.server.url}/api/{path}/memory.add" for path in ("page/call", "call")]


def test_a_script_of_another_site_writes_nothing_and_reads_nothing(page: PageWorld, another_site: str) -> None:
    """Fetch, in every mode that sends the cookie, neither writes nor returns anything; the same from the page does both."""
    own, other = attack(page, another_site)
    for target in targets(page):
        for mode in ("no-cors", "cors"):
            for kind in ("text/plain", "application/json"):
                said = other.run(f"""fetch({target!r}, {{ method: 'POST', mode: {mode!r}, credentials: 'include',
                    headers: {{ 'Content-Type': {kind!r} }}, body: JSON.stringify({{ text: {PLANTED!r} }}) }})
                    .then(r => r.text().then(text => r.status + text), error => 'refused')""")
                assert said in {"refused", "0"}, said
    for path in ("/api/page/session", "/health", "/"):
        said = other.run(f"""fetch({page.server.url + path!r}, {{ mode: 'no-cors', credentials: 'include' }})
            .then(r => r.text().then(text => r.status + text), error => 'refused')""")
        assert said in {"refused", "0"}, path
    assert not planted(page)
    status = own.run(f"""fetch('/api/page/call/memory.add', {{ method: 'POST',
        headers: {{ 'Content-Type': 'application/json' }}, body: JSON.stringify({{ text: {PLANTED!r} }}) }}).then(r => r.status)""")
    assert status == 200
    assert planted(page)


def test_another_site_cannot_embed_the_page(page: PageWorld, another_site: str) -> None:
    """The page does not appear in a frame, and its files do not run or show as parts of another page."""
    _, other = attack(page, another_site)
    other.run(f"""new Promise(done => {{
        const frame = Object.assign(document.createElement('iframe'), {{ src: {page.server.url + "/"!r} }});
        frame.onload = () => done(true); document.body.append(frame); }})""")
    (frame,) = other.send("Page.getFrameTree")["frameTree"]["childFrames"]
    world = other.send("Page.createIsolatedWorld", frameId=frame["frame"]["id"])["executionContextId"]
    inner = other.send("Runtime.evaluate", expression="document.documentElement.innerText", contextId=world)
    assert "requests from other sites are not allowed" in inner["result"]["value"]
    for tag, path in (("script", "/page/main.js"), ("img", "/page/icon.svg"), ("img", "/api/page/session")):
        said = other.run(f"""new Promise(done => {{
            const part = document.createElement({tag!r});
            part.onload = () => done('loaded'); part.onerror = () => done('refused');
            part.src = {page.server.url + path!r}; document.body.append(part); }})""")
        assert said == "refused", path
