"""Corpus, report and configuration of an arm."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CorpusManifest:
    """The recorded sessions, each with its digest."""

    root: Path
    sessions: Mapping[str, str]

    @classmethod
    def load(cls, root: Path) -> CorpusManifest:
        """Read the manifest of a corpus."""
        return cls(root, json.loads((root / "manifest.json").read_text("utf-8"))["sessions"])

    def verify(self) -> None:
        """Refuse a corpus that was changed."""
        for path, digest in self.sessions.items():
            if hashlib.sha256((self.root / path).read_bytes()).hexdigest() != digest:
                raise ValueError(f"{path} was changed")


@dataclass(frozen=True)
class IngestReport:
    """What an arm did with the corpus."""

    arm: str
    namespace: str
    sessions_offered: int
    items_stored: int | None = None
    wall_time_ms: float | None = None
    llm_input_tokens: int | None = None
    llm_output_tokens: int | None = None
    local_model: str | None = None


@dataclass(frozen=True)
class ArmSpec:
    """The configuration of a session."""

    arm: str
    mcp_config: str | None = None
    append_system_prompt_file: str | Path | None = None
    memory_tool_prefix: str | None = None
    extra_allowed_tools: tuple[str, ...] = ()
    config_dir: Path | None = None
    config_dir_digest: str | None = None


class MemoryAdapter:
    """An arm."""

    name = ""


def digest_tree(root: Path) -> str:
    """Return a digest of the files below a folder."""
    files = (
        f"{path.relative_to(root)}\n{path.read_text('utf-8')}" for path in sorted(root.rglob("*")) if path.is_file()
    )
    return hashlib.sha256("\n".join(files).encode()).hexdigest()
