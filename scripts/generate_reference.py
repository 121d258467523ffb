"""Writes the parts of the documentation that the code already says, or with --check fails when they are out of date.

Each generated part stands between two comments in a page that is otherwise written by hand:

    <!-- generated: settings (scripts/generate_reference.py) -->
    <!-- end: settings -->

A new part is a new line in PARTS: the page, the marker's name and the function that renders it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # the tree this script belongs to, whatever is installed

from e2e.behaviours import BEHAVIOURS  # noqa: E402
from e2e.hosts import HOSTS as E2E_HOSTS  # noqa: E402
from e2e.hosts import NOT_RUN  # noqa: E402
from e2e.installing import SEEN_FILE, pinned  # noqa: E402
from scripts.derive_options import render_options  # noqa: E402

from e2e import at_terminal  # noqa: E402, F401 - puts its rows into the table
from lorelog.config.schema import SETTINGS, Setting  # noqa: E402
from lorelog.config.settings import format_toml  # noqa: E402
from lorelog.core.errors import LorelogError, UsageError  # noqa: E402
from lorelog.core.policy import RIGHTS, Caller  # noqa: E402
from lorelog.hosts import ADAPTERS, HOST_TITLES, HOSTS, host_adapter, host_data_folder  # noqa: E402
from lorelog.ingest.importers.source import SOURCE_MODULES, open_source  # noqa: E402
from lorelog.operations.catalogue import all_operations, describe_all  # noqa: E402
from lorelog.operations.operation import Json  # noqa: E402
from lorelog.services.sessions.agents import all_agents  # noqa: E402
from lorelog.stores.embedded.connection import open_writer  # noqa: E402
from lorelog.surfaces.cli.commands import COMMANDS, OPTIONS_FILE  # noqa: E402
from lorelog.surfaces.cli.parser import command_parser  # noqa: E402


@dataclass(frozen=True, slots=True)
class Part:
    """A generated part of a page."""

    page: str
    marker: str
    render: Callable[[], str]


def render_settings() -> str:
    """Render the reference table of all settings."""
    lines = ["| key | type | default | environment variable | project file | meaning |", "|---|---|---|---|---|---|"]
    lines += [_row(setting) for setting in SETTINGS]
    return "\n".join(lines)


def _row(setting: Setting) -> str:
    accepted = str(setting.kind) if setting.accepts == f"a {setting.kind}" else setting.accepts
    cells = (
        f"`{setting.key}`",
        accepted,
        f"`{format_toml(setting.default)}`",
        f"`{setting.variable}`",
        "yes" if setting.project_allowed else "no",
        setting.meaning,
    )
    return _cells(cells)


def _cells(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def render_commands() -> str:
    """Render every command: what it does, what it takes, examples.

    From the parsers' actions and not from `format_help`, whose layout differs between versions of Python.
    """
    return "\n\n".join(block for name in COMMANDS for block in _command(command_parser(name)))


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    about, _, examples = (parser.description or "").partition("examples:\n")
    depth = "##" if parser.prog.count(" ") == 1 else "###"
    yield f"{depth} {parser.prog}"
    if about:
        yield _escaped(about.strip())
    yield f"```text\n{usage_line(parser)}\n```"
    actions = [action for action in parser._actions if action.dest != "help"]  # noqa: SLF001  (argparse offers no other way)
    rows = [_action(action) for action in actions if not isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if rows:
        yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])
    if examples:
        yield "\n".join(["```console", *(_example(line) for line in examples.strip().split("\n")), "```"])
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001
            for name, verb in action.choices.items():
                verb.description = f"{helps[name][:1].upper()}{helps[name][1:]}."
                yield from _command(verb)


def usage_line(parser: argparse.ArgumentParser) -> str:
    actions = [action for action in parser._actions if action.dest != "help"]  # noqa: SLF001
    words = [parser.prog]
    if any(action.option_strings for action in actions):
        words.append("[OPTIONS]")
    for action in actions:
        if not action.option_strings:
            name = placeholder(action)
            words.append(f"[{name} ...]" if action.nargs == "*" else name)
    return " ".join(words)


def _action(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else placeholder(action)
    spelled = [f"{option} {value}".strip() for option in action.option_strings] or [value]
    return _cells((", ".join(f"`{item}`" for item in spelled), _escaped(action.help or "")))


def placeholder(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
        return str(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return str(action.metavar or action.dest.upper())


def _example(line: str) -> str:
    """Return an example of a help text as a shell line, with its explanation as a comment."""
    command, _, explained = re.sub(r" {2,}", "\0", line.strip()).partition("\0")
    return f"$ {command}  # {explained}" if explained else f"$ {command}"


def _escaped(text: str) -> str:
    """Return text with Markdown escaped."""
    return re.sub(r"([<*_])", r"\\\1", text)


def render_errors() -> str:
    """Render the table of errors, parents before children."""
    lines = ["| code | class | meaning | exit status |", "|---|---|---|---|"]
    lines += [
        _cells((f"`{kind.code}`", f"`{kind.__name__}`", (kind.__doc__ or "").strip(), exit_status(kind)))
        for kind in error_classes()
    ]
    return "\n".join(lines)


def error_classes(top: type[LorelogError] = LorelogError) -> Iterator[type[LorelogError]]:
    """Yield an error class and its subclasses."""
    yield top
    for kind in top.__subclasses__():
        yield from error_classes(kind)


def exit_status(kind: type[LorelogError]) -> str:
    """Return the exit status of a command that raises such an error."""
    return "2" if issubclass(kind, UsageError) else "1"


def render_schema() -> str:
    """Render the schema of a new catalog from SQLite."""
    with tempfile.TemporaryDirectory() as place, closing(open_writer(Path(place) / "catalog.db")) as database:
        application = database.execute("PRAGMA application_id").fetchone()[0]
        version = database.execute("PRAGMA user_version").fetchone()[0]
        found = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
        statements = [re.sub(r"\n +", "\n    ", sql) + ";" for (sql,) in found]
    pragmas = [f"PRAGMA application_id = {application:#x};", f"PRAGMA user_version = {version};"]
    return "\n".join(["```sql", *pragmas, *statements, "```"])


def render_agents() -> str:
    """Render the agents whose sessions are read: where those lie, what there is of each format, and how its reader was verified."""
    lines = ["| agent | name | sessions | what is read | verified with |", "|---|---|---|---|---|"]
    for name, agent in all_agents().items():
        folder = f"{host_data_folder(name, {})}/".replace(str(Path.home()), "~") if name in HOSTS else ""
        places = ", ".join(f"`{folder}{pattern.replace('editors/', '<editor>/User/')}`" for pattern in agent.files)
        lines.append(_cells((agent.title, f"`{name}`", places, agent.form, agent.verified or _UNVERIFIED)))
    return "\n".join(lines)


def render_agent_names() -> str:
    """Render the agents whose sessions are read, and how their readers were verified."""
    rows = [
        (agent.title, f"`lorelog backfill {name}`", agent.verified or _UNVERIFIED)
        for name, agent in all_agents().items()
    ]
    return "\n".join(["| agent | alone | verified with |", "|---|---|---|", *map(_cells, rows)])


def render_sources() -> str:
    """Render the tools whose memories are imported, by what their readers say of themselves."""
    lines = ["| source | reads | goes to | its reader was tested with |", "|---|---|---|---|"]
    for name in SOURCE_MODULES:
        source = open_source(name)
        about = " ".join((source.__doc__ or "").partition("\n\n")[0].split()).rstrip(".")
        about = about.removeprefix(f"{name}: ").removeprefix(f"{source.title}: ")
        tested = " ".join((source.__doc__ or "").partition("Tested with ")[2].split()).rstrip(".")
        place = "global" if source.is_personal else "the project"
        lines.append(_cells((f"`{name}`", about, place, tested)))
    return "\n".join(lines)


def render_host_events() -> str:
    """Render what each host lets us do, by its adapter, and how much of it was seen in the real program."""
    lines = [
        "| host | capture, at | session start | prompt | guard, before a call | memory with a call | seen in |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, title in HOST_TITLES.items():
        adapter = host_adapter(name)
        events = {moment: "plugin" if name in ADAPTERS else f"`{event}`" for event, moment in adapter.MOMENTS.items()}
        late = getattr(adapter, "START_WITH_PROMPT", False)
        start = "with the first prompt" if late else events["session-start"]
        with_call = "no" if "deliver" in E2E_HOSTS[name].absent else "with its result"
        rows = [row for row in BEHAVIOURS if row not in E2E_HOSTS[name].absent]
        seen = f"{_version(name)}: {len(_seen(name))} of {len(rows)} rows"
        cells = (title, events["turn-end"], start, events["prompt"], events["tool-before"], with_call, seen)
        lines.append(_cells(cells))
    return "\n".join(lines)


def render_host_rows() -> str:
    """Render every behaviour by every host: seen, not possible, or not seen; and why not."""
    lines = ["| behaviour | " + " | ".join(HOST_TITLES.values()) + " |", "|---" * (1 + len(HOST_TITLES)) + "|"]
    reasons: dict[tuple[str, str], list[str]] = {}
    for row, behaviour in BEHAVIOURS.items():
        states = []
        for name, title in HOST_TITLES.items():
            why = E2E_HOSTS[name].absent.get(row, "")
            states.append("n/a" if why else "ok" if row in _seen(name) else "")
            if why:
                reasons.setdefault((why, row), []).append(title)
        lines.append(_cells((behaviour.promise, *states)))
    days = [sorted({told.rpartition(" ")[2] for told in _seen(name).values()}) for name in HOST_TITLES]
    lines.append(_cells(("seen on", *(" to ".join(dict.fromkeys((few[0], few[-1]))) if few else "" for few in days))))
    by_hosts: dict[tuple[str, str], list[str]] = {}
    for (why, row), titles in reasons.items():
        by_hosts.setdefault((", ".join(titles), why), []).append(row)
    notes = [f"- n/a, {titles} ({', '.join(rows)}): {why}." for (titles, why), rows in by_hosts.items()]
    return "\n".join([*lines, "", *notes])


def _version(host: str) -> str:
    return next(iter(pinned()[host].values()))


def _seen(host: str) -> dict[str, str]:
    """Return the rows that were seen in the pinned version of a host: version and day."""
    seen = {row: told for row, told in SEEN.get(host, {}).items() if told.startswith(f"{_version(host)} ")}
    return {row: told for row, told in seen.items() if row not in E2E_HOSTS[host].absent}


def render_unproven() -> str:
    """Render the programs that were looked at and are not hosts, and why."""
    return "\n".join(["| program | why not |", "|---|---|", *(_cells(pair) for pair in NOT_RUN.items())])


def render_operations() -> str:
    """Render every operation: description, parameters, errors, and where it is available."""
    return "\n\n".join(block for described in describe_all() for block in _operation(described))


def _operation(described: Json) -> Iterator[str]:
    yield f"## {described['name']}"
    yield _escaped(described["description"])
    needed = set(described["request"].get("required", ()))
    rows = [
        _cells(
            (f"`{name}`", _kind(field), "needed" if name in needed else f"`{json.dumps(field.get('default'))}`", said)
        )
        for name, field in described["request"]["properties"].items()
        if name not in ("project", "tenant")
        for said in [field.get("description", "")]
    ]
    if rows:
        yield "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows])
    absent = [f"not over {name}: {why}" for name, why in described["surfaces"].items() if why is not True]
    errors = ", ".join(f"`{code}`" for code in described["errors"])
    yield f"Errors: {errors}." + "".join(f" {item[0].upper()}{item[1:]}." for item in absent)


def _kind(field: Json) -> str:
    if "anyOf" in field:
        return " or ".join(_kind(item) for item in field["anyOf"] if item.get("type") != "null")
    if "enum" in field:
        return "one of " + ", ".join(f"`{item}`" for item in field["enum"] if item is not None)
    if "$ref" in field:
        return "object"
    plain = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}s".replace("ss", "s")
    return plain.get(str(field.get("type")), str(field.get("type", "")))


def render_once() -> str:
    """Render the operations that declare `once` as lines of Python: a warm command may not import their declarations."""
    names = sorted(operation.name for operation in all_operations().values() if operation.once)
    return "".join(f'    "{line} "\n' for line in wrap(" ".join(names), 100))


def render_policy() -> str:
    """Render who may do what: a row for each right, with the operations that need it."""
    named: dict[str, list[str]] = {name: [] for name in RIGHTS}
    for operation in all_operations().values():
        named[next(name for name, right in RIGHTS.items() if right is operation.right)].append(f"`{operation.name}`")
    lines = ["| what | operations | " + " | ".join(Caller) + " |", "|---" * (2 + len(Caller)) + "|"]
    for name, right in RIGHTS.items():
        few = ", ".join(named[name]) if len(named[name]) <= _MAX_LISTED else f"{len(named[name])} operations"
        lines.append(_cells((right.does, few or "some of the above, by their arguments", *right.permissions)))
    return "\n".join(lines)


_MAX_LISTED = 12
SEEN: dict[str, dict[str, str]] = json.loads(SEEN_FILE.read_text(encoding="utf-8"))

_UNVERIFIED = "nothing: by its documentation"
PARTS = (
    Part("docs/configuration.md", "settings", render_settings),
    Part("docs/cli.md", "commands", render_commands),
    Part("docs/errors.md", "errors", render_errors),
    Part("docs/operations.md", "operations", render_operations),
    Part("docs/security.md", "policy", render_policy),
    Part("docs/store.md", "schema", render_schema),
    Part("docs/hosts.md", "events", render_host_events),
    Part("docs/hosts.md", "rows", render_host_rows),
    Part("docs/hosts.md", "unproven", render_unproven),
    Part("docs/import.md", "sources", render_sources),
    Part("docs/import.md", "agents", render_agent_names),
    Part("docs/transcripts.md", "agents", render_agents),
)


def refreshed(text: str, part: Part) -> str:
    """Return a page with one part rendered again."""
    opening = f"<!-- generated: {part.marker} (scripts/generate_reference.py) -->\n"
    closing = f"<!-- end: {part.marker} -->\n"
    before, found, rest = text.partition(opening)
    _, ended, after = rest.partition(closing)
    if not found or not ended:
        raise SystemExit(f"{part.page} has no place for {part.marker}: expected the lines\n{opening}{closing}")
    return f"{before}{opening}\n{part.render()}\n\n{closing}{after}"


def main() -> int:
    """Update or check every part; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a page is out of date")
    check = parser.parse_args().check
    options = Path(OPTIONS_FILE)  # before the pages: docs/cli.md shows what it says
    stale = _update(options, render_options(all_operations().values()), "options", check=check)
    wire = ROOT / "src/lorelog/light/daemon_connection.py"
    opening, closing = "    # generated: once (scripts/generate_reference.py)\n", "    # end: once\n"
    before, _, rest = wire.read_text(encoding="utf-8").partition(opening)
    listed = f"{before}{opening}{render_once()}{closing}{rest.partition(closing)[2]}"
    stale |= _update(wire, listed, "once", check=check)
    for part in PARTS:
        page = ROOT / part.page
        stale |= _update(page, refreshed(page.read_text(encoding="utf-8"), part), part.marker, check=check)
    return 1 if check and stale else 0


def _update(file: Path, text: str, subject: str, *, check: bool) -> bool:
    """Write a text unless only checked, and return whether the file had another one."""
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return False
    if not check:
        file.write_text(text, encoding="utf-8")
    state = "is out of date; run scripts/generate_reference.py" if check else "written"
    print(f"{file.relative_to(ROOT)}: {subject} {state}")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
