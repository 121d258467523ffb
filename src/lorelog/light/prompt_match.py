"""Finds the rules that name something which stands in a prompt, while an agent waits.

`services.standing.memories` writes the phrases of each rule: the paths, commands, code names and topics of its cues. A phrase must stand
in the prompt as it is, as whole words. Nothing is stemmed, no synonym is known: a rule that only seems to fit costs attention at
every prompt. Headings of a pasted plan do not count. A hook loads this module: it imports nothing more.
"""

from __future__ import annotations

from lorelog.light.delivery_files import is_never_used

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def select_named(rules: list[dict[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """Return the rules of which a phrase in `named` stands in a prompt: the longest phrase first, rules never used last."""
    lines = (" ".join(line.split()) for line in prompt.casefold().split("\n") if not line.lstrip().startswith("#"))
    text = "\n".join(lines)
    found: list[tuple[bool, int, int]] = []
    for number, rule in enumerate(rules):
        phrases = rule.get("named")
        phrases = [phrase for phrase in phrases if isinstance(phrase, str)] if isinstance(phrases, list) else []
        longest = max((len(phrase) for phrase in phrases if phrase and stands_in(phrase, text)), default=0)
        if longest:
            found.append((is_never_used(rule), -longest, number))
    return [rules[number] for _, _, number in sorted(found)]


def stands_in(phrase: str, text: str) -> bool:
    """Return whether a phrase stands in a text as whole words; both are casefolded."""
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        if not (_joins(text[start - 1 : start]) or _joins(text[end : end + 1])):
            return True
        start = text.find(phrase, start + 1)
    return False


def _joins(char: str) -> bool:
    """Return whether a character beside a phrase makes it a part of a longer name. Chinese is written without spaces."""
    return char in {"_", "-"} or (char.isalnum() and not "\u3040" <= char <= "\u9fff")
