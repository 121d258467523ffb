"""A wiki in a browser: pages from memory, read-only, for this machine.

What is shown was compiled from records that anyone may have written. The Markdown escapes them to the letter, HTML in it is not
let through, nothing is loaded from anywhere, and no script runs: the browser is told so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lorelog.core.options import HttpOptions
from lorelog.surfaces.http.guard import Guard

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}
_STYLE = """
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; } h3 { font-size: 1rem; margin-top: 1.6rem; }
code { font-size: .85em; padding: .1em .35em; border-radius: .3em; background: color-mix(in srgb, currentColor 10%, transparent); }
pre { padding: .7rem; overflow-x: auto; border-left: 3px solid #c77; background: color-mix(in srgb, currentColor 6%, transparent); }
pre code { padding: 0; background: none; }
blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid color-mix(in srgb, currentColor 30%, transparent); }
:target { background: color-mix(in srgb, gold 35%, transparent); }
"""

Pages = Callable[[], Mapping[str, str]]
"""Returns the pages as they are now, without their marks, by path."""


class WikiApp:
    """Serves pages."""

    def __init__(self, pages: Pages, options: HttpOptions) -> None:
        self._pages = pages
        self._turn = Lock()
        self._markdown: MarkdownIt | None = None
        routes = [
            Route("/style.css", self._style, methods=["GET"]),
            Route("/", self._page, methods=["GET"]),
            Route("/{name:path}", self._page, methods=["GET"]),
        ]
        starlette = Starlette(routes=routes, exception_handlers={HTTPException: _missing})
        starlette.router.redirect_slashes = False
        self._guarded = Guard(starlette, options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await self._guarded(scope, receive, send)

    def stop(self) -> None:
        """Nothing here takes long."""

    async def _style(self, request: Request) -> Response:
        return PlainTextResponse(_STYLE, media_type="text/css", headers=_HEADERS)

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name") or "index.md"
        shown = await to_thread.run_sync(self._shown, name)
        if shown is None:
            raise HTTPException(404)
        return HTMLResponse(shown, headers=_HEADERS)

    def _shown(self, name: str) -> str | None:
        with self._turn:
            text = self._pages().get(name)
            if text is None:
                return None
            self._markdown = self._markdown or _renderer()
            return _framed(name, *_rendered(self._markdown, text))


async def _missing(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    body = "<h1>There is no such page</h1>\n<p><a href='/'>Index</a></p>"
    return HTMLResponse(_framed("", "No such page", body), status, headers=_HEADERS)


def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Images are the one thing that Markdown itself would load from elsewhere.
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).disable(["image", "html_block", "html_inline"])


def _rendered(markdown: MarkdownIt, text: str) -> tuple[str, str]:
    """Return a page's title and its HTML, with the anchors that its headings have elsewhere, too."""
    from lorelog.services.records.wiki_words import anchor

    tokens = markdown.parse(text)
    title = ""
    for token, inside in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0:
            shown = "".join(one.content for one in inside.children or ())
            title = title or shown
            token.attrSet("id", anchor(shown))
    return title, markdown.renderer.render(tokens, markdown.options, {})


def _framed(name: str, title: str, body: str) -> str:
    up = "../" * name.count("/")
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><link rel='stylesheet' href='{up}style.css'></head>"
        f"<body>\n{body}</body></html>\n"
    )
