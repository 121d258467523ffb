"""What the operations on tasks and artifacts may be told: memd's fields under memd's names, and no others.

What a field means stands in `records.kinds`, once. That each field suits its kind is checked there, too: here only that it
is of the right type, so that a schema can be made of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from lorelog.operations.requests import Request, Words
from lorelog.records.kinds import FIELDS

# msgspec copies defaults that can change, and a linter that reads one file does not see that these are its structs.
# ruff: noqa: RUF012

_Said = Annotated[str, Meta(max_length=1_000_000)]
_Name = Annotated[str, Meta(max_length=200)]
_Id = Annotated[str, Meta(min_length=1, max_length=200)]
_Texts = Annotated[list[_Said], Meta(max_length=1000)]
_Parts = Annotated[list[dict[str, _Said]], Meta(max_length=1000)]
_Value = str | float | dict[str, Any]
Kind = Literal[
    "task_start",
    "task_progress",
    "run_start",
    "run_finish",
    "evidence",
    "review",
    "revision",
    "verification",
    "decision",
    "task_finish",
    "wiki_page",
]
_FIRST = " Its first characters do, where they are its own."


def _says(name: str) -> Meta:
    text = FIELDS[name].says
    return Meta(description=text[0].upper() + text[1:] + ".")


class _Written(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every record may say: by whom, from where, and about what."""

    agent_id: Annotated[
        _Name | None, Meta(description="Who says it; the signing identity or records.agent if not given.")
    ] = None
    session_id: Annotated[_Name, Meta(description="The session that it was said in.")] = ""
    origin: Annotated[
        Literal["user", "agent", "tool", "import"],
        Meta(description="Where its text comes from; what a tool or an import brought vouches for nothing."),
    ] = "agent"
    dataset_refs: Annotated[_Parts, _says("dataset_refs")] = []
    entity_refs: Annotated[_Parts, _says("entity_refs")] = []
    provenance: Annotated[dict[str, _Said], _says("provenance")] = {}


class _OfTask(_Written, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task_id: Annotated[_Id, Meta(description="The task." + _FIRST)]


class TaskStartRequest(_Written, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that begins."""

    goal: Annotated[_Said, _says("goal")]
    motivation: Annotated[_Said, _says("motivation")] = ""
    hypothesis: Annotated[_Said, _says("hypothesis")] = ""
    scientific_question: Annotated[_Said, _says("scientific_question")] = ""
    expected_outputs: Annotated[_Texts, _says("expected_outputs")] = []
    parent_task_id: Annotated[_Name, _says("parent_task_id")] = ""
    challenge_id: Annotated[_Name, _says("challenge_id")] = ""
    to_global: Annotated[bool, Meta(description="It belongs to no project.")] = False


class TaskProgressRequest(_OfTask, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a task is."""

    summary: Annotated[_Said, _says("summary")]
    next_step: Annotated[_Said, _says("next_step")]
    blockers: Annotated[_Texts, _says("blockers")] = []
    failed_attempts: Annotated[_Texts, Meta(description="What was tried and failed; kept as what_failed.")] = []
    what_worked: Annotated[_Texts, _says("what_worked")] = []
    status: Annotated[_Name, Meta(description="in_progress, blocked, …; in_progress if not given.")] = ""


class RunStartRequest(_OfTask, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that is about to be run."""

    tool_name: Annotated[_Said, _says("tool_name")]
    command: Annotated[_Said, _says("command")]
    why_chosen: Annotated[_Said, _says("why_chosen")]
    inputs: Annotated[_Texts, _says("inputs")]
    tool_version: Annotated[_Said, _says("tool_version")] = ""
    parameters: Annotated[dict[str, Any], _says("parameters")] = {}
    summary: Annotated[_Said, _says("summary")] = ""


class RunFinishRequest(_OfTask, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run came to."""

    status: Annotated[_Name, Meta(min_length=1, description="completed, failed, cancelled, …")]
    notes: Annotated[_Said, Meta(description="What came of it; kept as summary.")]
    run_id: Annotated[
        _Name,
        Meta(
            description="The artifact that began the run; if not given, the last open run of the task and writer that fits."
        ),
    ] = ""
    tool_name: Annotated[_Said, _says("tool_name")] = ""
    command: Annotated[_Said, _says("command")] = ""
    outputs: Annotated[_Texts, _says("outputs")] = []
    metrics: Annotated[dict[str, Any], _says("metrics")] = {}
    validation: Annotated[_Texts, _says("validation")] = []


class AddEvidenceRequest(_OfTask, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that speaks for or against."""

    evidence_kind: Annotated[_Said, _says("evidence_kind")]
    summary: Annotated[_Said, _says("summary")]
    supports_claim: Annotated[bool | None, Meta(description="Whether it speaks for what the task holds.")] = None
    reply_to_artifact_id: Annotated[_Name, Meta(description="The record that it is about." + _FIRST)] = ""
    metric_name: Annotated[_Said, _says("metric_name")] = ""
    metric_value: Annotated[float | None, _says("metric_value")] = None
    metrics: Annotated[dict[str, Any], _says("metrics")] = {}


class TaskFinishRequest(_OfTask, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task that ends."""

    status: Annotated[_Name, Meta(description="completed, failed, cancelled, …; completed if not given.")] = ""
    summary: Annotated[_Said, _says("summary")] = ""
    goal: Annotated[_Said, _says("goal")] = ""
    what_worked: Annotated[_Texts, _says("what_worked")] = []
    what_failed: Annotated[_Texts, _says("what_failed")] = []
    validation: Annotated[_Texts, _says("validation")] = []
    uncertainty: Annotated[_Texts, _says("uncertainty")] = []
    followups: Annotated[_Texts, _says("followups")] = []
    confidence: Annotated[float | None, _says("confidence")] = None


class _Artifact(_Written, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a record of any kind may say."""

    task_id: Annotated[
        _Name, Meta(description="The task; that of the record replied to if not given. A decision needs none." + _FIRST)
    ] = ""
    thread_id: Annotated[
        _Name, Meta(description="The thread; that of the record replied to, or the task's own, if not given.")
    ] = ""
    reply_to_artifact_id: Annotated[_Name, Meta(description="The record that it replies to." + _FIRST)] = ""
    relation_kind: Annotated[
        _Name,
        Meta(
            description="How it relates to that: reviews, revises, verifies, reply_to, …; the kind's own if not given."
        ),
    ] = ""
    supports_claim: Annotated[
        bool | None, Meta(description="Whether it speaks for the record that it replies to; that alone can verify.")
    ] = None
    supersedes: Annotated[_Name, Meta(description="The record that it takes the place of." + _FIRST)] = ""
    status: Annotated[_Name, Meta(description="Such as recorded, completed, failed; the kind's own if not given.")] = ""
    goal: Annotated[_Said, _says("goal")] = ""
    motivation: Annotated[_Said, _says("motivation")] = ""
    hypothesis: Annotated[_Said, _says("hypothesis")] = ""
    scientific_question: Annotated[_Said, _says("scientific_question")] = ""
    expected_outputs: Annotated[_Texts, _says("expected_outputs")] = []
    method_summary: Annotated[_Said, _says("method_summary")] = ""
    summary: Annotated[_Said, _says("summary")] = ""
    next_step: Annotated[_Said, _says("next_step")] = ""
    blockers: Annotated[_Texts, _says("blockers")] = []
    what_worked: Annotated[_Texts, _says("what_worked")] = []
    what_failed: Annotated[_Texts, _says("what_failed")] = []
    validation: Annotated[_Texts, _says("validation")] = []
    uncertainty: Annotated[_Texts, _says("uncertainty")] = []
    followups: Annotated[_Texts, _says("followups")] = []
    confidence: Annotated[float | None, _says("confidence")] = None
    evidence_kind: Annotated[_Said, _says("evidence_kind")] = ""
    metric_name: Annotated[_Said, _says("metric_name")] = ""
    metric_value: Annotated[float | None, _says("metric_value")] = None
    metrics: Annotated[dict[str, Any], _says("metrics")] = {}
    tool_name: Annotated[_Said, _says("tool_name")] = ""
    tool_version: Annotated[_Said, _says("tool_version")] = ""
    command: Annotated[_Said, _says("command")] = ""
    parameters: Annotated[dict[str, Any], _says("parameters")] = {}
    inputs: Annotated[_Texts, _says("inputs")] = []
    outputs: Annotated[_Texts, _says("outputs")] = []
    why_chosen: Annotated[_Said, _says("why_chosen")] = ""
    requested_action: Annotated[_Said, _says("requested_action")] = ""
    verification_status: Annotated[_Said, _says("verification_status")] = ""
    approval_state: Annotated[_Said, _says("approval_state")] = ""
    artifact_role: Annotated[_Said, _says("artifact_role")] = ""
    challenge_id: Annotated[_Name, _says("challenge_id")] = ""
    parent_task_id: Annotated[_Name, _says("parent_task_id")] = ""
    related_artifact_ids: Annotated[Annotated[list[_Id], Meta(max_length=1000)], _says("related_artifact_ids")] = []
    contributors: Annotated[_Texts, _says("contributors")] = []
    compute_budget: Annotated[_Value | None, _says("compute_budget")] = None
    cost_actual: Annotated[_Value | None, _says("cost_actual")] = None
    data_access_level: Annotated[_Said, _says("data_access_level")] = ""
    policy_tags: Annotated[_Texts, _says("policy_tags")] = []
    allowed_tools: Annotated[_Texts, _says("allowed_tools")] = []
    timestamp_observed: Annotated[_Said, _says("timestamp_observed")] = ""
    to_global: Annotated[bool, Meta(description="Without a task: it belongs to no project.")] = False


class ArtifactCreateRequest(_Artifact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record of any kind."""

    artifact_kind: Annotated[_Id, Meta(description=f"One of {', '.join(Kind.__args__)}. Digests cannot be written.")]
    content: Annotated[_Said, Meta(description="The text of a page, in Markdown; only of a wiki_page.")] = ""


class ReviewRequest(_Artifact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An opinion on a record."""

    artifact_kind: Annotated[Literal["review"], Meta(description="Need not be given.")] = "review"


class RevisionRequest(_Artifact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record said anew."""

    artifact_kind: Annotated[Literal["revision"], Meta(description="Need not be given.")] = "revision"


class DecisionRequest(_Artifact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was decided."""

    artifact_kind: Annotated[Literal["decision"], Meta(description="Need not be given.")] = "decision"


class VerificationRequest(_Artifact, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check of a record."""

    artifact_kind: Annotated[Literal["verification"], Meta(description="Need not be given.")] = "verification"


class TaskGetRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task."""

    task_id: Annotated[_Id, Meta(description="The task." + _FIRST)]


class ArtifactGetRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One record."""

    artifact_id: Annotated[_Id, Meta(description="The record." + _FIRST)]


class ListThreadRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thread."""

    thread_id: Annotated[_Name, Meta(description="The thread; the first of a task bears the task's id.")] = ""
    artifact_id: Annotated[_Name, Meta(description="A record of the thread." + _FIRST)] = ""


class _Found(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a record must be to be found, whatever its words. What is empty does not matter."""

    query: Annotated[_Said, Meta(description="A question or words; without any the newest come first.")] = ""
    k: Annotated[int, Meta(ge=1, le=1000, description="How many hits.")] = 10
    kinds: Annotated[Words, Meta(description="Only records of one of these kinds.")] = []
    task_id: Annotated[_Name, Meta(description="Only of this task." + _FIRST)] = ""
    parent_task_id: Annotated[_Name, Meta(description="Only of tasks that are a part of this one." + _FIRST)] = ""
    thread_id: Annotated[_Name, Meta(description="Only of this thread.")] = ""
    reply_to_artifact_id: Annotated[_Name, Meta(description="Only replies to this record." + _FIRST)] = ""
    agent_id: Annotated[_Name, Meta(description="Only what this one says.")] = ""
    session_id: Annotated[_Name, Meta(description="Only what was said in this session.")] = ""
    challenge_id: Annotated[_Name, Meta(description="Only of this challenge.")] = ""
    artifact_role: Annotated[_Name, Meta(description="Only what plays this part.")] = ""
    relation_kind: Annotated[_Name, Meta(description="Only what relates so to what it replies to.")] = ""
    evidence_kind: Annotated[_Name, Meta(description="Only evidence of this sort.")] = ""
    tool_name: Annotated[_Name, Meta(description="Only runs of this tool.")] = ""
    verification_status: Annotated[_Name, Meta(description="Only what has this verdict.")] = ""
    approval_state: Annotated[_Name, Meta(description="Only what is in this state.")] = ""
    contributor: Annotated[_Name, Meta(description="Only what this one took part in.")] = ""
    dataset: Annotated[_Name, Meta(description="Only what is about the data of this name.")] = ""
    entity: Annotated[_Name, Meta(description="Only what is about the thing of this name.")] = ""
    origin: Annotated[_Name, Meta(description="Only text from there: user, agent, tool, import.")] = ""
    supports_claim: Annotated[
        bool | None, Meta(description="Only what speaks for, or against, what it replies to.")
    ] = None
    since: Annotated[
        str, Meta(max_length=40, description="From this day on: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y ago.")
    ] = ""
    until: Annotated[str, Meta(max_length=40, description="Up to and including this day.")] = ""
    trust: Annotated[
        Literal["any", "canonical", "verified"],
        Meta(
            description="Only what is worth as much: any, canonical (every record is), or verified by a second writer."
        ),
    ] = "any"
    include_superseded: Annotated[bool, Meta(description="Also what something else has taken the place of.")] = False
    all_projects: Annotated[bool, Meta(description="Look beyond this project and the global records.")] = False
    projects: Annotated[
        Annotated[list[str], Meta(max_length=1000)] | None,
        Meta(description="Only these projects, by their directories; the global one is the empty text."),
    ] = None


class TaskSearchRequest(_Found, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks to be found."""

    status: Annotated[
        _Name,
        Meta(description="Only tasks that are so: in_progress, completed, failed, …; open: all that have not ended."),
    ] = ""


class ArtifactSearchRequest(_Found, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Records to be found."""

    status: Annotated[_Name, Meta(description="Only records of this status.")] = ""
    include_artifact: Annotated[bool, Meta(description="Show each record in full.")] = True


class FindRelatedRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A claim to be grounded."""

    claim: Annotated[_Said, Meta(min_length=1, description="What is held to be true.")]
    task_id: Annotated[_Name, Meta(description="Look only in this task." + _FIRST)] = ""
    thread_id: Annotated[_Name, Meta(description="Look only in this thread.")] = ""
    candidate_artifact_ids: Annotated[
        Annotated[list[_Id], Meta(max_length=1000)], Meta(description="Look only at these records." + _FIRST)
    ] = []
    k: Annotated[int, Meta(ge=1, le=100, description="At most so many records for and so many against.")] = 8
    all_projects: Annotated[bool, Meta(description="Look beyond this project and the global records.")] = False
    create_artifact: Annotated[
        bool, Meta(description="Record what was found as a verification; it vouches for nothing.")
    ] = False
    record_task_id: Annotated[
        _Name, Meta(description="The task that it is recorded in; that of task_id or of the best record if not given.")
    ] = ""
    agent_id: Annotated[_Name | None, Meta(description="Who records it.")] = None
