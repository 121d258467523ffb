"""Check memories against the code they mention, and against the branch they were made on.

A check runs after the search and its cache, since code changes without a write to the index. Resolved mentions are
cached; others cost Git processes, and a search spends a limited time on those. The rest stays unchecked until the
daemon resolves it in the background, newest memories first. A failure here never fails a search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lorelog.core.document import Chunk
from lorelog.core.errors import StoreError
from lorelog.core.ports import Store
from lorelog.core.query import (
    UNCHECKED_VERDICT,
    Explanation,
    Filters,
    Freshness,
    FreshnessFinding,
    FreshnessVerdict,
    Hit,
    ScorePart,
)
from lorelog.retrieval.cache import ProcessCache
from lorelog.services.freshness.mentions import GitUnavailable, MentionCache, MentionTarget, cache_key, find_mentions
from lorelog.services.freshness.project_code import CheckoutState, ProjectGit
from lorelog.services.places.workspace import Workspace

if TYPE_CHECKING:
    from lorelog.code.tables import CodeTables
    from lorelog.services.freshness.project_code import WorkingTree
    from lorelog.services.freshness.verdicts import FreshnessJudge


SCORE_PENALTIES: Mapping[Freshness, float] = {Freshness.DRIFTED: 0.06, Freshness.GONE: 0.12}
"""Subtracted from the score. The best hit has about 1: a stale hit ranks below one that is nearly as good, not last."""
UNMERGED_PENALTY = 0.06
_SEARCH_BUDGET_S = 0.15
_MAX_RECENT = 1_000
_BATCH_SIZE = 10
_ATTEMPTS = 2
"""Times a check is made while checkouts change what is checked."""
_CHECKED: dict[str, tuple[str, str]] = {}
"""By project and tenant: what was checked out at the last complete pass of this process, and the store's mark then."""


_MENTIONS: ProcessCache[bool] = ProcessCache(4_096)
"""Whether texts mention anything, by their hash."""


class FreshnessClaim(Struct, frozen=True, kw_only=True):
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
    def can_be_stale(self) -> bool:
        """Whether it names its branch and commit, or mentions anything: most text does not, and costs a search nothing more."""
        return bool(self.branch and self.commit) or _MENTIONS.of_text(
            self.content_hash, lambda _: bool(find_mentions(self.text))
        )

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
        self.cache = MentionCache(workspace.cache_folder)
        self._tables = tables
        self._git = ProjectGit(self._root, _SEARCH_BUDGET_S)
        self._commits: dict[str, str] = {}

    def without_time_limit(self) -> FreshnessChecker:
        """Remove the time limit, for background work; return self."""
        self._git.budget_s = float("inf")
        return self

    def code_state(self) -> tuple[str, str]:
        """Return a name of the project and tenant, and a text that changes with what is checked out and what is known of it."""
        state = CheckoutState.read(self._root)
        name = f"{self.cache.path} {self._root}"
        return name, f"{state.branch} {state.key} {self._tree.knows_symbols}"

    def check(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Return hits with a verdict each; stale hits rank lower, and none is removed."""
        claims = {hit.id: claim_of(hit, hit.project) for hit in hits if hit.project == self._project}
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
        verdicts = dict.fromkeys(claims, UNCHECKED_VERDICT)
        claims = {name: claim for name, claim in claims.items() if claim.can_be_stale}
        for _ in range(_ATTEMPTS if claims else 0):
            self._git.state = CheckoutState.read(self._root)
            targets = self.resolve_mentions(claims)
            verdicts |= {name: self._verdict(claim, targets.get(name, ())) for name, claim in claims.items()}
            if self._is_settled() or all(verdicts[name].freshness is Freshness.FRESH for name in claims):
                return verdicts
        return {name: _cautious_verdict(verdict.findings, verdict.unmerged) for name, verdict in verdicts.items()}

    def _verdict(self, claim: FreshnessClaim, targets: Sequence[MentionTarget]) -> FreshnessVerdict:
        findings: tuple[FreshnessFinding, ...] = ()
        is_complete = True
        if targets:  # the judge is not even loaded for a memory that mentions nothing
            with suppress(StoreError):
                is_here = claim.branch in {"", self._git.state.branch}
                findings, is_complete = self._judge.judge(targets, made_here=is_here)
        try:
            unmerged = self._unmerged(claim)
        except GitUnavailable:
            return _cautious_verdict(findings, "", is_complete=is_complete)
        if unmerged:
            return _cautious_verdict(findings, unmerged, is_complete=is_complete)
        if not findings:
            return UNCHECKED_VERDICT
        from lorelog.services.freshness.verdicts import overall_freshness

        return FreshnessVerdict(overall_freshness(findings, is_complete=is_complete), findings=findings)

    def _is_settled(self) -> bool:
        """Return True if no checkout was under way since the state was read."""
        return not self._git.state.is_changing and CheckoutState.read(self._root) == self._git.state

    def resolve_mentions(self, claims: Mapping[str, FreshnessClaim]) -> dict[str, tuple[MentionTarget, ...]]:
        """Return the targets of each claim's mentions; those that are not cached are resolved while there is time."""
        code = "code" if self._is_indexed else ""
        keys = {
            name: cache_key(claim.content_hash, claim.project, f"{claim.since} {code}")
            for name, claim in claims.items()
            if claim.since
        }
        cached = self.cache.get(keys.values())
        resolved: dict[str, tuple[MentionTarget, ...]] = {}
        for name, key in keys.items():
            if key in cached or key in resolved or not self._git.has_time():
                continue
            with suppress(StoreError, GitUnavailable), self._git.timed():
                resolved[key] = self._resolve_claim(claims[name])
        if resolved and self._is_settled():
            self.cache.put(resolved)
        cached |= resolved
        return {name: cached[key] for name, key in keys.items() if key in cached}

    def _resolve_claim(self, claim: FreshnessClaim) -> tuple[MentionTarget, ...]:
        """Resolve the mentions of a claim. Raise GitUnavailable if Git gave no answer: then nothing is kept."""
        mentions = find_mentions(claim.text)
        if not mentions:
            return ()
        from lorelog.services.freshness.mention_targets import MentionResolver

        if claim.since not in self._commits:
            self._commits[claim.since] = self._commit(claim)
        snapshot = self._git.snapshot(self._commits[claim.since])
        resolver = MentionResolver(snapshot, self._tree, claim.made_s, lambda: self._git.remaining_s() > 0)
        return resolver.resolve(mentions)

    def _commit(self, claim: FreshnessClaim) -> str:
        """Return the commit of a claim: the recorded one, or the last one before its date; empty without history."""
        if self._git.history is None:
            return ""
        commit = self._git.history.commit(claim.commit) if claim.commit else ""
        is_unborn = bool(self._git.state.branch) and not self._git.state.commit
        if commit == "" and claim.date and not is_unborn:
            day, _, clock = claim.date.partition("T")
            commit = self._git.history.commit_before(f"{day}T{clock or '23:59'}:59")
        if commit is None:
            raise GitUnavailable
        return commit

    def _unmerged(self, claim: FreshnessClaim) -> str:
        """Return the branch of a claim if it is not merged; empty if it is, or if its commit is missing here.

        A claim with a missing commit is judged from the history of this branch. If Git does not tell, that is unknown:
        GitUnavailable is raised.
        """
        branch, head = self._git.state.branch, self._git.state.commit
        if not claim.branch or not claim.commit or claim.branch == branch:
            return ""
        is_head = head.startswith(claim.commit) or claim.commit.startswith(head or "-")
        return "" if is_head or self._git.is_merged(claim.commit) else claim.branch

    # -- the working tree ----------------------------------------------------------------------------------------------

    @cached_property
    def _is_indexed(self) -> bool:
        """Whether the code of the working tree is indexed."""
        with suppress(StoreError):
            return self._tables is not None and self._tables.root(self._root) is not None
        return False

    @cached_property
    def _tree(self) -> WorkingTree:
        from lorelog.services.freshness.project_code import WorkingTree

        return WorkingTree(self._root, self._tables if self._is_indexed else None)

    @cached_property
    def _judge(self) -> FreshnessJudge:
        from lorelog.services.freshness.verdicts import FreshnessJudge

        return FreshnessJudge(self._tree, self._git)


def claim_of(chunk: Hit | Chunk, project: str) -> FreshnessClaim:
    anchor = chunk.anchor
    return FreshnessClaim(
        text=chunk.content,
        content_hash=chunk.content_hash,
        project=project,
        date=chunk.date,
        branch=anchor.branch if anchor else "",
        commit=anchor.commit if anchor else "",
    )


def _cautious_verdict(
    findings: tuple[FreshnessFinding, ...], unmerged: str, *, is_complete: bool = True
) -> FreshnessVerdict:
    """Return the verdict on a memory of a branch that is not merged, as far as known: differences do not count."""
    unchanged = tuple(finding for finding in findings if finding.freshness is Freshness.FRESH)
    is_fresh = bool(unchanged) and unchanged == findings and is_complete
    return FreshnessVerdict(Freshness.FRESH if is_fresh else Freshness.UNCHECKED, unmerged, unchanged)


def _apply_verdict(hit: Hit, verdict: FreshnessVerdict) -> Hit:
    """Add a verdict to a hit and lower its score if it is stale; return the same hit if it was not checked."""
    if verdict == UNCHECKED_VERDICT:
        return hit
    parts = list(hit.explanation.parts)
    if verdict.freshness in SCORE_PENALTIES:
        parts.append(ScorePart("freshness", -SCORE_PENALTIES[verdict.freshness], "; ".join(verdict.change_phrases)))
    if verdict.unmerged:
        parts.append(ScorePart("branch", -UNMERGED_PENALTY, f"on {verdict.unmerged}, not merged"))
    if len(parts) == len(hit.explanation.parts):
        return replace(hit, verdict=verdict)
    explanation = Explanation(tuple(parts))
    return replace(hit, verdict=verdict, explanation=explanation, score=explanation.score)


def check_recent(store: Store, checker: FreshnessChecker, project: str, may_continue: Callable[[], bool]) -> None:
    """Resolve the mentions of a project's newest memories, as long as `may_continue` returns True.

    They are judged as well, which caches the answers of Git for the next search of this process. As long as the same is
    checked out, only memories that were written since the last pass of this process are read.
    """
    name, state = checker.code_state()
    last_state, mark = _CHECKED.get(name, ("", ""))
    is_kept = state == last_state and checker.cache.path.exists()
    keys, mark = store.recent_keys(Filters(projects=(project,)), _MAX_RECENT, mark=mark if is_kept else "")
    for first in range(0, len(keys), _BATCH_SIZE):
        if not may_continue():
            return
        chunks = store.fetch(keys[first : first + _BATCH_SIZE])
        checker.verdicts({stored.id: claim_of(stored.chunk, stored.project) for stored in chunks.values()})
    _CHECKED[name] = (state, mark)
