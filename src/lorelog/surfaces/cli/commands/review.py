"""The command review: what the user said and what others propose, each filed with one key."""

from __future__ import annotations

import os
import sys

from lorelog.core.caller import detect_agent
from lorelog.core.errors import UsageError, plural
from lorelog.light.quick_json import loads
from lorelog.surfaces.cli.arguments import request_of
from lorelog.surfaces.cli.client import call_command, call_operation, print_note, print_reply, print_table
from lorelog.surfaces.cli.record_text import flatten_value
from lorelog.surfaces.text import one_line, short_path, stylize, truncate

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from lorelog.operations.operation import Json

HELP = {
    "review": """\
File what you said to your agents: as rules that later sessions are told, as decisions, or as nothing to keep.

In a terminal, 'lorelog review' shows one item after the other; a key decides it. 'list' prints what waits. 'run' asks the
judge that you allowed: 'lorelog config set review.judge host' uses your agent's own small model, and sends what you said,
redacted, with the sentence before it. 'decide' reads verdicts as JSON from standard input, as an agent writes them when
you ask it to file: {"verdicts": [{"id": "…", "label": "rule", "text": "…", "cues": ["command=git push"]}]}.
Without a judge only what you added, approved or filed is told to agents.

examples:
  lorelog review
  lorelog review list --kind statement
  lorelog review run
  lorelog review decide < verdicts.json
"""
}
_KEYS = {"statement": {"r": "rule", "d": "decision", "n": "other"}, "": {"a": "approve", "x": "refuse"}}
_WORDS = {"r": "rule", "d": "decision", "n": "nothing to keep", "a": "approve", "x": "refuse"}
_TEXT_CHARS, _ABOUT_CHARS = 90, 200


def run_review_list(args: argparse.Namespace) -> int:
    reply = call_command(args)
    if args.json or not (sys.stdin.isatty() and sys.stdout.isatty()) or detect_agent(os.environ):
        return print_reply(args, reply, _show_items)
    return _decide_all(args, reply)


def _show_items(reply: Json, args: argparse.Namespace) -> None:
    if not reply["items"]:
        print("Nothing waits for your word.")
        return
    rows = [("when", "kind", "id", "text")]
    for item in reply["items"]:
        text = truncate(flatten_value(item["text"]), _TEXT_CHARS)
        rows.append((item["date"][:10], one_line(item["kind"]), one_line(item["id"][:8]), text))
        rows += [("", "", "", flatten_value(item["about"]))] if item["kind"] == "proposal" or item["before"] else []
    print_table(rows)
    more = "; use -n to show more" if reply["total_count"] > len(reply["items"]) else ""
    verb = "waits" if reply["total_count"] == 1 else "wait"
    print_note(f"{plural(reply['total_count'], 'item')} {verb}{more}")
    judge = reply["judge"]
    if judge["problem"]:
        print_note(one_line(f"{judge['problem']}; it is asked again after an hour, or by 'lorelog review run'"))
    if judge["open"]:
        print_note(f"a judge (review.judge: {judge['judge']}) needs about {judge['tokens']:,} tokens for what you said")


def _decide_all(args: argparse.Namespace, reply: Json) -> int:
    """Show one item after the other, and file each by a key; the statements of a day can be closed together."""
    filed: set[str] = set()
    for number, item in enumerate(reply["items"], 1):
        if item["id"] in filed:
            continue
        keys, day = _KEYS.get(item["kind"], _KEYS[""]), _of_same_day(item, reply["items"][number:])
        place = f"{one_line(short_path(item['project']))}  " if item["project"] else ""
        times = f", said in {item['sessions']} sessions" if item["sessions"] > 1 else ""
        head = f"{number}/{reply['total_count']}  {item['date'][:10]}  {place}{one_line(item['kind'])}{times}"
        print(stylize(head, "bold"))
        print(f"  {flatten_value(item['text'])}")
        if item["about"]:
            print(stylize(f"  {truncate(flatten_value(item['about']), _ABOUT_CHARS)}", "dim"))
        together = f"  [o] nothing to keep, and of the {len(day)} others of this day" if day else ""
        print(
            "  " + "  ".join(f"[{key}] {_WORDS[key]}" for key in keys) + f"{together}  [e] word it  [s] skip  [q] quit"
        )
        verdict: dict[str, Any] = {"id": item["id"], "kind": item["kind"]}
        while (key := _read_key()) not in (*keys, *("o" if day else ""), "s", "q", "e"):
            pass
        if key == "q":
            break
        if key == "e":
            wording = input("  in your words: ").strip()
            if not wording:
                continue
            key, verdict["text"] = next(iter(keys)), wording
        if key == "o":
            print(f"  o again closes {plural(len(day) + 1, 'statement')}")
        if key in keys or (key == "o" and _read_key() == "o"):
            verdicts = [{**verdict, "label": keys.get(key, "other")}]
            verdicts += [{"id": other["id"], "label": "other"} for other in day if key == "o"]
            scope = {"project": item["project"]} if item["project"] else {}
            decisions = call_operation(args, "review.decide", {**scope, "verdicts": verdicts})["decisions"]
            print(f"  {decisions[0]['outcome']}\n")
            filed |= {decision["id"] for decision in decisions}
    print_note(f"{plural(len(filed), 'item')} decided, {reply['total_count'] - len(filed)} left")
    return 0


def _of_same_day(item: Json, others: Sequence[Json]) -> list[Json]:
    """Return the other statements of the item's day and project; none if it is not a statement."""

    def group(said: Json) -> tuple[str, ...]:
        return (said["kind"], said["project"], said["date"][:10])

    return [other for other in others if item["kind"] == "statement" and group(other) == group(item)]


def _read_key() -> str:
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)  # keys that were typed ahead count
        key = sys.stdin.read(1)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
    return key.lower() or "q"  # the end of input


def show_review_run(reply: Json, args: argparse.Namespace) -> None:
    for entry in (*reply["filed"], *reply["waiting"]):
        cues = f"  [{', '.join(map(one_line, entry['cues']))}]" if entry["cues"] else ""
        waits = f"  waits: {one_line(entry['reason'])}" if entry["reason"] else ""
        print(f"{entry['label']}: {one_line(entry['wording'])}{cues}{waits}")
    counts = f"{plural(reply['judged'], 'statement')} judged by {one_line(reply['judge'])}: {len(reply['filed'])} filed"
    print_note(f"{counts}, {len(reply['waiting'])} wait for you, {reply['repeated']} repeat a rule")
    if reply["stopped"]:
        print_note(one_line(f"stopped: {reply['stopped']}"))
    if reply["left"]:
        print_note(f"{plural(reply['left'], 'statement')} left for the judge, about {reply['left_tokens']:,} tokens")


def run_review_decide(args: argparse.Namespace) -> int:
    try:
        given = loads(sys.stdin.read())
        verdicts = given["verdicts"] if isinstance(given, dict) else given
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"the verdicts are not JSON: {error}", hint='{"verdicts": [{"id": "…", "label": "rule"}]}'
        ) from error
    reply = call_operation(args, "review.decide", {**request_of(args), "verdicts": verdicts})
    return print_reply(args, reply, _show_decisions)


def _show_decisions(reply: Json, args: argparse.Namespace) -> None:
    for decision in reply["decisions"]:
        result = f" {one_line(decision['result'])}" if decision["result"] else ""
        print(f"{one_line(decision['id'][:8])} {decision['outcome']}{result}")
