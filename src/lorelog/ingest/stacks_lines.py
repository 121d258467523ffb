"""Lines of logs: what a log puts before what a program said, and when that was.

A line has up to two things before its body. The carrier says who passed it on (a container, the journal of a host): each
carrier's lines are a text of their own, however they are interleaved. The stamp is the program's own (time, level, thread,
logger). Lines of a stack trace often have the carrier alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_ISO = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SYSLOG = rf"{_MONTH} [ \d]\d {_CLOCK}"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|[Tt]race|[Dd]ebug|[Ii]nfo|[Ww]arn(?:ing)?|[Ff]atal)"
_CARRIERS = (
    re.compile(r"(?P<who>[A-Za-z][\w.-]{0,80}) {0,40}\| ?"),
    re.compile(rf"(?P<at>{_ISO}) (?P<who>stdout|stderr) [FP] "),
    re.compile(rf"(?P<at>{_SYSLOG}|{_ISO}) (?!{_LEVEL}\b)(?P<who>[\w.-]{{1,80}} [\w./@-]{{1,80}})(?:\[\d+\])?: "),
    re.compile(rf"(?P<who>[^\t\n]{{1,100}}\t[^\t\n]{{1,100}})\t\ufeff?(?P<at>{_ISO}) "),
    re.compile(rf"(?P<who>)(?P<at>\d{{4}}-\d\d-\d\dT{_CLOCK}Z) (?=[^\[\s]|\s\s)(?!{_LEVEL}\b)"),
)
"""docker compose; Kubernetes' runtime; syslog and journalctl; `gh run view --log`; GitHub's own."""
_TOKENS = rf"(?:[ \t]{{0,2}}(?:{_LEVEL}\b:?|\[[^\[\]\n]{{0,80}}\]:?|\([^()\n]{{1,40}}\)|\d{{1,8}}(?= )|(?:---?|[|:])(?= ))){{0,8}}"
_STAMP = re.compile(
    rf"(?:\[?(?P<at>{_ISO}|{_SYSLOG}|{_CLOCK})\]?(?:[ \t]{{0,2}}[-|:](?= ))?"
    rf"{_TOKENS}(?:[ \t]{{1,2}}(?![\w.]*(?:Error|Exception|Rejection|panic|error)\b)[\w.$/-]{{1,80}}(?: {{0,40}}:| -|\[\d+\]:)(?= ){_TOKENS})?"
    rf"|(?:\[[\w .:/-]{{1,60}}\][ \t]?){{0,3}}{_LEVEL}\b(?:\[[^\[\]\n]{{0,60}}\]|\([^()\n]{{1,60}}\))?(?::[\w.$-]{{1,80}}:|:| -)(?=[ \w\"'])"
    rf"|(?:\[[\w .:/-]{{1,60}}\][ \t]?){{1,3}}"
    rf"|[EWIF]\d{{4}} {_CLOCK}\s+\d+ [\w.-]+:\d+\])"
)
_SEVERE = re.compile(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|ALERT|[Ff]atal)\b|^[EF]\d{4} ")
_VARIES = re.compile(r"\d+")
_LEVELS = re.compile(rf"\b{_LEVEL}\b")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, taken apart."""

    carrier: str
    """Who passed it on; empty where nobody did."""
    stamp: str
    """What the program put before it, without numbers and level: lines that belong together share it. Empty where nothing is."""
    body: str
    at: str = ""
    """When, as it is written."""
    severe: bool = False
    """Whether its stamp says that it is an error."""


def plain(line: str) -> str:
    """Return a line without its end, and without what colours it at a terminal."""
    line = line.rstrip("\r\n")
    line = line.rpartition("\r")[2] if "\r" in line else line  # a bar that was drawn over itself
    return _ANSI.sub("", line) if "\x1b" in line else line


def take_apart(line: str) -> LogLine:
    """Return a plain line's carrier, stamp and body."""
    carrier, at, rest = "", "", line
    for pattern in _CARRIERS:
        found = pattern.match(line)
        if found:
            groups = found.groupdict()
            carrier, at, rest = groups["who"] or "", groups.get("at") or "", line[found.end() :]
            break
    stamp = _STAMP.match(rest)
    if stamp is None or stamp.end() == 0:
        return LogLine(carrier, "", rest, at)
    head = stamp[0]
    body = rest[stamp.end() :]
    body = body[1:] if body[:1] == " " and not head.endswith(" ") else body
    key = _LEVELS.sub("", _VARIES.sub("0", head)).strip()
    return LogLine(carrier, key or "-", body, at or stamp["at"] or "", severe=bool(_SEVERE.search(head)))


def time_of(written: str, year: int) -> datetime | None:
    """Return when that is. A time without a zone is the machine's own; one without a day says nothing."""
    text = written.strip().replace("/", "-").replace(",", ".")
    if not text:
        return None
    try:
        if text[:3] in _MONTHS:
            month, day, clock = text.split()
            text = f"{year:04d}-{_MONTHS[month]:02d}-{int(day):02d}T{clock}"
        whole = re.fullmatch(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)? ?(Z|UTC|[+-]\d\d:?\d\d)?", text)
        if whole is None:
            return None
        zone = (whole[4] or "").replace("UTC", "Z")
        when = datetime.fromisoformat(f"{whole[1]}T{whole[2]}{(whole[3] or '')[:7]}{zone}")
        return when.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
