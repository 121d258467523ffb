"""The wiki in a browser: read-only pages, served from memory on this machine.

Pages are compiled from records that anyone may have written. The Markdown escapes their text, HTML in it is disabled,
nothing is loaded from other hosts, and the Content-Security-Policy forbids scripts.
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
from lorelog.surfaces.http.guard import RequestGuard

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

WikiPages = Callable[[], Mapping[str, str]]
"""Returns the current pages by path, without their digest marks."""


class WikiApp:
    """Serves the pages of a wiki."""

    def __init__(self, pages: WikiPages, options: HttpOptions) -> None:
        self._pages = pages
        self._lock = Lock()
        self._markdown: MarkdownIt | None = None
        routes = [
            Route("/style.css", self._style, methods=["GET"]),
            Route("/", self._page, methods=["GET"]),
            Route("/{name:path}", self._page, methods=["GET"]),
        ]
        starlette = Starlette(routes=routes, exception_handlers={HTTPException: _not_found_page})
        starlette.router.redirect_slashes = False
        self._guarded = RequestGuard(starlette, options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        await self._guarded(scope, receive, send)

    def stop(self) -> None:
        """Do nothing: no request takes long."""

    async def _style(self, request: Request) -> Response:
        return PlainTextResponse(_STYLE, media_type="text/css", headers=_HEADERS)

    async def _page(self, request: Request) -> Response:
        name = request.path_params.get("name") or "index.md"
        page = await to_thread.run_sync(self._render, name)
        if page is None:
            raise HTTPException(404)
        return HTMLResponse(page, headers=_HEADERS)

    def _render(self, name: str) -> str | None:
        with self._lock:
            text = self._pages().get(name)
            if text is None:
                return None
            self._markdown = self._markdown or _make_renderer()
            return _render_frame(name, *_render_page(self._markdown, text))


async def _not_found_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    body = "<h1>There is no such page</h1>\n<p><a href='/'>Index</a></p>"
    return HTMLResponse(_render_frame("", "No such page", body), status, headers=_HEADERS)


def _make_renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Images are the only Markdown element that loads from other hosts.
    return MarkdownIt("commonmark", {"html": False, "linkify": False}).disable(["image", "html_block", "html_inline"])


def _render_page(markdown: MarkdownIt, text: str) -> tuple[str, str]:
    """Return a page's title and its HTML; headings get the same anchors as in the exported Markdown."""
    from lorelog.services.records.markdown import heading_anchor

    tokens = markdown.parse(text)
    title = ""
    for token, inside in pairwise(tokens):
        if token.type == "heading_open" and token.level == 0:
            heading = "".join(child.content for child in inside.children or ())
            title = title or heading
            token.attrSet("id", heading_anchor(heading))
    return title, markdown.renderer.render(tokens, markdown.options, {})


def _render_frame(name: str, title: str, body: str) -> str:
    up = "../" * name.count("/")
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><link rel='stylesheet' href='{up}style.css'></head>"
        f"<body>\n{body}</body></html>\n"
    )
