"""Secrets that are handed over: to a program by an option or through a pipe, or to a name that stands in a place of its own.

A command's options mean what its program says, so each is looked for only behind the program's name on the same line. A name
and its value may stand on two lines, in two fields of an object or in two cells of a table; what the name must
prove is the same there (see redact_names), but a value that is not written as an assignment is never taken on the name
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorelog.ingest.redact_names import is_secret_of
from lorelog.ingest.redact_places import COMMAND_VALUE, Span, line_before
from lorelog.ingest.redact_values import is_fingerprint, is_placeholder, looks_random

_OPTIONS = tuple(
    (program, re.compile(option + COMMAND_VALUE, re.ASCII))
    for program, option in (
        ("gh secret set", r"[ \t](?:-b|--body)[ \t=]{0,4}"),
        ("redis-cli", r"[ \t]-a[ \t]{1,4}"),
        ("mongo", r"[ \t]-p[ \t]{1,4}"),
        ("zip", r"[ \t]-P[ \t]{0,4}"),
        ("7z ", r"[ \t]-p"),
        ("openssl", r"[ \t](?:-k[ \t]{1,4}|-pass(?:in|out)?[ \t]{1,4}pass:)"),
        ("ssh-keygen", r"[ \t]-[NP][ \t]{1,4}"),
        ("doctl", r"[ \t](?:-t|--access-token)[ \t=]{1,4}"),
        ("htpasswd", r"[ \t]-[A-Za-z]{0,4}b[A-Za-z]{0,4}[ \t]{1,4}[^\s]{1,200}+[ \t]{1,4}[^\s]{1,64}+[ \t]{1,4}"),
        ("--password-stdin", r"[ \t]{0,4}<<<[ \t]{0,4}"),
    )
)
_PIPED = re.compile(
    rf"\b(?:echo|printf)[ \t]{{1,4}}(?:-[neE]{{1,3}}[ \t]{{1,4}})?(?:[\"']?%s(?:\\n)?[\"']?[ \t]{{1,4}})?{COMMAND_VALUE}"
    r"[ \t]{0,4}\|([^\n;&]{0,300}+)",
    re.ASCII,
)
_TAKERS = ("--password-stdin", "--with-token", "sudo -S", "chpasswd", "passwd --stdin", "secret put", "secret set")
_STORES = ("vault kv put", "vault write", "secrets set", "config:set", "--from-literal", "secrets:set")
_STORED = re.compile(rf"[ \t=\"'][A-Za-z_][\w.-]{{0,63}}+={COMMAND_VALUE}", re.ASCII)
_LINE_MOST = 1000


def given_to_programs(text: str) -> Iterator[Span]:
    """`gh secret set X -b VALUE`, `echo VALUE | docker login --password-stdin`, `vault kv put path x=VALUE`."""
    for program, option in _OPTIONS:
        if program in text:
            for found in option.finditer(text):
                index = found.lastindex or 0
                if program in line_before(text, found.start() + 1) and _is_given(found[index]):
                    yield found.start(index), found.end(index), "command-password"
    if any(taker in text for taker in _TAKERS):
        yield from _piped(text)
    for store in _STORES:
        yield from _stored(text, store)


def _piped(text: str) -> Iterator[Span]:
    for found in _PIPED.finditer(text):
        taker = found[4]
        index = next(number for number in (1, 2, 3) if found[number])
        if any(one in taker for one in _TAKERS) and _is_given(found[index]):
            user, colon, _ = found[index].partition(":")
            start = found.start(index) + (len(user) + 1 if colon and "chpasswd" in taker else 0)
            yield start, found.end(index), "command-password"


def _stored(text: str, store: str) -> Iterator[Span]:
    at = text.find(store)
    while at >= 0:
        end = text.find("\n", at, at + _LINE_MOST)
        end = end if end >= 0 else min(len(text), at + _LINE_MOST)
        for found in _STORED.finditer(text, at + len(store), end):
            index = found.lastindex or 0
            value = found[index]
            if looks_random(value, 12) and not is_fingerprint(value) and not is_placeholder(value):
                yield found.start(index), found.end(index), "secret"
        at = text.find(store, end)


def _is_given(value: str) -> bool:
    """Say whether a value may be a password: written out, and not a number, a word of the manual or a variable."""
    telling = not value.isalpha() and not value.replace(":", "").isdigit()
    return len(value) >= 6 and telling and not is_placeholder(value)


_BELOW = re.compile(
    r":\*{0,2}[ \t]{0,4}([|>][+-]?[0-9]?[ \t]{0,8})?\r?\n(?:[ \t]{0,8}\r?\n)?[ \t]{0,40}([^\s\"'`<>\\]{6,4096}+)(?=[ \t]{0,8}(?:[\r\n]|\Z))"
)
_FIELDS = re.compile(
    r"\b(?:name|key)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?([\w.-]{2,64}+)[\"']?[ \t]{0,4},?\s{1,40}[\"']?value[\"']?[ \t]{0,4}[:=]"
    r"[ \t]{0,4}(?:\"([^\"\n]{4,4096}+)\"|'([^'\n]{4,4096}+)'|([^\s\"'`<>\\,}]{4,4096}+))",
    re.IGNORECASE | re.ASCII,
)
_CELLS = re.compile(r"\|[ \t]{0,40}+([\w.`*-][\w.`* -]{1,63}+)\|[ \t]{0,40}+`?([^\s|`]{12,4096}+)`?[ \t]{0,40}+\|")
_LAST_WORDS = re.compile(r"(?:[A-Za-z]{1,20} )?[\w.$-]{2,64}[\"'`*]{0,2}\Z", re.ASCII)


def given_to_names(text: str) -> Iterator[Span]:
    """A value below its name, as YAML writes long ones, beside it in `name` and `value`, or in the next cell."""
    if ":" in text:
        for found in _BELOW.finditer(text):
            name = _LAST_WORDS.search(text, max(0, found.start() - 90), found.start())
            is_link = "](" in found[2]
            if name and not is_link and (kind := is_secret_of(_joined(name[0]), found[2], literal=bool(found[1]))):
                yield found.start(2), found.end(2), kind
    if "value" in text or "Value" in text:
        for found in _FIELDS.finditer(text):
            index = found.lastindex or 0
            if kind := is_secret_of(found[1], found[index], literal=False):
                yield found.start(index), found.end(index), kind
    if text.count("|") > 2:
        for found in _CELLS.finditer(text):
            if looks_random(found[2]) and (kind := is_secret_of(_joined(found[1]), found[2], literal=False)):
                yield found.start(2), found.end(2), kind


def _joined(name: str) -> str:
    return name.strip("\"'`* ").replace(" ", "_")
