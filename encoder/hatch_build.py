"""Build hook for packagers who install the model's files elsewhere.

With LORELOG_ENCODER_DIR set, the wheel holds no weights and no vocabulary: it names that folder, and the files are looked
for there. The folder need not exist while the wheel is built.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "LORELOG_ENCODER_DIR"
FILES = ("model.onnx", "vocab.txt")


class FolderHook(BuildHookInterface[Any]):
    """Replaces the model's files by the path of their folder."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = os.environ.get(VARIABLE, "")
        if self.target_name != "wheel" or version == "editable" or not folder:
            return
        if not Path(folder).is_absolute():
            raise SystemExit(f"lorelog-encoder cannot be built: {VARIABLE}={folder} is not an absolute path")
        self.build_config.target_config.setdefault("exclude", []).extend(
            f"src/lorelog_encoder/{name}" for name in FILES
        )
        note = self._note()
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{folder}\n", "utf-8")
        build_data["force_include"][str(note)] = "lorelog_encoder/folder.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._note().unlink(missing_ok=True)

    def _note(self) -> Path:
        return Path(self.directory) / "folder.txt"
