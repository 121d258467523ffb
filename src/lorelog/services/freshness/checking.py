"""Hits of a search with what became of the code they name, and of the branch they were made on.

Done after the answer and its cache, since code changes without a write to the index. What was found out once is kept; what
was not costs Git processes, and a search spends only so long on those: the rest is told to be unchecked, and the daemon makes up
for it. Nothing here fails a search.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from lorelog.core.code import UNCHECKED, Finding, Freshness, Verdict
from lorelog.core.errors import StoreError
from lorelog.core.query import Explanation, Hit, Part, SearchReply
from lorelog.services.freshness.judging import Asked, Judge, UntoldError, overall
from lorelog.services.freshness.mentions import find_mentions
from lorelog.services.freshness.named import Named, Notebook, key_of
from lorelog.services.freshness.surveying import OutOfTimeError, Surveyor, Then
from lorelog.services.freshness.tree import WorkingTree
from lorelog.services.place import Place
from lorelog.services.session.git_head import read_head
from lorelog.services.worktree import git_folders

if TYPE_CHECKING:
    from lorelog.code.history import History
    from lorelog.code.tables import CodeTables

LOWERED: Mapping[Freshness, float] = {Freshness.DRIFTED: 0.06, Freshness.GONE: 0.12}
"""What a hit loses. The best hit of a question has about 1: a stale one goes below one that is nearly as good, not to the end."""
UNMERGED = 0.06
_SEARCH_SPENDS_S = 0.15
_PATIENCE_S = 30.0
_ATTRIBUTES = re.compile(r"\b(?:filter|ident|working-tree-encoding)\b")
_KEPT = 512
_KEPT_S = 10.0

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Claim:
    """What is said somewhere, and since when: a chunk, as far as it matters here."""

    text: str
    content_hash: str
    project: str
    date: str
    branch: str = ""
    commit: str = ""

    @property
    def since(self) -> str:
        """What tells when it was said."""
        return self.commit or self.date


class Checker:
    """Checks what is said of one project against one of its working trees. Made for one answer, or one round of upkeep."""

    def __init__(self, place: Place, tables: CodeTables | None) -> None:
        self._root = place.project.root
        self._project = place.project.id
        self._notebook = Notebook(place.tenant_folder / "index")
        self._tables = tables
        self._spends_s = _SEARCH_SPENDS_S
        self._spent = 0.0
        self._started = 0.0
        self._then: dict[str, Then] = {}

    def patiently(self) -> Checker:
        """Return this one with all the time there is: for upkeep, where nobody waits."""
        self._spends_s = float("inf")
        return self

    def check(self, reply: SearchReply) -> SearchReply:
        """Return an answer with a verdict for each hit; those that are out of date go down, and none is left out."""
        claims = {hit.id: claim_of_hit(hit) for hit in reply.hits if hit.project == self._project}
        if not claims:
            return reply
        verdicts = self.verdicts(claims)
        checked = [_marked(hit, verdicts.get(hit.id, UNCHECKED)) for hit in reply.hits]
        if all(new is old for new, old in zip(checked, reply.hits, strict=True)):
            return reply
        return replace(reply, hits=tuple(sorted(checked, key=lambda hit: -hit.score)))

    def verdicts(self, claims: Mapping[str, Claim]) -> dict[str, Verdict]:
        """Return what is to be told of each claim, by whatever it is called."""
        named = self.survey(claims)
        told: dict[str, Verdict] = {}
        for name, claim in claims.items():
            findings: tuple[Finding, ...] = ()
            with suppress(StoreError):
                findings = self._judge.judge(named.get(name, ()))
            unmerged = self._unmerged(claim)
            told[name] = Verdict(overall(findings), findings, unmerged) if not unmerged else _apart(findings, unmerged)
        return told

    def survey(self, claims: Mapping[str, Claim]) -> dict[str, tuple[Named, ...]]:
        """Return what claims name, as it was; found out and kept where that is not known yet, as long as there is time."""
        keys = {name: self._key(claim) for name, claim in claims.items() if claim.since}
        known = self._notebook.get(keys.values())
        found: dict[str, tuple[Named, ...]] = {}
        for name, key in keys.items():
            if key in known or not self._has_time():
                continue
            with suppress(StoreError, OutOfTimeError), self._timed():
                named = self._survey(claims[name])
                if named is not None and self._left() > 0:  # what Git broke off is not the truth
                    known[key] = found[key] = named
        self._notebook.put(found.items())
        return {name: known[key] for name, key in keys.items() if key in known}

    def _key(self, claim: Claim) -> str:
        return key_of(claim.content_hash, claim.project, f"{claim.since} {'code' if self._tree.knows_symbols else ''}")

    def _survey(self, claim: Claim) -> tuple[Named, ...] | None:
        """Find out what a claim names; None where Git did not answer."""
        mentions = find_mentions(claim.text)
        if not mentions:
            return ()
        then = self._at(claim)
        if then.commit and not then.files:
            return None
        return Surveyor(then, self._tree, lambda: self._left() > 0).survey(mentions)

    def _at(self, claim: Claim) -> Then:
        if claim.since not in self._then:
            self._then[claim.since] = Then(self._history, self._commit(claim) if self._history else "")
        return self._then[claim.since]

    def _commit(self, claim: Claim) -> str:
        """Return the commit that was checked out when something was said: as it says itself, or as its day does."""
        assert self._history is not None  # noqa: S101
        known = self._history.commit(claim.commit) if claim.commit else ""
        if known or not claim.date:
            return known
        day, _, clock = claim.date.partition("T")
        return self._history.commit_before(f"{day}T{clock or '23:59'}:59")

    def _unmerged(self, claim: Claim) -> str:
        """Return the branch that something was said on, where that has not come in; empty where it has, or nobody can tell."""
        branch, head = self._head
        if not claim.branch or not claim.commit or self._history is None or claim.branch == branch:
            return ""
        if head.startswith(claim.commit) or claim.commit.startswith(head or "-"):
            return ""
        key = ("merged", self._root, claim.commit, head)
        try:
            return "" if self._told(key, partial(self._history.is_merged, claim.commit)) else claim.branch
        except UntoldError:
            return ""

    # -- time ----------------------------------------------------------------------------------------------------------

    def _told(self, key: tuple[object, ...], ask: Callable[[], Thing | None]) -> Thing:
        """Return what Git says, now or earlier; `UntoldError` where it cannot tell, or there is no time."""
        with _MEMORY_LOCK:
            known: Thing | None = _MEMORY.get(key)  # type: ignore[assignment]
        if known is not None:
            return known
        if not self._has_time():
            raise UntoldError
        with self._timed():
            found = ask()
        if found is None:
            raise UntoldError
        with _MEMORY_LOCK:
            while len(_MEMORY) >= _KEPT:
                _MEMORY.pop(next(iter(_MEMORY)))
            _MEMORY[key] = found
        return found

    def _has_time(self) -> bool:
        return self._spent < self._spends_s

    def _left(self) -> float:
        """Return how long Git may take for the next answer, in the middle of something that is timed."""
        return min(_PATIENCE_S, max(0.0, self._spends_s - self._spent - (time.monotonic() - self._started)))

    @contextmanager
    def _timed(self) -> Iterator[None]:
        self._started = time.monotonic()
        try:
            yield
        finally:
            self._spent += time.monotonic() - self._started

    # -- the working tree ----------------------------------------------------------------------------------------------

    @cached_property
    def _history(self) -> History | None:
        if not git_folders(self._root)[1]:
            return None
        from lorelog.code.git import Git
        from lorelog.code.history import History

        return History(Git(self._root), left_s=self._left)

    @cached_property
    def _head(self) -> tuple[str, str]:
        return read_head(self._root)

    @cached_property
    def _tree(self) -> WorkingTree:
        known = None
        with suppress(StoreError):
            known = self._tables.root(self._root) if self._tables is not None else None
        return WorkingTree(self._root, self._tables if known is not None else None)

    @cached_property
    def _judge(self) -> Judge:
        return Judge(
            self._tree,
            Asked(self._renames, self._renames_by_steps, self._with_word, self._files, self._left_out, self._staged),
        )

    def _renames(self, commit: str) -> Mapping[str, str]:
        if self._history is None or not commit:
            return {}
        return self._told(("renames", self._root, commit, *self._state), partial(self._history.renames, commit))

    def _renames_by_steps(self, commit: str) -> Mapping[str, str]:
        if self._history is None or not commit:
            return {}
        key = ("steps", self._root, commit, *self._state)
        return self._told(key, partial(self._history.renames_by_steps, commit))

    def _with_word(self, word: str) -> Sequence[str]:
        if self._history is None:
            return ()
        key = ("word", self._root, word, *self._state, _moment())
        return self._told(key, partial(self._history.files_with_now, word))

    def _files(self) -> Sequence[str]:
        if self._history is None:
            return ()
        return self._told(("files", self._root, *self._state, _moment()), self._history.files_now)

    def _left_out(self) -> Collection[str]:
        sparse = os.path.join(git_folders(self._root)[0], "info", "sparse-checkout")  # noqa: PTH118
        if self._history is None or not os.path.exists(sparse):  # noqa: PTH110
            return ()
        return self._told(("left out", self._root, *self._state), self._history.left_out)

    def _staged(self, path: str) -> str:
        """Return what Git has of a file that a filter changes on its way (LFS): such a file cannot be compared itself."""
        if self._history is None or not _ATTRIBUTES.search(self._tree.text(".gitattributes")):
            return ""
        key = (self._root, path, *self._state)
        if not self._told(("filtered", *key), partial(self._history.is_filtered, path)):
            return ""
        return self._told(("staged", *key), partial(self._history.content_now, path))

    @cached_property
    def _state(self) -> tuple[str, int]:
        """What tells that nothing was committed or staged since."""
        try:
            staged = os.stat(os.path.join(git_folders(self._root)[0], "index")).st_mtime_ns  # noqa: PTH116, PTH118
        except OSError:
            staged = 0
        return self._head[1], staged


_MEMORY: dict[tuple[object, ...], object] = {}
"""What Git has said, by all that it depends on. Of one process; the oldest goes first."""
_MEMORY_LOCK = Lock()


def _moment() -> int:
    """Return a number that changes every few seconds: so long what is not staged may go unnoticed."""
    return int(time.monotonic() / _KEPT_S)


def claim_of_hit(hit: Hit) -> Claim:
    """Return what a hit claims, and since when."""
    anchor = hit.anchor
    branch, commit = (anchor.branch, anchor.commit) if anchor else ("", "")
    return Claim(hit.content, hit.content_hash, hit.project, hit.date, branch, commit)


def _apart(findings: tuple[Finding, ...], unmerged: str) -> Verdict:
    """Return the verdict on what was said on a branch that has not come in: what differs here was never otherwise, and is not told."""
    as_it_was = tuple(one for one in findings if one.freshness is Freshness.FRESH)
    return Verdict(overall(findings) if as_it_was == findings else Freshness.UNCHECKED, as_it_was, unmerged)


def _marked(hit: Hit, verdict: Verdict) -> Hit:
    """Return a hit with its verdict, and with less of a score where that is bad; the very same where there is nothing to tell."""
    if verdict == UNCHECKED:
        return hit
    lost = list(_losses(verdict))
    if not lost:
        return replace(hit, verdict=verdict)
    explanation = Explanation((*hit.explanation.parts, *lost))
    return replace(hit, verdict=verdict, explanation=explanation, score=explanation.score)


def _losses(verdict: Verdict) -> Iterable[Part]:
    if verdict.freshness in LOWERED:
        yield Part("freshness", -LOWERED[verdict.freshness], "; ".join(verdict.told))
    if verdict.unmerged:
        yield Part("branch", -UNMERGED, f"on {verdict.unmerged}, not merged")
