"""The server itself, over pygls. It must never slow down typing.

Two threads ask the daemon, one for hovers, one for the rest; the loop only compares lines. A hover waits for the line's reason as long
as a person does not notice, and shows what is known by then; the reason is kept for the next one. A newer hover takes the place of one
that waits. Changes are answered when they pause: however many arrive, one check of a file waits and one runs. Whatever fails is an
empty answer.

Memories are shown as plain text, which no editor interprets. Nothing is written unless the editor's settings say
`{"write": true}`: then a person finds two more actions.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import date, timedelta
from functools import wraps
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from lorelog.core import VERSION
from lorelog.core.errors import LorelogError, UsageError, plural
from lorelog.surfaces.lsp.document import Memory, OpenFile, open_file, project_root, same_line
from lorelog.surfaces.text import format_statement, one_line, printable, render_why, shorten

Call = Callable[[str, Mapping[str, Any], str], Mapping[str, Any]]
"""Calls an operation with its arguments, in a directory."""
_HOVER_WAIT_S, _PAUSE_S, _KEPT_S = 0.025, 0.3, 120
_MAX_REASONS, _MAX_ACTIONS, _MAX_SYMBOLS, _MAX_NAME_CHARS = 500, 5, 50, 80
_OPEN, _REMEMBER, _OUTDATED = "lorelog.open", "lorelog.remember", "lorelog.outdated"
_STALE = ("drifted", "gone")
_HEAD_LINES = 2
"""Of a reason: place and text of the line, which the editor shows."""


class Server(LanguageServer):
    """The open files, and what is being looked up about them."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__("lorelog", VERSION, text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental)
        self.calls, self.threads = calls, [ThreadPoolExecutor(1) for _ in calls]
        self.files: dict[str, OpenFile] = {}
        self.may_write = False
        self.due: set[tuple[str, str]] = set()
        self.tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.hovered: tuple[object, Future[Mapping[str, Any]]] = (None, Future())
        """The line that was asked about last, and its answer."""

    def start(self, which: int, op: str, arguments: Mapping[str, Any], directory: str) -> Future[Mapping[str, Any]]:
        """Ask the daemon in a thread: 0 is for hovers, 1 for the rest."""
        return self.threads[which].submit(self.calls[which], op, arguments, directory)

    async def ask(self, op: str, arguments: Mapping[str, Any], directory: str) -> Mapping[str, Any]:
        return await asyncio.wrap_future(self.start(1, op, arguments, directory))

    def supports(self, *path: str) -> bool:
        value: Any = self.client_capabilities
        for name in path:
            value = getattr(value, name, None)
        return bool(value)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Say nothing: a message would interrupt a person who types."""

    def later(self, uri: str, kind: str, work: Callable[[str], Any]) -> None:
        """Do some work about a file when no more of the kind arrives for a moment; one may run while one waits."""
        key = (uri, kind)
        self.due.add(key)

        async def run() -> None:
            while key in self.due:
                while key in self.due:
                    self.due.discard(key)
                    await asyncio.sleep(_PAUSE_S)
                with suppress(Exception):  # an answer that fails is none
                    await work(uri)
            del self.tasks[key]

        if key not in self.tasks:
            self.tasks[key] = asyncio.get_running_loop().create_task(run())

    # -- what is remembered about an open file ---------------------------------------------------------------------------

    async def read_memories(self, uri: str) -> None:
        if (file := self.files.get(uri)) is None:
            return
        reply = await self.ask("code.memories", {"path": file.path}, file.root)
        file.memories = reply["memories"]
        if self.supports("workspace", "code_lens", "refresh_support"):
            self.workspace_code_lens_refresh(None)

    async def check_edit(self, uri: str) -> None:
        if (file := self.files.get(uri)) is None:
            return
        patch, lines = file.patch(), file.lines
        found = (await self.ask("code.check", {"text": patch}, file.root))["findings"] if patch else ()
        found = [_diagnostic(finding, lines[finding["line"] - 1]) for finding in found if finding["line"] <= len(lines)]
        if uri in self.files:
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found))

    async def reason(self, file: OpenFile, number: int, saved: int | None) -> Mapping[str, Any] | None:
        """Return why a line of the editor exists; None if it is not saved, and if that is not known in time."""
        line = file.lines[number]
        if saved is None or not line.strip():
            return None
        key, reasons = (saved, line, int(time.monotonic() / _KEPT_S)), file.reasons
        if key not in reasons:
            if self.hovered[0] != (file.path, key) or self.hovered[1].done():
                self.hovered[1].cancel()  # if it still waits: a newer one is of more interest
                found = self.start(0, "code.why", {"place": f"{file.path}:{saved + 1}"}, file.root)
                found.add_done_callback(lambda done: _keep(done, key, reasons))
                self.hovered = (file.path, key), found
            await asyncio.wait([asyncio.wrap_future(self.hovered[1])], timeout=_HOVER_WAIT_S)
        return reasons.get(key)

    async def write(self, op: str, arguments: Mapping[str, Any], root: str) -> Mapping[str, Any] | None:
        """Call an operation that writes, because a person asked for it; None if that was refused, which they are told."""
        try:
            if not self.may_write:
                raise UsageError("this editor's settings let lorelog read only", hint='set "write": true')
            return await self.ask(op, arguments, root)
        except LorelogError as error:
            self.tell(f"lorelog: {error.message}{f' ({error.hint})' if error.hint else ''}")
            return None

    def tell(self, text: str) -> None:
        self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Info, one_line(text)))


def _quiet(handler: Callable[..., Any]) -> Any:
    """Return a handler that answers with nothing if what it asks cannot be answered."""

    @wraps(handler)
    async def answer(ls: Server, params: Any) -> Any:
        try:
            return await handler(ls, params)
        except (LorelogError, OSError, LookupError, ValueError):
            return None

    return answer


def initialize(ls: Server, params: lsp.InitializeParams) -> None:
    options = params.initialization_options
    ls.may_write = isinstance(options, Mapping) and options.get("write") is True


def did_open(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    uri = params.text_document.uri
    path = to_fs_path(uri) if uri.startswith("file:") else None
    if path and (file := open_file(os.path.realpath(path), params.text_document.text)):
        ls.files[uri] = file
        ls.later(uri, "memories", ls.read_memories)


def did_change(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    if file := ls.files.get(params.text_document.uri):
        for edit in params.content_changes:
            file.change(edit, ls.workspace.position_encoding)
        ls.later(params.text_document.uri, "edit", ls.check_edit)


def did_save(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
    if file := ls.files.get(params.text_document.uri):
        file.reasons.clear()
        ls.later(params.text_document.uri, "memories", ls.read_memories)


def did_close(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    if ls.files.pop(params.text_document.uri, None):
        ls.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))


@_quiet
async def hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """Show why a line exists, and the memories about the word."""
    file, number = ls.files.get(params.text_document.uri), params.position.line
    if file is None or number >= len(file.lines):
        return None
    saved = same_line(number, file.lines, file.saved())
    memories = memories_at(file, saved, file.word_at(params.position, ls.workspace.position_encoding))
    lines, shown = [format_statement(memory) for memory in memories], {memory["id"] for memory in memories}
    reason = await ls.reason(file, number, saved)
    if reason is not None and (reason["commit"] or reason["session"]):
        rest = [statement for statement in reason["decisions"] if statement["id"] not in shown]
        lines += list(render_why({**reason, "decisions": rest}))[_HEAD_LINES:]
    text = printable("\n".join(lines))
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.PlainText, text)) if lines else None


@_quiet
async def code_lens(ls: Server, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    file = ls.files.get(params.text_document.uri)
    return [] if file is None else list(_lenses(file))


@_quiet
async def code_action(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """Offer what a person may do with a line, if the editor's settings let them."""
    uri, at = params.text_document.uri, params.range.start
    file = ls.files.get(uri)
    if file is None or not ls.may_write or at.line >= len(file.lines):
        return []
    actions: list[tuple[str, str, tuple[Any, ...]]] = [
        ("lorelog: remember this", _REMEMBER, (uri, at.line, max(at.line, params.range.end.line)))
    ]
    saved = same_line(at.line, file.lines, file.saved())
    for memory in memories_at(file, saved, file.word_at(at, ls.workspace.position_encoding))[:_MAX_ACTIONS]:
        title = f"lorelog: this is no longer so: {shorten(one_line(memory['text']), _MAX_NAME_CHARS)}"
        actions.append((title, _OUTDATED, (memory["id"], file.root)))
    return [lsp.CodeAction(title, command=lsp.Command(title, name, arguments=given)) for title, name, given in actions]


@_quiet
async def workspace_symbol(ls: Server, params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
    """Find memories by a query; without one, list the newest."""
    folders = map(to_fs_path, ls.workspace.folders)
    root = next((root for folder in folders if folder and (root := project_root(folder))), "")
    if not root:
        return []
    if query := params.query.strip():
        found = (await ls.ask("memory.search", {"query": query, "k": _MAX_SYMBOLS}, root))["hits"]
    else:
        found = (await ls.ask("memory.list", {"limit": _MAX_SYMBOLS}, root))["memories"]
    return list(_symbols(found))


async def open_memory(ls: Server, source: str, line: int) -> None:
    if ls.supports("window", "show_document"):
        at = lsp.Position(max(0, line - 1), 0)
        place = lsp.ShowDocumentParams(from_fs_path(source) or "", take_focus=True, selection=lsp.Range(at, at))
        await ls.window_show_document_async(place)


async def remember(ls: Server, uri: str, first: int, last: int) -> None:
    """Add the selected lines as a memory, and open it for the person to say why."""
    if (file := ls.files.get(uri)) is None:
        return
    text = "\n".join(file.lines[first : last + 1])
    request = {"text": f"About {file.path.removeprefix(f'{file.root}/')}:{first + 1}:\n\n{text}"}
    if reply := await ls.write("memory.add", request, file.root):
        ls.later(uri, "memories", ls.read_memories)
        await open_memory(ls, reply["source"], reply["start_line"])


async def outdated(ls: Server, identity: str, root: str) -> None:
    """Let a memory expire."""
    day = (date.today() - timedelta(days=1)).isoformat()
    if await ls.write("memory.set_expiry", {"id": identity, "expires": day}, root):
        ls.tell(f"It is not shown any more. 'lorelog expire {identity} never' takes that back.")
        for uri in ls.files:
            ls.later(uri, "memories", ls.read_memories)


_FEATURES: Mapping[str, Callable[..., Any]] = {
    lsp.INITIALIZE: initialize,
    lsp.TEXT_DOCUMENT_DID_OPEN: did_open,
    lsp.TEXT_DOCUMENT_DID_CHANGE: did_change,
    lsp.TEXT_DOCUMENT_DID_SAVE: did_save,
    lsp.TEXT_DOCUMENT_DID_CLOSE: did_close,
    lsp.TEXT_DOCUMENT_HOVER: hover,
    lsp.TEXT_DOCUMENT_CODE_LENS: code_lens,
    lsp.TEXT_DOCUMENT_CODE_ACTION: code_action,
    lsp.WORKSPACE_SYMBOL: workspace_symbol,
}


def make_server(calls: Sequence[Call]) -> Server:
    """Return a server that asks by one call for hovers, and by another for the rest."""
    server = Server(calls)
    for name, answer in _FEATURES.items():
        server.feature(name)(answer)
    for name in (lsp.TEXT_DOCUMENT_DID_OPEN, lsp.TEXT_DOCUMENT_DID_CHANGE, lsp.TEXT_DOCUMENT_DID_CLOSE):
        del server.protocol.fm.builtin_features[name]  # they keep a second copy of each text
    commands: Mapping[str, Callable[..., Any]] = {_OPEN: open_memory, _REMEMBER: remember, _OUTDATED: outdated}
    for name, act in commands.items():
        server.command(name)(act)
    return server


def memories_at(file: OpenFile, saved: int | None, word: str) -> list[Memory]:
    """Return the memories about a word, or about what is defined in a line of the saved file."""
    line = 0 if saved is None else saved + 1
    return [memory for memory in file.memories if word in memory["names"] or line in memory["lines"]]


def _keep(done: Future[Mapping[str, Any]], key: object, reasons: dict[Any, Mapping[str, Any]]) -> None:
    """Keep an answer, also one that came too late for its hover."""
    if not done.cancelled() and done.exception() is None:
        reasons[key] = done.result()
        while len(reasons) > _MAX_REASONS:
            reasons.pop(next(iter(reasons)))


def _diagnostic(finding: Mapping[str, Any], line: str) -> lsp.Diagnostic:
    number, text = finding["line"] - 1, one_line(f"{finding['text']} ({finding['why']})")
    place = lsp.Range(lsp.Position(number, len(line) - len(line.lstrip())), lsp.Position(number, len(line)))
    return lsp.Diagnostic(place, text, lsp.DiagnosticSeverity.Information, code=finding["id"], source="lorelog")


def _lenses(file: OpenFile) -> Iterable[lsp.CodeLens]:
    saved = file.saved()
    for line in sorted({line for memory in file.memories for line in memory["lines"]}):
        number = same_line(line - 1, saved, file.lines)
        if number is not None:
            memories = [memory for memory in file.memories if line in memory["lines"]]
            kinds = Counter(sorted("decision" if memory["type"] == "decision" else "memory" for memory in memories))
            parts = [plural(count, kind) for kind, count in kinds.items()]
            stale = sum(memory["freshness"] in _STALE for memory in memories)
            title = ", ".join([*parts, *([f"{stale} drifted"] if stale else [])])
            command = lsp.Command(title, _OPEN, arguments=(memories[0]["source"], memories[0]["source_line"]))
            at = lsp.Position(number, 0)
            yield lsp.CodeLens(lsp.Range(at, at), command)


def _symbols(found: Iterable[Mapping[str, Any]]) -> Iterable[lsp.WorkspaceSymbol]:
    for each in found:
        text = each.get("snippet") or each["content"]
        line = next((line for line in text.splitlines() if line.strip() and not line.startswith(("#", "<!--"))), "")
        at = lsp.Position(each["start_line"] - 1, 0)
        place = lsp.Location(from_fs_path(each["source"]) or "", lsp.Range(at, at))
        name = shorten(one_line(line.strip().removeprefix("- ")), _MAX_NAME_CHARS)
        yield lsp.WorkspaceSymbol(place, name, lsp.SymbolKind.String, container_name=one_line(each["type"] or "note"))


def serve(calls: Sequence[Call], sink: int) -> None:
    """Serve the editor on standard input and a descriptor, until it goes."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL + 1)  # it logs messages that fail, with the text of files
    server = make_server(calls)
    with os.fdopen(sink, "wb") as output:
        server.start_io(stdout=output)
    for thread in server.threads:
        thread.shutdown(wait=False, cancel_futures=True)
