"""Commands about agents: deliveries, handoff, init, agent-context, session-start, guard and backfill."""

from __future__ import annotations

import os
from functools import lru_cache

from lorelog.core.errors import ConfigError, LorelogError, StoreUnwritable, UsageError, plural
from lorelog.core.paths import is_below, tenant_folder
from lorelog.light.daemon_connection import find_address
from lorelog.surfaces.cli.arguments import expand_path, request_of
from lorelog.surfaces.cli.client import (
    OperationClient,
    call_command,
    call_operation,
    call_with_progress,
    print_note,
    print_notes,
    print_problems,
    print_reply,
    print_table,
    progress_bar,
)
from lorelog.surfaces.cli.record_text import format_time, short_record_ids
from lorelog.surfaces.text import one_line, printable, short_path, stylize, truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from lorelog.operations.operation import Json
    from lorelog.services.sessions.agents import HostSession, SeenTranscripts

ARGUMENTS = {
    "deliveries": {
        "--balance": "say what each memory cost, and what was seen of its use",
        "--unused": "the same of memories that were delivered repeatedly and never used",
        "--min N": "with --unused: delivered at least N times (default 5)",
    },
    "agent-context": {
        "--output FILE": "write to FILE atomically, and print nothing",
        "--log-dir DIR": "also log the result and the queries there (mode 0600)",
    },
    "init": {
        "--tenant NAME": "tenant of this project's memories (default: the default tenant)",
        "--project DIR": "project directory (default: the current repository or directory)",
        "--no-agent-files": "do not change AGENTS.md and CLAUDE.md",
        "--remove": "delete the block from AGENTS.md and CLAUDE.md",
        "--dry-run": "show what would be written, and write nothing",
        "shared": "json",
    },
    "session-start": {
        "--project DIR": "a directory in the project (default: the current one)",
        "--token-budget N": "maximum size of the file in tokens (default 700)",
        "shared": "tenant daemon",
    },
    "guard add": {"--block": "block the call instead of warning"},
    "backfill": {
        "hosts AGENT*": "agents whose sessions to read, such as claude or aider (default: all that have sessions)",
        "--since DAY": "only turns on or after DAY: 2026-03-05, yesterday, 7d, 2w, 3m",
        "--all-projects": "capture the sessions of every project, each to its own journals",
        "--dry-run": "show what would be captured, and write nothing",
        "shared": "json project tenant daemon",
    },
}
HELP = {
    "guard": """\
Check the tool calls of agents against your corrections: warn, or block.

'list' also shows guards that your rules suggest ("never use npm"). 'test' replays a guard over all captured tool
calls and shows what it would have hit. 'enable' does the same, and switches it on unless it matches nearly everything.
Patterns are wildcards (* ** ?), not regular expressions. Only a guard that a person wrote or approved can block. A
guard that is dismissed three times retires. In the shell of an agent, changes to your guards need confirmation on a
terminal. Guards are kept in guards.jsonl of the tenant's folder, never in a repository.

examples:
  lorelog guard list
  lorelog guard test --command 'npm *'
  lorelog guard add --command 'npm *' --message "use pnpm, not npm"
  lorelog guard add --path 'migrations/**' --message "do not edit" --block
  lorelog guard enable g1a2b3c4 --block
  lorelog guard dismiss g1a2b3c4         it was wrong; the third time retires it
"""
}
_DELIVERY_FILTERS = ("session", "since", "kind", "memory")
_ID_CHARS = 8
_TEXT_CHARS = 48
_CUE_CHARS = 32
_NO_MEMORY: Json = {"id": "", "text": "", "used": None, "how": ""}


def run_deliveries(args: argparse.Namespace) -> int:
    """Show the memories that agents were shown: when, why, how many tokens they cost, and whether they were used.

    Hooks add memories to an agent's context at the start of a session, to a prompt, and before or after a tool call whose
    file, command or error matches a memory's cue. Each delivery is logged. Whether a memory was used is noted where it can be
    seen: its id in the assistant's text or tool calls, a guard that was obeyed, a call that was changed.
    The column 'used' is empty while the turns after a delivery are not captured.

    --balance sums up each memory: how often it was shown, its tokens, the sessions in which a use was seen, and where you rejected
    what the agent did because of it. --unused lists those that were delivered repeatedly and never used. They are shown after
    others; review them.

    examples:
      lorelog deliveries
      lorelog deliveries --session 1f0a --since 7d
      lorelog deliveries --kind cue --memory 65fcbf6e --json
      lorelog deliveries --balance
    """
    is_balance = args.balance or args.unused
    if is_balance and any(getattr(args, name) for name in _DELIVERY_FILTERS):
        name = "unused" if args.unused else "balance"
        raise UsageError(f"--{name} cannot be combined with filters", hint="leave out the filters")
    if args.min is not None and not args.unused:
        raise UsageError("--min requires --unused", hint="lorelog deliveries --unused --min 10")
    if not is_balance:
        return print_reply(args, call_command(args), _show_deliveries)
    request = {**request_of(args), "unused": args.unused, **({} if args.min is None else {"min_deliveries": args.min})}
    return print_reply(args, call_operation(args, "delivery.balance", request), _show_balance)


def _show_deliveries(reply: Json, args: argparse.Namespace) -> None:
    if not reply["deliveries"]:
        filters = {name: getattr(args, name) for name in _DELIVERY_FILTERS if getattr(args, name)}
        named = ", ".join(f"{name} {one_line(value)}" for name, value in filters.items())
        print(f"No deliveries match {named}." if named else "No deliveries.")
        return
    rows: list[tuple[str, ...]] = [("when", "host", "session", "moment", "memory", "cue", "tokens", "used")]
    short = short_record_ids(memory["id"] for delivery in reply["deliveries"] for memory in delivery["memories"])
    # A row per memory; the first has the time, the session and the tokens of them all.
    for delivery in reply["deliveries"]:
        cue = delivery["cue"] or (f"guard {delivery['guard'][:_ID_CHARS]}" if delivery["guard"] else "")
        where = (delivery["host"], delivery["session"][:_ID_CHARS], delivery["moment"])
        head = (format_time(delivery["at"]), *map(one_line, where))
        tail = (one_line(cue[:_CUE_CHARS]), f"{delivery['tokens']:,}")
        for memory in delivery["memories"] or (_NO_MEMORY,):
            text = truncate(one_line(memory["text"]), _TEXT_CHARS)
            used = "" if memory["used"] is None else memory["how"] or "no"
            rows.append((*head, f"{one_line(short.get(memory['id'], ''))} {text}".strip(), *tail, used))
            head, tail = ("", "", "", ""), ("", "")
    print_table(rows, right=(6,))
    count, tokens = plural(reply["total_count"], "delivery"), f"{reply['total_tokens']:,}"
    more = "; use -n to show more" if reply["total_count"] > len(reply["deliveries"]) else ""
    print_note(f"{count}, {tokens} tokens{more}")


def _show_balance(reply: Json, args: argparse.Namespace) -> None:
    if not reply["memories"]:
        print("No memory was delivered repeatedly without being used." if args.unused else "No deliveries.")
        return
    rows: list[tuple[str, ...]] = [("shown", "tokens", "used", "contradicted", "unused", "last", "memory")]
    short = short_record_ids(memory["id"] for memory in reply["memories"])
    for memory in reply["memories"]:
        used = ", ".join(f"{count}× {sign}" for sign, count in memory["signs"].items()) or str(memory["used"] or "")
        counts = (f"{memory[name]:,}" if memory[name] else "" for name in ("contradicted", "unused"))
        text = f"{one_line(short[memory['id']])} {truncate(one_line(memory['text']), _TEXT_CHARS)}"
        head = (f"{memory['delivered']:,}×", f"{memory['tokens']:,}", used, *counts, format_time(memory["last"])[:10])
        rows.append((*head, f"{text} (sinks)" if memory["sinks"] else text))
    print_table(rows, right=(0, 1, 3, 4))
    print_note(f"{plural(reply['total_count'], 'memory')}, {reply['total_tokens']:,} tokens")
    if reply["sinking"]:
        count, times = plural(reply["sinking"], "memory"), plural(reply["sinking_delivered"], "time")
        print_note(f"{count} shown {times} and never used: they sink, and come after others")
        print_note("one that is out of date: lorelog supersede ID TEXT; of no use: lorelog delete ID")


def show_handoff(reply: Json, args: argparse.Namespace) -> None:
    """Print what the next agent needs of a session: goal, state, decisions, files, open questions, failing command.

    It is made from the notes of captured turns, without a model, so a session of one host can go on in another. Paste it into the
    next agent; or --inject shows it, once, at the start of the next session of that host in this project, until tomorrow. For another
    person, send the text as a file: --take reads it, and --inject shows it as a quotation.

    examples:
      lorelog handoff --to codex
      lorelog handoff --to claude --inject
      lorelog handoff --session 46d503e3 | pbcopy
      lorelog handoff > handoff.md                  for a colleague, who types
      lorelog handoff --take handoff.md --inject
    """
    print(reply["text"], end="")
    if reply["until"]:
        session = f"the next {args.to or 'agent'} session in this project"
        print_note(f"{session} is shown it at its start, until {reply['until']}")


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

    def show(reply: Json, args: argparse.Namespace) -> None:
        if not args.output:
            print(printable(reply["text"]), end="")

    return print_reply(args, reply, show)


def run_init(args: argparse.Namespace) -> int:
    """Set up a directory as a lorelog project: a scope file, and instructions for agents.

    Writes .lorelog/scope.json, and a marked block into AGENTS.md and CLAUDE.md if they exist (AGENTS.md is created if neither
    does). The block tells agents to search before they work, to cite, to treat memories as data, and to record decisions.
    Running it again changes nothing or updates the block; the rest of the files stays byte for byte the same. If the directory
    has a folder .cursor, your rules are copied to .cursor/rules/lorelog, out of Git, and kept up to date. --remove deletes
    the block and the copy.

    A tenant keeps memories separate. A directory can only ask for a tenant: you allow it with 'lorelog config set scope.tenants'.

    examples:
      lorelog init
      lorelog init --tenant work --dry-run
      lorelog init --project ~/src/shop --no-agent-files
      lorelog init --remove
    """
    from contextlib import suppress

    from lorelog.light.daemon_connection import find_address
    from lorelog.services.context.init import apply_changes, plan_init, plan_removal
    from lorelog.services.places.workspace import Workspace
    from lorelog.wiring import resolve_location, settings_at

    directory, home = _project_directory(args.project), find_address().home
    if args.remove and (args.tenant or args.no_agent_files):
        raise UsageError("--remove cannot be combined with --tenant or --no-agent-files")
    notes = []
    if args.remove:
        changes = plan_removal(directory, home)
    else:
        notes = _tenant_notes(args.tenant, directory) if args.tenant else []
        place = None
        with suppress(ConfigError):  # of a tenant that is not allowed yet
            location = resolve_location(project=directory, tenant=args.tenant)
            place = Workspace(location.project, location.home, settings_at(location).tenant())
        changes = plan_init(directory, tenant=args.tenant or "", agent_files=not args.no_agent_files, place=place)
    if not args.dry_run:
        apply_changes(directory, changes)
    files = [{"path": str(change.path), "change": change.kind} for change in changes]

    def show(reply: Json, args: argparse.Namespace) -> None:
        labels = {"create": ("wrote", "would write"), "update": ("updated", "would update")}
        labels |= {"delete": ("deleted", "would delete"), "unchanged": ("unchanged:", "unchanged:")}
        for file in reply["files"]:
            print(f"{labels[file['change']][args.dry_run]} {short_path(file['path'])}")
        if not reply["files"]:
            print("Nothing to do.")

    reply = {"project": directory, "dry_run": args.dry_run, "files": files, "notes": notes}
    return print_reply(args, reply, show)


def _tenant_notes(tenant: str, directory: str) -> list[str]:
    """Return what the user must do to enable the tenant. Raise ConfigError for an invalid name."""
    from lorelog.wiring import resolve_location, settings_at, user_settings

    location = resolve_location(project=directory, tenant=tenant)
    settings_at(location, {"scope.tenant": tenant})
    allowed = user_settings(location.home).texts("scope.tenants")
    enable = f"to enable the tenant, run: lorelog config set scope.tenants {','.join((*allowed, tenant))}"
    return [] if tenant in allowed else [enable]


def _project_directory(option: str | None) -> str:
    """Return the directory of --project, or else the current working tree."""
    from lorelog.services.places.workspace import find_project
    from lorelog.wiring import working_directory

    if option is None:
        return find_project(working_directory()).root
    directory = os.path.realpath(expand_path(option))
    if not os.path.isdir(directory):
        raise UsageError(f"there is no directory {option}", hint="--project must be the directory of a project")
    return directory


CONTEXT_FILE = "context.md"
_MEMORY_COUNT = 10


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
    directory = os.path.realpath(expand_path(args.project or "."))
    if not os.path.isdir(directory):
        raise UsageError(f"there is no directory {args.project}", hint="--project must be a directory in the project")
    args.project = directory
    request = {"k": _MEMORY_COUNT, "token_budget": 700 if args.token_budget is None else args.token_budget}
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
    from lorelog.services.places import workspace

    project, scope = workspace.find_project(directory), workspace.find_scope_file(directory)
    root = (workspace.apply_scope_file(scope, project) if scope is not None else project).root
    exists = os.path.isdir(os.path.join(root, workspace.FOLDER))
    if root == os.path.realpath(os.path.expanduser("~")) or not (exists or reply["result_count"]):
        return
    folder = target = workspace.create_project_folder(root)
    if reply["tenant"] != "default":
        target = os.path.join(folder, "tenants", reply["tenant"])
        os.makedirs(target, mode=0o700, exist_ok=True)
        if not is_below(os.path.realpath(target), os.path.realpath(folder)):
            raise StoreUnwritable(f"{target} is a link out of the project", hint="replace it with a directory")
    write_output(os.path.join(target, CONTEXT_FILE), reply["text"], follow=False)


def show_guard_list(reply: Json, args: argparse.Namespace) -> None:
    for guard in reply["guards"]:
        print(_format_guard(guard))
    for notice in reply["notices"]:
        print_note(notice)
    if not reply["guards"]:
        print("There are no guards yet.")
    for proposal in reply["proposals"]:
        print(f"{stylize(proposal['id'], 'cyan')}  {stylize('proposed', 'dim')}  {_format_conditions(proposal)}")
        print(f"  from {proposal['date'][:10] or 'an unknown day'}: {one_line(proposal['correction'])}")
        print(f"  would match: {one_line(proposal['example'])}")
    if reply["proposals"]:
        print("'lorelog guard test ID' replays one; 'lorelog guard enable ID [--block]' switches it on.")


def run_rules(args: argparse.Namespace) -> int:
    """Compare your rules, and the lines of CLAUDE.md and AGENTS.md, with the tool calls of all captured sessions.

    For each rule: the calls that it applies to, those that followed it, those that broke it, and those that you corrected.
    A call is compared with the commands, paths and events that the rule names; what a rule means beyond
    that is not guessed. With ID, the calls of one rule are listed with their dates.

    A rule of yours that is broken again and again is proposed as a guard, and one that nobody broke for 90 days for being shown only
    when a call is about it: 'lorelog review' asks you.

    'rules export' adds your rules of this project to .lorelog/rules.md, for a team: commit it, and each person is asked once whether to adopt them.

    examples:
      lorelog rules
      lorelog rules export
      lorelog rules AGENTS.md:112
      lorelog rules 65fcbf6e -n 100
    """
    if args.id == "export":
        return print_reply(args, call_operation(args, "memory.export", {"format": "rules"}), _show_exported_rules)
    return print_reply(args, call_with_progress(args), show_rules)


def _show_exported_rules(reply: Json, args: argparse.Namespace) -> None:
    print(f"Added {plural(reply['memories'], 'rule')} to {short_path(reply['path'])}.")
    print_note("it is for everybody who has the repository: review it, then git add .lorelog")


def run_guard_test(args: argparse.Namespace) -> int:
    return print_reply(args, call_with_progress(args), show_guard_test)


def show_rules(reply: Json, args: argparse.Namespace) -> None:
    named = [rule for rule in reply["rules"] if rule["checkable"]]
    telling = reply["rules"] if args.id else [r for r in named if r["forbids"] or r["followed"] or r["corrected"]]
    telling = telling or [rule for rule in reply["rules"] if not rule["is_line"]]
    rows: list[tuple[str, ...]] = [("applies", "followed", "broken", "corrected", "last broken", "rule")]
    short = short_record_ids(rule["id"] for rule in telling if not rule["is_line"])
    for rule in telling:
        counts = [f"{rule[name]:,}" if rule[name] else "" for name in ("applies", "followed", "broken", "corrected")]
        text = one_line(rule["text"]) if args.id else truncate(one_line(rule["text"]), 2 * _TEXT_CHARS)
        rows.append((*counts, rule["last_broken"][:10], f"{short.get(rule['id'], rule['id'])} {text}"))
    if telling:
        print_table(rows, right=(0, 1, 2, 3))
    _print_calls(reply["calls"])
    if not reply["rules"]:
        print("No rules, neither yours nor in instruction files.")
    elif not args.id:
        more, lines = len(named) - len(telling), len(reply["rules"]) - len(named)
        counted = f"{more} more name a command or path without forbidding or choosing one, {lines} are not checkable"
        print_note(f"{reply['total']:,} calls; {counted} (--json lists all)")


def run_guard_add(args: argparse.Namespace) -> int:
    def show(reply: Json, args: argparse.Namespace) -> None:
        print(_format_guard(reply["guard"]))
        print_notes(reply)
        if reply["guard"]["state"] != "on":
            print(f"It is off; 'lorelog guard enable {reply['guard']['id']}' replays it and switches it on.")

    return print_reply(args, call_with_progress(args, action="block" if args.block else "warn"), show)


def configure_guard_enable(parser: argparse.ArgumentParser) -> None:
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--block", dest="action", action="store_const", const="block", help="block matching calls")
    action.add_argument("--warn", dest="action", action="store_const", const="warn", help="only warn")


def run_guard_enable(args: argparse.Namespace) -> int:
    def show(reply: Json, args: argparse.Namespace) -> None:
        guard = reply["guard"]
        if "replay" in reply:
            show_guard_test(reply["replay"], args)
        states = {
            "remove": "is removed",
            "dismiss": f"was dismissed {plural(guard['dismissals'], 'time')}",
            "enable": f"is on: it {guard['action']}s",
            "disable": "is off",
        }
        print(f"{guard['id']} {states[args.verb]}.")

    if args.verb != "enable":
        return print_reply(args, call_command(args, change=args.verb), show)
    return print_reply(args, call_command(args, **({"action": args.action} if args.action else {})), show)


run_guard_disable = run_guard_dismiss = run_guard_remove = run_guard_enable


def _format_guard(guard: Mapping[str, Any]) -> str:
    state = guard["state"] if guard["state"] != "on" else f"{guard['action']}s"
    style = {"blocks": "red", "warns": "yellow"}.get(state, "dim")
    parts = [stylize(guard["id"], "cyan"), stylize(f"{state:<7}", style), _format_conditions(guard)]
    parts += ["all projects"] if not guard["project"] else []
    parts += ["by an agent"] if guard["created_by"] == "agent" and not guard["approved"] else []
    parts += [f"dismissed {plural(guard['dismissals'], 'time')}"] if guard["dismissals"] else []
    return "  ".join(parts) + f"\n  {one_line(guard['message'])}"


def _format_conditions(conditions: Mapping[str, Any]) -> str:
    parts = [f"{name} {one_line(conditions[name])!r}" for name in ("tool", "command", "content") if conditions[name]]
    shown, more = conditions["paths"][:3], len(conditions["paths"]) - 3
    paths = " or ".join(repr(one_line(path)) for path in shown) + (f" or {more} more" if more > 0 else "")
    return ", ".join([*parts, *([f"path {paths}"] if shown else [])])


def _print_calls(calls: Sequence[Json]) -> None:
    """Print past calls, each with what it shows of a rule and how the user reacted."""
    for call in calls:
        reaction = stylize(call["why"] or "not corrected", "green" if call["corrected"] else "yellow")
        shown = ", ".join(filter(None, (call["verdict"], reaction if call["why"] or not call["verdict"] else "")))
        print(f"  {call['at'][:16].replace('T', ' ')}  {call['host']}  {one_line(call['call'])}  ({shown})")
        if call["statement"]:
            print(f"    you said: {one_line(call['statement'])}")


def show_guard_test(replay: Json, args: argparse.Namespace) -> None:
    _print_calls(replay["hits"])
    left_out = replay["hit_count"] - len(replay["hits"])
    if left_out > 0:
        print(f"  … and {left_out:,} more")
    print(one_line(replay["verdict"]))
    if replay["refused"]:
        print_note(f"it cannot be switched on: {replay['refused']}")
    print_notes(replay)


def run_backfill(args: argparse.Namespace) -> int:
    """Make memories of sessions from before lorelog was installed, or that its hooks missed.

    Reads the conversations that agents keep on this machine, and adds turns that are in no journal yet to the journal of their
    day. Without AGENT, every agent that has sessions is read; 'lorelog docs transcripts' lists them. What was found is shown first. Running
    it again writes nothing twice. Only sessions of the current project are read, unless --all-projects is given. No model is called.

    examples:
      lorelog backfill --dry-run             show what would be captured
      lorelog backfill --all-projects        every project, each to its own journals
      lorelog backfill claude --since 2w     the last two weeks of Claude Code
    """
    from contextlib import closing
    from pathlib import Path

    from lorelog.light.spool import PauseNotes
    from lorelog.operations.requests import parse_past_day
    from lorelog.services.sessions.agents import SeenTranscripts

    agents = tuple(dict.fromkeys(map(_parse_agent, args.hosts)))
    args.since = parse_past_day(args.since)
    counts = ("found", "elsewhere", "sessions", "turns", "skipped", "statements", "gone")
    report: Json = {"hosts": [], "agents": [], "dry_run": args.dry_run, **dict.fromkeys(counts, 0)}
    report |= {"journals": {}, "problems": [], "notes": {}}
    memories: set[str] = set()
    seen = SeenTranscripts(Path(find_address().home))
    sessions = list(_select_sessions(agents, args, report, seen))
    # A fork repeats the turns of a paused session under another id: they are excluded once that session was read.
    sessions.sort(key=lambda session: not PauseNotes(find_address().home, session.session).changes)
    report["found"] = len(sessions)
    report["agents"] = list(_describe_found(sessions))
    report["hosts"] = [agent["host"] for agent in report["agents"]]
    if not args.json:
        _show_found(report["agents"])
    with closing(OperationClient(args.warm, shared=True)) as client, progress_bar() as progress:
        for number, session in enumerate(sessions, 1):
            _capture_session(session, args, client, report, memories=memories, seen=seen)
            progress("sessions", number, len(sessions))
    if sessions and not args.dry_run:
        seen.save()
    journals = [{"path": path, "turns": turns} for path, turns in sorted(report["journals"].items())]
    return print_reply(args, {**report, "journals": journals, "notes": list(report["notes"])}, _show_backfill)


def _parse_agent(word: str) -> str:
    from lorelog.hosts import resolve_host
    from lorelog.services.sessions.agents import all_agents

    agent = resolve_host(word) or word
    if agent not in all_agents():
        raise UsageError(
            f"there is no agent {word!r} whose sessions are read", hint=f"one of {', '.join(all_agents())}"
        )
    return agent


def _select_sessions(
    agents: Sequence[str], args: argparse.Namespace, report: Json, seen: SeenTranscripts
) -> Iterator[HostSession]:
    """Yield the sessions to capture. One that is kept by its agent and by another as well is read where its agent keeps it."""
    from datetime import date, datetime, time

    from lorelog.services.places.workspace import find_project
    from lorelog.services.sessions.agents import all_agents, find_host_sessions
    from lorelog.wiring import resolve_location

    project, known = resolve_location(project=args.project, tenant=args.tenant).project, all_agents()
    since_time = datetime.combine(date.fromisoformat(args.since), time()).timestamp() if args.since else 0.0
    projects = {project.root}
    owners = {session.session: session.host for session in seen.known() if not known[session.host].is_in_project}
    for agent in agents or known:
        for session in find_host_sessions(agent, os.environ, seen, sorted(projects)):
            is_owned = known[agent].is_in_project and owners.get(session.session, agent) != agent
            if session.changed < since_time or is_owned:
                continue
            owners[session.session] = agent
            place = find_project(session.directory) if session.directory else None
            if not args.all_projects and (place is None or place.id != project.id):
                report["elsewhere"] += 1
            elif place is None or not os.path.isdir(session.directory):
                report["gone"] += 1  # its project was deleted, so there is no journal to write to
            else:
                projects.add(place.root)
                yield session


def _describe_found(sessions: Sequence[HostSession]) -> Iterator[Json]:
    """Yield what there is of each agent: sessions, the size of their files, and the first day."""
    from datetime import datetime

    from lorelog.services.sessions.agents import all_agents

    for agent, about in all_agents().items():
        own = [session for session in sessions if session.host == agent]
        if own:
            since = datetime.fromtimestamp(min(session.began for session in own)).astimezone()
            size = sum({session.transcript: session.size for session in own}.values())
            fields = {"host": agent, "title": about.title, "sessions": len(own), "bytes": size}
            yield fields | {"since": since.date().isoformat(), "verified": bool(about.verified)}


def _show_found(agents: Sequence[Json]) -> None:
    rows = [
        (
            *(agent["title"], f"{agent['sessions']:,}", f"{agent['bytes'] / 1e6:,.1f} MB", agent["since"]),
            "" if agent["verified"] else "read by its documentation",
        )
        for agent in agents
    ]
    if rows:
        print_table([("agent", "sessions", "size", "since", ""), *rows], right=(1, 2))


def _captures_mark(directory: str, tenant: str) -> str:
    """Return what identifies the database of captures of a directory's tenant; empty if there is none."""
    try:
        return f"{tenant} {os.stat(_captures_file(directory, tenant)).st_ino}"
    except (LorelogError, OSError):
        return ""


@lru_cache(maxsize=64)
def _captures_file(directory: str, tenant: str) -> str:
    from lorelog.wiring import resolve_location, settings_at

    location = resolve_location(directory=directory, tenant=tenant)
    settings = settings_at(location, {"scope.tenant": tenant} if tenant else None)
    return os.path.join(tenant_folder(location.home, settings.tenant()), "captures.db")


def _capture_session(
    session: HostSession,
    args: argparse.Namespace,
    client: OperationClient,
    report: Json,
    *,
    memories: set[str],
    seen: SeenTranscripts,
) -> None:
    from lorelog.services.sessions.agents import all_agents

    captures = _captures_mark(session.directory, args.tenant)
    if (turns := seen.turns(session, captures, args.since)) is not None:
        report["skipped"] += turns
        return
    arguments = {
        name: getattr(session, name) for name in ("host", "session", "transcript", "directory", "branch", "agent")
    }
    arguments |= {name: getattr(args, name) for name in ("since", "dry_run", "tenant")} | {"everything": True}
    try:
        reply = client.call("session.capture", arguments, directory=session.directory)
    except LorelogError as error:
        report["problems"].append({"path": session.transcript, "message": error.message, "hint": error.hint})
        return
    if not (args.dry_run or reply["waiting"] or reply["notes"]):
        captures = _captures_mark(session.directory, args.tenant)
        seen.add(session, captures, args.since, reply["skipped"] + len(reply["captured"]))
    # A forked session repeats the turns of its parent.
    new = [turn for turn in reply["captured"] if turn["memory"] not in memories]
    memories.update(turn["memory"] for turn in new)
    for name in ("skipped", "statements"):
        report[name] += reply[name]
    report["notes"].update(dict.fromkeys(reply["notes"]))
    report["notes"].update((f"{all_agents()[session.host].title}: {text}", None) for text in reply["left_out"])
    if new:
        report["sessions"] += 1
        report["turns"] += len(new)
        folder = os.path.dirname(new[0]["source"])
        report["journals"][folder] = report["journals"].get(folder, 0) + len(new)


def _show_backfill(report: Json, args: argparse.Namespace) -> None:
    print_problems(report["problems"])
    print_notes(report)
    capture, keep = ("Would capture", "Would keep") if args.dry_run else ("Captured", "Kept")
    if report["hosts"]:
        print(f"{capture} {plural(report['turns'], 'turn')} of {plural(report['sessions'], 'session')}.")
    else:
        print("Found no sessions of this project." if report["elsewhere"] else "Found no sessions on this machine.")
    if report["statements"]:
        statements = plural(report["statements"], "statement")
        print(f"{keep} {statements} of the user: corrections, preferences, decisions, plans.")
    for journal in report["journals"]:
        print(f"  {journal['turns']:>6,}  {short_path(journal['path'])}")
    if report["gone"]:
        print_note(f"{plural(report['gone'], 'session')} skipped: the project directory does not exist")
    if report["elsewhere"]:
        print_note(f"{plural(report['elsewhere'], 'session')} of other projects: --all-projects captures them, too")
    if report["turns"] and not args.dry_run:
        print('Look at them: lorelog list. Search them: lorelog search "…".')
