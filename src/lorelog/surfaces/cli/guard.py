"""Check the tool calls of agents against your corrections: warn, or block.

'propose' derives guards from your corrections ("use pnpm, not npm"). 'test' replays a guard over all captured tool
calls and shows what it would have hit. 'enable' does the same, and switches it on unless it matches nearly everything.
Patterns are wildcards (* ** ?), not regular expressions. Only a guard that a person wrote or approved can block. A
guard that is dismissed three times retires. In the shell of an agent, changes to your guards need confirmation on a
terminal. Guards are kept in guards.jsonl of the tenant's folder, never in a repository.

examples:
  lorelog guard propose
  lorelog guard test --command 'npm *'
  lorelog guard add --command 'npm *' --message "use pnpm, not npm"
  lorelog guard add --path 'migrations/**' --message "do not edit" --block
  lorelog guard enable g1a2b3c4 --block
  lorelog guard dismiss g1a2b3c4         it was wrong; the third time retires it
"""

from __future__ import annotations

import os
import sys

from lorelog.core.caller import detect_agent, without_agent_markers
from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.client import OperationClient, call_operation, with_scope_flags
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

_CHANGES = {
    "enable": ("guard.enable", "on"),
    "disable": ("guard.disable", "off"),
    "dismiss": ("guard.dismiss", "dismissed"),
    "remove": ("guard.remove", "removed"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = add_verb(parser, verbs, "list", "list the guards of this project and those of all projects")
    listing.add_argument("--all-projects", action="store_true", help="include the guards of all projects")
    propose = add_verb(parser, verbs, "propose", "derive guards from your corrections")
    propose.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="maximum number (default 20)")
    test = add_verb(parser, verbs, "test", "replay a guard over all captured tool calls")
    test.add_argument("id", metavar="ID", nargs="?", default="", help="a guard or a proposal")
    test.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="maximum number of calls shown")
    test.add_argument("--all-projects", action="store_true", help="replay over the calls of all projects")
    add = add_verb(parser, verbs, "add", "add a guard, switched off")
    add.add_argument("--message", default="", metavar="TEXT", help="the text that the agent is shown")
    add.add_argument("--memory", default="", metavar="ID", help="the correction that it comes from")
    add.add_argument("--block", action="store_true", help="block the call instead of warning")
    add.add_argument("--global", dest="to_global", action="store_true", help="apply to all projects")
    for verb in (test, add):
        _add_conditions(verb)
    enable = add_verb(parser, verbs, "enable", "replay a guard or a proposal, and switch it on")
    action = enable.add_mutually_exclusive_group()
    action.add_argument("--block", dest="action", action="store_const", const="block", help="block matching calls")
    action.add_argument("--warn", dest="action", action="store_const", const="warn", help="only warn")
    others = {
        "show": "show a guard, its correction and its history",
        "disable": "switch a guard off",
        "dismiss": "report that a guard was wrong; the third time retires it",
        "remove": "remove a guard",
    }
    by_id = [enable, *(add_verb(parser, verbs, name, help_text) for name, help_text in others.items())]
    for verb in by_id:
        verb.add_argument("id", metavar="ID", help="id of a guard, or its first characters")
    for verb in (listing, propose, test, add, *by_id):
        add_common(verb)


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--command", default="", metavar="PATTERN", help="a command, such as 'npm *'")
    parser.add_argument(
        "--path",
        dest="paths",
        action="append",
        default=[],
        metavar="PATTERN",
        help="a file that is written, such as 'migrations/**' (repeatable: any of them matches)",
    )
    parser.add_argument("--content", default="", metavar="PATTERN", help="part of a written line: 'console.log('")
    parser.add_argument("--tool", default="", metavar="NAME", help="a tool of the host, or edit, run, read")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    verbs = {"list": _list, "propose": _propose, "test": _test, "add": _add, "show": _show}
    return verbs.get(args.verb, _change)(args)


def _list(args: argparse.Namespace) -> int:
    reply = call_operation(args, "guard.list", {"all_projects": args.all_projects})
    if args.json:
        print_json(reply)
        return 0
    for guard in reply["guards"]:
        print(_format_guard(guard))
    for notice in reply["notices"]:
        print_note(notice)
    if not reply["guards"]:
        print("There are no guards yet; 'lorelog guard propose' derives some from your corrections.")
    return 0


def _propose(args: argparse.Namespace) -> int:
    reply = call_operation(args, "guard.propose", {"limit": args.limit})
    if args.json:
        print_json(reply)
        return 0
    for proposal in reply["proposals"]:
        print(f"{stylize(proposal['id'], 'cyan')}  {_format_conditions(proposal)}")
        print(f"  from {proposal['date'][:10] or 'an unknown day'}: {one_line(proposal['correction'])}")
        print(f"  would match: {one_line(proposal['example'])}")
    if reply["proposals"]:
        print("'lorelog guard test ID' replays one; 'lorelog guard enable ID [--block]' switches it on.")
    else:
        print(f"No new guard follows from your {plural(reply['corrections'], 'standing memory')}.")
    return 0


def _test(args: argparse.Namespace) -> int:
    request = {"id": args.id, "limit": args.limit, "all_projects": args.all_projects, **_conditions(args)}
    reply = call_operation(args, "guard.test", request)
    if args.json:
        print_json(reply)
    else:
        _show_replay(reply)
    return 0


def _add(args: argparse.Namespace) -> int:
    action = "block" if args.block else "warn"
    request = {"message": args.message, "memory": args.memory, "to_global": args.to_global, "action": action}
    reply = _call_confirmed(args, "guard.add", {**request, **_conditions(args)}, confirm=args.block)
    if args.json:
        print_json(reply)
        return 0
    print(_format_guard(reply["guard"]))
    _show_notes(reply)
    if reply["guard"]["state"] != "on":
        print(f"It is off; 'lorelog guard enable {reply['guard']['id']}' replays it and switches it on.")
    return 0


def _show(args: argparse.Namespace) -> int:
    reply = call_operation(args, "guard.show", {"id": args.id})
    if args.json:
        print_json(reply)
        return 0
    print(_format_guard(reply))
    if reply["correction"]:
        print(f"  correction {reply['memory']}: {one_line(reply['correction'])}")
    for event in reply["history"]:
        print(f"  {event['at'][:16].replace('T', ' ')}  {event['event']} by {event['by']}")
    return 0


def _change(args: argparse.Namespace) -> int:
    operation, state = _CHANGES[args.verb]
    request = {"id": args.id}
    if args.verb == "enable" and args.action:
        request["action"] = args.action
    reply = _call_confirmed(args, operation, request)
    if args.json:
        print_json(reply)
        return 0
    guard = reply["guard"]
    if "replay" in reply:
        _show_replay(reply["replay"])
    if args.verb == "remove":
        print(f"{guard['id']} is removed.")
    elif args.verb == "dismiss":
        print(f"{guard['id']} was dismissed {plural(guard['dismissals'], 'time')}.")
    else:
        print(f"{guard['id']} is {state}" + (f": it {guard['action']}s" if state == "on" else "") + ".")
    _show_notes(reply)
    return 0


def _call_confirmed(args: argparse.Namespace, op: str, request: Mapping[str, Any], *, confirm: bool = True) -> Any:
    """Call an operation. In the shell of an agent, a person can confirm on a terminal that it is their own decision."""
    agent = detect_agent(os.environ)
    if not agent or not confirm or not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        return call_operation(args, op, request)
    print(f"This shell belongs to {agent}. Only a person may change guards of persons.", file=sys.stderr)
    print("If you are that person, type 'yes': ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise UsageError("not confirmed; nothing was changed", hint="use a terminal of your own")
    client = OperationClient(args.warm)
    return client.call(op, with_scope_flags(args, request), environment=without_agent_markers(os.environ))


def _conditions(args: argparse.Namespace) -> dict[str, Any]:
    return {"tool": args.tool, "paths": args.paths, "command": args.command, "content": args.content}


def _format_guard(guard: Mapping[str, Any]) -> str:
    state = guard["state"] if guard["state"] != "on" else f"{guard['action']}s"
    style = {"blocks": "red", "warns": "yellow"}.get(state, "dim")
    author = "an agent" if guard["created_by"] == "agent" and not guard["approved"] else ""
    parts = [stylize(guard["id"], "cyan"), stylize(f"{state:<7}", style), _format_conditions(guard)]
    parts += ["all projects"] if not guard["project"] else []
    parts += [f"by {author}"] if author else []
    parts += [f"dismissed {plural(guard['dismissals'], 'time')}"] if guard["dismissals"] else []
    return "  ".join(parts) + f"\n  {one_line(guard['message'])}"


def _format_conditions(conditions: Mapping[str, Any]) -> str:
    parts = [f"{name} {one_line(conditions[name])!r}" for name in ("tool", "command", "content") if conditions[name]]
    shown, more = conditions["paths"][:3], len(conditions["paths"]) - 3
    paths = " or ".join(repr(one_line(path)) for path in shown) + (f" or {more} more" if more > 0 else "")
    return ", ".join([*parts, *([f"path {paths}"] if shown else [])])


def _show_replay(replay: Mapping[str, Any]) -> None:
    for hit in replay["hits"]:
        time = hit["at"][:16].replace("T", " ")
        reaction = stylize(hit["why"] or "not corrected", "green" if hit["corrected"] else "yellow")
        print(f"  {time}  {hit['host']}  {one_line(hit['call'])}  ({reaction})")
        if hit["statement"]:
            print(f"    you said: {one_line(hit['statement'])}")
    left_out = replay["hit_count"] - len(replay["hits"])
    if left_out > 0:
        print(f"  … and {left_out:,} more")
    print(one_line(replay["verdict"]))
    if replay["refused"]:
        print_note(f"it cannot be switched on: {replay['refused']}")
    for note in replay["notes"]:
        print_note(note)


def _show_notes(reply: Mapping[str, Any]) -> None:
    for note in reply["notes"]:
        print_note(note)
