"""Add a memory to today's journal. It is searchable at once.

Use 'add' for what is worth remembering: facts, preferences, corrections, also decisions of your own. Use 'lorelog decide' for
what was settled with others and may be checked: it has a writer and can be verified or superseded.

The journal is the Markdown file <project>/.lorelog/memory/YYYY-MM-DD.md. '-' reads the text from standard input.

examples:
  lorelog add "Redis TTL is 5 minutes" --type decision --tag redis
  git log -1 --format=%B | lorelog add - --tag release
  lorelog add "I prefer short commit subjects" --global
  lorelog add "Migrations are append-only" --when-editing 'migrations/**'
  lorelog add "Use pnpm" --type correction --when-running 'npm *'

Passwords, keys and tokens in the text are replaced by [redacted:KIND] before it is written. --keep-secrets keeps them.

An agent is shown the memory when a --when or --on option matches what it does, once per session. Without these options
this is derived from the text for corrections, preferences, decisions and facts: files, symbols, commands, errors. See
'lorelog docs delivery'.
"""

from __future__ import annotations

import sys

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import print_json, print_note, short_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.replies import Json


_SHORT_ID_CHARS = 8


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("text", metavar="TEXT", help="text of the memory; '-' reads standard input")
    parser.add_argument("--type", default="", metavar="TYPE", help="type of memory, such as decision, fact or lesson")
    parser.add_argument("--tag", action="append", default=[], metavar="TAG", help="a tag (repeatable)")
    parser.add_argument(
        "--expires",
        default="",
        metavar="DAY",
        help="last day it is shown: 2026-12-31, or 14d, 2w, 3m, 1y (from now)",
    )
    add_cue_options(parser)
    add_keep_secrets(parser)
    parser.add_argument("--global", dest="to_global", action="store_true", help="make it visible in every project")
    add_common(parser)


def add_keep_secrets(parser: argparse.ArgumentParser) -> None:
    """Declare the option that keeps secrets."""
    parser.add_argument("--keep-secrets", action="store_true", help="do not redact passwords, keys and tokens in TEXT")


_CUE_OPTIONS = (
    ("--when-editing", "path", "PATTERN", "show it when an agent reads or edits such a file: 'src/db/**'"),
    ("--when-running", "command", "PATTERN", "show it when an agent runs such a command: 'npm *'"),
    ("--when-symbol", "symbol", "NAME", "show it when an agent writes this name: ConnectionPool"),
    ("--when-error", "error", "TEXT", "show it when a command prints this: 'ECONNREFUSED'"),
    ("--when-topic", "topic", "WORDS", "show it when a prompt is about this: 'database migrations'"),
    (
        "--on-event",
        "event",
        "EVENT",
        "show it at session-start, or before a commit, before a test run, after a failure",
    ),
    ("--on-day", "day", "DAY", "show it in sessions that start on this day: 2026-12-31"),
)


def add_cue_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that say when an agent is shown a memory."""
    for option, kind, metavar, text in _CUE_OPTIONS:
        choices = ("session-start", "commit", "test", "e2e-test", "failure") if kind == "event" else None
        parser.add_argument(
            option,
            dest=f"cue_{kind}",
            action="append",
            default=[],
            metavar=metavar,
            choices=choices,
            help=f"{text} (repeatable)",
        )


def cues_of(args: argparse.Namespace) -> list[str]:
    """Return the cues of the options, as `kind=value`."""
    return [f"{kind}={value}" for _, kind, _, _ in _CUE_OPTIONS for value in getattr(args, f"cue_{kind}")]


def run(args: argparse.Namespace) -> int:
    """Add; fail if the memory was saved but is not searchable."""
    text = read_text(args.text)
    if not text.strip():
        raise UsageError("the text is empty: there is nothing to remember", hint='lorelog add "what you learned"')
    request = {
        "text": text,
        "type": args.type,
        "tags": args.tag,
        "to_global": args.to_global,
        "expires": args.expires,
        "cues": cues_of(args),
        "keep_secrets": args.keep_secrets,
    }
    reply = call_operation(args, "memory.add", request, start_daemon=True)
    if args.json:
        print_json(reply)
    else:
        show_added(reply)
    return 0 if reply["searchable"] else 1


def show_added(reply: Json) -> None:
    """Print where a new memory was written."""
    place = f"{short_path(reply['source'])}:{reply['start_line']}-{reply['end_line']}"
    verb = "Already remembered" if reply.get("existed") else "Remembered"
    print(f"{verb} in {place}  {reply['id'][:_SHORT_ID_CHARS]}".rstrip())
    if reply["redacted"]:
        count = sum(reply["redacted"].values())
        kinds = ", ".join(f"{times} {kind}" for kind, times in sorted(reply["redacted"].items()))
        again = f" Run again with --keep-secrets to keep {'it' if count == 1 else 'them'}."
        print_note(f"Redacted: {kinds}.{again if reply['origin'] == 'user' else ''}")  # agents may not keep them
    admission = reply["admission"]
    if admission["expires"]:
        print_note(f"shown until {admission['expires']}: {admission['reason']}")
    for text in [] if reply.get("existed") else reply["notes"]:
        print_note(text)


def read_text(argument: str) -> str:
    """Return the argument, or the text on standard input if it is `-`."""
    if argument != "-":
        return argument
    if sys.stdin is None:
        raise UsageError("standard input is closed", hint="give the text as an argument")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8 text: {error.reason} at byte {error.start}") from error
