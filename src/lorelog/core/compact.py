"""What can be asked of compact, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from lorelog.core.memory import AddReply
from lorelog.core.query import Filters

NONE = "none"
"""Who words a summary that is made of the sources' own sentences."""


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """What is to be summed up, by whom, and where the summary goes."""

    filters: Filters = field(default_factory=Filters)
    output_dir: str = ""
    """Where the day's file is that it is written to; empty: the project's journals."""
    llm: str = ""
    """`none` takes sentences out; otherwise who the settings name is asked."""
    prompt_file: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DroppedLine:
    """A line that a model wrote and that was thrown away."""

    text: str
    reason: str
    batch: int = 0
    """Which batch it was about, from 1; 0 where batches were put together."""


@dataclass(frozen=True, slots=True)
class CompactBatch:
    """Sources that were, or would be, summed up together."""

    chunks: int
    first_day: str
    last_day: str
    tokens: int
    """About how many tokens asking for it costs, at most; 0 without a model."""
    lines: int = 0
    extracted: bool = False
    """Whether sentences were taken out, since no model was asked or it gave nothing that held."""


@dataclass(frozen=True, slots=True)
class CompactReply:
    """The one memory that sums up what was chosen."""

    worded_by: str
    """Provider and model; `none` where sentences were taken out."""
    chunks: int
    """How many it covers."""
    changed: bool
    """False when nothing was written."""
    summary: AddReply | None = None
    text: str = ""
    batches: tuple[CompactBatch, ...] = ()
    dropped: tuple[DroppedLine, ...] = ()
    covered_before: int = 0
    """Chunks that were left out because a summary covers them already."""
    tokens_most: int = 0
    """What it costs at most, as far as that can be told beforehand."""
    tokens_spent: int = 0
    calls: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = ()
