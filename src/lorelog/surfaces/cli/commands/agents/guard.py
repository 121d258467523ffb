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
from lorelog.surfaces.cli.arguments import request_of
from lorelog.surfaces.cli.client import OperationClient, call_command, print_reply, with_scope_flags
from lorelog.surfaces.cli.render import one_line, plural, print_note, print_notes, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

    from lorelog.operations.operation import Json

_STATES = {"enable": "on", "disable": "off"}


def show_guard_list(reply: Json, args: argparse.Namespace) -> None:
    """Print the guards."""
    for guard in reply["guards"]:
        print(_format_guard(guard))
    for notice in reply["notices"]:
        print_note(notice)
    if not reply["guards"]:
        print("There are no guards yet; 'lorelog guard propose' derives some from your corrections.")


def show_guard_propose(reply: Json, args: argparse.Namespace) -> None:
    """Print the proposals."""
    for proposal in reply["proposals"]:
        print(f"{stylize(proposal['id'], 'cyan')}  {_format_conditions(proposal)}")
        print(f"  from {proposal['date'][:10] or 'an unknown day'}: {one_line(proposal['correction'])}")
        print(f"  would match: {one_line(proposal['example'])}")
    if reply["proposals"]:
        print("'lorelog guard test ID' replays one; 'lorelog guard enable ID [--block]' switches it on.")
    else:
        print(f"No new guard follows from your {plural(reply['corrections'], 'standing memory')}.")


def show_guard_show(reply: Json, args: argparse.Namespace) -> None:
    """Print a guard, its correction and its history."""
    print(_format_guard(reply))
    if reply["correction"]:
        print(f"  correction {reply['memory']}: {one_line(reply['correction'])}")
    for event in reply["history"]:
        print(f"  {event['at'][:16].replace('T', ' ')}  {event['event']} by {event['by']}")


def configure_guard_add(parser: argparse.ArgumentParser) -> None:
    """Declare the option that blocks."""
    parser.add_argument("--block", action="store_true", help="block the call instead of warning")


def run_guard_add(args: argparse.Namespace) -> int:
    """Add a guard; one that blocks needs a person's confirmation."""
    reply = _call_confirmed(args, {"action": "block"}) if args.block else call_command(args, action="warn")
    return print_reply(args, reply, _show_added)


def _show_added(reply: Json, args: argparse.Namespace) -> None:
    print(_format_guard(reply["guard"]))
    print_notes(reply)
    if reply["guard"]["state"] != "on":
        print(f"It is off; 'lorelog guard enable {reply['guard']['id']}' replays it and switches it on.")


def configure_guard_enable(parser: argparse.ArgumentParser) -> None:
    """Declare what the guard shall do."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--block", dest="action", action="store_const", const="block", help="block matching calls")
    action.add_argument("--warn", dest="action", action="store_const", const="warn", help="only warn")


def run_guard_enable(args: argparse.Namespace) -> int:
    """Change the state of a guard."""
    action = {"action": args.action} if getattr(args, "action", None) else {}
    return print_reply(args, _call_confirmed(args, action), _show_changed)


run_guard_disable = run_guard_dismiss = run_guard_remove = run_guard_enable


def _show_changed(reply: Json, args: argparse.Namespace) -> None:
    guard = reply["guard"]
    if "replay" in reply:
        show_guard_test(reply["replay"], args)
    if args.verb == "remove":
        print(f"{guard['id']} is removed.")
    elif args.verb == "dismiss":
        print(f"{guard['id']} was dismissed {plural(guard['dismissals'], 'time')}.")
    else:
        state = _STATES[args.verb]
        print(f"{guard['id']} is {state}" + (f": it {guard['action']}s" if state == "on" else "") + ".")
    print_notes(reply)


def _call_confirmed(args: argparse.Namespace, changes: Json) -> Any:
    """Call the operation. In the shell of an agent, a person can confirm on a terminal that it is their own decision."""
    agent = detect_agent(os.environ)
    if not agent or not (sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()):
        return call_command(args, **changes)
    print(f"This shell belongs to {agent}. Only a person may change guards of persons.", file=sys.stderr)
    print("If you are that person, type 'yes': ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise UsageError("not confirmed; nothing was changed", hint="use a terminal of your own")
    request = with_scope_flags(args, {**request_of(args), **changes})
    client = OperationClient(args.warm)
    return client.call(args.derived["operation"], request, environment=without_agent_markers(os.environ))


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


def show_guard_test(replay: Json, args: argparse.Namespace) -> None:
    """Print the calls that a guard would have hit."""
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
    print_notes(replay)
