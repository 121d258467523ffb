"""The page in a real browser, over the world of the demo.

A test opens a view with `page.open("#/search")` and gets a tab (tests/page/browser.py). Where there is no Chromium, these
tests are skipped, and the line says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from examples.demo_world import fill
from msgspec.structs import replace
from tests.code.repositories import git
from tests.page.browser import Browser, Tab, find_chromium

from lorelog.core.options import HttpOptions
from lorelog.operations.dispatch import ClientIdentity, Dispatcher
from lorelog.surfaces.http.server import RunningServer, serve_in_thread
from lorelog.surfaces.http.tickets import issue_ticket
from lorelog.surfaces.page.app import PageContext, page_routes
from lorelog.wiring import ResourcePool

AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@pytest.fixture(scope="session")
def running_browser() -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("NO CHROMIUM HERE: the page is NOT tested. Install it, or set LORELOG_TEST_CHROMIUM.")
    with Browser(program) as running:
        yield running


@pytest.fixture
def browser(running_browser: Browser) -> Iterator[Browser]:
    """The browser, whose tabs are closed after the test."""
    yield running_browser
    running_browser.close_tabs()


@dataclass
class PageWorld:
    """The project, its server, and ways to change it from outside the page."""

    project: Path
    home: Path
    dispatcher: Dispatcher
    person: ClientIdentity
    server: RunningServer
    browser: Browser | None = None
    ids: dict[str, str] = field(default_factory=dict)

    def call(self, op: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call an operation as the command line does."""
        return self.dispatcher.call(op, arguments, self.person)

    def address(self, fragment: str = "") -> str:
        """Return an address that logs a browser in, once."""
        return f"{self.server.url}/?ticket={issue_ticket(str(self.home), self.server.port)}{fragment}"

    def open(self, fragment: str = "#/search", **emulated: Any) -> Tab:
        """Open a view in a browser that is logged in."""
        assert self.browser is not None
        tab = self.browser.open(self.address(fragment), **emulated)
        tab.wait("document.querySelector('main h1')")
        return tab


def start_world(project: Path, home: Path, *, token: str = "") -> Iterator[PageWorld]:
    """Fill a project and serve its page."""
    git(project, "init", "-q")
    project = Path(os.path.realpath(project))
    held = ResourcePool()
    dispatcher = Dispatcher(held.engine)
    person = ClientIdentity(str(project), dict(os.environ), str(home))
    ids = fill(project, home, lambda op, arguments: dispatcher.call(op, arguments, person))
    stranger = replace(person, own=False)
    context = PageContext(str(project), str(home), "default")
    server = serve_in_thread(
        dispatcher.call,
        HttpOptions(port=0, token=token),
        stranger,
        page=page_routes(dispatcher.call, stranger, context),
    )
    yield PageWorld(project, home, dispatcher, person, server, ids=ids)
    server.stop()
    held.close()


@pytest.fixture
def served(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageWorld]:
    """The served world, without a browser."""
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "fake")
    project = tmp_path / "harbor"
    project.mkdir()
    yield from start_world(project, home, token="a-token-of-the-page-tests")


@pytest.fixture
def page(served: PageWorld, browser: Browser) -> PageWorld:
    served.browser = browser
    return served


def check_accessible(tab: Tab) -> None:
    """Fail if axe finds anything serious on what the tab shows."""
    tab.run(f"(() => {{ {AXE.read_text('utf-8')} }})()")
    found = tab.run(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations"
        ".filter(v => v.impact === 'serious' || v.impact === 'critical')"
        ".map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 4).join('; ')))"
    )
    assert found == []
