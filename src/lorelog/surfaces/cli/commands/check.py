"""The command check, as text for people, and in the forms that CI reads."""

from __future__ import annotations

from lorelog.core import VERSION
from lorelog.core.errors import LorelogError, UsageError, plural
from lorelog.surfaces.cli.client import call_command, call_operation, print_json, print_notes, print_reply
from lorelog.surfaces.text import one_line, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from lorelog.operations.operation import Json

ARGUMENTS = {"check": {"--format {text,json,sarif,github}": "print text, JSON, SARIF 2.1.0, or annotations of GitHub"}}


def run_check(args: argparse.Namespace) -> int:
    """Say what a change runs against: guards, rules, memories that it makes false, failures, and earlier reverts.

    Without FILE.patch and --diff it is what is staged. A finding needs a name that the change and the memory share: a command, a file, a definition.
    The exit status is 1 only if a guard matches that you set to block. Nothing is sent anywhere, and no daemon, key or
    network is needed. What came with the repository is quoted.

    examples:
      lorelog check
      lorelog check --diff main..HEAD
      lorelog check --diff origin/main...HEAD --format github
      lorelog check change.patch --format sarif > lorelog.sarif
    """
    try:
        reply = call_command(args)
        if reply["unindexed"]:  # a fresh clone, or one that was just updated
            call_operation(args, "memory.index", {})
            reply = call_command(args)
    except LorelogError as error:  # 1 would say that a guard blocks
        raise UsageError(error.message, hint=error.hint) from error
    args.json = args.json or args.format == "json"
    if args.format == "sarif" and not args.json:
        print_json(_sarif(reply))
        print_notes(reply)
    else:
        print_reply(args, reply, _show_annotations if args.format == "github" else _show_findings)
    return 1 if reply["blocks"] else 0


def _show_findings(reply: Json, args: argparse.Namespace) -> None:
    for finding in reply["findings"]:
        place = one_line(f"{finding['path']}:{finding['line']}")
        print(f"{stylize(place, 'cyan')}  {one_line(finding['why'])}")
        label = f"{finding['kind']}, blocks" if finding["blocks"] else finding["kind"]
        style = "red" if finding["blocks"] else "bold"
        print(f"   {stylize(label, style)}  {_about(finding)}  {one_line(finding['text'])}")
    size = f"{plural(reply['files'], 'file')}, {plural(reply['lines'], 'line')}"
    found = plural(len(reply["findings"]), "finding")
    print(stylize(f"{found} in {size}" if reply["findings"] else f"Nothing known speaks against it: {size}.", "dim"))


def _about(finding: Json) -> str:
    source, id_, day = finding["source"], finding["id"], finding["date"]
    short = id_[:8] if source == "commit" else id_[:13] if id_.count("-") == 4 else id_
    return one_line("  ".join(filter(None, (source if source != finding["kind"] else "", short, day))))


def _message(finding: Json) -> str:
    return one_line(f"{finding['why']}. {finding['text']} ({_about(finding)})")


def _show_annotations(reply: Json, args: argparse.Namespace) -> None:
    """Print workflow commands; their values are escaped, so that a text cannot end one and begin another."""
    for finding in reply["findings"]:
        level = "error" if finding["blocks"] else "notice"
        text, path = (part.replace("%", "%25") for part in (_message(finding), one_line(finding["path"])))
        path = path.replace(":", "%3A").replace(",", "%2C")
        print(f"::{level} file={path},line={finding['line']},title=lorelog {finding['kind']}::{text}")


def _sarif(reply: Json) -> Json:
    from urllib.parse import quote

    results = [
        {
            "ruleId": finding["kind"],
            "level": "error" if finding["blocks"] else "note",
            "message": {"text": _message(finding)},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(finding["path"])},
                        "region": {"startLine": max(1, finding["line"])},
                    }
                }
            ],
        }
        for finding in reply["findings"]
    ]
    rules = [{"id": kind} for kind in sorted({finding["kind"] for finding in reply["findings"]})]
    driver = {"name": "lorelog", "version": VERSION, "rules": rules}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
