"""The verbs of `lorelog task` that write a record."""

from __future__ import annotations

from lorelog.core.errors import UsageError
from lorelog.surfaces.cli.arguments import add_common, add_verb
from lorelog.surfaces.cli.asking import ask
from lorelog.surfaces.cli.paper import note, one_line, print_json
from lorelog.surfaces.cli.records_paper import say_promotion, short, shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from typing import Any

ORIGINS = ("user", "agent", "tool", "import")
_VERBS = {
    "start": "begin a task",
    "progress": "say how far a task is, and what is next",
    "run-start": "say that a tool is about to be run, and why",
    "run-finish": "say what a run came to",
    "evidence": "add what speaks for or against",
    "finish": "end a task, with what worked and what failed",
}
_SAID = {
    "progress": "Recorded progress",
    "run-start": "Recorded run",
    "run-finish": "Recorded the end of the run",
    "evidence": "Recorded evidence",
}
_ENDS = {"start": "Started", "finish": "Finished"}
_OPERATIONS = {"run-start": "task.run_start", "run-finish": "task.run_finish", "evidence": "task.add_evidence"}
_LISTED = 6


def configure(parser: argparse.ArgumentParser, verbs: Any) -> None:
    """Declare them."""
    made = {name: add_verb(parser, verbs, name, says) for name, says in _VERBS.items()}
    for name, declare in (
        ("start", _configure_start),
        ("progress", _configure_progress),
        ("run-start", _configure_run_start),
        ("run-finish", _configure_run_finish),
        ("evidence", _configure_evidence),
        ("finish", _configure_finish),
    ):
        if name != "start":
            add_task(made[name])
        declare(made[name])
        add_writing(made[name])


def add_task(parser: argparse.ArgumentParser) -> None:
    """Declare which task is meant."""
    parser.add_argument(
        "task", nargs="?", metavar="TASK", help="its id or first characters; the one in progress if not given"
    )


def add_writing(parser: argparse.ArgumentParser) -> None:
    """Declare who says it and where it comes from; and what every command takes."""
    parser.add_argument("--as", dest="agent", metavar="AGENT", help="who says it (records.agent, or the identity)")
    parser.add_argument("--session", metavar="ID", help="the session that it is said in")
    parser.add_argument(
        "--origin", choices=ORIGINS, help="where its text comes from (default agent); what a tool says taints"
    )
    add_common(parser)


def writing_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return who says it and where it comes from, as the operations name them."""
    return {"agent_id": args.agent, "session_id": args.session, "origin": args.origin}


def run(args: argparse.Namespace) -> int:
    """Write one record."""
    fields = _FIELDS[args.verb](args)
    if args.verb != "start":
        fields["task_id"] = args.task or only_task(args)
    operation = _OPERATIONS.get(args.verb, f"task.{args.verb}")
    reply = ask(args, operation, {**fields, **writing_of(args)})
    if args.json:
        print_json(reply)
    elif args.verb in _ENDS:
        print(f"{_ENDS[args.verb]} task {short(reply['task_id'])}")
        say_notes(reply)
    else:
        say_written(_SAID[args.verb], reply)
    return 0


def say_written(what: str, reply: Mapping[str, Any]) -> None:
    """Say that a record is written, under which id, and what else is to be said."""
    of = f" of task {short(reply['task_id'])}" if reply["task_id"] else ""
    print(f"{what} {short(reply['artifact_id'])}{of}")
    say_promotion(reply["trust"])
    why = reply["trust"]["promotion_reason"]
    for text in reply["notes"]:
        if not (why and why in text):  # has just been said
            note(text)


def say_notes(reply: Mapping[str, Any]) -> None:
    """Say what a reply has to say beside its answer."""
    for text in reply["notes"]:
        note(text)


def only_task(args: argparse.Namespace) -> str:
    """Return the one task of the project that is in progress, and say which. Raise UsageError where there are none or more."""
    found = ask(args, "task.search", {"status": "in_progress", "k": 1000})["hits"]
    own = [one for one in found if one["project"]] or found
    if len(own) == 1:
        if not args.json:
            note(f"task {short(own[0]['task_id'])}: {own[0]['goal']}")
        return str(own[0]["task_id"])
    if not own:
        raise UsageError("no task is in progress here", hint="begin one ('lorelog task start \"…\"'), or name one")
    ids = shortened(one["task_id"] for one in own)
    shown = "; ".join(f"{ids[one['task_id']]} ({one_line(one['goal'])[:60]})" for one in own[:_LISTED])
    more = f"; and {len(own) - _LISTED} more" if len(own) > _LISTED else ""
    raise UsageError(f"{len(own)} tasks are in progress here: say which one is meant", hint=shown + more)


def _configure_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("goal", metavar="GOAL", help="what the task is for")
    parser.add_argument("--why", metavar="TEXT", help="why it is worth doing")
    parser.add_argument("--hypothesis", metavar="TEXT", help="what is expected to be true")
    parser.add_argument("--question", metavar="TEXT", help="the question to be answered")
    add_texts(parser, "--expect", "what there should be in the end")
    add_texts(parser, "--dataset", "data that it is about", metavar="NAME[@VERSION]")
    parser.add_argument("--parent", metavar="TASK", help="the task that it is a part of")
    parser.add_argument("--global", dest="to_global", action="store_true", help="it belongs to no project")


def _configure_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("summary", metavar="SUMMARY", help="what happened, or what is held to be true")
    parser.add_argument("--next", required=True, metavar="TEXT", help="what is to be done next")
    add_texts(parser, "--blocker", "what stands in the way")
    add_texts(parser, "--failed", "what was tried and failed")
    add_texts(parser, "--worked", "what worked")


def _configure_run_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tool", required=True, metavar="NAME", help="the tool that is run")
    parser.add_argument("--command", required=True, metavar="TEXT", help="the command that is run")
    parser.add_argument("--why", required=True, metavar="TEXT", help="why this tool and this way")
    parser.add_argument("--input", action="append", required=True, metavar="TEXT", help="what it reads (repeatable)")
    parser.add_argument("--tool-version", metavar="TEXT", help="the tool's version")


def _configure_run_finish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notes", metavar="NOTES", help="what came of it")
    parser.add_argument("--status", default="completed", metavar="STATUS", help="completed (default), failed, …")
    parser.add_argument("--run", metavar="ID", help="the record that began the run; the last open one if not given")
    parser.add_argument("--tool", metavar="NAME", help="the tool that was run")
    add_texts(parser, "--output", "what it made")
    add_texts(parser, "--metric", "a measurement", metavar="NAME=NUMBER")
    add_texts(parser, "--validation", "how it was checked")


def _configure_evidence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("summary", metavar="SUMMARY", help="what was seen or measured")
    parser.add_argument(
        "--kind", default="observation", metavar="KIND", help="observation (default), measurement, log, …"
    )
    parser.add_argument("--about", metavar="ARTIFACT", help="the record that it is about")
    side = parser.add_mutually_exclusive_group()
    side.add_argument("--supports", action="store_true", help="it speaks for what the task holds")
    side.add_argument("--against", action="store_true", help="it speaks against it")
    add_texts(parser, "--metric", "a measurement", metavar="NAME=NUMBER")


def _configure_finish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status", default="completed", metavar="STATUS", help="completed (default), failed, cancelled"
    )
    parser.add_argument("--summary", metavar="TEXT", help="what came of it")
    add_texts(parser, "--worked", "what worked")
    add_texts(parser, "--failed", "what was tried and failed")
    add_texts(parser, "--validation", "how it was checked")
    add_texts(parser, "--uncertain", "what is not certain")
    add_texts(parser, "--followup", "what is left to be done")
    parser.add_argument("--confidence", type=float, metavar="P", help="how sure you are, from 0 to 1")


def add_texts(parser: argparse.ArgumentParser, option: str, says: str, *, metavar: str = "TEXT") -> None:
    """Declare an option that may be given more than once."""
    parser.add_argument(option, action="append", default=[], metavar=metavar, help=f"{says} (repeatable)")


def _start(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "goal": args.goal,
        "motivation": args.why,
        "hypothesis": args.hypothesis,
        "scientific_question": args.question,
        "expected_outputs": args.expect,
        "dataset_refs": [_dataset(one) for one in args.dataset],
        "parent_task_id": args.parent,
        "to_global": args.to_global,
    }


def _progress(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "summary": args.summary,
        "next_step": args.next,
        "blockers": args.blocker,
        "failed_attempts": args.failed,
        "what_worked": args.worked,
    }


def _run_start(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "tool_name": args.tool,
        "command": args.command,
        "why_chosen": args.why,
        "inputs": args.input,
        "tool_version": args.tool_version,
    }


def _run_finish(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "notes": args.notes,
        "status": args.status,
        "run_id": args.run,
        "tool_name": args.tool,
        "outputs": args.output,
        "metrics": _metrics(args.metric),
        "validation": args.validation,
    }


def _evidence(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "summary": args.summary,
        "evidence_kind": args.kind,
        "supports_claim": True if args.supports else False if args.against else None,
        "reply_to_artifact_id": args.about,
        "metrics": _metrics(args.metric),
    }


def _finish(args: argparse.Namespace) -> dict[str, Any]:
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


_FIELDS = {
    "start": _start,
    "progress": _progress,
    "run-start": _run_start,
    "run-finish": _run_finish,
    "evidence": _evidence,
    "finish": _finish,
}


def _dataset(given: str) -> dict[str, str]:
    name, _, version = given.partition("@")
    return {"name": name, "version": version} if version else {"name": name}


def _metrics(given: list[str]) -> dict[str, float]:
    metrics = {}
    for one in given:
        name, _, value = one.partition("=")
        try:
            metrics[name.strip()] = float(value)
        except ValueError:
            raise UsageError(f"{one!r} is no measurement", hint="write it as NAME=NUMBER, such as tps=412") from None
    return metrics
