"""How much a question trusts the dense lane.

No fixed weight is right, so the question's own look decides: what is meant literally (identifiers, paths, codes, quoted
phrases) leans on words; letters that the built-in encoder has not learned to read lean on words strongly; long prose
without either leans on meaning a little. Each rule only moves the weight one way, in proportion to its share of the
question, so that one more identifier never raises the weight. The numbers are a start, read off fixed-weight
measurements; evidence from both lanes replaces them when adaptation is measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from recollect.retrieval.stopwords import STOP_WORDS

BASE = 0.5
EXACT = 0.15
"""The weight of a question that is all identifiers and quotes."""
UNREAD = 0.2
"""The weight of a question written entirely in scripts the encoder does not read."""
PROSE = 0.6
"""The weight of long prose."""

_LONGEST_READ = 4_000
_LONGEST_EXACT = 200
_PUNCTUATION = ".,;:!?()[]{}<>\"'“”‘’…"
_SHORT_PROSE, _LONG_PROSE = 8, 20
_QUOTED = re.compile(r'"([^"\n]{2,200})"|“([^”\n]{2,200})”|`([^`\n]{1,200})`')
_EXACT = re.compile(
    r"\w+(?:[_/\\:@]|\.(?=\w)|::)[\w./\\:@-]*\w"  # snake_case, paths, dotted names, host:port, 1.2.3
    r"|[a-z]+[A-Z]\w*|[A-Z]+[a-z]+[A-Z]\w*|[A-Z]{2,}[a-z]{2,}\w*"  # camelCase, PascalCase, HTTPServer
    r"|[A-Z][A-Z_]*-?\d{2,}\w*"  # E0308, CVE-2024, SQL1042
    r"|0x[0-9a-fA-F]+|(?=[a-f]*\d)[0-9a-f]{7,64}"  # addresses, hashes
    r"|--?[a-z][\w-]+|\w+\(\)"  # flags, calls
)


@dataclass(frozen=True, slots=True)
class Weights:
    """The dense lane's share of the score, the lexical lane has the rest, and the reason in words."""

    dense: float
    reason: str


def weigh(query: str) -> Weights:
    """Return the weights for a question."""
    exact, prose = _sort_words(query[:_LONGEST_READ])
    words = len(exact) + len(prose)
    exact_share = len(exact) / words if words else 0.0
    unread_share = _unread_share("".join(prose))
    length = min(max(len(prose) - _SHORT_PROSE, 0) / (_LONG_PROSE - _SHORT_PROSE), 1.0)
    dense = BASE + (PROSE - BASE) * length
    dense -= (dense - UNREAD) * unread_share
    dense -= max(dense - EXACT, 0.0) * exact_share
    reasons = []
    if unread_share > 0.0:
        reasons.append(f"{unread_share:.0%} of the letters are outside Latin script")
    if exact:
        reasons.append(f"{len(exact)} of {words} words are meant literally")
    if length > 0.0:
        reasons.append(f"prose of {len(prose)} words")
    return Weights(round(dense, 4), "; ".join(reasons) or "a plain question")


def _sort_words(text: str) -> tuple[list[str], list[str]]:
    """Return the words that are meant literally and the others, which leave out stop words."""
    exact = [word for quoted in _QUOTED.finditer(text) for word in quoted.group().split()]
    prose = []
    for word in _QUOTED.sub(" ", text).split():
        bare = word.strip(_PUNCTUATION)
        if len(bare) <= _LONGEST_EXACT and any(map(_EXACT.fullmatch, (bare, word.rstrip(_PUNCTUATION), word))):
            exact.append(bare)
        elif bare and bare.lower() not in STOP_WORDS:
            prose.append(bare)
    return exact, prose


def _unread_share(text: str) -> float:
    letters = [character for character in text if character.isalpha()]
    return sum(not _is_latin(character) for character in letters) / len(letters) if letters else 0.0


def _is_latin(character: str) -> bool:
    return character < "\u0250" or "\u1e00" <= character <= "\u1eff" or "\uff21" <= character <= "\uff5a"
