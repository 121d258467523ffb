"""Commands about the context of agents: deliveries, handoff, init, agent-context and session-start."""

from __future__ import annotations

import os

from lorelog.core.errors import LorelogError, UsageError
from lorelog.surfaces.cli.arguments import add_scope_options, expand_path, request_of
from lorelog.surfaces.cli.client import call_command, call_operation, print_reply
from lorelog.surfaces.cli.render import (
    one_line,
    plural,
    print_json,
    print_note,
    print_notes,
    print_table,
    printable,
    short_path,
)
from lorelog.surfaces.cli.render.records import short_record_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from lorelog.operations.operation import Json
    from lorelog.services.context.init import InitChange

_DELIVERY_FILTERS = ("session", "since", "kind", "memory")
_ID_CHARS = 8
_TEXT_CHARS = 48
_CUE_CHARS = 32


def configure_deliveries(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the review."""
    parser.add_argument("--unused", action="store_true", help="list memories that were delivered and never used")
    parser.add_argument("--min", type=int, metavar="N", help="with --unused: delivered at least N times (default 5)")


def run_deliveries(args: argparse.Namespace) -> int:
    """Show the memories that agents were shown: when, why, how many tokens they cost, and whether they were used.

    Hooks add memories to an agent's context at the start of a session, to a prompt, and before or after a tool call whose
    file, command or error matches a memory's cue. Each delivery is logged. Whether a memory was used is noted where it can be
    seen: its id in the assistant's text or tool calls, a guard that was obeyed, a call that was changed.
    The column 'used' is empty while the turns after a delivery are not captured.

    --unused lists memories that were delivered repeatedly and never used. They are shown after others; review them.

    examples:
      lorelog deliveries
      lorelog deliveries --session 1f0a --since 7d
      lorelog deliveries --kind cue --memory 65fcbf6e --json
      lorelog deliveries --unused
    """
    if args.unused and any(getattr(args, name) for name in _DELIVERY_FILTERS):
        raise UsageError("--unused cannot be combined with filters", hint="lorelog deliveries --unused --min 10")
    if args.min is not None and not args.unused:
        raise UsageError("--min requires --unused", hint="lorelog deliveries --unused --min 10")
    if not args.unused:
        return print_reply(args, call_command(args), _show_deliveries)
    least = {} if args.min is None else {"min_deliveries": args.min}
    return print_reply(args, call_operation(args, "delivery.unused", {**request_of(args), **least}), _show_unused)


def _show_deliveries(reply: Json, args: argparse.Namespace) -> None:
    if not reply["deliveries"]:
        filters = {name: getattr(args, name) for name in _DELIVERY_FILTERS if getattr(args, name)}
        named = ", ".join(f"{name} {one_line(value)}" for name, value in filters.items())
        print(f"No deliveries match {named}." if named else "No deliveries.")
        return
    rows: list[tuple[str, ...]] = [("when", "host", "session", "moment", "memory", "cue", "tokens", "used")]
    short = short_record_ids(memory["id"] for delivery in reply["deliveries"] for memory in delivery["memories"])
    rows += [row for delivery in reply["deliveries"] for row in _delivery_rows(delivery, short)]
    print_table(rows, right=(6,))
    count, tokens = plural(reply["total_count"], "delivery"), f"{reply['total_tokens']:,}"
    more = "; use -n to show more" if reply["total_count"] > len(reply["deliveries"]) else ""
    print_note(f"{count}, {tokens} tokens{more}")


def _delivery_rows(delivery: Json, short: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield one row per memory; the first has the time, the session and the tokens of them all."""
    cue = delivery["cue"] or (f"guard {delivery['guard'][:_ID_CHARS]}" if delivery["guard"] else "")
    head = (
        _local_time(delivery["at"]),
        one_line(delivery["host"]),
        one_line(delivery["session"][:_ID_CHARS]),
        one_line(delivery["moment"]),
    )
    for number, memory in enumerate(delivery["memories"] or ({"id": "", "text": "", "used": None, "how": ""},)):
        words = one_line(memory["text"])
        text = words if len(words) <= _TEXT_CHARS else words[: _TEXT_CHARS - 1] + "…"
        used = "" if memory["used"] is None else memory["how"] or "no"
        name = f"{one_line(short.get(memory['id'], ''))} {text}".strip()
        if number:
            yield ("", "", "", "", name, "", "", used)
        else:
            yield (*head, name, one_line(cue[:_CUE_CHARS]), f"{delivery['tokens']:,}", used)


def _show_unused(reply: Json, args: argparse.Namespace) -> None:
    if not reply["memories"]:
        print("No memory was delivered repeatedly without being used.")
        return
    rows = [("unused", "last", "type", "memory")]
    short = short_record_ids(memory["id"] for memory in reply["memories"])
    for memory in reply["memories"]:
        text = one_line(memory["text"])[: 2 * _TEXT_CHARS]
        last = _local_time(memory["last"])[:10]
        rows.append(
            (f"{memory['unused']:,}×", last, one_line(memory["type"]), f"{one_line(short[memory['id']])} {text}")
        )
    print_table(rows, right=(0,))
    for action in reply["actions"]:
        print_note(f"{action['command']:<26} {action['purpose']}")


def _local_time(at: str) -> str:
    from datetime import datetime

    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return one_line(at[:16])


def show_handoff(reply: Json, args: argparse.Namespace) -> None:
    """Print what the next agent needs of a session: goal, state, decisions, files, open questions, failing command.

    It is made from the notes of captured turns, without a model, so a session of one host can go on in another. Paste it into the
    next agent; or --inject shows it, once, at the start of the next session of that host in this project, until tomorrow.

    examples:
      lorelog handoff --to codex
      lorelog handoff --to claude --inject
      lorelog handoff --session 46d503e3 | pbcopy
    """
    print(reply["text"], end="")
    if reply["until"]:
        print_note(
            f"the next {args.to or 'agent'} session in this project is shown it at its start, until {reply['until']}"
        )


def configure_agent_context(parser: argparse.ArgumentParser) -> None:
    """Declare where the context is written."""
    parser.add_argument("--output", "--out", metavar="FILE", help="write to FILE atomically, and print nothing")
    parser.add_argument("--log-dir", metavar="DIR", help="also log the result and the queries there (mode 0600)")


def run_agent_context(args: argparse.Namespace) -> int:
    """Print the context an agent should read before it works.

    A short text: memories that answer the queries, current decisions, failures to avoid, open tasks and frequently used memories,
    each with an id to cite and its trust level. It has at most --token-budget tokens, counted with the built-in tokenizer,
    and lists what was left out. Without a query it shows the newest entries.

    --log-dir writes each result to a file of its own, lorelog_context_<ms>.json, and to lorelog_context_log.jsonl. Both contain
    the queries, and are readable by you alone.

    examples:
      lorelog agent-context --query "how do we deploy" --query "flaky tests"
      lorelog agent-context --query "tax" --output .lorelog/context.md
      lorelog agent-context --query "tax" --format json --log-dir ~/.lorelog/log
    """
    from lorelog.services.context.init import write_context_log, write_output

    reply = call_command(args)
    if args.log_dir:
        write_context_log(expand_path(args.log_dir), reply)
    if args.output:
        write_output(expand_path(args.output), reply["text"])
    if args.json:
        print_json(reply)
        return 0
    if not args.output:
        print(printable(reply["text"]), end="")
    print_notes(reply)
    return 0


_INIT_LABELS = {"create": "wrote", "update": "updated", "delete": "deleted", "unchanged": "unchanged:"}
_DRY_RUN_LABELS = {
    "create": "would write",
    "update": "would update",
    "delete": "would delete",
    "unchanged": "unchanged:",
}


def configure_init(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--tenant", metavar="NAME", default="", help="tenant of this project's memories (default: the default tenant)"
    )
    parser.add_argument(
        "--project", metavar="DIR", help="project directory (default: the current repository or directory)"
    )
    parser.add_argument("--no-agent-files", action="store_true", help="do not change AGENTS.md and CLAUDE.md")
    parser.add_argument("--remove", action="store_true", help="delete the block from AGENTS.md and CLAUDE.md")
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text (lorelog docs json)")


def run_init(args: argparse.Namespace) -> int:
    """Set up a directory as a lorelog project: a scope file, and instructions for agents.

    Writes .lorelog/scope.json, and a marked block into AGENTS.md and CLAUDE.md if they exist (AGENTS.md is created if neither
    does). The block tells agents to search before they work, to cite, to treat memories as data, and to record decisions.
    Running it again changes nothing or updates the block; the rest of the files stays byte for byte the same. --remove deletes
    the block.

    A tenant keeps memories separate. A directory can only ask for a tenant: you allow it with 'lorelog config set scope.tenants'.

    examples:
      lorelog init
      lorelog init --tenant work --dry-run
      lorelog init --project ~/src/shop --no-agent-files
      lorelog init --remove
    """
    from lorelog.services.context.init import apply_changes, plan_init, plan_removal

    directory = _project_directory(args.project)
    if args.remove and (args.tenant or args.no_agent_files):
        raise UsageError("--remove cannot be combined with --tenant or --no-agent-files")
    notes = [] if args.remove else _tenant_notes(args.tenant, directory)
    changes = (
        plan_removal(directory)
        if args.remove
        else plan_init(directory, tenant=args.tenant, agent_files=not args.no_agent_files)
    )
    if not args.dry_run:
        apply_changes(directory, changes)
    if args.json:
        print_json(_init_json(directory, changes, notes, dry_run=args.dry_run))
        return 0
    labels = _DRY_RUN_LABELS if args.dry_run else _INIT_LABELS
    for change in changes:
        print(f"{labels[change.kind]} {short_path(str(change.path))}")
    if not changes:
        print("Nothing to do.")
    for text in notes:
        print_note(text)
    return 0


def _project_directory(option: str | None) -> str:
    """Return the directory of --project, or else the current working tree."""
    from lorelog.services.places.project import find_project
    from lorelog.wiring import working_directory

    if option is None:
        return find_project(working_directory()).root
    directory = os.path.realpath(expand_path(option))
    if not os.path.isdir(directory):
        raise UsageError(f"there is no directory {option}", hint="--project must be the directory of a project")
    return directory


def _tenant_notes(tenant: str, directory: str) -> list[str]:
    """Return what the user must do to enable the tenant. Raise ConfigError for an invalid name."""
    if not tenant:
        return []
    from lorelog.wiring import resolve_location, settings_at, user_settings

    location = resolve_location(project=directory, tenant=tenant)
    settings_at(location, {"scope.tenant": tenant})
    allowed = user_settings(location.home).allowed_tenants()
    if tenant in allowed:
        return []
    return [f"to enable the tenant, run: lorelog config set scope.tenants {','.join((*allowed, tenant))}"]


def _init_json(directory: str, changes: list[InitChange], notes: list[str], *, dry_run: bool) -> dict[str, object]:
    return {
        "project": directory,
        "dry_run": dry_run,
        "files": [{"path": str(change.path), "change": change.kind} for change in changes],
        "notes": notes,
    }


CONTEXT_FILE = "context.md"
_MEMORY_COUNT = 10


def configure_session_start(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--project", metavar="DIR", default=".", help="a directory in the project (default: the current one)"
    )
    parser.add_argument(
        "--token-budget", type=int, default=700, metavar="N", help="maximum size of the file in tokens (default 700)"
    )
    add_scope_options(parser)


def run_session_start(args: argparse.Namespace) -> int:
    """Update .lorelog/context.md, the file that an agent reads before it works.

    It has the newest information about the project, in at most --token-budget tokens: memories, current decisions, failures to
    avoid, open tasks and frequently used memories. Tenants other than the default have it in
    .lorelog/tenants/<tenant>/context.md. Made for hooks: it prints nothing, and it succeeds even if nothing can be written;
    the reason is printed to standard error. An invalid scope file is reported there too; 'lorelog init' creates one.

    examples:
      lorelog session-start
      lorelog session-start --project "$CLAUDE_PROJECT_DIR"
    """
    directory = os.path.realpath(expand_path(args.project))
    if not os.path.isdir(directory):
        raise UsageError(f"there is no directory {args.project}", hint="--project must be a directory in the project")
    args.project = directory
    request = {"k": _MEMORY_COUNT, "token_budget": args.token_budget}
    reply: Json | None = None
    try:
        reply = call_operation(args, "context.agent_context", request, start_daemon=True)
        _write_context(directory, reply)
    except (LorelogError, OSError) as error:
        if reply is None and isinstance(error, UsageError):  # an invalid argument
            raise
        print_note(f"{CONTEXT_FILE} was not updated: {error}")
    return 0


def _write_context(directory: str, reply: Json) -> None:
    """Write the file into the current working tree, wherever the project's memories are kept.

    An empty context does not create a project folder, and the user's home directory is not a project.
    """
    from lorelog.services.context.init import write_output
    from lorelog.services.places.project import apply_scope_file, find_project, find_scope_file
    from lorelog.services.places.project_folder import FOLDER, create_project_folder

    project = find_project(directory)
    scope = find_scope_file(directory)
    root = (apply_scope_file(scope, project) if scope is not None else project).root
    exists = os.path.isdir(os.path.join(root, FOLDER))
    if root == os.path.realpath(os.path.expanduser("~")) or not (exists or reply["result_count"]):
        return
    folder = create_project_folder(root)
    if reply["tenant"] != "default":
        folder = _tenant_folder(folder, reply["tenant"])
    write_output(os.path.join(folder, CONTEXT_FILE), reply["text"], follow=False)


def _tenant_folder(folder: str, tenant: str) -> str:
    from lorelog.core.errors import StoreUnwritable
    from lorelog.core.paths import is_below

    tenant_folder = os.path.join(folder, "tenants", tenant)
    os.makedirs(tenant_folder, mode=0o700, exist_ok=True)
    if not is_below(os.path.realpath(tenant_folder), os.path.realpath(folder)):
        raise StoreUnwritable(f"{tenant_folder} is a link out of the project", hint="replace it with a directory")
    return tenant_folder
