"""Tell lorelog what happens in an agent's session. Hosts run this; people need not.

HOST is claude, codex, opencode or openclaw; MOMENT is session-start, prompt, turn-end, turn-failed, compact or session-end. The
host's JSON is read from standard input. What happened is noted in <home>/spool and the daemon is woken, which captures
the turn on its own time. The answer is one line of the host's JSON: recent memory when a session starts, a hint that memory
is there when a prompt is submitted, else {}.

It never fails: whatever is wrong, the answer is valid JSON and the exit status 0. LORELOG_HOOKS=off does nothing at all.

examples:
  echo '{"session_id": "s1", "cwd": "/src/app"}' | lorelog hook claude session-start
"""

from __future__ import annotations

import json
import os
import sys
import time

from lorelog.core.errors import LorelogError
from lorelog.hosts import HOSTS, MOMENTS, dialect, known_host, recognise

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import Any, NoReturn

# ruff: noqa: PTH109  (pathlib takes 10 ms to import)

_DEADLINE_S = 1.5
"""After this it leaves with an empty answer, whatever it is waiting for. Hosts cut some hooks after one to three seconds."""
_INPUT_S = 1.0
_MOST_BYTES = 10_000_000
_SETTLED_S = 0.05
"""A host that does not close our input has said all it will when it says nothing for so long."""
_LATE_S = 600.0
"""What waits longer to be captured is told to the person."""
_SHORTEST_PROMPT = 10
HINT = "Memory of earlier sessions is at hand: skill memory-recall, memory search tools, or `lorelog search`."
_FORWARDED = ("LORELOG_SCOPE_", "LORELOG_CAPTURE_", "LORELOG_SUMMARIZE_", "LORELOG_REDACT_")
"""What the environment says about capturing holds when it is done, too."""
_SECRET = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
"""How the names of those end that are never written down: who captures has a key of its own, or does without."""
_SALVAGED = (
    "session_id",
    "transcript_path",
    "cwd",
    "prompt_id",
    "turn_id",
    "session",
    "turn",
    "directory",
    "transcript",
)
_ENDS = ("turn-end", "turn-failed", "compact", "session-end")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("host", metavar="HOST", help=f"who runs it: {', '.join(HOSTS)}")
    parser.add_argument("moment", metavar="MOMENT", help=f"what happened: {', '.join(MOMENTS)}")


def run(args: argparse.Namespace) -> int:
    """Answer; for whoever comes by the parser."""
    return run_hook([args.host, args.moment])


def leave_with_answer(words: Sequence[str]) -> NoReturn:
    """Answer as a process of its own, in time, and leave."""
    import signal

    said = False

    def leave(_number: int, _frame: FrameType | None) -> NoReturn:
        if not said:
            _say({})
        os._exit(0)

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, _DEADLINE_S)
    answer = _safe_answer(words)
    said = True
    _say(answer)
    os._exit(0)


def run_hook(words: Sequence[str]) -> int:
    """Answer in this process; always 0."""
    _say(_safe_answer(words))
    return 0


def _safe_answer(words: Sequence[str]) -> dict[str, Any]:
    try:
        return answer_to(words, read_input(0), os.environ)
    except BaseException as error:  # noqa: BLE001  (an agent's session must not suffer from any fault of ours)
        _complain(_why(error))
        return {}


def answer_to(words: Sequence[str], held: bytes, environment: Mapping[str, str]) -> dict[str, Any]:
    """Note what happened, and return what the host is to hear."""
    if environment.get("LORELOG_HOOKS", "").lower() in {"off", "0", "false", "no"}:
        return {}
    host, moment = known_host(words[0]) if words else "", words[1] if len(words) > 1 else ""
    if host and moment in {"summary-request", "summary"}:
        from lorelog.surfaces.cli.hook_summaries import answer_summary

        return answer_summary(host, moment, read_payload(held), environment)
    if not host or moment not in MOMENTS or len(words) != 2:
        _complain(f"there is no hook {' '.join(words)!r:.100}; 'lorelog hook --help' names them")
        return {}
    payload = read_payload(held)
    host = recognise(host, payload, environment)
    event = dialect(host).read_event(moment, payload, environment)
    event |= {"host": host, "moment": moment}
    event["directory"] = event["directory"] or _here(environment)
    prompt = payload.get("prompt") if moment == "prompt" else ""
    context, notice = _attend(event, prompt if isinstance(prompt, str) else "", environment)
    return dialect(host).answer(moment, context, notice)


def _here(environment: Mapping[str, str]) -> str:
    try:
        return os.getcwd()
    except OSError:  # it is gone; the shell may remember what it was
        return environment.get("PWD") or "/"


def _attend(event: dict[str, Any], prompt: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Note an event, wake whoever sees to it, and return what the model and the person are to hear."""
    from lorelog.services.worktree import find_worktree
    from lorelog.surfaces.cli.hook_settings import choices
    from lorelog.surfaces.daemon.address import find_address

    address = find_address(None, environment)
    project, root, _ = find_worktree(event["directory"])
    chosen = choices(address.home, root, environment)
    notice = ""
    if chosen["capture.enabled"] and not chosen["capture.skip"]:
        notice = _late(address.home) if event["moment"] == "session-start" else ""
        try:
            _spool(event, address.home, project, root, environment)
        except (LorelogError, OSError) as error:
            notice = f"lorelog: this session is not captured: {_why(error)}"
            _complain(notice.removeprefix("lorelog: "))
        try:
            _wake(address, chosen["daemon.warm"], event["moment"])
        except (LorelogError, OSError) as error:
            _complain(_why(error))
    try:
        return _context(event, prompt, chosen, environment), notice
    except (LorelogError, OSError) as error:  # a scope file that cannot be understood: better nothing than another's
        _complain(_why(error))
        return "", notice


def _spool(event: dict[str, Any], home: str, project: str, root: str, environment: Mapping[str, str]) -> None:
    from lorelog.services.session.git_head import read_head
    from lorelog.services.session.spool import write_event

    now = time.time()
    branch, commit = read_head(root)
    event |= {
        "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z",
        "offset": time.localtime(now).tm_gmtoff // 60,
        "project": project,
        "branch": branch,
        "commit": commit,
        "environment": _told(environment),
    }
    write_event(home, event)


def _told(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what is written down of the environment: no secret, neither by its name nor in an address."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_FORWARDED) and not name.endswith(_SECRET) and not ("://" in value and "@" in value)
    }


def _wake(address: Any, warm: str, moment: str) -> None:
    """Wake the daemon, or begin to start one; where none is wanted, begin to do its work."""
    from lorelog.surfaces.daemon.waking import wake

    if warm != "off":
        if not wake(address):
            from lorelog.surfaces.daemon.control import start_unseen

            start_unseen(address)
    elif moment in _ENDS:
        from lorelog.surfaces.daemon.control import flush_unseen

        flush_unseen(address)


def _late(home: str) -> str:
    from lorelog.services.session.spool import waiting

    count, age = waiting(home)
    if age < _LATE_S:
        return ""
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() - age))
    return f"lorelog: {count} events wait to be captured since {since}; run `lorelog hosts status`"


def _context(event: dict[str, Any], prompt: str, chosen: dict[str, Any], environment: Mapping[str, str]) -> str:
    """Return what the model is to hear: recent memory when a session starts, a hint and perhaps hits at a prompt."""
    moment = event["moment"]
    if moment not in {"session-start", "prompt"} or (moment == "prompt" and len(prompt.strip()) < _SHORTEST_PROMPT):
        return ""
    from lorelog.services.session.recent import journal_days, recent_memory
    from lorelog.surfaces.cli.hook_settings import shelf_of
    from lorelog.surfaces.daemon.address import find_address

    address = find_address(None, environment)
    shelf = shelf_of(address.home, event["directory"], environment)
    if moment == "session-start":
        most, today = chosen["session.inject_bytes"], time.strftime("%Y-%m-%d")
        return recent_memory(shelf.project, shelf.journals, most, today, shelf.deletions) if most else ""
    if not journal_days(shelf.project, shelf.journals):
        return ""
    if not chosen["session.hits"] or chosen["daemon.warm"] == "off":
        return HINT
    from lorelog.surfaces.cli.hook_hits import hits_for

    return hits_for(address, event, prompt, chosen) or HINT


def read_payload(held: bytes) -> dict[str, Any]:
    """Return the object that a host sent; of one that is broken or too long, the words that tell which session it is."""
    text = held[:_MOST_BYTES].decode("utf-8", "replace").strip()
    if not text:
        return {}
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        return _salvaged(text)
    return payload if isinstance(payload, dict) else {}


def _salvaged(text: str) -> dict[str, Any]:
    """Return the short fields of an object that ends too early. Inside of texts, quotes are escaped, so none is found there."""
    found: dict[str, Any] = {}
    for name in _SALVAGED:
        _, begun, rest = text.partition(f'"{name}":')
        if begun:
            try:
                value, _ = json.JSONDecoder().raw_decode(rest[:5_000].lstrip())
            except (ValueError, RecursionError):
                continue
            if isinstance(value, str):
                found[name] = value
    return found


def read_input(descriptor: int) -> bytes:
    """Return what comes in at most a second. More than is taken is read and dropped: the host must not find a closed pipe."""
    import select

    if os.isatty(descriptor):
        return b""
    held = bytearray()
    poll = select.poll()
    deadline = time.monotonic() + _INPUT_S
    try:
        poll.register(descriptor, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            settled = held.endswith((b"}", b"}\n"))
            if not poll.poll(1000 * (min(left, _SETTLED_S) if settled else left)):
                if settled and read_payload(bytes(held)):
                    break
                continue
            received = os.read(descriptor, 1_048_576)
            if not received:
                break
            if len(held) < _MOST_BYTES:
                held += received
    except OSError:
        pass  # closed, or something that cannot be read
    return bytes(held)


def _say(answer: dict[str, Any]) -> None:
    """Write the answer at once; where nobody reads it, nobody misses it."""
    try:
        line = json.dumps(answer).encode() + b"\n"
    except (TypeError, ValueError, RecursionError):
        line = b"{}\n"
    try:
        while line:
            line = line[os.write(1, line) :]
    except OSError:
        pass


def _why(error: BaseException) -> str:
    """Return what went wrong and what to do about it."""
    if isinstance(error, LorelogError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return f"{type(error).__name__}: {error}"


def _complain(what: str) -> None:
    """Say on standard error what did not work. Hosts keep it in their logs."""
    try:
        if sys.stderr is not None:
            os.write(2, f"lorelog: {' '.join(what.split())[:500]}\n".encode("utf-8", "replace"))
    except OSError:
        pass
