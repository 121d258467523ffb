"""Check the ledger of records.

The ledger stores the records of tasks ('lorelog docs ledger'). 'check' reads all of it and reports every line that was changed since
it was written, and every signature that does not prove its writer. 'lorelog export --format ledger' and 'lorelog import'
move records between homes.

examples:
  lorelog ledger check
"""

from __future__ import annotations

from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, plural, print_json, print_note, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add_common(add_verb(parser, verbs, "check", "report every line that was changed"))


def run(args: argparse.Namespace) -> int:
    """Check the ledger; fail if it was changed."""
    reply = call_operation(args, "ledger.verify", {})
    if args.json:
        print_json(reply)
    else:
        _show_verification(reply)
    return 0 if reply["ok"] else 1


def _show_verification(reply: dict[str, Any]) -> None:
    for fault in reply["faults"]:
        print(f"{stylize('error:', 'red')} {one_line(fault['file'])}:{fault['line']}: {one_line(fault['what'])}")
    if reply["fault_count"] > len(reply["faults"]):
        print(f"and {reply['fault_count'] - len(reply['faults']):,} more; --json lists them")
    for record in reply["unproven"]:
        name = one_line(f"{record['artifact_id']} of {record['writer'] or 'nobody'}")
        key = f" ({record['key'][:8]})" if record["key"] else ""
        print(f"{stylize('signature:', 'yellow')} {name}: {record['reason']}{key}")
    if not (reply["records"] or reply["faults"] or reply["torn_bytes"]):
        print("Nothing is recorded yet.")
        return
    signed = reply["signatures"]
    counts = f"{plural(reply['records'], 'record')}, {signed['signed']:,} signed, {signed['valid']:,} of them valid"
    counts += f", {reply['redacted']:,} redacted." if reply["redacted"] else "."
    if reply["first_unverified"]:
        print(f"{counts} Records from {reply['first_unverified']:,} on cannot be verified.")
    else:
        print(f"{counts} No line was changed.")
    if reply["torn_bytes"]:
        print_note(f"the last {reply['torn_bytes']:,} bytes are an interrupted write, which was never confirmed")
