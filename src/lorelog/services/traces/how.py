"""Answers how something is done here: the commands that passed for a purpose, in sessions of this machine.

What a command is for is what the agent said when it ran it, and the command's own words. Texts with words of the question are
compared with it by the embedder; each session in which a command passed for a similar purpose counts for the form of the command
(`remedies.command_form`), the closer the more. A purpose that nobody said anything similar of has no answer: the nearest command
would be worse than none.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import exp, log
from operator import mul

from msgspec import Struct

from lorelog.core.errors import ModelError
from lorelog.core.ports import Embedder, group_by
from lorelog.core.serializable import ReplyItems, Serializable
from lorelog.core.vectors import unit_vector
from lorelog.language import lexicon
from lorelog.retrieval.cache import ProcessCache
from lorelog.retrieval.relevance import calibration_of
from lorelog.services.traces.remedies import command_form, error_kind, is_cancelled
from lorelog.services.traces.tables import TracedAction, format_moment, strip_output

MAX_ACTIONS = 20_000
_CANDIDATES, _NEAREST = 64, 30
"""Texts that are embedded, and of these the nearest that count."""
_SHARPNESS, _MAX_BEHIND = 20.0, 0.15
"""A text with a cosine of x less than the nearest one counts exp(-20 x), and one further behind not at all."""
_MIN_HEIGHT = 4.2
"""Deviations above the cosine of the question with any text (`relevance.EncoderCalibration`) that the nearest text must reach."""
_SURE_HEIGHT, _MIN_SHARED = 6.2, 0.25
"""Below that height a command's text also needs this share of the question's words, weighted by rarity: `git status` has the tree of
"tree-view exports", and nothing else."""
_MIN_SHARE = 0.05
"""A command with less weight than this share of the best one's is no answer."""
_MIN_COVERAGE = 0.5
"""Without vectors: share of the question's words, weighted by rarity, that the nearest text must have."""
_MAX_PURPOSES = 3
_MAX_WORDS_CHARS = 160
_TYPICAL_WORDS = 12
_VECTORS: ProcessCache[bytes] = ProcessCache(4_096)
_FORMS: ProcessCache[str] = ProcessCache(MAX_ACTIONS)


class KnownCommand(Serializable, Struct, frozen=True, kw_only=True):
    """A command that passed for a purpose."""

    command: str
    """As it passed last."""
    purposes: tuple[str, ...]
    """What agents said that it is for, newest first."""
    runs: int
    """Runs of its form, whatever the files and numbers in it,"""
    sessions: int
    """in so many sessions,"""
    failures: int
    """and so many of them failed."""
    passed_at: str
    failed_at: str
    """When it failed last; empty if it never did."""
    error: str
    session: str
    """The session in which it passed last."""


class HowReply(ReplyItems[KnownCommand], Serializable, Struct, frozen=True, kw_only=True):
    """The commands that passed for a purpose: of the most likely ones the newest first."""

    purpose: str
    commands: tuple[KnownCommand, ...]
    unknown: str = ""
    """Why there is none."""
    notes: tuple[str, ...] = ()


class PurposeMatcher(Struct, frozen=True):
    """What compares purposes."""

    words: Callable[[str], list[str]]
    embedder: Embedder | None
    model: str


def find_commands(purpose: str, actions: Sequence[TracedAction], matcher: PurposeMatcher, limit: int) -> HowReply:
    """Return the commands that passed for a purpose. `actions` are in order of time."""
    by_form = group_by(
        (run for run in actions if run.command and not is_cancelled(run)),
        lambda run: _FORMS.of_text(run.command, command_form),
    )
    by_text: dict[str, list[tuple[str, TracedAction]]] = defaultdict(list)
    for form, runs in by_form.items():
        for run in runs if form else ():
            by_text[_text(run, form)].append((form, run))
    by_text.pop("", None)
    if not by_text:
        return HowReply(purpose=purpose, commands=(), unknown="no captured session ran a command here")
    weights, notes = _weigh(purpose, by_text, matcher)
    votes: dict[str, float] = defaultdict(float)
    meant: dict[str, list[TracedAction]] = defaultdict(list)
    shared: set[str] = set()
    for text, (weight, is_shared) in weights.items():
        passed = [(form, run) for form, run in by_text[text] if not run.failed]
        for form, _ in {(form, run.session) for form, run in passed}:
            votes[form] += weight
        for form, run in passed:
            meant[form].append(run)
        shared |= {form for form, _ in passed if is_shared}
    for form in votes:
        votes[form] *= sum(not run.failed for run in by_form[form]) / len(by_form[form])
    least = _MIN_SHARE * max(votes.values(), default=0.0)
    best = sorted((form for form in votes if votes[form] >= least), key=lambda form: -votes[form])[:limit]
    found = [_known(by_form[form], meant[form]) for form in best if form in shared]
    return HowReply(
        purpose=purpose,
        commands=tuple(sorted(found, key=lambda known: known.passed_at, reverse=True)),
        unknown="" if found else "no captured session ran a command here for such a purpose",
        notes=notes,
    )


def _text(run: TracedAction, form: str) -> str:
    """Return what a command is for: the agent's words and the command's, without files: `git add tests/e2e.ts` runs no test."""
    words = " ".join(word for word in form.split() if word not in ("*", "&&"))
    return f"{run.purpose}: {words[:_MAX_WORDS_CHARS]}" if run.purpose else words


def _weigh(
    purpose: str, by_text: Mapping[str, Sequence[tuple[str, TracedAction]]], matcher: PurposeMatcher
) -> tuple[dict[str, tuple[float, bool]], tuple[str, ...]]:
    """Return the texts close to a purpose, each with its weight and whether it has enough of the purpose's words, and notes.

    There are none if the nearest one is too far.
    """
    shares = _word_shares(purpose, by_text, matcher.words)
    candidates = sorted(by_text, key=lambda text: (-shares[text], -by_text[text][-1][1].at))[:_CANDIDATES]
    notes: tuple[str, ...] = ()
    if matcher.embedder is not None:
        try:
            query = unit_vector(matcher.embedder.embed_query(purpose))
            cosines = _cosines(query, candidates, matcher.embedder, matcher.model)
        except ModelError as error:
            notes = (f"compared by words only: {error.message}",)
        else:
            known, best = calibration_of(matcher.model), max(cosines.values())
            height = (best - known.mean_cosine(query)) / known.spread if known.is_measured else _SURE_HEIGHT
            if height < _MIN_HEIGHT:
                return {}, ()
            least = 0.0 if height >= _SURE_HEIGHT else _MIN_SHARED
            nearest = sorted(candidates, key=lambda text: -cosines[text])[:_NEAREST]
            near = {text: best - cosines[text] for text in nearest if best - cosines[text] <= _MAX_BEHIND}
            return {text: (exp(-_SHARPNESS * behind), shares[text] >= least) for text, behind in near.items()}, ()
    best = shares[candidates[0]]
    if best < _MIN_COVERAGE:
        return {}, notes
    return {text: (shares[text] / best, True) for text in candidates[:_NEAREST] if shares[text] >= best / 2}, notes


def _word_shares(purpose: str, texts: Iterable[str], words: Callable[[str], list[str]]) -> dict[str, float]:
    """Return the share of a purpose's words that each text has, weighted by rarity; a little less for long texts."""
    counts = {text: Counter(words(text)) for text in texts}
    texts_with = Counter(word for count in counts.values() for word in count)
    told = set(words(" ".join(word for word in purpose.lower().split() if word not in lexicon("function_words"))))
    rarity = {word: log(1 + len(counts) / (texts_with[word] or 1)) for word in told}
    whole = sum(rarity.values()) or 1.0
    return {
        text: sum(rarity[word] for word in rarity if word in count) / whole / (1 + 0.1 * count.total() / _TYPICAL_WORDS)
        for text, count in counts.items()
    }


def _cosines(query: bytes, texts: Sequence[str], embedder: Embedder, model: str) -> dict[str, float]:
    missing = [text for text in texts if _VECTORS.get((model, text)) is None]
    made = dict(zip(missing, embedder.embed_documents(missing).vectors, strict=True)) if missing else {}
    for text, vector in made.items():
        _VECTORS.put((model, text), unit_vector(vector))
    asked = array("f", query)
    return {text: sum(map(mul, asked, array("f", _VECTORS.get((model, text)) or b""))) for text in texts}


def _known(runs: Sequence[TracedAction], meant: Sequence[TracedAction]) -> KnownCommand:
    """Return what is known of the runs of one form, of which `meant` passed for the purpose."""
    last = max(meant, key=lambda run: run.at)
    failed = [run for run in runs if run.failed]
    said = dict.fromkeys(run.purpose for run in sorted(meant, key=lambda run: -run.at) if run.purpose)
    return KnownCommand(
        command=" ".join(strip_output(last.command).split()),
        purposes=tuple(said)[:_MAX_PURPOSES],
        runs=len(runs),
        sessions=len({run.session for run in runs}),
        failures=len(failed),
        passed_at=format_moment(last.at),
        failed_at=format_moment(failed[-1].at) if failed else "",
        error=error_kind(failed[-1].error) if failed else "",
        session=last.session,
    )
