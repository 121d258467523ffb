"""Search as you type, with a preview of each hit.

Arrow keys choose a hit. Enter prints its section, Ctrl-O opens it in your editor ($VISUAL or $EDITOR), Esc leaves. If the output
goes to a pipe, Enter prints the id of the hit instead. Needs the extra 'pick' (prompt_toolkit).

examples:
  lorelog pick
  lorelog pick webhook retries
  lorelog show "$(lorelog pick redis)"
"""

from __future__ import annotations

import sys

from lorelog.core.errors import LorelogError, UsageError
from lorelog.core.extras import require_extra
from lorelog.surfaces.cli.arguments import (
    add_arguments,
    add_project_option,
    add_scope_options,
    request_of,
    search_filters,
)
from lorelog.surfaces.cli.client import OperationClient, with_scope_flags
from lorelog.surfaces.cli.render import one_line, printable, short_path, shorten
from lorelog.surfaces.cli.render.hits import format_date

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from asyncio import Task
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor
    from typing import Any

    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.layout import Layout

    from lorelog.operations.operation import Json

_MAX_HITS = 50
_TYPING_PAUSE_S = 0.08
"""A search starts when no key was pressed for so long."""
_KEYS = "↑↓ choose   Enter print   Ctrl-O open in editor   Esc leave"
_STYLE = {"chosen": "reverse", "place": "ansicyan", "dim": "ansibrightblack", "keys": "reverse"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("query", metavar="QUERY", nargs="*", help="what to search for first")
    add_arguments(parser, search_filters())
    add_project_option(parser)
    add_scope_options(parser)


def run(args: argparse.Namespace) -> int:
    """Let the user choose a hit, and print or open it; 1 if none was chosen."""
    if not sys.stdin.isatty() or not (sys.stdout.isatty() or sys.stderr.isatty()):
        raise UsageError("pick needs a terminal", hint="lorelog search QUERY")
    require_extra("pick", "lorelog pick")
    client = OperationClient(args.warm, start_daemon=True, shared=True)
    try:
        return _finish(Picker(args, client).run(" ".join(args.query)))
    finally:
        client.close()


def _finish(chosen: tuple[str, Json] | None) -> int:
    """Print or open the chosen section."""
    if chosen is None:
        return 1
    action, section = chosen
    if action == "open":
        from lorelog.surfaces.cli.commands.find.show import open_in_editor

        return 1 if open_in_editor(section) else 0
    if not sys.stdout.isatty():
        print(section["id"])
        return 0
    print(f"{short_path(section['source'])}:{section['start_line']}  {format_date(section)}  {section['id'][:8]}")
    print()
    print(printable(section["content"]))
    return 0


class Picker:
    """The interactive search: a line to type in, the hits, and the section of the chosen one."""

    def __init__(self, args: argparse.Namespace, client: OperationClient) -> None:
        self._args = args
        self._client = client
        self._hits: list[Json] = []
        self._chosen = 0
        self._sections: dict[str, Json] = {}
        self._message = ""
        self._search: Task[None] | None = None
        self._worker: ThreadPoolExecutor | None = None

    def run(self, query: str) -> tuple[str, Json] | None:
        """Return what to do with which section; None if the user left."""
        from concurrent.futures import ThreadPoolExecutor

        from prompt_toolkit.application import Application
        from prompt_toolkit.buffer import Buffer
        from prompt_toolkit.document import Document as TypedText
        from prompt_toolkit.output import create_output
        from prompt_toolkit.styles import Style

        self._buffer = Buffer(document=TypedText(query, len(query)), multiline=False)
        self._buffer.on_text_changed += lambda _: self._schedule()
        self._application: Application[tuple[str, Json] | None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            style=Style.from_dict(_STYLE),
            full_screen=True,
            # Standard output may be a pipe that waits for the id.
            output=create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr),
        )
        with ThreadPoolExecutor(1) as self._worker:  # one: calls of the client must not overlap
            chosen: tuple[str, Json] | None = self._application.run(pre_run=self._schedule)
            return chosen

    def _layout(self) -> Layout:
        from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, Window
        from prompt_toolkit.layout.processors import BeforeInput

        line = Window(BufferControl(self._buffer, [BeforeInput("search: ")]), height=1)
        hits = Window(FormattedTextControl(self._format_hits), height=lambda: min(10, max(1, len(self._hits))))
        preview = Window(FormattedTextControl(self._format_preview), wrap_lines=True)
        rule = Window(char="─", height=1, style="class:dim")
        keys = Window(FormattedTextControl(_KEYS), height=1, style="class:keys")
        return Layout(HSplit([line, hits, rule, preview, keys]), focused_element=line)

    def _keys(self) -> KeyBindings:
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()
        for names, move in ((("up", "c-p"), -1), (("down", "c-n"), 1), (("pageup",), -10), (("pagedown",), 10)):
            for name in names:
                keys.add(name)(self._moves(move))
        keys.add("enter")(lambda _: self._choose("print"))
        keys.add("c-o")(lambda _: self._choose("open"))
        for name in ("escape", "c-c", "c-d"):
            keys.add(name, eager=True)(lambda event: event.app.exit(result=None))
        return keys

    def _moves(self, step: int) -> Callable[[KeyPressEvent], None]:
        def move(_: KeyPressEvent) -> None:
            self._chosen = min(max(self._chosen + step, 0), max(len(self._hits) - 1, 0))
            self._schedule(search=False)

        return move

    def _choose(self, action: str) -> None:
        """Leave with the chosen hit, once its section is read."""
        if self._hits:
            identity = self._hits[self._chosen]["id"]

            async def leave() -> None:
                section = await self._section(identity)
                if section and not self._application.is_done:  # Enter may be pressed twice
                    self._application.exit(result=(action, section))

            self._application.create_background_task(leave())

    def _schedule(self, *, search: bool = True) -> None:
        """Search for the typed words soon, or only read the chosen section; an earlier request is dropped."""
        if self._search is not None:
            self._search.cancel()
        self._search = self._application.create_background_task(self._update(search=search))

    async def _update(self, *, search: bool) -> None:
        from asyncio import sleep

        query = self._buffer.text.strip()
        if search:
            await sleep(_TYPING_PAUSE_S)
            self._hits = await self._find(query) if query else []
            self._chosen = 0
            self._application.invalidate()
        if self._hits:
            await self._section(self._hits[self._chosen]["id"])
        self._application.invalidate()

    async def _find(self, query: str) -> list[Json]:
        request = {"query": query, "k": _MAX_HITS, "one_per_memory": True, **request_of(self._args, search_filters())}
        reply = await self._call("memory.search", request)
        if reply is None:
            return []
        self._message = "" if reply["hits"] else "; ".join(["Nothing found.", *reply["notes"]])
        hits: list[Json] = reply["hits"]
        return hits

    async def _section(self, identity: str) -> Json | None:
        """Return the section of a hit, read once."""
        if identity not in self._sections:
            section = await self._call("memory.expand", {"id": identity})
            if section is None:
                return None
            self._sections[identity] = section
        return self._sections[identity]

    async def _call(self, operation: str, arguments: Json) -> Any:
        """Return an operation's reply; None, with a message on the screen, if it fails."""
        from asyncio import get_running_loop

        request = with_scope_flags(self._args, arguments)
        try:
            return await get_running_loop().run_in_executor(self._worker, self._client.call, operation, request)
        except LorelogError as error:
            self._message = error.message
            return None

    def _format_hits(self) -> StyleAndTextTuples:
        width = self._application.output.get_size().columns
        rows: StyleAndTextTuples = []
        first = max(0, self._chosen - 9)
        for number, hit in enumerate(self._hits[first : first + 10], first):
            style = "class:chosen" if number == self._chosen else ""
            place = f"{short_path(hit['source'])}:{hit['start_line']}"
            label = "  ".join(filter(None, (hit["confidence"], format_date(hit))))
            text = shorten(one_line(hit["snippet"]), max(0, width - len(place) - len(label) - 6))
            rows += [(style or "class:place", place), (style, f"  {label}  {text}"), ("", "\n")]
        return rows or [("class:dim", self._message or "Type words or a question.")]

    def _format_preview(self) -> StyleAndTextTuples:
        if not self._hits:
            return []
        section = self._sections.get(self._hits[self._chosen]["id"])
        return [("", printable(section["content"]) if section else "…")]
