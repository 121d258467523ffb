"""How much a question trusts the dense lane.

No fixed weight is right: Chinese wants words, questions about code want vectors, and both can stand in one index. So the
weight comes from the evidence of this very question:

- how much of what it asks the best chunk holds literally (`coverage`): words that were found need no interpreting;
- how many words it has: the more, the better words alone tell the right chunk from the others;
- how far the best vector stands out from the other candidates (`lead`): an encoder that knows the subject is sure of it;
- how many of its letters the built-in encoder has not learned to read;
- how well the encoder knows the corpus, which was asked about by its own sentences when it was indexed (`known`);
- and how many of its words are meant literally: identifiers, paths, codes, quoted phrases.

All but the last are learned, all on all sets at once (`python -m bench.quality.fit` prints them); the last one moves
the weight down only, in proportion, so that one more identifier never raises it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import exp, log1p

from lorelog.retrieval.stopwords import STOP_WORDS

BASE = 2.05
COVERAGE = -0.70
TERMS = -1.12
LEAD = 0.83
UNREAD = -1.19
KNOWN = 0.45
"""The logit of the dense lane's share is BASE and, times its number, each piece of evidence."""

EXACT = 0.15
"""The weight of a question that is all identifiers and quotes is at most this."""

_LONGEST_READ = 4_000
_LONGEST_EXACT = 200
_MOST_TERMS = 40
_PUNCTUATION = ".,;:!?()[]{}<>\"'“”‘’…"
_QUOTED = re.compile(r'"([^"\n]{2,200})"|“([^”\n]{2,200})”|`([^`\n]{1,200})`')
_EXACT = re.compile(
    r"\w+(?:[_/\\:@]|\.(?=\w)|::)[\w./\\:@-]*\w"  # snake_case, paths, dotted names, host:port, 1.2.3
    r"|[a-z]+[A-Z]\w*|[A-Z]+[a-z]+[A-Z]\w*|[A-Z]{2,}[a-z]{2,}\w*"  # camelCase, PascalCase, HTTPServer
    r"|[A-Z][A-Z_]*-?\d{2,}\w*"  # E0308, CVE-2024, SQL1042
    r"|0x[0-9a-fA-F]+|(?=[a-f]*\d)[0-9a-f]{7,64}"  # addresses, hashes
    r"|--?[a-z][\w-]+|\w+\(\)"  # flags, calls
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What both lanes' answers say about a question."""

    coverage: float = 0.0
    """The best chunk's BM25 as a share of what a chunk holding every term would have; 0 to 1 or a little above."""
    terms: int = 0
    lead: float = 0.0
    """How far the best cosine is above the mean of the dense candidates, in standard deviations, over what the best of as
    many random numbers would be."""
    known: float = 0.0
    """How much better or worse than usual the encoder knows the corpus, as it was probed with its own sentences."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The dense lane's share of the score, the lexical lane has the rest, and the reason in words."""

    dense: float
    reason: str


def weigh(query: str, evidence: Evidence) -> Weights:
    """Return the weights for a question."""
    exact, others = _sort_words(query[:_LONGEST_READ])
    words = len(exact) + sum(word.lower() not in STOP_WORDS for word in others)
    exact_share = len(exact) / words if words else 0.0
    # Of the other words only: the Latin letters of one more identifier must not make Chinese readable.
    unread_share = find_unread_share(" ".join(others))
    logit = BASE + COVERAGE * evidence.coverage + TERMS * log1p(min(evidence.terms, _MOST_TERMS))
    logit += LEAD * evidence.lead + UNREAD * unread_share + KNOWN * evidence.known
    dense = 1.0 / (1.0 + exp(-logit))
    dense -= max(dense - EXACT, 0.0) * exact_share
    reasons = [
        f"words cover {evidence.coverage:.0%} of {evidence.terms} terms",
        f"the best vector leads by {evidence.lead:.2f}",
    ]
    if unread_share > 0.0:
        reasons.append(f"{unread_share:.0%} of the letters are outside Latin script")
    if exact:
        reasons.append(f"{len(exact)} of {words} words are meant literally")
    return Weights(round(dense, 4), "; ".join(reasons))


def _sort_words(text: str) -> tuple[list[str], list[str]]:
    """Return the words that are meant literally and the others."""
    exact = [word for quoted in _QUOTED.finditer(text) for word in quoted.group().split()]
    others = []
    for word in _QUOTED.sub(" ", text).split():
        bare = word.strip(_PUNCTUATION)
        if len(bare) <= _LONGEST_EXACT and any(map(_EXACT.fullmatch, (bare, word.rstrip(_PUNCTUATION), word))):
            exact.append(bare)
        elif bare:
            others.append(bare)
    return exact, others


def find_unread_share(text: str) -> float:
    """Return the share of a text's letters that are not Latin, which the built-in encoder has hardly read."""
    letters = [character for character in text if character.isalpha()]
    return sum(not _is_latin(character) for character in letters) / len(letters) if letters else 0.0


def _is_latin(character: str) -> bool:
    return character < "\u0250" or "\u1e00" <= character <= "\u1eff" or "\uff21" <= character <= "\uff5a"
