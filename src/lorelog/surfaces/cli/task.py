"""Work on tasks, with a record of each step: who did what, what came of it, and what is left.

A task is begun with its goal; progress, runs and evidence follow; a finish says what worked and what failed. Everything is kept in
the ledger and found again, by you and by the next agent. TASK is a task's id or its first characters; it may be left out while
one task of the project is in progress.

examples:
  lorelog task start "Stop charging customers twice" --why "three refunds last week" --as mara
  lorelog task progress "the retry finds no trace of the first delivery" --next "keep the event id"
  lorelog task evidence "evt_1Nq8 came twice" --kind log --supports
  lorelog task finish --worked "a unique constraint" --failed "a set in memory" --validation "replayed 400 deliveries"
  lorelog task list                         what is open
  lorelog task search "webhook charged twice" --status completed
  lorelog task resume 0195f3a2-7c1e         what to know before going on
"""

from __future__ import annotations

from lorelog.surfaces.cli import task_write
from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, print_json, styled
from lorelog.surfaces.cli.records_paper import (
    badge_of,
    moment,
    shortened,
    show_digest,
    show_records,
    show_tasks,
    status_of,
    who,
)
from lorelog.surfaces.cli.task_write import only_task, say_notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

_MATCHES = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    task_write.configure(parser, verbs)
    shown = add_verb(parser, verbs, "show", "show a task and all its records, with what each is worth")
    resumed = add_verb(parser, verbs, "resume", "show what to know before going on with a task")
    for verb in (shown, resumed):
        task_write.add_task(verb)
        add_common(verb)
    listed = add_verb(parser, verbs, "list", "list tasks, those first that were worked on last")
    listed.add_argument(
        "--status", default="open", metavar="STATUS", help="open (default), all, or a status such as completed, failed"
    )
    found = add_verb(parser, verbs, "search", "find tasks by what was said in them")
    found.add_argument("query", nargs="+", metavar="WORDS", help="a question or words")
    found.add_argument("--status", default="", metavar="STATUS", help="only tasks of this status")
    found.add_argument("--tool", default="", metavar="NAME", help="only tasks in which this tool was run")
    found.add_argument("--dataset", default="", metavar="NAME", help="only tasks about this data")
    found.add_argument("--agent", default="", metavar="AGENT", help="only what this one said")
    for verb, most in ((listed, 20), (found, 5)):
        verb.add_argument(
            "-n", "--limit", type=int, default=most, metavar="N", help=f"at most so many (default {most})"
        )
        verb.add_argument("--all-projects", action="store_true", help="look beyond this project and the global tasks")
        add_common(verb)


def run(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    shows = {"show": _show, "resume": _resume, "list": _list, "search": _search}
    return shows[args.verb](args) if args.verb in shows else task_write.run(args)


def _list(args: argparse.Namespace) -> int:
    status = "" if args.status == "all" else args.status
    reply = ask(args, "task.search", {"status": status, "k": args.limit, "all_projects": args.all_projects})
    if args.json:
        print_json(reply)
        return 0
    show_tasks(reply["hits"], projects=args.all_projects)
    if not reply["hits"]:
        kinds = {"open": "no task is open here", "all": "there is no task here"}
        what = kinds.get(args.status, f"no task here has the status {args.status!r}")
        note(f"{what}: 'lorelog task start \"…\"' begins one")
    say_notes(reply)
    return 0


def _search(args: argparse.Namespace) -> int:
    request = {
        "query": " ".join(args.query),
        "k": args.limit,
        "status": args.status,
        "tool_name": args.tool,
        "dataset": args.dataset,
        "agent_id": args.agent,
        "all_projects": args.all_projects,
    }
    reply = ask(args, "task.search", request, starts=True)
    if args.json:
        print_json(reply)
        return 0
    ids = shortened(one["task_id"] for one in reply["hits"])
    records = shortened(one["artifact_id"] for hit in reply["hits"] for one in hit["matched"])
    for number, hit in enumerate(reply["hits"], 1):
        head = (f"{number}.", styled(ids[hit["task_id"]], "cyan"), status_of(hit["status"]), moment(hit["updated_at"]))
        print("  ".join([*head, styled(one_line(hit["goal"]), "bold")]))
        for one in hit["matched"][:_MATCHES]:
            said = one_line(one["snippet"])
            what = f"{one_line(one['artifact_kind'])}: {said}" if said else one_line(one["artifact_kind"])
            print(f"   {records[one['artifact_id']]}  {what}  [{badge_of(one['trust'], {})}]")
    if not reply["hits"]:
        print("Nothing found.")
    say_notes(reply)
    return 0


def _show(args: argparse.Namespace) -> int:
    reply = ask(args, "task.get", {"task_id": args.task or only_task(args)})
    if args.json:
        print_json(reply)
        return 0
    task = reply["task"]
    begun = f"begun by {who(task)} {moment(task['started_at'])}"
    print("  ".join([styled(task["task_id"], "cyan"), status_of(task["status"]), begun]))
    print(styled(one_line(task["goal"]), "bold"))
    print()
    show_records(reply["artifacts"])
    return 0


def _resume(args: argparse.Namespace) -> int:
    reply = ask(args, "task.resume", {"task_id": args.task or only_task(args)})
    if args.json:
        print_json(reply)
        return 0
    show_digest(reply["artifact"])
    note(reply["verification_hint"]["reason"])
    return 0
