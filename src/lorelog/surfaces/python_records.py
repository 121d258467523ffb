"""Python asks about tasks, artifacts, context and the ledger: a namespace of verbs for each, on `Lorelog`.

with Lorelog(project=".") as memory:
    task = memory.task.start("make the importer idempotent", agent_id="mara")
    memory.task.progress(task["task_id"], summary="keys are unique", next_step="replay last week")

Fields have the names that JSON has, and answers are the JSON: what is written here is read elsewhere, by agents mostly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

if TYPE_CHECKING:
    from lorelog.operations import context_replies as context
    from lorelog.operations import digest_replies as digests
    from lorelog.operations import ledger_replies as ledger
    from lorelog.operations import record_replies as replies

Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""Carries out an operation."""
Parts = Sequence[Mapping[str, str]]


class Saying(TypedDict, total=False):
    """What every record may say, and for whom."""

    agent_id: str | None
    session_id: str
    origin: str
    dataset_refs: Parts
    entity_refs: Parts
    provenance: Mapping[str, str]
    tenant: str | None


class Starting(Saying, total=False):
    """What the start of a task may say."""

    motivation: str
    hypothesis: str
    scientific_question: str
    expected_outputs: Sequence[str]
    parent_task_id: str
    challenge_id: str
    to_global: bool


class Progressing(Saying, total=False):
    """What progress of a task may say."""

    blockers: Sequence[str]
    failed_attempts: Sequence[str]
    what_worked: Sequence[str]
    status: str


class Running(Saying, total=False):
    """What the start of a run may say."""

    tool_version: str
    parameters: Mapping[str, Any]
    summary: str


class Ran(Saying, total=False):
    """What the end of a run may say."""

    run_id: str
    tool_name: str
    command: str
    outputs: Sequence[str]
    metrics: Mapping[str, Any]
    validation: Sequence[str]


class Proving(Saying, total=False):
    """What evidence may say."""

    supports_claim: bool | None
    reply_to_artifact_id: str
    metric_name: str
    metric_value: float | None
    metrics: Mapping[str, Any]


class Finishing(Saying, total=False):
    """What the end of a task may say."""

    status: str
    summary: str
    goal: str
    what_worked: Sequence[str]
    what_failed: Sequence[str]
    validation: Sequence[str]
    uncertainty: Sequence[str]
    followups: Sequence[str]
    confidence: float | None


class Artifact(Saying, total=False):
    """What a record of any kind may say."""

    task_id: str
    thread_id: str
    reply_to_artifact_id: str
    relation_kind: str
    supports_claim: bool | None
    supersedes: str
    status: str
    goal: str
    motivation: str
    hypothesis: str
    scientific_question: str
    expected_outputs: Sequence[str]
    method_summary: str
    summary: str
    next_step: str
    blockers: Sequence[str]
    what_worked: Sequence[str]
    what_failed: Sequence[str]
    validation: Sequence[str]
    uncertainty: Sequence[str]
    followups: Sequence[str]
    confidence: float | None
    evidence_kind: str
    metric_name: str
    metric_value: float | None
    metrics: Mapping[str, Any]
    tool_name: str
    tool_version: str
    command: str
    parameters: Mapping[str, Any]
    inputs: Sequence[str]
    outputs: Sequence[str]
    why_chosen: str
    requested_action: str
    verification_status: str
    approval_state: str
    artifact_role: str
    challenge_id: str
    parent_task_id: str
    related_artifact_ids: Sequence[str]
    contributors: Sequence[str]
    compute_budget: str | float | Mapping[str, Any] | None
    cost_actual: str | float | Mapping[str, Any] | None
    data_access_level: str
    policy_tags: Sequence[str]
    allowed_tools: Sequence[str]
    timestamp_observed: str
    to_global: bool


class AnyArtifact(Artifact, total=False):
    """What a record may say whose kind is chosen freely."""

    content: str


class Library(TypedDict, total=False):
    """What a library may be told."""

    k: int
    all_projects: bool


class Conditions(TypedDict, total=False):
    """What a task or a record must be to be found, whatever its words."""

    k: int
    kinds: Sequence[str]
    task_id: str
    parent_task_id: str
    thread_id: str
    reply_to_artifact_id: str
    agent_id: str
    session_id: str
    challenge_id: str
    artifact_role: str
    relation_kind: str
    evidence_kind: str
    tool_name: str
    verification_status: str
    approval_state: str
    contributor: str
    dataset: str
    entity: str
    origin: str
    status: str
    supports_claim: bool | None
    since: str
    until: str
    trust: str
    include_superseded: bool
    all_projects: bool
    projects: Sequence[str] | None
    tenant: str | None


class Verbs:
    """Verbs of one family of operations."""

    family = ""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def _call(self, verb: str, given: Mapping[str, Any]) -> Any:
        return self._ask(f"{self.family}.{verb}", _plain(given))


class TaskVerbs(Verbs):
    """What is done about tasks. A task is named by its id or, where they are its own, the first characters of it."""

    family = "task"

    def start(self, goal: str, **said: Unpack[Starting]) -> replies.WrittenShape:
        """Begin a task: say what it is for. The answer holds its `task_id`."""
        return cast("replies.WrittenShape", self._call("start", {"goal": goal, **said}))

    def progress(
        self, task_id: str, *, summary: str, next_step: str, **said: Unpack[Progressing]
    ) -> replies.WrittenShape:
        """Say how far a task is, and what is to be done next."""
        given = {"task_id": task_id, "summary": summary, "next_step": next_step, **said}
        return cast("replies.WrittenShape", self._call("progress", given))

    def run_start(
        self,
        task_id: str,
        *,
        tool_name: str,
        command: str,
        why_chosen: str,
        inputs: Sequence[str],
        **said: Unpack[Running],
    ) -> replies.WrittenShape:
        """Say that a tool is run for a task, on what, and why."""
        given = {"tool_name": tool_name, "command": command, "why_chosen": why_chosen, "inputs": inputs, **said}
        return cast("replies.WrittenShape", self._call("run_start", {"task_id": task_id, **given}))

    def run_finish(self, task_id: str, *, status: str, notes: str, **said: Unpack[Ran]) -> replies.WrittenShape:
        """Say what a run came to."""
        given = {"task_id": task_id, "status": status, "notes": notes, **said}
        return cast("replies.WrittenShape", self._call("run_finish", given))

    def add_evidence(
        self, task_id: str, *, evidence_kind: str, summary: str, **said: Unpack[Proving]
    ) -> replies.WrittenShape:
        """Record something that speaks for or against what a task holds."""
        given = {"task_id": task_id, "evidence_kind": evidence_kind, "summary": summary, **said}
        return cast("replies.WrittenShape", self._call("add_evidence", given))

    def finish(self, task_id: str, **said: Unpack[Finishing]) -> replies.WrittenShape:
        """End a task: say what worked, what failed, and what is left."""
        return cast("replies.WrittenShape", self._call("finish", {"task_id": task_id, **said}))

    def get(self, task_id: str) -> replies.TaskGetShape:
        """Show a task: where it is, and all that was said of it, oldest first."""
        return cast("replies.TaskGetShape", self._call("get", {"task_id": task_id}))

    def search(self, query: str = "", **conditions: Unpack[Conditions]) -> replies.TaskSearchShape:
        """Find tasks, best first; without a question those worked on last."""
        return cast("replies.TaskSearchShape", self._call("search", {"query": query, **conditions}))

    def resume(self, task_id: str, *, query: str = "", k: int = 10) -> digests.ResumeShape:
        """Tell where a task is, for whoever takes it up again."""
        return cast("digests.ResumeShape", self._call("resume", {"task_id": task_id, "query": query, "k": k}))


class ArtifactVerbs(Verbs):
    """What is done about artifacts, which are records."""

    family = "artifact"

    def create(self, artifact_kind: str, **said: Unpack[AnyArtifact]) -> replies.WrittenShape:
        """Write a record of any kind."""
        return cast("replies.WrittenShape", self._call("create", {"artifact_kind": artifact_kind, **said}))

    def review(self, **said: Unpack[Artifact]) -> replies.WrittenShape:
        """Give an opinion on a record."""
        return cast("replies.WrittenShape", self._call("review", said))

    def revision(self, **said: Unpack[Artifact]) -> replies.WrittenShape:
        """Say a record anew: the new one supersedes the one that it replies to."""
        return cast("replies.WrittenShape", self._call("revision", said))

    def decision(self, **said: Unpack[Artifact]) -> replies.WrittenShape:
        """Record what was decided, in a task or outside of all."""
        return cast("replies.WrittenShape", self._call("decision", said))

    def verification(self, **said: Unpack[Artifact]) -> replies.WrittenShape:
        """Record a check of somebody else's record."""
        return cast("replies.WrittenShape", self._call("verification", said))

    def get(self, artifact_id: str) -> replies.ArtifactGetShape:
        """Show a record, what replies to it, and what took its place; or say that there is none."""
        return cast("replies.ArtifactGetShape", self._call("get", {"artifact_id": artifact_id}))

    def search(
        self, query: str = "", *, include_artifact: bool = True, **conditions: Unpack[Conditions]
    ) -> replies.ArtifactSearchShape:
        """Find records, best first; without a question the newest."""
        given = {"query": query, "include_artifact": include_artifact, **conditions}
        return cast("replies.ArtifactSearchShape", self._call("search", given))

    def list_thread(self, *, thread_id: str = "", artifact_id: str = "") -> replies.ThreadShape:
        """Show a thread, named by its id or one of its records, oldest first."""
        given = {"thread_id": thread_id, "artifact_id": artifact_id}
        return cast("replies.ThreadShape", self._call("list_thread", given))

    def find_related(
        self,
        claim: str,
        *,
        task_id: str = "",
        candidate_artifact_ids: Sequence[str] = (),
        k: int = 8,
        create_artifact: bool = False,
        **more: Any,
    ) -> replies.RelatedShape:
        """Say which records speak for a claim and which against it, and how well grounded that makes it."""
        given = {
            "claim": claim,
            "task_id": task_id,
            "candidate_artifact_ids": candidate_artifact_ids,
            "k": k,
            "create_artifact": create_artifact,
            **more,
        }
        return cast("replies.RelatedShape", self._call("find_related", given))

    def find_failures(self, query: str = "", **choices: Unpack[Library]) -> digests.LibraryShape:
        """Tell what was tried and failed, and what stood in the way."""
        return cast("digests.LibraryShape", self._call("find_failures", {"query": query, **choices}))

    def find_decisions(self, query: str = "", **choices: Unpack[Library]) -> digests.LibraryShape:
        """Tell what was decided and is in force."""
        return cast("digests.LibraryShape", self._call("find_decisions", {"query": query, **choices}))

    def find_evidence(self, query: str = "", **choices: Unpack[Library]) -> digests.LibraryShape:
        """Tell what speaks for or against something."""
        return cast("digests.LibraryShape", self._call("find_evidence", {"query": query, **choices}))

    def find_highlights(self, query: str = "", **choices: Unpack[Library]) -> digests.LibraryShape:
        """Tell the lessons that matter most."""
        return cast("digests.LibraryShape", self._call("find_highlights", {"query": query, **choices}))


class ContextVerbs(Verbs):
    """What should be known before work."""

    family = "context"

    def brief_project(
        self, query: str = "", *, k: int = 10, include_related_projects: bool = True
    ) -> digests.BriefShape:
        """Tell what somebody should know who comes to this project."""
        given = {"query": query, "k": k, "include_related_projects": include_related_projects}
        return cast("digests.BriefShape", self._call("brief_project", given))

    def find_relevant_context(
        self, task: str, *, k: int = 20, subsystem_keys: Sequence[str] = (), include_hot: bool = True, **more: Any
    ) -> context.RelevantShape:
        """Find what to know before a task: what is hot, then what was written to be read again, and records."""
        given = {"task": task, "k": k, "subsystem_keys": subsystem_keys, "include_hot": include_hot, **more}
        return cast("context.RelevantShape", self._call("find_relevant_context", given))

    def get_hot_context(self, *, k: int = 20, **more: Any) -> context.HotContextShape:
        """Return the memories that are marked as always worth knowing, newest first."""
        return cast("context.HotContextShape", self._call("get_hot_context", {"k": k, **more}))

    def list_subsystems(self, prefix: str = "", *, limit: int = 50, **more: Any) -> context.SubsystemsShape:
        """List the parts that a project is said to have."""
        given = {"prefix": prefix, "limit": limit, **more}
        return cast("context.SubsystemsShape", self._call("list_subsystems", given))

    def get_files_for_subsystem(self, subsystem_key: str, **more: Any) -> context.SubsystemFilesShape:
        """Return the files that belong to a part of a project."""
        given = {"subsystem_key": subsystem_key, **more}
        return cast("context.SubsystemFilesShape", self._call("get_files_for_subsystem", given))

    def suggest_agent(
        self, task: str, *, changed_files: Sequence[str] = (), k: int = 3, **more: Any
    ) -> context.SuggestionsShape:
        """Suggest which agent should do a task, with reasons."""
        given = {"task": task, "changed_files": changed_files, "k": k, **more}
        return cast("context.SuggestionsShape", self._call("suggest_agent", given))

    def agent_context(
        self, queries: Sequence[str] = (), *, k: int = 2, token_budget: int = 700, **more: Any
    ) -> context.AgentContextShape:
        """Put together what an agent should read before it works: `text`, of at most so many tokens."""
        given = {"queries": queries, "k": k, "token_budget": token_budget, **more}
        return cast("context.AgentContextShape", self._call("agent_context", given))


class LedgerVerbs(Verbs):
    """What is done about the ledger itself."""

    family = "ledger"

    def verify(self, *, limit: int = 100, tenant: str | None = None) -> ledger.VerifyShape:
        """Name every line that is not as it was written, and every signature that proves nothing."""
        return cast("ledger.VerifyShape", self._call("verify", {"limit": limit, "tenant": tenant}))


NAMESPACES: Mapping[str, type[Verbs]] = {
    one.family: one for one in (TaskVerbs, ArtifactVerbs, ContextVerbs, LedgerVerbs)
}
"""By the name that each has on `Lorelog`."""


def _plain(value: Any) -> Any:
    """Return values as JSON has them: any sequence as a list."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value
