"""Commands about the state of things here: status, doctor and daemon."""

from __future__ import annotations

from time import strftime

from lorelog.core.errors import DaemonError, LorelogError, UsageError, plural
from lorelog.light.daemon_connection import find_address, is_listening
from lorelog.surfaces.cli.client import OperationClient, call_operation, print_note, print_reply, print_table
from lorelog.surfaces.text import hang, known_width, one_line, printable, short_path, stylize

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from lorelog.light.daemon_connection import DaemonAddress
    from lorelog.operations.operation import Json

ARGUMENTS = {
    "status overview": {
        "": "show everything on one screen (default)",
        "--short": "one line for status lines: what agents were shown here today, and what waits for you",
        "shared": "json project tenant daemon",
    },
    "status index": {"settings": ""},
    "doctor": {
        "--daemon-only": "check only the daemon, in detail",
        "--store": "only compare the catalog with the search index",
        "--repair": "with --store: fix the differences",
        "shared": "json project tenant daemon",
    },
    "daemon status": {"": "show the running daemon", "shared": "json"},
    "daemon start": {"": "start the daemon unless it is running", "shared": "json"},
    "daemon stop": {"": "stop the daemon, by force if it does not answer", "shared": "json"},
    "daemon restart": {"": "stop the daemon and start another", "shared": "json"},
}
"""Arguments of the shell alone: see `arguments.add_options`."""
HELP = {
    "status": """\
Show on one screen how lorelog is doing here: this project, index, daemon, agents, today's captures and cost, problems.

'status index' shows the sizes of the index: of this project, which search and list look into, and of all projects. 'status
cost' shows the calls of language and embedding models: calls and tokens by day, purpose and project, and what is left of
today's limits. A failed call counts with what it may have cost, unless it was free. Only tokens are shown, because prices
change. Nothing is started, and no model is loaded.

examples:
  lorelog status
  lorelog status --short                one line, for the status line of an agent or a shell
  lorelog status index
  lorelog status cost --since 30d --by model
  lorelog status --json
"""
}
"""Help of commands with verbs."""
_MAX_DAYS = 7
_MAX_PROBLEMS = 5
_MAX_COUNTED = 1000
_COUNTS = ("calls", "failed", "tokens in", "tokens out")
_LINE_WIDTH = 79
_LABEL_WIDTH = 11


def run_status_overview(args: argparse.Namespace) -> int:
    """Print the screen; problems on it are not a failure of the command."""
    if args.short:
        print_reply(args, _read_day(args), _show_day)
    else:
        print_reply(args, _collect(args), _show_screen)
    return 0


def _read_day(args: argparse.Namespace) -> Json:
    """Return what was shown today and what waits, from the files of hooks: no operation is called."""
    import os
    from pathlib import Path

    from lorelog.light.delivery_files import DeliveryFiles, read_start
    from lorelog.services.usage.history import DeliveryFilter, list_deliveries
    from lorelog.surfaces.hook.settings import locate_journals

    tenant = {"LORELOG_SCOPE_TENANT": args.tenant} if args.tenant else {}
    place = locate_journals(find_address().home, args.project or os.getcwd(), {**os.environ, **tenant})
    files = DeliveryFiles(os.path.dirname(place.deletions), place.project)
    today = DeliveryFilter(projects=(place.project,), since=strftime("%Y-%m-%d"))
    shown, waiting = list_deliveries(Path(files.log), today), read_start(files.inbox, 20).decode("ascii", "replace")
    memories, tokens = sum(len(each.memories) for each in shown), sum(each.tokens for each in shown)
    return {"memories": memories, "tokens": tokens, "inbox": int(waiting) if waiting.isdecimal() else 0}


def _show_day(day: Json, args: argparse.Namespace) -> None:
    waiting = f" · {day['inbox']:,} to review" if day["inbox"] else ""
    print(f"lorelog: {plural(day['memories'], 'memory')} shown, {day['tokens']:,} tokens{waiting}")


def _collect(args: argparse.Namespace) -> dict[str, Any]:
    """Return all parts of the screen. A part that cannot be told is null, and the reason is a problem."""
    problems: list[dict[str, str]] = []
    clients: list[OperationClient] = []

    def call(operation: str, **request: Any) -> Any:
        clients[:] = clients or [OperationClient(args.warm, shared=True)]
        return call_operation(args, operation, request, client=clients[0])

    def part(name: str, read: Callable[..., Any]) -> Any:
        try:
            return read(call)
        except (LorelogError, OSError) as error:
            hint = getattr(error, "hint", "") or "lorelog doctor"
            message = str(getattr(error, "message", error))
            if all(message != problem["message"] for problem in problems):  # a bad setting fails every part
                problems.append({"name": name, "message": message, "hint": hint})
            return None

    parts = {
        "index": part("index", lambda call: call("memory.stats")),
        "daemon": part("daemon", _read_daemon),
        "hosts": part("hosts", _read_hosts),
        "captured": part("captures", _read_captured),
        # Of a kind whose items need no conversation.
        "inbox": part("inbox", lambda call: sum(call("review.list", kind="rest", limit=1)["counts"].values())),
        "delivered": part("deliveries", _read_delivered),
        "cost": part("cost", _read_cost),
    }
    problems += [
        {"name": host["title"], "message": host["problem"], "hint": f"lorelog hosts install {host['host']}"}
        for host in parts["hosts"] or ()
        if host["problem"]
    ]
    for check in part("health", lambda call: call("memory.health", duplicates=0)["checks"]) or ():
        if not check["ok"] or check["hint"]:
            problems.append({name: check[name] for name in ("name", "message", "hint")})
    for client in clients:
        client.close()
    return {**parts, "problems": problems}


def _read_daemon(_: object) -> Json:
    from lorelog.light.daemon_control import read_status

    status = read_status(find_address())
    return {name: status.get(name) for name in _DAEMON_FIELDS}


def _read_hosts(call: Callable[..., Any]) -> list[Json]:
    return [
        {
            **{name: host[name] for name in ("host", "title", "found", "installed")},
            "to_do": host["approve"],
            "problem": host["warnings"][0] if host["installed"] == "stale" and host["warnings"] else "",
        }
        for host in call("session.hosts")["hosts"]
    ]


def _read_captured(call: Callable[..., Any]) -> Json:
    """Return the turns and statements written today in all projects, and what stands and is paused in this project."""
    sessions = call("session.status")
    turns, statements = (sum(host[name] for host in sessions["hosts"]) for name in ("today", "statements"))
    standing = {name: sessions[name] for name in ("rules", "decisions", "edited", "waiting")}
    paused = {session: state for session, state in sessions["sessions"].items() if state != "on"}
    return {"turns": turns, "statements": statements, **standing, "paused": paused}


def _read_delivered(call: Callable[..., Any]) -> dict[str, int]:
    reply = call("delivery.list", since="today", limit=_MAX_COUNTED)
    memories = sum(len(delivery["memories"]) for delivery in reply["deliveries"])
    balance = call("delivery.balance", unused=True, limit=1)
    unused = {name: balance[name] for name in ("sinking", "sinking_delivered")}
    return {"memories": memories, "tokens": reply["total_tokens"], **unused}


def _read_cost(call: Callable[..., Any]) -> Json:
    today = strftime("%Y-%m-%d")
    reply = call("memory.cost", since=f"{today[:8]}01", by=["day"])
    of_today: Json = next((line for line in reply["lines"] if line["day"] == today), {})
    names = ("calls", "tokens_in", "tokens_out")
    sums = [{name: line.get(name, 0) for name in names} for line in (of_today, reply["total"])]
    return {"today": sums[0], "month": sums[1], "limits": reply["today"]}


def _show_screen(status: Json, args: argparse.Namespace) -> None:
    lines = list(_format_parts(status))
    for problem in status["problems"][:_MAX_PROBLEMS]:
        lines.append(("problems", f"{problem['name']}: {problem['message']}"))
        lines += [("problems", f"  {problem['hint']}")] if problem["hint"] else []
    if not status["problems"]:
        lines.append(("problems", "none"))
    if len(status["problems"]) > _MAX_PROBLEMS:
        lines.append(("problems", f"and {len(status['problems']) - _MAX_PROBLEMS} more: lorelog doctor"))
    width = min(known_width() or _LINE_WIDTH, _LINE_WIDTH)
    last = ""
    for label, text in lines:
        margin = text[: len(text) - len(text.lstrip())]
        shown = hang(one_line(text), _LABEL_WIDTH + len(margin), width)
        head = "" if label == last else label
        print(f"{stylize(f'{head:<{_LABEL_WIDTH}}', 'dim')}{margin}{shown}")
        last = label


def _format_parts(status: Json) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each line of the screen, but for problems."""
    unknown = "unknown (see below)"
    stats, daemon, captured = status["index"], status["daemon"], status["captured"]
    if stats is None:
        yield from (("project", unknown), ("index", unknown))
    else:
        own, coverage = stats["project"], stats["project"]["coverage"]
        name = short_path(own["id"]).rstrip("/") if own["id"] else "(global)"
        memories = plural(coverage["chunks"], "memory")
        yield "project", f"{name.rpartition('/')[2] or name}: {memories} in {plural(own['documents'], 'document')}"
        missing = coverage["chunks"] - coverage["with_vectors"]
        rest = f", {missing:,} to make ('lorelog index' makes them)" if missing else ""
        yield "index", f"{plural(coverage['with_vectors'], 'vector')} made{rest}"
        projects = sum(1 for chunks in stats["projects"].values() if chunks)
        totals = f"{plural(stats['documents'], 'document')}, {plural(stats['chunks'], 'memory')}"
        yield "index", f"all projects ({projects:,}): {totals}, {stats['bytes_on_disk'] / 1e6:,.1f} MB"
    if daemon is None or not daemon["running"]:
        yield "daemon", unknown if daemon is None else "not running; starts by itself when needed"
    else:
        since, size = daemon["started_at"][:16].replace("T", " "), f"{daemon['rss_bytes'] / 1e6:,.0f} MB"
        yield "daemon", f"running since {since}, {size} of memory (process {daemon['pid']})"
    yield from (("agents", line) for line in ([unknown] if status["hosts"] is None else _format_hosts(status["hosts"])))
    if captured is None:
        yield "captured", unknown
    else:
        counts, standing = (
            ", ".join(plural(captured[f"{noun}s"], noun) for noun in nouns)
            for nouns in (("turn", "statement"), ("rule", "decision"))
        )
        waiting = f"; {plural(captured['waiting'], 'event')} waiting" if captured["waiting"] else ""
        yield "captured", f"written today: {counts}{waiting}"
        for session, state in captured["paused"].items():
            yield "captured", f"session {session} is paused ({state}): lorelog pause --resume"
        edited = (
            captured["edited"] and f"; you changed {captured['edited']} in your editor: still yours? (lorelog review)"
        )
        yield "standing", f"{standing} of yours{edited or ''}"
    waiting = status["inbox"]
    yield "inbox", f"{waiting:,} to review: lorelog review" if waiting else unknown if waiting is None else "empty"
    yield from _format_spending(status["delivered"], status["cost"], unknown)


def _format_spending(delivered: Json | None, cost: Json | None, unknown: str) -> Iterator[tuple[str, str]]:
    told = delivered and f"{plural(delivered['memories'], 'memory')} told to agents, {delivered['tokens']:,} tokens"
    yield "delivered", f"today: {told}" if told else unknown
    if delivered and delivered["sinking"]:
        count, times = plural(delivered["sinking"], "memory"), plural(delivered["sinking_delivered"], "time")
        yield "delivered", f"{count} shown {times} and never used: lorelog deliveries --balance"
    if cost is None or not cost["month"]["calls"]:
        yield "cost", unknown if cost is None else "no paid model was called this month"
    else:
        today, month = (
            f"{plural(line['calls'], 'call')}, {line['tokens_in'] + line['tokens_out']:,} tokens"
            for line in (cost["today"], cost["month"])
        )
        yield "cost", f"today: {today}; this month: {month}"


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


def show_status_index(stats: Json, args: argparse.Namespace) -> None:
    own, coverage, model = stats["project"], stats["coverage"], stats["model"]
    name = short_path(own["id"]) if own["id"] else "(global)"
    print(f"this project  {name}")
    _show_sizes(own["documents"], own["coverage"])
    print(f"all projects  {model}")
    _show_sizes(stats["documents"], coverage)
    print(f"  vectors     {stats['vectors']:,} different ones")
    if stats["other_vectors"]:
        other = f"{stats['other_vectors']:,} of other models"
        print(f"              {other} ('lorelog index --reembed --drop-old' deletes them)")
    print(f"  on disk     {stats['bytes_on_disk'] / 1e6:,.1f} MB in {short_path(stats['location'])}")
    if stats["bytes_mapped"]:
        mapped = f"{stats['bytes_mapped'] / 1e6:,.1f} MB"
        print(f"  mapped      {mapped} of it mapped into memory by search; the system reclaims it when needed")
    for project, chunks in sorted(stats["projects"].items(), key=lambda item: -item[1]):
        if chunks:
            print(f"  project     {short_path(project) if project else '(global)'}: {plural(chunks, 'chunk')}")
    delivered = stats["deliveries"]
    if delivered["days"]:
        sums = f"{delivered['tokens_7_days']:,} tokens of memories in 7 days, {delivered['tokens_30_days']:,} in 30"
        print(f"delivered     {sums} ('lorelog deliveries' lists them)")
    for day in delivered["days"][:_MAX_DAYS]:
        print(f"              {day['day']}  {day['tokens']:>8,} tokens in {plural(day['deliveries'], 'delivery')}")
    if model.startswith("fake/"):
        print_note("the fake provider is for tests: its vectors compare spelling, not meaning")


def _show_sizes(documents: int, coverage: Json) -> None:
    print(f"  documents   {documents:,}")
    share = f", {coverage['with_vectors'] / coverage['chunks']:.0%} with vectors" if coverage["chunks"] else ""
    print(f"  chunks      {coverage['chunks']:,}{share}")


def show_status_cost(cost: Json, args: argparse.Namespace) -> None:
    by, lines = cost["by"], cost["lines"]
    if lines:
        rows = [[*by, *_COUNTS]]
        for line in [*lines, *([cost["total"]] if len(lines) > 1 else [])]:
            keys = ["total", *[""] * (len(by) - 1)]
            if line in lines:
                keys = [printable(short_path(line[key]) if key == "project" else line[key]) or "-" for key in by]
            rows.append([*keys, *(f"{line[key]:,}" for key in ("calls", "failures", "tokens_in", "tokens_out"))])
        print_table(rows, right=range(len(by), len(rows[0])))
        if cost["total"]["unfinished"]:
            unfinished = plural(cost["total"]["unfinished"], "call")
            print_note(f"{unfinished} not finished; the reserved tokens are counted")
    else:
        print(f"No model calls since {cost['since']}.")
    for limit in cost["today"]:
        of = f"{limit['spent']:,} of {limit['tokens']:,} tokens ({limit['setting']})"
        print(f"today  {of}, {limit['left']:,} left")


_DAEMON_FIELDS = ("running", "pid", "started_at", "uptime_s", "rss_bytes")


_RECENT_ERROR_S = 3600.0
"""Older errors of the daemon do not fail the check."""


def run_doctor(args: argparse.Namespace) -> int:
    """Check index, daemon, agents' hosts and settings, and suggest fixes.

    Each line is one check: ok, warn or fail, with a hint what to do. A failed one makes the exit status 1. Besides the index the checks are
    free disk space, whether the home is writable and private, the end of the ledger, and lines that cannot be read. For the
    embedding model the checks are its key, package and files (no server is contacted) and whether a change of model was left unfinished; for configured language models,
    their key or program. --daemon-only checks only the daemon and shows its process, memory use, watched files and last error.
    Nothing is started or changed without --repair.

    --store checks the catalog and compares it with the search index row by row: the rows in Milvus if store.uri is set, else the
    vector files, by their checksums and with the vectors in the catalog. --repair fixes the differences and embeds
    texts whose vectors are lost.

    examples:
      lorelog doctor
      lorelog doctor --store --repair
      lorelog doctor --daemon-only
      lorelog doctor --json
    """
    if args.repair and not args.store:
        raise UsageError("--repair requires --store", hint="lorelog doctor --store --repair")
    checks: list[Json] = []
    status = None
    if args.store:
        checks = _attempt("store", lambda: _check_store(args))
    else:
        if not args.daemon_only:
            from lorelog.surfaces.cli.commands.hosts import host_checks

            checks += _attempt("settings", lambda: _check_settings(args))
            checks += [*_attempt("index", lambda: _check_index(args)), *host_checks(args)]
        status, daemon_checks = _check_daemon(find_address())
        checks += daemon_checks
    ok = all(check["ok"] for check in checks)
    return print_reply(args, {"ok": ok, "checks": checks, "daemon": status}, _show_checks)


def _check_settings(args: argparse.Namespace) -> list[Json]:
    from contextlib import suppress
    from functools import partial

    from lorelog.core.extras import install_hint, missing_package, require_extra
    from lorelog.wiring import check_embedder, check_language_models, resolve_location, settings_at

    location = resolve_location(project=args.project)
    settings = settings_at(location)
    changed = [setting for setting in settings if setting.origin != "default"]
    for read_options in (settings.embed_options, settings.language_options, settings.http_options):
        read_options(location.environment)
    summary = f"{plural(len(changed), 'setting')} changed ('lorelog config list')"
    checks = [_make_check("settings", f"{summary}, home {short_path(str(location.home))}")]
    checks += _attempt("model", lambda: [_make_check("model", check_embedder(location, settings))])
    if settings.value("store.uri"):
        checks += _attempt("store", partial(require_extra, "milvus", "store.uri"))
    # An extra that is not installed is not a fault.
    features = {"code": "lorelog code", "signing": "signed records", "lsp": "lorelog lsp"}
    checks += [
        _make_check("extras", f"not installed: {feature} ({install_hint(extra)})")
        for extra, feature in features.items()
        if missing_package(extra)
    ]
    with suppress(LorelogError):
        for setting, model, error in check_language_models(settings, location.home, location.environment):
            fault, hint = (f": {error.message}", error.hint) if error else ("", "")
            checks.append(_make_check("language model", f"{model} ({setting}){fault}", hint, ok=error is None))
    return checks


def _check_index(args: argparse.Namespace) -> list[Json]:
    health = call_operation(args, "memory.health", {})
    checks: list[Json] = list(health["checks"])
    if health["duplicates"]:
        files = " and ".join(map(short_path, health["duplicates"][0][:2]))
        message = f"{plural(len(health['duplicates']), 'text')} found in more than one file, such as {files}"
        checks.append(_make_check("duplicates", message))
    return checks


def _check_store(args: argparse.Namespace) -> list[Json]:
    """Compare the search index with the catalog; with --repair also fix it."""
    reply = call_operation(args, "memory.check_store", {"repair": args.repair})
    place, chunks = reply["place"] or "beside the catalog", plural(reply["here"], "chunk")
    kinds = {"missing": "missing", "surplus": "surplus", "unlike": "with another vector"}
    differences = ", ".join(f"{reply[name]:,} {kind}" for name, kind in kinds.items() if reply[name])
    damage = f"damaged: {reply['damage']}" if reply["damage"] else ""
    if not differences and not damage:
        return [_make_check("store", f"{chunks}, all of them {place}")]
    message = f"of {chunks} in the catalog, {'; '.join(filter(None, (differences, damage)))} {place}"
    if reply["repaired"]:
        return [_make_check("store", f"repaired: {message}")]
    return [_make_check("store", message, "lorelog doctor --store --repair", ok=False)]


def _show_checks(reply: Json, args: argparse.Namespace) -> None:
    width = known_width()
    if args.daemon_only and reply["daemon"]:
        print("\n".join(format_daemon_status(reply["daemon"])))
    for check in reply["checks"]:
        if check["ok"] and args.daemon_only and reply["daemon"]:
            continue
        mark = stylize("fail", "red")
        if check["ok"]:
            mark = stylize("warn", "yellow") if check["hint"] else stylize("ok  ", "green")
        text = f"{check['name']}: {one_line(check['message'])}"
        print(f"{mark}  {hang(text, 6, width)}")
        if check["hint"]:
            print(f"      hint: {hang(one_line(check['hint']), 12, width)}")


def _check_daemon(address: DaemonAddress) -> tuple[Json | None, list[Json]]:
    """Return the daemon's status, or None if it does not respond, and the checks of it."""
    from lorelog.core import VERSION
    from lorelog.light.daemon_control import last_failure, read_status

    try:
        status = read_status(address)
    except DaemonError as error:
        return None, [_make_check("daemon", error.message, error.hint or "lorelog daemon stop", ok=False)]
    if not status["running"]:
        if failure := last_failure(address):
            hint = f"see {short_path(address.log)}; 'lorelog daemon start' tries again"
            return status, [_make_check("daemon", failure, hint, ok=False)]
        return status, [_make_check("daemon", "not running; starts automatically when needed")]
    summary = f"process {status['pid']}, up {format_duration(status['uptime_s'])}, {_format_memory(status)}"
    checks = [_make_check("daemon", summary)]
    if status["version"] != VERSION:
        message = f"the daemon is lorelog {status['version']}, this is {VERSION}"
        hint = "lorelog daemon stop; the next command starts it again"
        checks.append(_make_check("version", message, hint, ok=False))
    failed, watch = status["last_error"], status.get("watch")
    if failed and failed["ago_s"] < _RECENT_ERROR_S:
        message = f"{failed['op']}: {failed['message']} ({format_duration(failed['ago_s'])} ago)"
        checks.append(_make_check("last error", message, f"see {short_path(status['log'])}", ok=False))
    if watch and watch["last_error"]:
        checks.append(_make_check("watch", watch["last_error"]["message"], watch["last_error"]["hint"], ok=False))
    return status, checks


def _make_check(name: str, message: str, hint: str = "", *, ok: bool = True) -> Json:
    return {"name": name, "ok": ok, "message": message, "hint": hint}


_MAX_ROOTS = 8


def run_daemon(args: argparse.Namespace) -> int:
    """Show, start, stop or restart the daemon.

    The daemon is one background process per home that keeps models and indexes in memory, so that commands respond quickly. It
    starts automatically when needed and stops after 30 minutes without a request (daemon.idle_s); you rarely need this command.
    'status' exits with status 1 if no daemon is running.

    examples:
      lorelog daemon status        process, memory use, watched files, last error
      lorelog daemon start
      lorelog daemon stop          stop within five seconds; finished work is kept
      lorelog daemon restart       replace a daemon that does not answer
    """
    from lorelog.light.daemon_control import mark_announced, read_status, start, stop

    address = find_address()
    if args.verb == "status":
        status = read_status(address)
        print_reply(args, status, lambda status, _: print("\n".join(format_daemon_status(status))))
        return 0 if status["running"] else 1
    was_running = args.verb == "start" and is_listening(address)
    holder = None if args.verb == "start" else stop(address)
    if args.verb == "stop":
        reply = {"stopped": holder is not None, "pid": holder.get("pid") if holder else None}
        text = "No daemon is running." if holder is None else f"Stopped: process {holder.get('pid')}."
    else:
        start(address, force=True)
        if args.verb == "start":
            mark_announced(address)
        reply = {**read_status(address), "started": not was_running}
        reply |= {"stopped": holder is not None} if args.verb == "restart" else {}
        before = f" instead of {holder.get('pid')}" if holder else ""
        outcome = "Already running" if was_running else "Started"
        text = f"{outcome}: process {reply.get('pid')}{before}, home {short_path(address.home)}."
    return print_reply(args, reply, lambda *_: print(text))


def _format_watch(watch: Json | None) -> list[str]:
    if watch is None:
        return ["watches  nothing"]
    roots = [short_path(root) + (" (missing)" if root in watch["missing"] else "") for root in watch["roots"]]
    more = [f"and {len(roots) - _MAX_ROOTS:,} more"] if len(roots) > _MAX_ROOTS else []
    polling = "" if watch["mode"] == "events" else f", polling every 30 s: {watch['why']}"
    lines = [f"watches  {plural(len(roots), 'root')}, changes indexed {plural(watch['passes'], 'time')}{polling}"]
    lines += [f"         {root}" for root in [*roots[:_MAX_ROOTS], *more]]
    if watch["waiting_for"]:
        lines.append(one_line(f"         waiting for another index run: {watch['waiting_for']}"))
    if watch["last_error"]:
        at, message = watch["last_error"]["at"][:19].replace("T", " "), watch["last_error"]["message"]
        lines.append(one_line(f"         {at}: {message}" + (" (will retry)" if watch["pending"] else "")))
    return lines


def format_daemon_status(status: Json) -> list[str]:
    if not status["running"]:
        state = f"stopping (process {status.get('pid')})" if status.get("leaving") else "not running"
        return [f"daemon   {state}; starts automatically when needed", f"home     {short_path(status['home'])}"]
    idle_limit_s = status["leaves_after_s"]
    lifetime = f"stops after {format_duration(idle_limit_s)} idle" if idle_limit_s else "runs until stopped"
    running = ", ".join(f"{job['op']} for {format_duration(job['seconds'])}" for job in status["at_work"]) or "nothing"
    error, http = status["last_error"], status.get("http")
    since = f"{status['started_at'][:19].replace('T', ' ')} ({format_duration(status['uptime_s'])})"
    lines = [
        f"daemon   running, process {status['pid']}, lorelog {status['version']}",
        f"home     {short_path(status['home'])}",
        f"since    {since}, idle for {format_duration(status['idle_s'])}, {lifetime}",
        f"memory   {_format_memory(status)}, {plural(status.get('models_loaded', 0), 'model')} loaded",
        f"calls    {status['calls']:,}, {status['errors']:,} failed, {plural(status['connections'], 'connection')}",
        f"at work  {running}" + (f", {status['waiting']:,} waiting" if status["waiting"] else ""),
        *_format_watch(status.get("watch")),
        f"http     {http['url'] if http else 'off'}",
        f"log      {short_path(status['log'])}",
        "error    none"
        if error is None
        else one_line(f"error    {error['op']}: {error['message']} ({format_duration(error['ago_s'])} ago)"),
    ]
    return [*lines, f"stopping {status['leaving']}"] if status["leaving"] else lines


def _format_memory(status: Json) -> str:
    readers = [
        f" + {reader['rss_bytes'] / 1e6:,.1f} MB (reader {reader['pid']})" for reader in status.get("readers", [])
    ]
    return f"{status['rss_bytes'] / 1e6:,.1f} MB{''.join(readers)}"


def format_duration(seconds: float) -> str:
    """Return a duration in its largest useful unit, such as `3 min`."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _attempt(name: str, check: Callable[[], list[Json] | None]) -> list[Json]:
    """Return the checks; one that failed if they cannot be made."""
    try:
        return check() or []
    except LorelogError as error:
        return [_make_check(name, error.message, error.hint, ok=False)]
