"""Types for the freshness of memories that mention code. Apart from `code`, because every search reply has them."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from lorelog.core.serializable import Serializable


class Freshness(StrEnum):
    """State of the code that a memory mentions."""

    FRESH = "fresh"
    DRIFTED = "drifted"
    GONE = "gone"
    UNCHECKED = "unchecked"


class FreshnessFinding(Serializable, Struct, frozen=True, rename={"freshness": "verdict", "change": "how"}):
    """One thing that a memory mentions, and its state."""

    kind: str
    """`path`, `symbol`, `setting` or `command`."""
    name: str
    """As the memory spells it."""
    freshness: Freshness
    change: str = ""
    """The change, as a phrase that follows the name: `moved to src/a.py`. Empty if there is none."""


class FreshnessVerdict(Serializable, Struct, frozen=True, rename={"freshness": "verdict"}):
    """State of the code that a memory mentions, in the caller's working tree."""

    freshness: Freshness = Freshness.UNCHECKED
    unmerged: str = ""
    """The branch of the memory, if it is not merged into the checked-out one."""
    findings: tuple[FreshnessFinding, ...] = ()

    @property
    def label(self) -> str:
        """Short label for a stale memory; empty if it is fresh or unchecked."""
        stale = str(self.freshness) if self.freshness in {Freshness.DRIFTED, Freshness.GONE} else ""
        return ", ".join(filter(None, (f"on {self.unmerged}, not merged" if self.unmerged else "", stale)))

    @property
    def change_phrases(self) -> tuple[str, ...]:
        """One phrase for each thing that changed since the memory was written."""
        return tuple(f"{finding.name} {finding.change}" for finding in self.findings if finding.change)


UNCHECKED_VERDICT = FreshnessVerdict()
