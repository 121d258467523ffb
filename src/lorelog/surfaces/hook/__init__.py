"""Handle an event of an agent's host. Hosts run this command; people do not need it.

HOST is claude, codex or another that `lorelog hosts status` lists; MOMENT is session-start, prompt, turn-end, turn-failed,
compact, session-end or subagent-start. The host's JSON is read from standard input. The event is written to <home>/spool, and the daemon, which captures the turn in
the background, is notified. The reply is one line of JSON for the host: memory when a session starts, the user's rules and
the memories that fit when a prompt is submitted, otherwise {}.

The moments tool-before, tool-after and tool-failed are those of one tool call. They are not spooled; the reply blocks the
call if a guard says so, or has the memories whose cue matches it.

It never fails: on any error the output is valid JSON and the exit status 0. LORELOG_HOOKS=off disables it, and notes that
nothing of the session is captured later either.

examples:
  echo '{"session_id": "s1"}' | lorelog hook claude session-start

"""

from __future__ import annotations

import os
import sys
import time

from lorelog.core.errors import LorelogError
from lorelog.hosts import HOSTS, MOMENTS, TOOL_MOMENTS, detect_host, host_adapter, prompt_field, resolve_host
from lorelog.light.quick_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any, NoReturn

    from lorelog.surfaces.hook.settings import HookContext


_DEADLINE_S = 1.5
"""After this it exits with an empty reply. Hosts kill some hooks after one to three seconds."""
_INPUT_TIMEOUT_S = 1.0
_MAX_INPUT_BYTES = 10_000_000
_INPUT_QUIET_S = 0.05
"""A host that does not close standard input is done once it has sent nothing for this long."""
_LATE_CAPTURE_S = 600.0
"""The user is notified of events that wait longer than this to be captured."""
_FORWARDED_PREFIXES = ("LORELOG_SCOPE_", "LORELOG_CAPTURE_", "LORELOG_SUMMARIZE_", "LORELOG_REDACT_")
"""Variables about capture, which are stored with the event because it is captured later."""
_SECRET_SUFFIXES = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
"""Suffixes of variables that are never stored; the capturing process uses its own keys."""
_RECOVERABLE_FIELDS = (
    "session_id transcript_path cwd prompt_id turn_id session sessionId turn directory transcript transcriptPath agent_id "
    "tool_name toolName tool_use_id tool call file_path filePath notebook_path path command"
).split()
"""Short fields that are read from a payload that is too long or broken; those of a tool call come last."""
_END_MOMENTS = ("turn-end", "turn-failed", "compact", "session-end")
_OFF_RECORD = "lorelog: off the record: nothing of this session is captured until `lorelog pause --resume`"
_NO_MEMORY = "lorelog: this session started without its memory (slow machine or unreadable files); see `lorelog brief`"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("host", metavar="HOST", help=f"the calling host: {', '.join(HOSTS)}")
    parser.add_argument("moment", metavar="MOMENT", help=f"the event: {', '.join((*MOMENTS, *TOOL_MOMENTS))}")


def run_and_exit(words: Sequence[str]) -> NoReturn:
    """Run the hook as a process of its own, and exit before the deadline."""
    import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enums of its numbers, which takes 8 ms

    written = False

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        if not written:
            _write_answer({})
        os._exit(0)

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, _deadline_s())
    answer = _answer_or_empty(words)
    written = True
    _write_answer(answer)
    os._exit(0)


def _deadline_s() -> float:
    """Return the seconds after which the hook leaves; LORELOG_HOOK_TIMEOUT_S changes it for slow machines."""
    try:
        return max(0.1, float(os.environ.get("LORELOG_HOOK_TIMEOUT_S") or _DEADLINE_S))
    except ValueError:
        return _DEADLINE_S


def run_hook(words: Sequence[str]) -> int:
    _write_answer(_answer_or_empty(words))
    return 0


def _answer_or_empty(words: Sequence[str]) -> dict[str, Any]:
    try:
        return handle_hook(words, read_input(0), os.environ)
    except BaseException as error:
        _log_error(_format_error(error))
        return {}


def handle_hook(words: Sequence[str], data: bytes, environment: Mapping[str, str]) -> dict[str, Any]:
    """Record an event and return the reply for the host."""
    host, moment = resolve_host(words[0]) if words else "", words[1] if len(words) > 1 else ""
    is_off = environment.get("LORELOG_HOOKS", "").lower() in {"off", "0", "false", "no"}
    if is_off and moment not in MOMENTS:
        return {}
    if host and moment in {"summary-request", "summary"}:
        from lorelog.surfaces.hook.summaries import answer_summary

        return answer_summary(host, moment, read_payload(data), environment)
    if not host or moment not in (*MOMENTS, *TOOL_MOMENTS) or len(words) != 2:
        _log_error(f"there is no hook {' '.join(words)!r:.100}; see 'lorelog hook --help'")
        return {}
    payload = read_payload(data)
    host = detect_host(host, payload, environment)
    event = host_adapter(host).read_event(moment, payload, environment)
    if not event:
        return {}
    event |= {"host": host, "moment": moment}
    try:
        event["directory"] = event["directory"] or os.getcwd()
    except OSError:  # deleted; the shell may still know its path
        event["directory"] = environment.get("PWD") or "/"
    if moment in TOOL_MOMENTS:
        from lorelog.surfaces.hook.tool_call import answer_tool_call

        return answer_tool_call(payload, event, environment)
    from lorelog.surfaces.hook.settings import HookContext

    prompt = prompt_field(payload) if moment == "prompt" else ""
    return host_adapter(host).answer(moment, *_handle_event(HookContext(event, environment), prompt, is_off=is_off))


def _handle_event(context: HookContext, prompt: str, *, is_off: bool = False) -> tuple[str, str]:
    """Spool an event, wake the daemon, and return the context for the model and a notice for the user."""
    moment, notice = context.event["moment"], ""
    try:
        state = context.pause_state(prompt, is_off=is_off)
    except LorelogError as error:
        state, notice = "", f"lorelog: this session is not captured: {_format_error(error)}"
    if state in {"off", "hooks off"}:
        return "", ""
    # Exists until the session was shown its memory: a deadline or an error leaves it there.
    mark = f"{context.address.home}/spool/{context.event['session'].replace('/', '-')}.start"
    is_marked = moment != "session-start" or _mark_start(mark)
    if state == "on":
        notice = _capture_event(context)
    elif state == "off the record" and prompt:
        notice = _OFF_RECORD
    if moment not in {"session-start", "subagent-start", "compact", "prompt"}:
        return "", notice
    try:
        context.locate()
        if getattr(host_adapter(context.event["host"]), "START_WITH_PROMPT", False):
            return _show_late(context, prompt, mark, is_marked=is_marked), notice
        if moment == "prompt" and not notice and os.path.exists(mark):
            os.unlink(mark)
            notice = _NO_MEMORY if os.path.exists(context.location.journals) else ""
        if moment == "session-start" and not notice and os.path.exists(context.files.guards):
            from lorelog.surfaces.hook.tool_call import guard_notice

            notice = guard_notice(context.files.guards, context.project)
        from lorelog.surfaces.hook.context import build_context

        shown = build_context(context, prompt)
        if moment == "session-start" and os.path.exists(mark):
            os.unlink(mark)
    except (LorelogError, OSError) as error:
        # An invalid scope file: show nothing rather than another tenant's memories.
        _log_error(_format_error(error))
        return "", notice
    return shown, notice


def _mark_start(mark: str) -> bool:
    """Create the mark of a session's start; return False in the first session of all, whose spool does not exist yet."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        return False
    return True


def _show_late(context: HookContext, prompt: str, mark: str, *, is_marked: bool) -> str:
    """Return the context for a host that ignores the reply to a session's start: that comes with the first prompt."""
    from lorelog.surfaces.hook.context import build_context

    moment = context.event["moment"]
    if moment == "session-start":
        _ = is_marked or _mark_start(mark)  # capture has made the spool meanwhile
        return ""
    start = ""
    if moment == "prompt" and os.path.exists(mark):
        context.event["moment"] = "session-start"
        start = build_context(context, "")
        context.event["moment"] = moment
        os.unlink(mark)
    return "\n\n".join(filter(None, (start, build_context(context, prompt))))


def _capture_event(context: HookContext) -> str:
    """Spool an event and wake the daemon, unless capture is turned off; return a notice for the user."""
    moment, settings, notice = context.event["moment"], context.settings, ""
    if not settings["capture.enabled"] or settings["capture.skip"] or moment == "subagent-start":
        return ""
    if moment == "session-start":
        from lorelog.light.spool import count_waiting

        count, age = count_waiting(context.address.home)
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() - age))
        late = f"lorelog: {count} events have been waiting to be captured since {since}; run `lorelog hosts status`"
        notice = late if age >= _LATE_CAPTURE_S else ""
    try:
        _spool_event(context)
    except (LorelogError, OSError) as error:
        notice = f"lorelog: this session is not captured: {_format_error(error)}"
        _log_error(notice.removeprefix("lorelog: "))
    try:
        _wake_daemon(context.address, settings["daemon.warm"], moment)
    except (LorelogError, OSError) as error:
        _log_error(_format_error(error))
    return notice


def _spool_event(context: HookContext) -> None:
    from lorelog.light.git_location import read_head
    from lorelog.light.spool import write_event

    now = time.time()
    branch, commit = read_head(context.root)
    context.event |= {
        "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z",
        "offset": time.localtime(now).tm_gmtoff // 60,
        "project": context.project,
        "branch": branch,
        "commit": commit,
        "environment": {
            name: value
            for name, value in context.environment.items()
            if name.startswith(_FORWARDED_PREFIXES)
            and not name.endswith(_SECRET_SUFFIXES)
            and not ("://" in value and "@" in value)
        },
    }
    write_event(context.address.home, context.event)


def _wake_daemon(address: Any, warm: str, moment: str) -> None:
    """Wake the daemon or start one in the background; if it is turned off, start a flush at the end of a turn."""
    from lorelog.light.daemon_connection import wake

    if warm != "off":
        if not wake(address):
            from lorelog.light.daemon_control import start_detached

            start_detached(address)
    elif moment in _END_MOMENTS:
        from lorelog.light.daemon_control import flush_detached

        flush_detached(address)


def read_payload(data: bytes) -> dict[str, Any]:
    """Return the host's JSON object. If it is invalid or too long, return the fields that identify the session."""
    text = data[:_MAX_INPUT_BYTES].decode("utf-8", "replace").strip()
    if not text:
        return {}
    try:
        payload = loads(text)
    except (ValueError, RecursionError):
        return _recover_fields(text)
    return payload if isinstance(payload, dict) else {}


def _recover_fields(text: str) -> dict[str, Any]:
    """Return the short fields of a truncated object. Quotes inside strings are escaped, so they never match."""
    from json import JSONDecoder

    fields: dict[str, Any] = {}
    for name in _RECOVERABLE_FIELDS:
        _, separator, rest = text.partition(f'"{name}":')
        if separator:
            try:
                value, _ = JSONDecoder().raw_decode(rest[:5_000].lstrip())
            except (ValueError, RecursionError):
                continue
            if isinstance(value, str):
                fields[name] = value
    return fields


def read_input(descriptor: int) -> bytes:
    """Return standard input, waiting at most a second. Input above the limit is discarded: the host must not get EPIPE."""
    import select

    if os.isatty(descriptor):
        return b""
    data = bytearray()
    poll = select.poll()
    deadline = time.monotonic() + _INPUT_TIMEOUT_S
    try:
        poll.register(descriptor, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            settled = data.endswith((b"}", b"}\n"))
            if not poll.poll(1000 * (min(left, _INPUT_QUIET_S) if settled else left)):
                if settled and read_payload(bytes(data)):
                    break
                continue
            received = os.read(descriptor, 1_048_576)
            if not received:
                break
            if len(data) < _MAX_INPUT_BYTES:
                data += received
    except OSError:
        pass  # closed or not readable
    return bytes(data)


def _write_answer(answer: dict[str, Any]) -> None:
    """Write the reply. Ignore a closed pipe."""
    try:
        line = dumps(answer).encode() + b"\n"
    except (TypeError, ValueError, RecursionError):
        line = b"{}\n"
    try:
        while line:
            line = line[os.write(1, line) :]
    except OSError:
        pass


def _format_error(error: BaseException) -> str:
    if isinstance(error, LorelogError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return f"{type(error).__name__}: {error}"


def _log_error(message: str) -> None:
    """Print an error to standard error, which hosts keep in their logs."""
    try:
        if sys.stderr is not None:
            os.write(2, f"lorelog: {' '.join(message.split())[:500]}\n".encode("utf-8", "replace"))
    except OSError:
        pass
