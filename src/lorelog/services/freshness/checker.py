"""Check memories against the code they mention, and against the branch they were made on.

A check runs after the search and its cache, since code changes without a write to the index. Resolved mentions are
cached; others cost Git processes, and a search spends a limited time on those. The rest stays unchecked until the
daemon resolves it in the background, newest memories first. A failure here never fails a search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from lorelog.core.dataclasses import dataclass, replace
from lorelog.core.document import StoredChunk
from lorelog.core.errors import StoreError
from lorelog.core.freshness import UNCHECKED_VERDICT, Freshness, FreshnessFinding, FreshnessVerdict
from lorelog.core.patterns import lazy_pattern
from lorelog.core.ports import Store
from lorelog.core.query import Explanation, Filters, Hit, ScorePart
from lorelog.services.freshness.checkout_state import CheckoutState
from lorelog.services.freshness.targets import (
    GitUnavailable,
    MentionCache,
    MentionTarget,
    TimeBudgetExceeded,
    cache_key,
)
from lorelog.services.places.git import git_folders
from lorelog.services.places.workspace import Workspace

if TYPE_CHECKING:
    from lorelog.code.git import GitHistory
    from lorelog.code.tables import CodeTables
    from lorelog.services.freshness.snapshot import Snapshot
    from lorelog.services.freshness.verdicts import FreshnessJudge
    from lorelog.services.freshness.working_tree import WorkingTree


SCORE_PENALTIES: Mapping[Freshness, float] = {Freshness.DRIFTED: 0.06, Freshness.GONE: 0.12}
"""Subtracted from the score. The best hit has about 1: a stale hit ranks below one that is nearly as good, not last."""
UNMERGED_PENALTY = 0.06
_SEARCH_BUDGET_S = 0.15
_GIT_TIMEOUT_S = 30.0
_FILTER_ATTRIBUTES = lazy_pattern(r"\b(?:filter|ident|working-tree-encoding)\b")
_MAX_CACHED = 512
_CACHE_S = 10.0
_MAX_RECENT = 1_000
_BATCH_SIZE = 10
_MAX_SNAPSHOTS = 16
_ATTEMPTS = 2
"""Times a check is made while checkouts change what is checked."""
_GIT_CACHE: dict[tuple[object, ...], object] = {}
"""Answers of Git by everything they depend on, for this process. The oldest is dropped first."""
_GIT_CACHE_LOCK = Lock()
_CHECKED: dict[str, tuple[str, str]] = {}
"""By project and tenant: what was checked out at the last complete pass of this process, and the store's mark then."""

GitAnswer = TypeVar("GitAnswer")


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessClaim:
    """The parts of a memory that a check needs."""

    text: str
    content_hash: str
    project: str
    date: str
    branch: str = ""
    commit: str = ""

    @property
    def since(self) -> str:
        """The commit or the date of the memory."""
        return self.commit or self.date

    @property
    def made_s(self) -> float | None:
        """The time of the memory in seconds since 1970; the end of its day if it has no time; None if unknown."""
        from datetime import datetime

        day, _, clock = self.date.partition("T")
        try:
            return datetime.fromisoformat(f"{day}T{clock or '23:59:59'}").timestamp()
        except (ValueError, OverflowError, OSError):
            return None


class FreshnessChecker:
    """Checks memories of one project against one of its working trees. Made for one reply, or one background round."""

    def __init__(self, workspace: Workspace, tables: CodeTables | None) -> None:
        self._root = workspace.project.root
        self._project = workspace.project.id
        self._cache = MentionCache(workspace.cache_folder)
        self._tables = tables
        self._budget_s = _SEARCH_BUDGET_S
        self._spent = 0.0
        self._started = 0.0
        self._snapshots: dict[str, Snapshot] = {}
        self._state = CheckoutState()

    def without_time_limit(self) -> FreshnessChecker:
        """Remove the time limit, for background work; return self."""
        self._budget_s = float("inf")
        return self

    def code_state(self) -> tuple[str, str]:
        """Return a name of the project and tenant, and a text that changes with what is checked out and what is known of it."""
        state = CheckoutState.read(self._root)
        name = f"{self._cache.path} {self._root}"
        return name, f"{state.branch} {state.key} {self._tree.knows_symbols}"

    def has_cache(self) -> bool:
        """Return True if any mentions were resolved before."""
        return self._cache.path.exists()

    def check(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return hits with a verdict each; stale hits rank lower, and none is removed."""
        claims = {hit.id: claim_of_hit(hit) for hit in hits if hit.project == self._project}
        if not claims:
            return hits
        verdicts = self.verdicts(claims)
        checked = [_apply_verdict(hit, verdicts.get(hit.id, UNCHECKED_VERDICT)) for hit in hits]
        if all(new is old for new, old in zip(checked, hits, strict=True)):
            return hits
        return tuple(sorted(checked, key=lambda hit: -hit.score))

    def verdicts(self, claims: Mapping[str, FreshnessClaim]) -> dict[str, FreshnessVerdict]:
        """Return the verdict on each claim, by its key.

        A checkout changes the files first and HEAD last. While one is under way, files of the other branch seem to be
        gone: a check during which the working tree changed is made again, and then says only what is fresh.
        """
        verdicts: dict[str, FreshnessVerdict] = {}
        for _ in range(_ATTEMPTS):
            self._state = CheckoutState.read(self._root)
            targets = self.resolve_mentions(claims)
            verdicts = {name: self._verdict(claim, targets.get(name, ())) for name, claim in claims.items()}
            is_settled = self._is_settled()
            if is_settled or all(verdict.freshness is Freshness.FRESH for verdict in verdicts.values()):
                return verdicts
        return {name: _cautious_verdict(verdict.findings, verdict.unmerged) for name, verdict in verdicts.items()}

    def _verdict(self, claim: FreshnessClaim, targets: Sequence[MentionTarget]) -> FreshnessVerdict:
        findings: tuple[FreshnessFinding, ...] = ()
        is_complete = True
        if targets:  # the judge is not even loaded for a memory that mentions nothing
            with suppress(StoreError):
                judgement = self._judge.judge(targets, made_here=claim.branch in {"", self._state.branch})
                findings, is_complete = judgement.findings, judgement.is_complete
        try:
            unmerged = self._unmerged(claim)
        except GitUnavailable:
            return _cautious_verdict(findings, "", is_complete=is_complete)
        if unmerged:
            return _cautious_verdict(findings, unmerged, is_complete=is_complete)
        if not findings:
            return UNCHECKED_VERDICT
        from lorelog.services.freshness.verdicts import overall_freshness

        return FreshnessVerdict(overall_freshness(findings, is_complete=is_complete), findings)

    def _is_settled(self) -> bool:
        """Return True if no checkout was under way since the state was read."""
        return not self._state.is_changing and CheckoutState.read(self._root) == self._state

    def resolve_mentions(self, claims: Mapping[str, FreshnessClaim]) -> dict[str, tuple[MentionTarget, ...]]:
        """Return the targets of each claim's mentions; those that are not cached are resolved while there is time."""
        keys = {name: self._key(claim) for name, claim in claims.items() if claim.since}
        cached = self._cache.get(keys.values())
        resolved: dict[str, tuple[MentionTarget, ...]] = {}
        for name, key in keys.items():
            if key in cached or key in resolved or not self._has_time():
                continue
            with suppress(StoreError, TimeBudgetExceeded, GitUnavailable), self._timed():
                resolved[key] = self._resolve_claim(claims[name])
        if resolved and self._is_settled():
            self._cache.put(resolved)
        cached |= resolved
        return {name: cached[key] for name, key in keys.items() if key in cached}

    def _key(self, claim: FreshnessClaim) -> str:
        return cache_key(claim.content_hash, claim.project, f"{claim.since} {'code' if self._is_indexed else ''}")

    def _resolve_claim(self, claim: FreshnessClaim) -> tuple[MentionTarget, ...]:
        """Resolve the mentions of a claim. Raise GitUnavailable if Git gave no answer: then nothing is kept."""
        from lorelog.services.freshness.mentions import find_mentions

        mentions = find_mentions(claim.text)
        if not mentions:
            return ()
        from lorelog.services.freshness.mention_targets import MentionResolver

        resolver = MentionResolver(self._snapshot_for(claim), self._tree, claim.made_s, lambda: self._remaining_s() > 0)
        return resolver.resolve(mentions)

    def _snapshot_for(self, claim: FreshnessClaim) -> Snapshot:
        from lorelog.services.freshness.snapshot import Snapshot

        if claim.since not in self._snapshots:
            while len(self._snapshots) >= _MAX_SNAPSHOTS:
                self._snapshots.pop(next(iter(self._snapshots)))
            self._snapshots[claim.since] = Snapshot(self._history, self._commit(claim))
        return self._snapshots[claim.since]

    def _commit(self, claim: FreshnessClaim) -> str:
        """Return the commit of a claim: the recorded one, or the last one before its date; empty without history."""
        if self._history is None:
            return ""
        commit = self._history.commit(claim.commit) if claim.commit else ""
        if commit == "" and claim.date:
            day, _, clock = claim.date.partition("T")
            commit = self._history.commit_before(f"{day}T{clock or '23:59'}:59")
        if commit is None:
            raise GitUnavailable
        return commit

    def _unmerged(self, claim: FreshnessClaim) -> str:
        """Return the branch of a claim if it is not merged; empty if it is, or if its commit is missing here.

        A claim with a missing commit is judged from the history of this branch. If Git does not tell, that is unknown:
        GitUnavailable is raised.
        """
        branch, head = self._state.branch, self._state.commit
        if not claim.branch or not claim.commit or self._history is None or claim.branch == branch:
            return ""
        if head.startswith(claim.commit) or claim.commit.startswith(head or "-"):
            return ""
        full_id = self._cached_answer(("commit", self._root, claim.commit), partial(self._history.commit, claim.commit))
        if not full_id:
            return ""
        key = ("merged", self._root, full_id, head)
        query = partial(self._history.is_merged, full_id, head or "HEAD")
        return "" if self._cached_answer(key, query) else claim.branch

    # -- time ----------------------------------------------------------------------------------------------------------

    def _cached_answer(self, key: tuple[object, ...], query: Callable[[], GitAnswer | None]) -> GitAnswer:
        """Return the answer of a Git query, cached. Raise GitUnavailable if there is no answer, or no time."""
        with _GIT_CACHE_LOCK:
            cached: GitAnswer | None = _GIT_CACHE.get(key)  # type: ignore[assignment]
        if cached is not None:
            return cached
        if not self._has_time():
            raise GitUnavailable
        with self._timed():
            answer = query()
        if answer is None:
            raise GitUnavailable
        with _GIT_CACHE_LOCK:
            while len(_GIT_CACHE) >= _MAX_CACHED:
                _GIT_CACHE.pop(next(iter(_GIT_CACHE)))
            _GIT_CACHE[key] = answer
        return answer

    def _has_time(self) -> bool:
        return self._spent < self._budget_s

    def _remaining_s(self) -> float:
        """Return the timeout of the next Git command, inside of `_timed`."""
        return min(_GIT_TIMEOUT_S, max(0.0, self._budget_s - self._spent - (time.monotonic() - self._started)))

    @contextmanager
    def _timed(self) -> Iterator[None]:
        self._started = time.monotonic()
        try:
            yield
        finally:
            self._spent += time.monotonic() - self._started

    # -- the working tree ----------------------------------------------------------------------------------------------

    @cached_property
    def _history(self) -> GitHistory | None:
        if not git_folders(self._root)[1]:
            return None
        from lorelog.code.git import Git, GitHistory

        return GitHistory(Git(self._root), remaining_s=self._remaining_s)

    @cached_property
    def _is_indexed(self) -> bool:
        """Whether the code of the working tree is indexed."""
        with suppress(StoreError):
            return self._tables is not None and self._tables.root(self._root) is not None
        return False

    @cached_property
    def _tree(self) -> WorkingTree:
        from lorelog.services.freshness.working_tree import WorkingTree

        return WorkingTree(self._root, self._tables if self._is_indexed else None)

    @cached_property
    def _judge(self) -> FreshnessJudge:
        from lorelog.services.freshness.verdicts import FreshnessJudge, GitQueries

        return FreshnessJudge(
            self._tree,
            GitQueries(
                renames=self._renames,
                renames_by_steps=self._renames_by_steps,
                files_with_word=self._with_word,
                files=self._files,
                sparse_files=self._sparse_files,
                staged=self._staged,
                is_settling=self._is_settling,
                has_known=self._has_known,
                defined_then=self._defined_then,
            ),
        )

    def _renames(self, commit: str) -> Mapping[str, str]:
        if self._history is None or not commit:
            return {}
        return self._cached_answer(
            ("renames", self._root, commit, *self._state.key), partial(self._history.renames, commit)
        )

    def _renames_by_steps(self, commit: str) -> Mapping[str, str]:
        if self._history is None or not commit:
            return {}
        key = ("steps", self._root, commit, *self._state.key)
        return self._cached_answer(key, partial(self._history.renames_by_steps, commit))

    def _with_word(self, word: str) -> Sequence[str]:
        if self._history is None:
            return ()
        key = ("word", self._root, word, *self._state.key, _time_bucket())
        return self._cached_answer(key, partial(self._history.files_with_now, word))

    def _files(self) -> Sequence[str]:
        if self._history is None:
            return ()
        return self._cached_answer(("files", self._root, *self._state.key, _time_bucket()), self._history.files_now)

    def _sparse_files(self) -> Collection[str]:
        sparse = os.path.join(git_folders(self._root)[0], "info", "sparse-checkout")  # noqa: PTH118
        if self._history is None or not os.path.exists(sparse):  # noqa: PTH110
            return ()
        return self._cached_answer(("left out", self._root, *self._state.key), self._history.sparse_files)

    def _staged(self, path: str) -> str:
        """Return the id of a file that a filter changes on checkout (LFS): such a file cannot be compared directly."""
        if self._history is None or not _FILTER_ATTRIBUTES.search(self._tree.text(".gitattributes")):
            return ""
        key = (self._root, path, *self._state.key)
        if not self._cached_answer(("filtered", *key), partial(self._history.is_filtered, path)):
            return ""
        return self._cached_answer(("staged", *key), partial(self._history.content_now, path))

    def _is_settling(self, path: str) -> bool:
        """Return True if the index was written just now, and HEAD does not agree with it: Git writes HEAD last."""
        if self._history is None or not self._state.is_young:
            return False
        key = ("settling", self._root, path, *self._state.key)
        return self._cached_answer(key, partial(self._history.is_staged_otherwise, path))

    def _has_known(self, path: str) -> bool:
        if self._history is None:
            return True
        key = ("known", self._root, path, self._state.commit)
        return self._cached_answer(key, partial(self._history.has_known, path))

    def _defined_then(self, commit: str, path: str) -> Collection[str]:
        return self._cached_answer(("defined", self._root, commit, path), partial(self._names_at, commit, path))

    def _names_at(self, commit: str, path: str) -> Collection[str] | None:
        from lorelog.services.freshness.snapshot import Snapshot

        snapshot = next((known for known in self._snapshots.values() if known.commit == commit), None)
        snapshot = snapshot or self._snapshots.setdefault(commit, Snapshot(self._history, commit))
        symbols = snapshot.symbols(path)
        return None if symbols is None else frozenset(symbol.qualified_name for symbol in symbols)


def _time_bucket() -> int:
    """Return a number that changes every few seconds: changes that are not staged are noticed after that time."""
    return int(time.monotonic() / _CACHE_S)


def claim_of_hit(hit: Hit) -> FreshnessClaim:
    """Return the claim of a search hit."""
    anchor = hit.anchor
    return FreshnessClaim(
        text=hit.content,
        content_hash=hit.content_hash,
        project=hit.project,
        date=hit.date,
        branch=anchor.branch if anchor else "",
        commit=anchor.commit if anchor else "",
    )


def _cautious_verdict(
    findings: tuple[FreshnessFinding, ...], unmerged: str, *, is_complete: bool = True
) -> FreshnessVerdict:
    """Return the verdict on a memory of a branch that is not merged, as far as known: differences do not count."""
    unchanged = tuple(finding for finding in findings if finding.freshness is Freshness.FRESH)
    is_fresh = bool(unchanged) and unchanged == findings and is_complete
    return FreshnessVerdict(Freshness.FRESH if is_fresh else Freshness.UNCHECKED, unchanged, unmerged)


def _apply_verdict(hit: Hit, verdict: FreshnessVerdict) -> Hit:
    """Add a verdict to a hit and lower its score if it is stale; return the same hit if it was not checked."""
    if verdict == UNCHECKED_VERDICT:
        return hit
    penalties = list(_penalties(verdict))
    if not penalties:
        return replace(hit, verdict=verdict)
    explanation = Explanation((*hit.explanation.parts, *penalties))
    return replace(hit, verdict=verdict, explanation=explanation, score=explanation.score)


def _penalties(verdict: FreshnessVerdict) -> Iterable[ScorePart]:
    if verdict.freshness in SCORE_PENALTIES:
        yield ScorePart("freshness", -SCORE_PENALTIES[verdict.freshness], "; ".join(verdict.change_phrases))
    if verdict.unmerged:
        yield ScorePart("branch", -UNMERGED_PENALTY, f"on {verdict.unmerged}, not merged")


def check_recent(store: Store, checker: FreshnessChecker, project: str, may_continue: Callable[[], bool]) -> None:
    """Resolve the mentions of a project's newest memories, as long as `may_continue` returns True.

    They are judged as well, which caches the answers of Git for the next search of this process. As long as the same is
    checked out, only memories that were written since the last pass of this process are read.
    """
    name, state = checker.code_state()
    last_state, mark = _CHECKED.get(name, ("", ""))
    is_kept = state == last_state and checker.has_cache()
    keys, mark = store.recent_keys(Filters(projects=(project,)), _MAX_RECENT, mark=mark if is_kept else "")
    for first in range(0, len(keys), _BATCH_SIZE):
        if not may_continue():
            return
        chunks = store.fetch(keys[first : first + _BATCH_SIZE])
        checker.verdicts({stored.id: claim_of_chunk(stored) for stored in chunks.values()})
    _CHECKED[name] = (state, mark)


def claim_of_chunk(stored: StoredChunk) -> FreshnessClaim:
    """Return the claim of a stored chunk."""
    chunk = stored.chunk
    return FreshnessClaim(
        text=chunk.content,
        content_hash=chunk.content_hash,
        project=stored.project,
        date=chunk.date,
        branch=chunk.anchor.branch if chunk.anchor else "",
        commit=chunk.anchor.commit if chunk.anchor else "",
    )
