"""Start, update, finish and search tasks.

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
"""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, add_record_options, add_repeatable, add_verb, record_options_of
from lorelog.surfaces.cli.client import call_operation
from lorelog.surfaces.cli.render import one_line, print_json, print_note, stylize
from lorelog.surfaces.cli.render.records import (
    format_badge,
    format_status,
    format_time,
    print_notes,
    print_record_written,
    short_id,
    short_record_ids,
    show_digest,
    show_tasks,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    import argparse
    from typing import Any


_WRITE_VERBS = {
    "start": "start a task",
    "progress": "record progress, and the next step if there is one",
    "run-start": "record that a tool is about to run, and why",
    "run-finish": "record the outcome of a run",
    "evidence": "record evidence for or against the task's hypothesis",
    "finish": "finish a task, with what worked and what failed",
}
_WRITTEN_MESSAGES = {
    "progress": "Recorded progress",
    "run-start": "Recorded run",
    "run-finish": "Recorded the outcome of the run",
    "evidence": "Recorded evidence",
}
_TASK_MESSAGES = {"start": "Started", "finish": "Finished"}
_OPERATIONS = {"run-start": "task.run_start", "run-finish": "task.run_finish", "evidence": "task.add_evidence"}
_MAX_TASKS_LISTED = 6
_MAX_MATCHES = 2


def _configure_write(parser: argparse.ArgumentParser, verbs: Any) -> None:
    parsers = {name: add_verb(parser, verbs, name, help_text) for name, help_text in _WRITE_VERBS.items()}
    for name, declare in (
        ("start", _configure_start),
        ("progress", _configure_progress),
        ("run-start", _configure_run_start),
        ("run-finish", _configure_run_finish),
        ("evidence", _configure_evidence),
        ("finish", _configure_finish),
    ):
        if name != "start":
            add_task_argument(parsers[name])
        declare(parsers[name])
        add_record_options(parsers[name])


def add_task_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the TASK argument."""
    parser.add_argument(
        "task", nargs="?", metavar="TASK", help="id or its first characters (default: the task in progress)"
    )


def _run_write(args: argparse.Namespace) -> int:
    fields = _FIELD_BUILDERS[args.verb](args)
    if args.verb != "start":
        fields["task_id"] = args.task or current_task(args)
    operation = _OPERATIONS.get(args.verb, f"task.{args.verb}")
    reply = call_operation(args, operation, {**fields, **record_options_of(args)})
    if args.json:
        print_json(reply)
    elif args.verb in _TASK_MESSAGES:
        print(f"{_TASK_MESSAGES[args.verb]} task {short_id(reply['task_id'])}")
        print_notes(reply)
    else:
        print_record_written(_WRITTEN_MESSAGES[args.verb], reply)
    return 0


def current_task(args: argparse.Namespace) -> str:
    """Return the id of the project's task in progress, and print it. Raise UsageError unless there is exactly one."""
    hits = call_operation(args, "task.search", {"status": "in_progress", "k": 1000})["hits"]
    tasks = [task for task in hits if task["project"]] or hits
    if len(tasks) == 1:
        if not args.json:
            print_note(f"task {short_id(tasks[0]['task_id'])}: {tasks[0]['goal']}")
        return str(tasks[0]["task_id"])
    if not tasks:
        raise UsageError("no task is in progress here", hint='give a TASK, or start one: lorelog task start "…"')
    ids = short_record_ids(task["task_id"] for task in tasks)
    listed = [f"{ids[task['task_id']]} ({one_line(task['goal'])[:60]})" for task in tasks[:_MAX_TASKS_LISTED]]
    more = [f"and {len(tasks) - _MAX_TASKS_LISTED} more"] if len(tasks) > _MAX_TASKS_LISTED else []
    raise UsageError(f"{len(tasks)} tasks are in progress here: TASK is required", hint="; ".join([*listed, *more]))


def _configure_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("goal", metavar="GOAL", help="goal of the task")
    parser.add_argument("--why", metavar="TEXT", help="motivation")
    parser.add_argument("--hypothesis", metavar="TEXT", help="hypothesis to test")
    parser.add_argument("--question", metavar="TEXT", help="question to answer")
    add_repeatable(parser, "--expect", "expected output")
    add_repeatable(parser, "--dataset", "dataset used", metavar="NAME[@VERSION]")
    parser.add_argument("--parent", metavar="TASK", help="parent task")
    parser.add_argument("--global", dest="to_global", action="store_true", help="make it visible in every project")


def _configure_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("summary", metavar="SUMMARY", help="what happened or was learned")
    parser.add_argument("--next", default="", metavar="TEXT", help="next step")
    add_repeatable(parser, "--blocker", "blocker")
    add_repeatable(parser, "--failed", "what was tried and failed")
    add_repeatable(parser, "--worked", "what worked")


def _configure_run_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tool", required=True, metavar="NAME", help="name of the tool")
    parser.add_argument("--command", required=True, metavar="TEXT", help="command line")
    parser.add_argument("--why", required=True, metavar="TEXT", help="reason for this tool and command")
    parser.add_argument("--input", action="append", required=True, metavar="TEXT", help="input of the run (repeatable)")
    parser.add_argument("--tool-version", metavar="TEXT", help="the tool's version")


def _configure_run_finish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notes", metavar="NOTES", help="outcome of the run")
    parser.add_argument("--status", default="completed", metavar="STATUS", help="completed (default), failed, …")
    parser.add_argument("--run", metavar="ID", help="record of the run's start (default: the last open one)")
    parser.add_argument("--tool", metavar="NAME", help="name of the tool")
    add_repeatable(parser, "--output", "output of the run")
    add_repeatable(parser, "--metric", "a measurement", metavar="NAME=NUMBER")
    add_repeatable(parser, "--validation", "how it was checked")


def _configure_evidence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("summary", metavar="SUMMARY", help="what was observed or measured")
    parser.add_argument(
        "--kind", default="observation", metavar="KIND", help="observation (default), measurement, log, …"
    )
    parser.add_argument("--about", metavar="ID", help="record it refers to")
    side = parser.add_mutually_exclusive_group()
    side.add_argument("--supports", action="store_true", help="it supports the task's hypothesis")
    side.add_argument("--against", action="store_true", help="it contradicts the task's hypothesis")
    add_repeatable(parser, "--metric", "a measurement", metavar="NAME=NUMBER")


def _configure_finish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status", default="completed", metavar="STATUS", help="completed (default), failed, cancelled"
    )
    parser.add_argument("--summary", metavar="TEXT", help="outcome of the task")
    add_repeatable(parser, "--worked", "what worked")
    add_repeatable(parser, "--failed", "what was tried and failed")
    add_repeatable(parser, "--validation", "how it was checked")
    add_repeatable(parser, "--uncertain", "what is uncertain")
    add_repeatable(parser, "--followup", "follow-up work")
    parser.add_argument("--confidence", type=float, metavar="P", help="your confidence, 0 to 1")


def _start_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "goal": args.goal,
        "motivation": args.why,
        "hypothesis": args.hypothesis,
        "scientific_question": args.question,
        "expected_outputs": args.expect,
        "dataset_refs": [_parse_dataset(text) for text in args.dataset],
        "parent_task_id": args.parent,
        "to_global": args.to_global,
    }


def _progress_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "summary": args.summary,
        "next_step": args.next,
        "blockers": args.blocker,
        "failed_attempts": args.failed,
        "what_worked": args.worked,
    }


def _run_start_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "tool_name": args.tool,
        "command": args.command,
        "why_chosen": args.why,
        "inputs": args.input,
        "tool_version": args.tool_version,
    }


def _run_finish_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "notes": args.notes,
        "status": args.status,
        "run_id": args.run,
        "tool_name": args.tool,
        "outputs": args.output,
        "metrics": _parse_metrics(args.metric),
        "validation": args.validation,
    }


def _evidence_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "summary": args.summary,
        "evidence_kind": args.kind,
        "supports_claim": True if args.supports else False if args.against else None,
        "reply_to_artifact_id": args.about,
        "metrics": _parse_metrics(args.metric),
    }


def _finish_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "status": args.status,
        "summary": args.summary,
        "what_worked": args.worked,
        "what_failed": args.failed,
        "validation": args.validation,
        "uncertainty": args.uncertain,
        "followups": args.followup,
        "confidence": args.confidence,
    }


_FIELD_BUILDERS = {
    "start": _start_fields,
    "progress": _progress_fields,
    "run-start": _run_start_fields,
    "run-finish": _run_finish_fields,
    "evidence": _evidence_fields,
    "finish": _finish_fields,
}


def _parse_dataset(text: str) -> dict[str, str]:
    name, _, version = text.partition("@")
    return {"name": name, "version": version} if version else {"name": name}


def _parse_metrics(texts: list[str]) -> dict[str, float]:
    metrics = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            metrics[name.strip()] = float(value)
        except ValueError:
            raise UsageError(
                f"--metric must be NAME=NUMBER (got {text!r})", hint="for example --metric tps=412"
            ) from None
    return metrics


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verbs and their arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _configure_write(parser, verbs)
    show = add_verb(parser, verbs, "show", "show a task and its records, with trust badges")
    resume = add_verb(parser, verbs, "resume", "show what to know before continuing a task")
    for verb in (show, resume):
        add_task_argument(verb)
        add_common(verb)
    listing = add_verb(parser, verbs, "list", "list tasks, most recently updated first")
    listing.add_argument(
        "--status", default="open", metavar="STATUS", help="open (default), all, or a status such as completed, failed"
    )
    search = add_verb(parser, verbs, "search", "search tasks and their records")
    search.add_argument("query", nargs="+", metavar="WORDS", help="a question or keywords")
    search.add_argument("--status", default="", metavar="STATUS", help="only tasks with this status")
    search.add_argument("--tool", default="", metavar="NAME", help="only tasks that used this tool")
    search.add_argument("--dataset", default="", metavar="NAME", help="only tasks that used this dataset")
    search.add_argument("--as", dest="writer", default="", metavar="NAME", help="only records of this writer")
    for verb, limit in ((listing, 20), (search, 5)):
        verb.add_argument(
            "-n", "--limit", type=int, default=limit, metavar="N", help=f"maximum number of tasks (default {limit})"
        )
        verb.add_argument("--all-projects", action="store_true", help="include the tasks of all projects")
        add_common(verb)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    shows = {"show": _show, "resume": _resume, "list": _list, "search": _search}
    return shows[args.verb](args) if args.verb in shows else _run_write(args)


def _list(args: argparse.Namespace) -> int:
    status = "" if args.status == "all" else args.status
    reply = call_operation(args, "task.search", {"status": status, "k": args.limit, "all_projects": args.all_projects})
    if args.json:
        print_json(reply)
        return 0
    show_tasks(reply["hits"], projects=args.all_projects)
    if not reply["hits"]:
        kinds = {"open": "there is no open task here", "all": "there is no task here"}
        what = kinds.get(args.status, f"no task here has the status {args.status!r}")
        print_note(f"{what}; 'lorelog task start \"…\"' starts one")
    print_notes(reply)
    return 0


def _search(args: argparse.Namespace) -> int:
    request = {
        "query": " ".join(args.query),
        "k": args.limit,
        "status": args.status,
        "tool_name": args.tool,
        "dataset": args.dataset,
        "writer": args.writer,
        "all_projects": args.all_projects,
    }
    reply = call_operation(args, "task.search", request, start_daemon=True)
    if args.json:
        print_json(reply)
        return 0
    ids = short_record_ids(hit["task_id"] for hit in reply["hits"])
    records = short_record_ids(record["artifact_id"] for hit in reply["hits"] for record in hit["matched"])
    for number, hit in enumerate(reply["hits"], 1):
        head = (
            f"{number}.",
            stylize(ids[hit["task_id"]], "cyan"),
            format_status(hit["status"]),
            format_time(hit["updated_at"]),
        )
        print("  ".join([*head, stylize(one_line(hit["goal"]), "bold")]))
        for record in hit["matched"][:_MAX_MATCHES]:
            kind, snippet = one_line(record["artifact_kind"]), one_line(record["snippet"])
            text = f"{kind}: {snippet}" if snippet else kind
            print(f"   {records[record['artifact_id']]}  {text}  [{format_badge(record['trust'], {})}]")
    if not reply["hits"]:
        print("Nothing found.")
    print_notes(reply)
    return 0


def _show(args: argparse.Namespace) -> int:
    from lorelog.surfaces.cli.show import show_task

    reply = call_operation(args, "task.get", {"task_id": args.task or current_task(args)})
    if args.json:
        print_json(reply)
        return 0
    show_task(reply)
    return 0


def _resume(args: argparse.Namespace) -> int:
    reply = call_operation(args, "task.resume", {"task_id": args.task or current_task(args)})
    if args.json:
        print_json(reply)
        return 0
    show_digest(reply["artifact"])
    print_note(reply["verification_hint"]["reason"])
    return 0
