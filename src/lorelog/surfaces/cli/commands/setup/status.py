"""Show on one screen how lorelog is doing here: this project, index, daemon, agents, today's captures and cost, problems.

'status index' shows the sizes of the index: of this project, which search and list look into, and of all projects. 'status
cost' shows the calls of language and embedding models: calls and tokens by day, purpose and project, and what is left of
today's limits. A failed call counts with what it may have cost, unless it was free. Only tokens are shown, because prices
change. Nothing is started, and no model is loaded.

examples:
  lorelog status
  lorelog status index
  lorelog status cost --since 30d --by model
  lorelog status --json
"""

from __future__ import annotations

from lorelog.core.errors import LorelogError
from lorelog.surfaces.cli.arguments import add_common, add_setting_options
from lorelog.surfaces.cli.client import call_operation, print_reply
from lorelog.surfaces.cli.render import (
    known_width,
    one_line,
    plural,
    print_note,
    print_notes,
    print_table,
    printable,
    short_path,
    stylize,
    wrap,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from typing import Any

    from lorelog.operations.operation import Json

_MAX_DAYS = 7
_MAX_PROBLEMS = 5
_COUNTED_TYPES = ("correction", "decision")
_MAX_COUNTED = 1000
_COUNTS = ("calls", "failed", "tokens in", "tokens out")
_LINE_WIDTH = 79
_LABEL_WIDTH = 11


def configure_status_overview(parser: argparse.ArgumentParser) -> None:
    """show everything on one screen (default)"""  # noqa: D403
    add_common(parser)


def run_status_overview(args: argparse.Namespace) -> int:
    """Print the screen; problems on it are not a failure of the command."""
    print_reply(args, _collect(args), _show_screen)
    return 0


def configure_status_index(parser: argparse.ArgumentParser) -> None:
    """Declare the settings of the command."""
    add_setting_options(parser)


def _collect(args: argparse.Namespace) -> dict[str, Any]:
    """Return all parts of the screen. A part that cannot be told is null, and the reason is a problem."""
    problems: list[dict[str, str]] = []

    def part(name: str, read: Callable[[argparse.Namespace], Any]) -> Any:
        try:
            return read(args)
        except (LorelogError, OSError) as error:
            hint = getattr(error, "hint", "") or "lorelog doctor"
            message = str(getattr(error, "message", error))
            if all(message != problem["message"] for problem in problems):  # a bad setting fails every part
                problems.append({"name": name, "message": message, "hint": hint})
            return None

    parts = {
        "index": part("index", lambda args: call_operation(args, "memory.stats", {})),
        "daemon": part("daemon", _daemon),
        "hosts": part("hosts", _hosts),
        "captured": part("captures", _captured),
        "delivered": part("deliveries", _delivered),
        "cost": part("cost", _cost),
    }
    problems += [
        {"name": host["title"], "message": host["problem"], "hint": f"lorelog hosts install {host['host']}"}
        for host in parts["hosts"] or ()
        if host["problem"]
    ]
    problems += part("health", _problems) or []
    return {**parts, "problems": problems}


def _daemon(args: argparse.Namespace) -> dict[str, Any]:
    from lorelog.light.daemon_address import find_address
    from lorelog.surfaces.cli.commands.setup.doctor import daemon_status

    status = daemon_status(find_address())
    return {name: status.get(name) for name in ("running", "pid", "started_at", "uptime_s", "rss_bytes")}


def _hosts(args: argparse.Namespace) -> list[dict[str, Any]]:
    from lorelog.hosts import HOSTS
    from lorelog.services.install.status import HostCaptureStats, host_status
    from lorelog.surfaces.cli.commands.agents.hosts import install_context

    context = install_context()
    statuses = [host_status(host, context, HostCaptureStats()) for host in HOSTS]
    return [
        {
            "host": status.host,
            "title": status.title,
            "found": status.found,
            "installed": status.installed,
            "to_do": list(status.approve),
            "problem": status.warnings[0] if status.installed == "stale" and status.warnings else "",
        }
        for status in statuses
    ]


def _captured(args: argparse.Namespace) -> dict[str, int]:
    """Return the turns captured today in all projects, and this project's new memories of the types that matter most."""
    sessions = call_operation(args, "session.status", {})
    request = {"since": "today", "types": list(_COUNTED_TYPES), "limit": _MAX_COUNTED}
    listed = call_operation(args, "memory.list", request)["memories"]
    memories = [
        memory for memory in listed if memory["date_source"] == "text"
    ]  # a file's time says nothing about its notes
    turns = sum(host["today"] for host in sessions["hosts"])
    counts = {f"{name}s": sum(memory["type"] == name for memory in memories) for name in _COUNTED_TYPES}
    return {"turns": turns, **counts, "waiting": sessions["waiting"]}


def _delivered(args: argparse.Namespace) -> dict[str, int]:
    reply = call_operation(args, "delivery.list", {"since": "today", "limit": _MAX_COUNTED})
    memories = sum(len(delivery["memories"]) for delivery in reply["deliveries"])
    return {"memories": memories, "tokens": reply["total_tokens"]}


def _cost(args: argparse.Namespace) -> dict[str, Any]:
    from datetime import date

    today = date.today()
    reply = call_operation(args, "memory.cost", {"since": today.replace(day=1).isoformat(), "by": ["day"]})
    days = {line["day"]: line for line in reply["lines"]}
    empty = {"calls": 0, "tokens_in": 0, "tokens_out": 0}

    def sums(line: Json) -> dict[str, int]:
        return {name: line[name] for name in empty}

    return {"today": sums(days.get(today.isoformat(), empty)), "month": sums(reply["total"]), "limits": reply["today"]}


def _problems(args: argparse.Namespace) -> list[dict[str, str]]:
    checks = call_operation(args, "memory.health", {"duplicates": 0})["checks"]
    return [
        {"name": check["name"], "message": check["message"], "hint": check["hint"]}
        for check in checks
        if not check["ok"] or check["hint"]
    ]


def _show_screen(status: Json, args: argparse.Namespace) -> None:
    parts: tuple[tuple[str, Callable[[Any], list[str]], str], ...] = (
        ("project", _format_project, "index"),
        ("index", _format_index, "index"),
        ("daemon", _format_daemon, "daemon"),
        ("agents", _format_hosts, "hosts"),
        ("captured", _format_captured, "captured"),
        ("delivered", _format_delivered, "delivered"),
        ("cost", _format_cost_line, "cost"),
    )
    for label, format_part, key in parts:
        lines = ["unknown (see below)"] if status[key] is None else format_part(status[key])
        for number, line in enumerate(lines):
            _print_line("" if number else label, line)
    if not status["problems"]:
        _print_line("problems", "none")
    for number, problem in enumerate(status["problems"][:_MAX_PROBLEMS]):
        _print_line("" if number else "problems", f"{problem['name']}: {problem['message']}")
        if problem["hint"]:
            _print_line("", f"  {problem['hint']}")
    if len(status["problems"]) > _MAX_PROBLEMS:
        _print_line("", f"and {len(status['problems']) - _MAX_PROBLEMS} more: lorelog doctor")


def _print_line(label: str, text: str) -> None:
    width = min(known_width() or _LINE_WIDTH, _LINE_WIDTH)
    margin = text[: len(text) - len(text.lstrip())]
    lines = wrap(one_line(text), " " * _LABEL_WIDTH + margin, width=width).lstrip().split("\n")
    print(f"{stylize(f'{label:<{_LABEL_WIDTH}}', 'dim')}{margin}" + "\n".join(lines))


def _format_project(stats: Json) -> list[str]:
    own = stats["project"]
    name = short_path(own["id"]).rstrip("/") if own["id"] else "(global)"
    memories = plural(own["coverage"]["chunks"], "memory")
    return [f"{name.rpartition('/')[2] or name}: {memories} in {plural(own['documents'], 'document')}"]


def _format_index(stats: Json) -> list[str]:
    coverage = stats["project"]["coverage"]
    missing = coverage["chunks"] - coverage["with_vectors"]
    made = f"{plural(coverage['with_vectors'], 'vector')} made"
    rest = f", {missing:,} to make ('lorelog index' makes them)" if missing else ""
    projects = sum(1 for chunks in stats["projects"].values() if chunks)
    totals = (
        f"all projects ({projects:,}): {plural(stats['documents'], 'document')}, {plural(stats['chunks'], 'memory')}"
    )
    return [made + rest, f"{totals}, {stats['bytes_on_disk'] / 1e6:,.1f} MB"]


def _format_daemon(status: Json) -> list[str]:
    if not status["running"]:
        return ["not running; starts by itself when needed"]
    since = status["started_at"][:16].replace("T", " ")
    return [f"running since {since}, {status['rss_bytes'] / 1e6:,.0f} MB of memory (process {status['pid']})"]


def _format_hosts(hosts: Sequence[Json]) -> list[str]:
    installed = [host["title"] for host in hosts if host["installed"] != "missing"]
    lines = [f"installed: {', '.join(installed)}"] if installed else []
    for host in hosts:
        lines += [f"{host['title']}: still to do: {text}" for text in host["to_do"]]
        if host["installed"] == "stale":
            lines.append(f"{host['title']}: stale: lorelog hosts install {host['host']}")
        elif host["installed"] == "missing" and host["found"]:
            lines.append(f"{host['title']}: not installed: lorelog hosts install {host['host']}")
    return lines or ["none found on this machine (lorelog hosts install HOST)"]


def _format_captured(captured: Json) -> list[str]:
    counts = [plural(captured[f"{noun}s"], noun) for noun in ("turn", *_COUNTED_TYPES)]
    waiting = f"; {plural(captured['waiting'], 'event')} waiting" if captured["waiting"] else ""
    return [f"today: {', '.join(counts)}{waiting}"]


def _format_delivered(delivered: Json) -> list[str]:
    return [f"today: {plural(delivered['memories'], 'memory')} told to agents, {delivered['tokens']:,} tokens"]


def _format_cost_line(cost: Json) -> list[str]:
    def sums(name: str) -> str:
        line = cost[name]
        return f"{plural(line['calls'], 'call')}, {line['tokens_in'] + line['tokens_out']:,} tokens"

    if not cost["month"]["calls"]:
        return ["no paid model was called this month"]
    return [f"today: {sums('today')}; this month: {sums('month')}"]


def show_status_index(stats: Json, args: argparse.Namespace) -> None:
    """Print the sizes of the index."""
    own, coverage, model = stats["project"], stats["coverage"], stats["model"]
    name = short_path(own["id"]) if own["id"] else "(global)"
    print(f"this project  {name}")
    _show_sizes(own["documents"], own["coverage"])
    print(f"all projects  {model}")
    _show_sizes(stats["documents"], coverage)
    print(f"  vectors     {stats['vectors']:,} different ones")
    if stats["other_vectors"]:
        print(
            f"              {stats['other_vectors']:,} of other models ('lorelog index --reembed --drop-old' deletes them)"
        )
    print(f"  on disk     {stats['bytes_on_disk'] / 1e6:,.1f} MB in {short_path(stats['location'])}")
    if stats["bytes_mapped"]:
        mapped = f"{stats['bytes_mapped'] / 1e6:,.1f} MB"
        print(f"  mapped      {mapped} of it mapped into memory by search; the system reclaims it when needed")
    for project, chunks in sorted(stats["projects"].items(), key=lambda item: -item[1]):
        if chunks:
            print(f"  project     {short_path(project) if project else '(global)'}: {plural(chunks, 'chunk')}")
    _show_deliveries(stats["deliveries"])
    if model.startswith("fake/"):
        print_note("the fake provider is for tests: its vectors compare spelling, not meaning")


def _show_sizes(documents: int, coverage: Json) -> None:
    print(f"  documents   {documents:,}")
    share = f", {coverage['with_vectors'] / coverage['chunks']:.0%} with vectors" if coverage["chunks"] else ""
    print(f"  chunks      {coverage['chunks']:,}{share}")


def _show_deliveries(deliveries: Json) -> None:
    """Print the tokens of memories shown to agents: the sums, and each day of the last week."""
    if not deliveries["days"]:
        return
    week, month = deliveries["tokens_7_days"], deliveries["tokens_30_days"]
    print(f"delivered     {week:,} tokens of memories in 7 days, {month:,} in 30 ('lorelog deliveries' lists them)")
    for day in deliveries["days"][:_MAX_DAYS]:
        print(f"              {day['day']}  {day['tokens']:>8,} tokens in {plural(day['deliveries'], 'delivery')}")


def show_status_cost(cost: Json, args: argparse.Namespace) -> None:
    """Print the calls of models, and what is left of today's limits."""
    if cost["lines"]:
        rows = [[*cost["by"], *_COUNTS]]
        rows += [[*(_format_key(line, key) for key in cost["by"]), *_format_counts(line)] for line in cost["lines"]]
        if len(cost["lines"]) > 1:
            rows.append(
                [*("total" if not number else "" for number in range(len(cost["by"]))), *_format_counts(cost["total"])]
            )
        print_table(rows, right=range(len(cost["by"]), len(rows[0])))
        if cost["total"]["unfinished"]:
            unfinished = plural(cost["total"]["unfinished"], "call")
            print_note(f"{unfinished} not finished; the reserved tokens are counted")
    else:
        print(f"No model calls since {cost['since']}.")
    for limit in cost["today"]:
        print(
            f"today  {limit['spent']:,} of {limit['tokens']:,} tokens ({limit['setting']}), {limit['left']:,} left",
        )
    print_notes(cost)


def _format_key(line: Json, key: str) -> str:
    text = {"day": line["day"], "purpose": line["purpose"], "model": line["model"], "project": line["project"]}[key]
    return printable(short_path(text) if key == "project" and text else text or "-")


def _format_counts(line: Json) -> list[str]:
    return [f"{line[key]:,}" for key in ("calls", "failures", "tokens_in", "tokens_out")]
