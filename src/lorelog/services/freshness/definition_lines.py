"""Tell from a single line whether it may define a name, in most languages, so that few files must be parsed."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

_KEYWORDS = rb"class|def|fn|func|function|interface|trait|struct|enum|type|const|let|var|val|module|namespace|object|record|union|impl|protocol|macro_rules!|\#define"
_NO_DEFINITION = re.compile(
    rb"^\s*(?://|\#(?!define)|\*|--)|\b(?:return|await|new|throw|yield|assert|raise|import|from|delete|typeof|in|not|and|or|if|elif|while|print|defer|go)\s[^\n]*$"
)
_MODIFIERS = re.compile(rb"^[\s\w*&<>,:\[\]~@?!$]*$")
_CALL_END = re.compile(rb"\)\s*[;,]?\s*$")


class DefinitionRank(IntEnum):
    """How likely a line defines a name."""

    USE = 0
    POSSIBLE = 1
    LIKELY = 2


@lru_cache(maxsize=256)
def _patterns(name: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    word = re.escape(name)
    keyword = (
        rb"(?<![\w$])(?:" + _KEYWORDS + rb")\b\*?\s*(?:\([^()\n]{0,200}\)\s*)?(?:[*&]|self\.)?(?:[\w$]+(?:\.|::))*"
    )
    assigned = rb"^\s*(?:export\s+|pub\s+|static\s+|readonly\s+|public\s+|private\s+)*(?:[\w$]+\.)*[\"']?"
    likely = re.compile(keyword + word + rb"(?![\w$])|" + assigned + word + rb"[\"']?\s*(?::|=(?![=>])|\?:)")
    called = re.compile(rb"(?<![\w$.\"'])" + word + rb"\s*(?:<[^>\n]{0,200}>|\[[^\]\n]{0,200}\])?\s*\(")
    return likely, called


def rank_line(line: bytes, name: bytes) -> DefinitionRank:
    """Return how likely a line, which contains a name, defines it."""
    likely, called = _patterns(name)
    if likely.search(line):
        return DefinitionRank.LIKELY
    match = called.search(line)
    if match is None or match.start() > 300:
        return DefinitionRank.USE
    before = line[: match.start()]
    if not _MODIFIERS.match(before) or _NO_DEFINITION.search(before + b" "):
        return DefinitionRank.USE
    is_call = not before.strip() and _CALL_END.search(line[match.end() - 1 : match.end() + 400])
    return DefinitionRank.USE if is_call else DefinitionRank.POSSIBLE
