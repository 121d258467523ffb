"""Commands about single records and all of them: decide, verify, brief and ledger."""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.client import call_command, print_reply
from lorelog.surfaces.cli.render import one_line, plural, print_note, stylize
from lorelog.surfaces.cli.render.records import print_record_written, short_record_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lorelog.operations.operation import Json


def show_decide(reply: Json, args: argparse.Namespace) -> None:
    """Record a decision and its reason.

    Use 'decide' for what was settled with others and may be checked: it has a writer and can be verified or superseded. Use
    'lorelog add' for everything else that is worth remembering: it goes into your own Markdown files.

    Decisions are found by search, are listed in briefs, and apply until superseded. A decision becomes verified when someone else
    confirms it ('lorelog verify').

    examples:
      lorelog decide "Redis TTL of 5 minutes" --because "legal limit" --as mara
      lorelog decide "Unique event_id" --because "no doubles" --task 0195f3a2-7c1e
      lorelog decide "TTL of 1 minute" --because "…" --supersedes 0195f3b0-11aa
    """
    print_record_written("Decided", reply)
    if not args.motivation:
        print_note("say why, too: the next reader asks for the reason first (--because TEXT)")


def configure_verify(parser: argparse.ArgumentParser) -> None:
    """Declare the older name of TEXT."""
    parser.add_argument("--note", metavar="TEXT", help="the same as TEXT")


def run_verify(args: argparse.Namespace) -> int:
    """Confirm or dispute a record written by someone else.

    A record becomes verified when someone other than its writer confirms it. The output says whether the confirmation counts:
    promotion granted, or refused and why. It is recorded either way. Signed records prove who wrote them ('lorelog identity');
    unsigned ones only claim it.

    examples:
      lorelog verify 0195f3a2-9f01 "replayed 400 deliveries" --as otto
      lorelog verify 0195f3a2-9f01 "fails with 2 workers" --as otto --against
    """
    if args.summary and args.note:
        raise UsageError("TEXT and --note are the same", hint="give one of them")
    label = "Recorded verification" if args.supports_claim else "Recorded objection"
    reply = call_command(args, summary=args.summary or args.note or "")
    return print_reply(args, reply, lambda reply, _: print_record_written(label, reply))


_OVERVIEW = "Overview"
_FOREIGN_ORIGINS = ("tool", "import")


def format_item_badge(item: dict[str, Any]) -> str:
    """Return the trust badge of an item's record."""
    trust, origin = item["trust"], item["origin"]
    if trust["tainted"]:
        mark = f"tainted: {origin}" if origin in _FOREIGN_ORIGINS else "tainted"
        return f"[{mark}, verified]" if _is_verified(trust) else f"[{mark}]"
    if not _is_verified(trust):
        return "[record]"
    return "[verified, signed]" if trust["tier"] == "verified_record" and trust["signed"] else "[verified]"


def _is_verified(trust: dict[str, Any]) -> bool:
    return trust["tier"] == "verified_record" or bool(trust["verified_by"])


def show_brief(reply: Json, args: argparse.Namespace) -> None:
    """Summarize this project's tasks, failures, decisions and evidence for a newcomer.

    The summary is compiled from records. Every sentence cites its records and has a trust badge; 'lorelog show ID'
    shows a record.

    examples:
      lorelog brief
      lorelog brief --query "the cache"
      lorelog brief --json
    """
    digest, brief = reply["artifact"], reply["brief"]
    if not digest["lines"]:
        print("Nothing is recorded here yet; use 'lorelog task start \"…\"'.")
        return
    print(one_line(brief["overview"]))
    items = {item["artifact_id"]: item for name in ("failures", "decisions", "evidence") for item in brief[name]}
    ids = short_record_ids(digest["related_artifact_ids"])
    section = _OVERVIEW
    for line in digest["lines"]:
        if line["section"] == _OVERVIEW:
            continue
        if line["section"] != section:
            section = line["section"]
            print(f"\n{stylize(section, 'bold')}")
        item = items.get(line["artifact_ids"][0])
        badge = format_item_badge(item) if item else ("[tainted]" if line["tainted"] else "[record]")
        cited = " ".join(ids[record] for record in line["artifact_ids"])
        print(f"  {one_line(line['text'])} {_colour_badge(badge)} {stylize(one_line(cited), 'dim')}")


def _colour_badge(badge: str) -> str:
    return stylize(badge, "yellow" if "tainted" in badge else "green" if "verified" in badge else "dim")


def show_ledger_check(reply: Json, args: argparse.Namespace) -> None:
    """Check the ledger of records.

    The ledger stores the records of tasks ('lorelog docs ledger'). 'check' reads all of it and reports every line that was changed since
    it was written, and every signature that does not prove its writer. 'lorelog export --format ledger' and 'lorelog import'
    move records between homes.

    examples:
      lorelog ledger check
    """
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
