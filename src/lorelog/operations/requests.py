"""What each operation may be told. Fields, limits and their meaning stand here once; schemas and documents are made of them.

Unknown fields are refused: a misspelt filter that is passed over would show what should have stayed out.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MOST_HITS = 100_000
"""That anyone may ask for at once."""
Text = Annotated[str, Meta(max_length=1_000_000)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
Words = Annotated[list[Annotated[str, Meta(min_length=1, max_length=200)]], Meta(max_length=100)]
Paths = Annotated[list[Path], Meta(max_length=1000)]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every operation takes: where one stands, and for whom."""

    project: Annotated[
        Path | None,
        Meta(description="A directory of the project to stand in; the caller's own directory if not given."),
    ] = None
    tenant: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | None,
        Meta(description="Whose memories; the configured tenant if not given. Nothing of another tenant is looked at."),
    ] = None


class Nothing(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request without fields of its own."""


class Filtered(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a hit must satisfy, whatever its score."""

    all_projects: Annotated[bool, Meta(description="Look beyond this project and the global memories.")] = False
    projects: Annotated[
        Annotated[list[str], Meta(max_length=1000)] | None,
        Meta(description="Only these projects, by their directories; the global one is the empty text."),
    ] = None
    source: Annotated[Path | None, Meta(description="Only files at or below this path.")] = None
    since: Annotated[
        str | None,
        Meta(description="From this day on: 2026-03-05, today, yesterday, or 7d, 2w, 3m, 1y for so long ago."),
    ] = None
    until: Annotated[str | None, Meta(description="Up to and including this day.")] = None
    types: Annotated[Words, Meta(description="Only memories of one of these types.")] = []
    tags: Annotated[Words, Meta(description="Only memories with all of these tags.")] = []


class SearchRequest(Filtered, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question."""

    query: Annotated[Text, Meta(min_length=1, description="A question or words.")]
    k: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_HITS)] | None, Meta(description="How many hits; search.k if not given.")
    ] = None
    lane: Annotated[
        Literal["hybrid", "lexical", "dense"] | None,
        Meta(description="Words, meaning, or both; search.lane if not given."),
    ] = None
    fusion: Annotated[
        Literal["convex", "rrf"] | None, Meta(description="How both become one score; search.fusion if not given.")
    ] = None
    token_budget: Annotated[
        Annotated[int, Meta(ge=0, le=10_000_000)] | None,
        Meta(
            description="Return the best that fits into so many tokens, whole sections where they fit; 0 packs nothing."
        ),
    ] = None
    min_relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Leave out hits that are less likely than this to be relevant."),
    ] = None
    explain: Annotated[bool, Meta(description="Give the parts of each score.")] = False
    include_superseded: Annotated[bool, Meta(description="Show memories too in whose place others stand by now.")] = (
        False
    )
    include_expired: Annotated[bool, Meta(description="Show memories too whose last day is over.")] = False
    trust: Annotated[
        Literal["any", "canonical", "verified"],
        Meta(description="What a hit must be worth: anything, a record, or a record that a second writer stands by."),
    ] = "any"


class MemoryText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One memory to be kept."""

    text: Annotated[Text, Meta(min_length=1, description="What to remember, Markdown.")]
    type: Annotated[
        Annotated[str, Meta(max_length=64)], Meta(description="Kind of memory, such as decision, fact, lesson.")
    ] = ""
    tags: Annotated[Words, Meta(description="Tags, one word each.")] = []
    origin: Annotated[Literal["user", "agent", "tool", "import"], Meta(description="Who says so.")] = "user"
    expires: Annotated[
        Annotated[str, Meta(max_length=40)],
        Meta(description="The last day it is shown on: 2026-03-05, tomorrow, or 14d, 2w, 3m, 1y from now."),
    ] = ""


class AddRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One memory, and where it goes."""

    text: Annotated[Text, Meta(min_length=1, description="What to remember, Markdown.")]
    type: Annotated[
        Annotated[str, Meta(max_length=64)], Meta(description="Kind of memory, such as decision, fact, lesson.")
    ] = ""
    tags: Annotated[Words, Meta(description="Tags, one word each.")] = []
    origin: Annotated[Literal["user", "agent", "tool", "import"], Meta(description="Who says so.")] = "user"
    expires: Annotated[
        Annotated[str, Meta(max_length=40)],
        Meta(description="The last day it is shown on: 2026-03-05, tomorrow, or 14d, 2w, 3m, 1y from now."),
    ] = ""
    to_global: Annotated[bool, Meta(description="Remember it for every project.")] = False


class AddBatchRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several memories at once."""

    memories: Annotated[
        list[MemoryText], Meta(min_length=1, max_length=1000, description="What to remember, in order.")
    ]
    to_global: Annotated[bool, Meta(description="Remember them for every project.")] = False


class IdentityRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One chunk or memory."""

    id: Annotated[
        str, Meta(min_length=1, max_length=200, description="Id of a chunk or memory, or its first characters.")
    ]


class ExpandRequest(IdentityRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section to be shown."""

    lines: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | None,
        Meta(description="So many lines before and after the hit in place of its section."),
    ] = None


class TranscriptRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conversation to be shown."""

    place: Annotated[
        str, Meta(min_length=1, max_length=4096, description="Id of a chunk or memory, or a transcript's path.")
    ]
    turn: Annotated[str, Meta(max_length=200, description="The turn to show; the memory's own if not given.")] = ""
    context: Annotated[int, Meta(ge=0, le=1000, description="So many turns before and after it.")] = 3


class ListRequest(Filtered, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be listed."""

    documents: Annotated[bool, Meta(description="Files in place of memories.")] = False
    limit: Annotated[int, Meta(ge=1, le=100_000, description="At most so many.")] = 20
    due: Annotated[
        bool, Meta(description="Only memories that should be looked at again by now, the longest due first.")
    ] = False
    include_superseded: Annotated[bool, Meta(description="List memories too in whose place others stand by now.")] = (
        False
    )
    include_expired: Annotated[bool, Meta(description="List memories too whose last day is over.")] = False


class IndexRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files to be read."""

    paths: Annotated[
        Paths,
        Meta(description="Files and directories, '!PATH' to leave one out; without any, what is known of the project."),
    ] = []
    to_global: Annotated[bool, Meta(description="File them under no project.")] = False
    exclude: Annotated[
        Words, Meta(description="gitignore-style patterns to leave out of the paths, remembered with them.")
    ] = []
    ignore_files: Annotated[Words, Meta(description="Names of ignore files to honour beside the configured ones.")] = []
    force: Annotated[bool, Meta(description="Read and chunk every file again.")] = False
    vectors: Annotated[bool, Meta(description="Make vectors in this run.")] = True
    reembed: Annotated[
        bool,
        Meta(
            description="Make all vectors of the index anew with the current model, beside the old ones, and serve them "
            "in their place."
        ),
    ] = False
    anyway: Annotated[
        bool, Meta(description="With reembed: serve the new vectors even when they are clearly worse.")
    ] = False
    rollback: Annotated[
        bool, Meta(description="Read nothing, and serve the vectors again that were served before the last change.")
    ] = False
    forget_old: Annotated[bool, Meta(description="Read nothing, and drop all vectors but those that are served.")] = (
        False
    )


class RootsRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Roots, by their paths."""

    paths: Annotated[Paths, Meta(min_length=1, description="Files and directories.")]


class HealthRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of its state an index is to tell."""

    duplicates: Annotated[int, Meta(ge=0, le=1000, description="Name at most so many texts that are there twice.")] = 10


class EvaluateRequest(Filtered, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Judged questions."""

    queries: Annotated[Path | None, Meta(description="Questions, JSON lines with id and text, plain or gzip.")] = None
    qrels: Annotated[Path | None, Meta(description="Judgements, tab-separated: question, document, gain.")] = None
    feedback: Annotated[bool, Meta(description="In the place of both: what was said with memory.feedback.")] = False
    k: Annotated[int, Meta(ge=1, le=1000, description="How deep a document counts.")] = 10
    lane: Annotated[
        Literal["hybrid", "lexical", "dense"] | None, Meta(description="Only the rankings of this lane.")
    ] = None


class RecallRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prompt, and the session that it was typed into."""

    prompt: Annotated[Text, Meta(description="What was typed.")]
    host: Annotated[str, Meta(max_length=64, description="The agent: claude, codex, opencode, openclaw.")] = ""
    session: Annotated[
        str, Meta(max_length=500, description="Its session; nothing is shown twice in one, nor what was said in it.")
    ] = ""
    k: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | None,
        Meta(description="At most so many memories; session.hits if not given."),
    ] = None
    min_relevance: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Only what is at least so likely to be relevant; session.hits_relevance if not given."),
    ] = None


class CaptureRequest(Request, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A moment of an agent's session, as its hook noted it."""

    host: Annotated[str, Meta(min_length=1, max_length=64, description="The agent: claude, codex, opencode, openclaw.")]
    session: Annotated[str, Meta(min_length=1, max_length=500, description="The host's own id of the session.")]
    transcript: Annotated[
        str, Meta(max_length=4096, description="The file that holds the conversation; a database holds several.")
    ] = ""
    moment: Annotated[
        Literal["session-start", "prompt", "turn-end", "turn-failed", "compact", "session-end"],
        Meta(description="What happened: it tells which turns are finished."),
    ] = "turn-end"
    turn: Annotated[str, Meta(max_length=500, description="The host's own id of the turn, or of its prompt.")] = ""
    at: Annotated[str, Meta(max_length=40, description="When it happened, ISO with a zone; now if not given.")] = ""
    offset: Annotated[int, Meta(ge=-1440, le=1440, description="Minutes that the local time was ahead of UTC.")] = 0
    directory: Annotated[
        str, Meta(max_length=4096, description="Where the session works; the caller's directory if not given.")
    ] = ""
    branch: Annotated[str, Meta(max_length=500, description="The Git branch it was on.")] = ""
    commit: Annotated[str, Meta(max_length=64, description="The commit it was at.")] = ""
    agent: Annotated[str, Meta(max_length=200, description="Which of a host's agents it is.")] = ""
    source: Annotated[
        str,
        Meta(max_length=64, description="How a session began (startup, resume, clear, compact, fork) or why it ended."),
    ] = ""
    answer: Annotated[
        str,
        Meta(
            max_length=64,
            description="First 16 hex digits of the SHA-256 of what was said last: the transcript is waited for until it has it.",
        ),
    ] = ""
    again: Annotated[bool, Meta(description="The turn had ended before, and went on.")] = False
    everything: Annotated[bool, Meta(description="All turns of the session, whenever they were: for backfilling.")] = (
        False
    )
    since: Annotated[str, Meta(max_length=40, description="With everything: only turns from this day on.")] = ""
    dry_run: Annotated[bool, Meta(description="With everything: tell what would be captured, and write nothing.")] = (
        False
    )
