"""Commands about tasks and records: task, decide, verify, brief, wiki, ledger and identity."""

from __future__ import annotations

import os
import sys

from lorelog.core.errors import NotFound, UsageError, plural
from lorelog.surfaces.cli import record_text
from lorelog.surfaces.cli.arguments import expand_path
from lorelog.surfaces.cli.client import call_command, call_operation, open_own_engine, print_note, print_reply
from lorelog.surfaces.text import one_line, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from lorelog.operations.operation import Json
    from lorelog.services.records.keyring import KeyIdentity, Keyring

_NAME = {"name NAME": "name of the identity", "shared": "json"}
_PAGES = {
    "--output DIR": "directory of the pages (default: .lorelog/wiki of the project)",
    "--all-projects": "include all projects of the tenant",
    "shared": "json tenant project",
}
ARGUMENTS = {
    "verify": {"--note TEXT": "the same as TEXT"},
    "identity create": {
        "": "create a key pair for a name",
        "name NAME": "name of the identity",
        "--passphrase": "encrypt the key; the passphrase is read from LORELOG_IDENTITY_PASSPHRASE or asked for",
        "shared": "json",
    },
    "identity list": {"": "list your own and trusted identities", "shared": "json"},
    "identity show": {"": "show keys, fingerprints and the path of the private key", **_NAME},
    "identity export": {"": "print the public key to give to others", **_NAME},
    "identity trust": {
        "": "accept signatures of a public key under a name",
        "name NAME": "name of the identity",
        "key PUBLICKEY": "public key, as printed by 'lorelog identity export'",
        "--also": "add to the name's keys, for a second machine or a new key",
        "shared": "json",
    },
    "identity forget": {"": "stop accepting a name's signatures", **_NAME},
    "wiki build": {"": "write the pages", **_PAGES},
    "wiki serve": {"": "serve the pages to a browser on this machine", "shared": "port project"},
    "wiki lint": {"": "check the pages and the records", **_PAGES},
}
HELP = {
    "task": """\
Start, update, finish and search tasks.

A task starts with a goal; progress, runs and evidence follow; 'finish' records what worked and what failed. All of it is kept
in the ledger, for you and for the next agent. TASK is a task's id or its first characters; it may be omitted if exactly
one task of the project is in progress.

examples:
  lorelog task start "Stop double charges" --why "3 refunds" --as mara
  lorelog task progress "the retry has no trace" --next "keep the event id"
  lorelog task evidence "evt_1Nq8 came twice" --kind log --supports
  lorelog task finish --worked "unique constraint" --failed "in-memory set"
  lorelog task list                       open tasks
  lorelog task search "webhook charged twice" --status completed
  lorelog task resume 0195f3a2-7c1e       what to know before continuing
""",
    "identity": """\
Manage the keys that sign records.

An identity is a name with a key pair. If `records.identity` is set to it, every record you write is signed, and anyone with
the public key can verify that you wrote it. Without a passphrase any process of your account can sign with the key; with
one, any process that has LORELOG_IDENTITY_PASSPHRASE. 'lorelog docs identity' explains what a signature proves.

examples:
  lorelog identity create mara
  lorelog config set records.identity mara   sign from now on
  lorelog identity export mara               print the public key for others
  lorelog identity trust otto ed25519:…      accept otto's signatures
  lorelog identity forget otto               stop accepting them
""",
    "wiki": """\
Build, serve and check browsable pages of a project's records.

'build' writes Markdown into .lorelog/wiki: a page for each task with all its records, decisions, failures, evidence,
pages written by agents, a brief and an index. Every sentence has a trust badge and a link to its record.
'serve' shows them on the page of 'lorelog ui', on this machine only, to whoever opens the printed link. 'lint' reports broken citations, pages that differ from what
'build' would write, and verified decisions that depend on superseded records; it exits with status 1 if it finds any.

The pages are generated and never indexed. To change the wiki, write a record.

examples:
  lorelog wiki build
  lorelog wiki build --output site/ --all-projects
  lorelog wiki serve --port 0
  lorelog wiki lint --json
""",
}
_WRITTEN_MESSAGES = {
    "progress": "Recorded progress",
    "run-start": "Recorded run",
    "run-finish": "Recorded the outcome of the run",
    "evidence": "Recorded evidence",
}
_MAX_TASKS_LISTED = 6
_MAX_MATCHES = 2


def _current_task(args: argparse.Namespace) -> str:
    """Return the id of the project's task in progress, and print it. Raise UsageError unless there is exactly one."""
    hits = call_operation(args, "task.search", {"status": "in_progress", "k": 1000})["hits"]
    tasks = [task for task in hits if task["project"]] or hits
    if len(tasks) == 1:
        if not args.json:
            print_note(f"task {record_text.short_id(tasks[0]['task_id'])}: {tasks[0]['goal']}")
        return str(tasks[0]["task_id"])
    if not tasks:
        raise UsageError("no task is in progress here", hint='give a TASK, or start one: lorelog task start "…"')
    ids = record_text.short_record_ids(task["task_id"] for task in tasks)
    listed = [f"{ids[task['task_id']]} ({one_line(task['goal'])[:60]})" for task in tasks[:_MAX_TASKS_LISTED]]
    listed += [f"and {len(tasks) - _MAX_TASKS_LISTED} more"] if len(tasks) > _MAX_TASKS_LISTED else []
    raise UsageError(f"{len(tasks)} tasks are in progress here: TASK is required", hint="; ".join(listed))


def _parse_metric(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        hint = "for example --metric tps=412"
        raise UsageError(f"--metric must be NAME=NUMBER (got {text!r})", hint=hint) from None


def run_task(args: argparse.Namespace) -> int:
    """Call the operation of the verb, for the task in progress unless one is named."""
    changes: dict[str, Any] = {}
    if hasattr(args, "task_id"):
        changes["task_id"] = args.task_id or _current_task(args)
    if hasattr(args, "metrics"):
        changes["metrics"] = dict(map(_parse_metric, args.metrics))
    if hasattr(args, "dataset_refs"):
        named = (text.partition("@") for text in args.dataset_refs)
        changes["dataset_refs"] = [{"name": name} | ({"version": at} if at else {}) for name, _, at in named]
    if args.verb == "list" and args.status == "all":
        changes["status"] = ""
    return print_reply(args, call_command(args, **changes), _SHOWS.get(args.verb, _show_task_written))


def _show_task_written(reply: Json, args: argparse.Namespace) -> None:
    if args.verb in _WRITTEN_MESSAGES:
        record_text.print_record_written(_WRITTEN_MESSAGES[args.verb], reply)
        return
    print(f"{'Started' if args.verb == 'start' else 'Finished'} task {record_text.short_id(reply['task_id'])}")


def _show_tasks_listed(reply: Json, args: argparse.Namespace) -> None:
    record_text.show_tasks(reply["hits"], projects=args.all_projects)
    if not reply["hits"]:
        kinds = {"open": "there is no open task here", "all": "there is no task here"}
        what = kinds.get(args.status, f"no task here has the status {args.status!r}")
        print_note(f"{what}; 'lorelog task start \"…\"' starts one")


def _show_tasks_found(reply: Json, args: argparse.Namespace) -> None:
    ids = record_text.short_record_ids(hit["task_id"] for hit in reply["hits"])
    records = record_text.short_record_ids(record["artifact_id"] for hit in reply["hits"] for record in hit["matched"])
    for number, hit in enumerate(reply["hits"], 1):
        head = (f"{number}.", stylize(ids[hit["task_id"]], "cyan"), record_text.format_status(hit["status"]))
        print("  ".join([*head, record_text.format_time(hit["updated_at"]), stylize(one_line(hit["goal"]), "bold")]))
        for record in hit["matched"][:_MAX_MATCHES]:
            text = ": ".join(filter(None, map(one_line, (record["artifact_kind"], record["snippet"]))))
            print(f"   {records[record['artifact_id']]}  {text}  [{record_text.format_badge(record['trust'], {})}]")
    if not reply["hits"]:
        print("Nothing found.")


def show_task_resume(reply: Json, args: argparse.Namespace) -> None:
    record_text.show_digest(reply["artifact"])
    print_note(reply["verification_hint"]["reason"])


_SHOWS = {
    "show": record_text.show_task,
    "list": _show_tasks_listed,
    "search": _show_tasks_found,
    "resume": show_task_resume,
}


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
    record_text.print_record_written("Decided", reply)
    if not args.motivation:
        print_note("say why, too: the next reader asks for the reason first (--because TEXT)")


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
    return print_reply(args, reply, lambda reply, _: record_text.print_record_written(label, reply))


_OVERVIEW = "Overview"


def _format_item_badge(item: Json) -> str:
    trust, origin = item["trust"], item["origin"]
    is_verified = trust["tier"] == "verified_record" or bool(trust["verified_by"])
    if trust["tainted"]:
        mark = f"tainted: {origin}" if origin in {"tool", "import"} else "tainted"
        return f"[{mark}, verified]" if is_verified else f"[{mark}]"
    if not is_verified:
        return "[record]"
    return "[verified, signed]" if trust["tier"] == "verified_record" and trust["signed"] else "[verified]"


def show_brief(reply: Json, args: argparse.Namespace) -> None:
    """Summarize this project's rules, tasks, failures, decisions and evidence for a newcomer.

    Rules and decisions that stand come first, each with its reason. The rest is compiled from records: every sentence cites its
    records and has a trust badge; 'lorelog show ID' shows a record.

    examples:
      lorelog brief
      lorelog brief --query "the cache"
      lorelog brief --json
    """
    digest, brief = reply["artifact"], reply["brief"]
    standing = {"Rules that stand": brief["rules"], "Decisions that stand": brief["standing_decisions"]}
    if not digest["lines"] and not any(standing.values()):
        print(
            "Nothing is recorded here yet: no task, no decision, no rule. Use 'lorelog task start \"…\"', or 'lorelog review'."
        )
        return
    print(one_line(brief["overview"]))
    for title, lines in standing.items():
        for line in [f"\n{stylize(title, 'bold')}", *(f"  {one_line(line)}" for line in lines)] if lines else ():
            print(line)
    items = {item["artifact_id"]: item for name in ("failures", "decisions", "evidence") for item in brief[name]}
    ids = record_text.short_record_ids(digest["related_artifact_ids"])
    section = _OVERVIEW
    for line in (line for line in digest["lines"] if line["section"] != _OVERVIEW):
        if line["section"] != section:
            section = line["section"]
            print(f"\n{stylize(section, 'bold')}")
        item = items.get(line["artifact_ids"][0])
        badge = _format_item_badge(item) if item else ("[tainted]" if line["tainted"] else "[record]")
        cited = " ".join(ids[record] for record in line["artifact_ids"])
        style = "yellow" if "tainted" in badge else "green" if "verified" in badge else "dim"
        print(f"  {one_line(line['text'])} {stylize(badge, style)} {stylize(one_line(cited), 'dim')}")


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
    unverified = f"Records from {reply['first_unverified']:,} on cannot be verified."
    print(counts, unverified if reply["first_unverified"] else "No line was changed.")
    if reply["torn_bytes"]:
        print_note(f"the last {reply['torn_bytes']:,} bytes are an interrupted write, which was never confirmed")


def run_identity(args: argparse.Namespace) -> int:
    from lorelog.services.records.keyring import Keyring
    from lorelog.wiring import IDENTITIES_FOLDER, resolve_location

    keyring = Keyring(resolve_location().home / IDENTITIES_FOLDER)
    change, show = _IDENTITY_VERBS[args.verb]
    return print_reply(args, change(keyring, args), show)


def _create_identity(keyring: Keyring, args: argparse.Namespace) -> Json:
    passphrase = _read_passphrase() if args.passphrase else ""
    return {**_identity_json(keyring.create(args.name, passphrase)), "encrypted": bool(passphrase)}


def _show_created(reply: Json, args: argparse.Namespace) -> None:
    from shlex import quote

    print(f"Created {stylize(one_line(reply['name']), 'cyan')}: {reply['keys'][0]['fingerprint']}")
    print(f"To sign with it, run: lorelog config set records.identity {one_line(quote(reply['name']))}")
    if not reply["encrypted"]:
        print_note("the key has no passphrase: any process of your account can sign with it")


def _show_identities(reply: Json, args: argparse.Namespace) -> None:
    for identity in reply["identities"]:
        keys = ", ".join(key["fingerprint"][:8] for key in identity["keys"]) or "forgotten"
        print(f"{stylize(one_line(identity['name']), 'cyan')}  {'own' if identity['own'] else 'trusted'}  {keys}")
    if not reply["identities"]:
        print("No identities yet; use 'lorelog identity create NAME'.")


def _show_identity(reply: Json, args: argparse.Namespace) -> None:
    print(stylize(one_line(reply["name"]), "bold"))
    for key in reply["keys"]:
        print(f"  key          {key['public_key']}")
        print(f"  fingerprint  {key['fingerprint']}")
        print(f"  known since  {key['since']}")
    if not reply["keys"]:
        print("  no accepted key: it was forgotten")
    if reply["private_key"]:
        print(f"  private key  {short_path(reply['private_key'])}")


def _export_identity(keyring: Keyring, args: argparse.Namespace) -> Json:
    from lorelog.services.records.keyring import format_public_line

    identity = keyring.get(args.name)
    key = identity.public or next((key.key for key in identity.keys), "")
    if not key:
        hint = "its .pub file was deleted or is damaged"
        raise NotFound(f"the public key of {identity.name!r} is missing", hint=hint)
    return {"name": identity.name, "line": format_public_line(identity.name, key)}


def _trust_identity(keyring: Keyring, args: argparse.Namespace) -> Json:
    added = keyring.trust(args.name, args.key, also=args.also)
    args.fingerprint = added.fingerprint
    return _identity_json(keyring.get(added.name))


def _show_trusted(reply: Json, args: argparse.Namespace) -> None:
    print(f"Now accepting signatures of {stylize(one_line(reply['name']), 'cyan')}: {args.fingerprint}")
    print_note("compare the fingerprint with the one its owner sees (lorelog identity show)")


def _forget_identity(keyring: Keyring, args: argparse.Namespace) -> Json:
    keys, path = keyring.forget(args.name), keyring.private_path(args.name)
    fingerprints = [key.fingerprint for key in keys]
    return {"name": keys[0].name, "forgotten": fingerprints, "private_key": str(path) if path.exists() else ""}


def _show_forgotten(reply: Json, args: argparse.Namespace) -> None:
    keys = plural(len(reply["forgotten"]), "key")
    print(f"Forgot {keys} of {one_line(reply['name'])}: their records count as unsigned.")
    if reply["private_key"]:
        print_note(f"its private key was kept: {short_path(reply['private_key'])}")


_IDENTITY_VERBS: dict[str, tuple[Callable[[Keyring, argparse.Namespace], Json], Callable[..., None]]] = {
    "create": (_create_identity, _show_created),
    "list": (lambda keyring, _: {"identities": list(map(_identity_json, keyring.identities()))}, _show_identities),
    "show": (lambda keyring, args: _identity_json(keyring.get(args.name)), _show_identity),
    "export": (_export_identity, lambda reply, _: print(one_line(reply["line"]))),
    "trust": (_trust_identity, _show_trusted),
    "forget": (_forget_identity, _show_forgotten),
}


def _identity_json(identity: KeyIdentity) -> dict[str, Any]:
    return {
        "name": identity.name,
        "own": bool(identity.path),
        "private_key": identity.path,
        "keys": [
            {"public_key": f"ed25519:{key.key}", "fingerprint": key.fingerprint, "since": key.since}
            for key in identity.keys
        ],
    }


def _read_passphrase() -> str:
    """Return the passphrase from the environment, or ask for one twice."""
    from getpass import getpass

    from lorelog.services.records.keyring import PASSPHRASE_VARIABLE

    if passphrase := os.environ.get(PASSPHRASE_VARIABLE, ""):
        return passphrase
    if sys.stdin is None or not sys.stdin.isatty():
        message = "cannot ask for a passphrase: standard input is not a terminal"
        raise UsageError(message, hint=f"set {PASSPHRASE_VARIABLE}")
    first = getpass("Passphrase: ")
    if not first:
        raise UsageError("the passphrase is empty", hint="omit --passphrase for a key without one")
    if getpass("Repeat passphrase: ") != first:
        raise UsageError("the passphrases differ", hint="no key was created; try again")
    return first


def run_wiki(args: argparse.Namespace) -> int:
    if args.verb == "serve":
        from lorelog.surfaces.cli.commands.programs import serve_page

        return serve_page("lorelog wiki serve", "records/wiki", project=args.project, port=args.port)
    from pathlib import Path

    from msgspec import to_builtins

    from lorelog.services.places.workspace import create_project_folder
    from lorelog.services.records.wiki import compile_wiki, default_wiki_folder, lint_wiki, write_pages

    with open_own_engine(args) as engine:
        records = engine.records()
        wiki = compile_wiki(records, all_projects=args.all_projects)
    folder = Path(expand_path(args.output)).absolute() if args.output else default_wiki_folder(records.workspace)
    if args.verb == "build":
        if wiki.pages and not args.output:
            create_project_folder(records.workspace.project.id)  # its .gitignore keeps the pages out of the repository
        built: Json = to_builtins(write_pages(wiki.pages, folder))
        print_reply(args, built, lambda reply, _: _show_built(reply, len(wiki.pages), str(folder)))
        return 1 if built["left_alone"] else 0
    findings = [to_builtins(finding) for finding in lint_wiki(wiki, folder)]
    for finding in findings:
        finding["artifact_ids"] = finding.pop("records")
    print_reply(args, {"folder": str(folder), "pages": len(wiki.pages), "findings": findings}, _show_findings)
    return 1 if findings else 0


def _show_built(built: Json, pages: int, folder: str) -> None:
    from lorelog.services.records.wiki import EDITED_SUFFIX

    for name in built["put_aside"]:
        print_note(f"{name} was edited by hand; the edited version is now {name}{EDITED_SUFFIX}")
    for name in built["left_alone"]:
        print_note(f"{name} was not written by lorelog and was not changed")
    if not pages and not built["removed"]:
        print("Nothing is recorded here yet; use 'lorelog task start \"…\"'.")
        return
    counts = ", ".join(f"{len(built[name]):,} {name}" for name in ("written", "unchanged", "removed"))
    print(f"{plural(pages, 'page')} in {short_path(folder)}: {counts}.")


def _show_findings(reply: Json, args: argparse.Namespace) -> None:
    for finding in reply["findings"]:
        print(f"{stylize(finding['kind'].replace('_', ' '), 'yellow')}: {one_line(finding['message'])}")
        if finding["page"] and finding["page"] not in finding["message"]:
            print(f"  page: {one_line(finding['page'])}")
        print(f"  hint: {one_line(finding['hint'])}")
    if not reply["findings"]:
        print(f"{plural(reply['pages'], 'page')}: no problems found.")
