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
from lorelog.surfaces.cli.client import call_command, call_operation, print_reply
from lorelog.surfaces.cli.render import one_line, print_note, print_notes, stylize
from lorelog.surfaces.cli.render.records import (
    format_badge,
    format_status,
    format_time,
    print_record_written,
    short_id,
    short_record_ids,
    show_digest,
    show_task,
    show_tasks,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from lorelog.operations.operation import Json

_WRITTEN_MESSAGES = {
    "progress": "Recorded progress",
    "run-start": "Recorded run",
    "run-finish": "Recorded the outcome of the run",
    "evidence": "Recorded evidence",
}
_TASK_MESSAGES = {"start": "Started", "finish": "Finished"}
_MAX_TASKS_LISTED = 6
_MAX_MATCHES = 2


def _current_task(args: argparse.Namespace) -> str:
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


def run_task(args: argparse.Namespace) -> int:
    """Call the operation of the verb, for the task in progress unless one is named."""
    changes: dict[str, Any] = {}
    if hasattr(args, "task_id"):
        changes["task_id"] = args.task_id or _current_task(args)
    if hasattr(args, "metrics"):
        changes["metrics"] = _parse_metrics(args.metrics)
    if hasattr(args, "dataset_refs"):
        changes["dataset_refs"] = [_parse_dataset(text) for text in args.dataset_refs]
    if args.verb == "list" and args.status == "all":
        changes["status"] = ""
    return print_reply(args, call_command(args, **changes), _SHOWS.get(args.verb, _show_written))


def _show_written(reply: Json, args: argparse.Namespace) -> None:
    if args.verb in _TASK_MESSAGES:
        print(f"{_TASK_MESSAGES[args.verb]} task {short_id(reply['task_id'])}")
        print_notes(reply)
    else:
        print_record_written(_WRITTEN_MESSAGES[args.verb], reply)


def _show_list(reply: Json, args: argparse.Namespace) -> None:
    show_tasks(reply["hits"], projects=args.all_projects)
    if not reply["hits"]:
        kinds = {"open": "there is no open task here", "all": "there is no task here"}
        what = kinds.get(args.status, f"no task here has the status {args.status!r}")
        print_note(f"{what}; 'lorelog task start \"…\"' starts one")
    print_notes(reply)


def _show_found(reply: Json, args: argparse.Namespace) -> None:
    ids = short_record_ids(hit["task_id"] for hit in reply["hits"])
    records = short_record_ids(record["artifact_id"] for hit in reply["hits"] for record in hit["matched"])
    for number, hit in enumerate(reply["hits"], 1):
        head = (f"{number}.", stylize(ids[hit["task_id"]], "cyan"), format_status(hit["status"]))
        print("  ".join([*head, format_time(hit["updated_at"]), stylize(one_line(hit["goal"]), "bold")]))
        for record in hit["matched"][:_MAX_MATCHES]:
            kind, snippet = one_line(record["artifact_kind"]), one_line(record["snippet"])
            text = f"{kind}: {snippet}" if snippet else kind
            print(f"   {records[record['artifact_id']]}  {text}  [{format_badge(record['trust'], {})}]")
    if not reply["hits"]:
        print("Nothing found.")
    print_notes(reply)


def _show_resume(reply: Json, args: argparse.Namespace) -> None:
    show_digest(reply["artifact"])
    print_note(reply["verification_hint"]["reason"])


_SHOWS = {"show": show_task, "list": _show_list, "search": _show_found, "resume": _show_resume}
