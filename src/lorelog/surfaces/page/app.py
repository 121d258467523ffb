"""The page's routes: its files, calls of operations, rendered Markdown, and a stream of changes.

The browser calls the same operations as every other surface. They count as those of who asked for the ticket, a person or an
agent's shell: the guard admits nobody else to /api/page/. Files named by a request are not read: a page shows what is remembered.

Markdown is sent as a tree of elements, for the page to build: no HTML text exists that could be misread. Memory text is data from anywhere.
Raw HTML stays text, images become their description (nothing is loaded from outside), links have an address only if its scheme is harmless, and
characters that reorder text on the screen become visible. A node is a text, or a list of a tag, its attributes and its children:
`["p", {}, "see ", ["code", {}, "a.py"]]`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anyio import sleep, to_thread
from msgspec import Struct
from msgspec.structs import replace
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from lorelog.core import VERSION
from lorelog.core.caller import AGENT_MARKERS, without_agent_markers
from lorelog.core.editor import editor_command, windowed_editor
from lorelog.core.errors import LorelogError
from lorelog.core.paths import tenant_folder
from lorelog.core.policy import Permission
from lorelog.light.daemon_connection import find_address
from lorelog.operations.dispatch import BoundCall, CallOperation, ClientIdentity
from lorelog.services.places.workspace import read_revision
from lorelog.surfaces.http import calls
from lorelog.surfaces.http.guard import PAGE_AGENT
from lorelog.surfaces.http.server import MakeRoutes, show_addresses

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

STATIC = Path(__file__).parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Content-Security-Policy: nothing inline, nothing from outside, and no text that becomes HTML."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-cache",
}
_POLL_S = 0.7
"""Seconds between two looks at the files."""
_KEEPALIVE_POLLS = 15
_EVENT_HEADERS = {"Content-Security-Policy": POLICY, "X-Accel-Buffering": "no"}


class PageContext(Struct, frozen=True):
    """What the page is about."""

    project: str
    """Directory of the project that is shown first."""
    home: str
    tenant: str

    def revision(self) -> Mapping[str, str]:
        """Return texts that change with memories, records, deliveries, sessions and settings."""
        return read_revision(self.home, tenant_folder(self.home, self.tenant))


def page_routes(call: CallOperation, caller: ClientIdentity, context: PageContext) -> MakeRoutes:
    """Return what builds the routes. `caller` is the server's own identity."""
    return lambda stopping: _Page(call, caller, context, stopping).routes()


class _Page:
    def __init__(
        self, call: CallOperation, server: ClientIdentity, context: PageContext, stopping: threading.Event
    ) -> None:
        self._operate = call
        self._server = server
        self._context = context
        self._stopping = stopping
        self._endpoints: dict[str, calls.OperationEndpoints] = {}

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/", self._index, methods=["GET"]),
            Mount("/page", GZipMiddleware(_PageFiles(directory=STATIC))),
            Route("/api/page/session", self._session, methods=["GET"]),
            Route("/api/page/events", self._events, methods=["GET"]),
            Route("/api/page/markdown", self._markdown, methods=["POST"]),
            Route("/api/page/daemon", self._daemon, methods=["GET"]),
            Route("/api/page/open", self._open, methods=["POST"]),
            Route("/api/page/call/{op}", self._call, methods=["POST"]),
        ]

    def _calls(self, agent: str) -> calls.OperationEndpoints:
        endpoints = self._endpoints.get(agent)
        if endpoints is None:
            caller = identify_caller(self._server, agent)
            endpoints = self._endpoints[agent] = calls.OperationEndpoints(self._operate, caller)
            endpoints.stopping = self._stopping
        return endpoints

    async def _call(self, request: Request) -> Response:
        """Call an operation. What takes a memory away must be confirmed with its id."""
        endpoints = self._calls(request.scope[PAGE_AGENT])
        operation, arguments = await endpoints.read_call(request)
        if endpoints.caller.check(operation) is not Permission.CONFIRMED:
            return await endpoints.reply(request, operation, arguments)
        typed = request.headers.get(CONFIRM_HEADER, "").strip()
        return calls.json_response(
            await endpoints.run_job(request, lambda call: call_confirmed(call, operation.name, arguments, typed))
        )

    async def _open(self, request: Request) -> Response:
        """Open the file of a memory in the editor of a person who sits at this machine."""
        agent: str = request.scope[PAGE_AGENT]
        if agent or not _is_local(request):
            raise calls.HttpRefusalError(403, "forbidden", "only the person at this machine opens an editor")
        body = calls.read_json(await calls.read_body(request))
        arguments: dict[str, Any] = {name: body[name] for name in ("id", "project") if name in body}
        return calls.json_response(await self._calls(agent).run_job(request, lambda call: open_editor(call, arguments)))

    async def _index(self, request: Request) -> Response:
        """Return the page to a browser, and the list of addresses to a program."""
        if "text/html" in request.headers.get("accept", ""):
            return FileResponse(STATIC / "index.html", headers=_HEADERS)
        return await show_addresses(request)

    async def _session(self, request: Request) -> Response:
        """Return what the page shows in its frame."""
        agent: str = request.scope[PAGE_AGENT]
        editor = "" if agent or not _is_local(request) else find_editor()
        place = {"project": self._context.project, "home": self._context.home}
        return calls.json_response({"version": VERSION, **place, "agent": agent, "editor": editor})

    async def _daemon(self, request: Request) -> Response:
        """Return the status of the home's daemon. No daemon is started."""
        from lorelog.light.daemon_control import read_status

        return calls.json_response(await to_thread.run_sync(read_status, find_address(self._context.home)))

    async def _markdown(self, request: Request) -> Response:
        texts = calls.read_json(await calls.read_body(request)).get("texts")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise calls.HttpRefusalError(400, "usage", "texts must be a list of texts")
        return calls.json_response({"trees": await to_thread.run_sync(lambda: [render_tree(text) for text in texts])})

    async def _events(self, request: Request) -> Response:
        """Return a stream that names the subjects whose files changed."""
        return StreamingResponse(self._changes(request), media_type="text/event-stream", headers=_EVENT_HEADERS)

    async def _changes(self, request: Request) -> AsyncIterator[bytes]:
        known = await to_thread.run_sync(self._context.revision)
        yield calls.event_bytes("hello", {"version": VERSION})
        quiet = 0
        while not self._stopping.is_set() and not await request.is_disconnected():
            await sleep(_POLL_S)
            current = await to_thread.run_sync(self._context.revision)
            changed = [subject for subject in current if current[subject] != known.get(subject)]
            known, quiet = current, 0 if changed else quiet + 1
            if changed:
                yield calls.event_bytes("changed", {"subjects": changed})
            elif quiet % _KEEPALIVE_POLLS == 0:
                yield b": still here\n\n"


def _is_local(request: Request) -> bool:
    return request.client is not None and ip_address(request.client.host.partition("%")[0]).is_loopback


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers.update(_HEADERS)
        return response


CONFIRM_HEADER = "x-lorelog-confirm"
"""Has the id of the memory, for what must be confirmed with it."""
_MIN_TYPED_CHARS = 8
_CONDITIONS = ("match", "session", "since", "until")


def identify_caller(server: ClientIdentity, agent: str) -> ClientIdentity:
    """Return the identity of who opened the page: a person, or the agent whose shell asked for the ticket.

    The server's own environment does not tell: a hook of an agent may have started it.
    """
    environment = {**server.environment, **without_agent_markers(server.environment)}
    if agent:
        marker = next((name for name, known in AGENT_MARKERS.items() if known == agent), "AI_AGENT")
        environment[marker] = "1"
    return replace(server, own=True, names_files=False, environment=environment)


def call_confirmed(call: BoundCall, op: str, arguments: Mapping[str, Any], typed: str) -> dict[str, Any]:
    """Call an operation that takes a memory away. Raise HttpRefusalError unless the typed id is that of this memory."""
    if op == "memory.delete" or not (arguments.get("dry_run") or arguments.get("complete")):
        identity = _find_target(op, arguments)
        scope = {"project": arguments["project"]} if arguments.get("project") else {}
        memory = call("memory.get", {"id": identity, **scope})["memory"] or {}
        # The first characters of a memory's own id are a time, and shared by many; those of a chunk's are a hash.
        is_shown = len(typed) >= _MIN_TYPED_CHARS and str(memory.get("id", "")).startswith(typed)
        if not is_shown and typed not in {identity, (memory.get("anchor") or {}).get("memory")}:
            raise calls.HttpRefusalError(
                400,
                "confirmation",
                "this must be confirmed with the id of the memory",
                hint=f"at least {_MIN_TYPED_CHARS} characters of it, in the header {CONFIRM_HEADER}",
            )
    return call(op, dict(arguments))


def _find_target(op: str, arguments: Mapping[str, Any]) -> str:
    if op == "memory.delete":
        return str(arguments.get("id", ""))
    ids = arguments.get("ids") or []
    if len(ids) != 1 or any(arguments.get(name) for name in _CONDITIONS):
        raise calls.HttpRefusalError(
            400, "confirmation", "the page forgets one memory at a time", hint="'lorelog forget' takes conditions"
        )
    return str(ids[0])


def find_editor() -> str:
    """Return the name of the user's editor if it opens a window; otherwise ''."""
    return windowed_editor(os.environ, has_display=sys.platform == "darwin")


def open_editor(call: BoundCall, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Open the file of a memory in the user's editor, at its line. The request names a memory, never a file."""
    section = call("memory.expand", {**arguments, "lines": 0})
    command = f"lorelog open {section['id'][:8]}"
    if not find_editor() or not Path(section["source"]).is_file():
        return {"opened": False, "command": command}
    words = editor_command(section["source"], section["start_line"], os.environ)
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise LorelogError(f"the editor {words[0]!r} does not start: {error.strerror}", hint=command) from None
    threading.Thread(target=process.wait, name="lorelog-editor", daemon=True).start()
    return {"opened": True, "command": command}


MAX_CHARS = 200_000
"""Longer text is cut: a browser would take seconds to lay it out."""
_MAX_BRACKETS = 4
"""Links are not sought in deeper brackets: each level searches the rest of a paragraph once more."""
_TAGS = frozenset(
    "p h1 h2 h3 h4 h5 h6 ul ol li blockquote hr br em strong s code pre table thead tbody tr th td a".split()
)
_SCHEMES = frozenset({"http", "https", "mailto"})
_HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*", re.DOTALL | re.MULTILINE)

_WIKI_PAGE = re.compile(
    r"(?:\.\./)?((?:(?:tasks|pages)/)?[\w-]{1,200}\.md)(?:#\w{1,40}?-([0-9a-f]{8}-[0-9a-f-]{27})|#[\w-]{0,200})?",
    re.ASCII,
)
"""A link of the wiki: a page, and the record that its heading names. Only the view of the wiki follows it."""

Node = str | list[Any]


def render_tree(text: str) -> list[Node]:
    """Return the nodes of a Markdown text. Anchors (comments) are left out, text beyond a limit is cut."""
    closed, end, rest = text[:MAX_CHARS].rpartition("-->")  # beyond it, the end of a comment is sought in vain
    return _build(_parser().parse(_COMMENT.sub("", closed + end) + rest), [])


def show_hidden(text: str) -> str:
    """Return text in which characters that are invisible or reorder others are named."""
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    options = {"html": False, "linkify": False}
    parser = MarkdownIt("commonmark", {**options, "maxNesting": 30}).enable(["table", "strikethrough"])
    shallow = MarkdownIt("commonmark", {**options, "maxNesting": _MAX_BRACKETS}).enable("strikethrough")

    def parse_shallow(state: StateCore) -> None:
        state.md = shallow

    parser.core.ruler.before("inline", "shallow", parse_shallow)
    return parser


def _build(tokens: Sequence[Token], into: list[Node]) -> list[Node]:
    stack = [into]
    for token in tokens:
        here = stack[-1]
        if token.nesting == 1:
            node = _element(token)
            here.append(node)
            stack.append(node)
        elif token.nesting == -1:
            if len(stack) > 1:
                stack.pop()
        elif token.type == "inline":
            _build(token.children or (), here)
        else:
            here.append(_leaf(token))
    return into


def _element(token: Token) -> list[Any]:
    tag = token.tag if token.tag in _TAGS else "span"
    if tag == "a":
        return ["a", _link(str(token.attrs.get("href", "")))]
    start = token.attrs.get("start")
    return [tag, {"start": start} if tag == "ol" and isinstance(start, int) else {}]


def _leaf(token: Token) -> Node:
    if token.type in {"fence", "code_block"}:
        return ["pre", {}, ["code", {}, show_hidden(token.content)]]
    if token.type == "code_inline":
        return ["code", {}, show_hidden(token.content)]
    if token.type == "image":
        return ["span", {"class": "image"}, show_hidden(token.content or "image")]
    if token.type == "softbreak":
        return "\n"
    return [token.tag, {}] if token.tag in {"hr", "br"} else show_hidden(token.content)


def _link(address: str) -> dict[str, str]:
    """Return the attributes of a link; none for an address that a browser could run or that leads to a local file."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return {}
    if parts.scheme.lower() not in _SCHEMES:
        match = _WIKI_PAGE.fullmatch(address)
        return {"page": match[1], "record": match[2] or ""} if match else {}
    return {"href": address, "host": parts.hostname or parts.path}
