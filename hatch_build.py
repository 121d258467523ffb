"""The build hook: no wheel without the built-in encoder.

The model is not in Git (34 MB), so a build from a clean clone has to bring it: `pip install .`, `pip install -e .` and
`python -m build` all pass here. The sdist carries the script instead of the model; who builds a wheel from it fetches.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ModelHook(BuildHookInterface[Any]):
    """Puts the model in place before a wheel, editable or not, is assembled."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        script = _load(Path(self.root) / "scripts" / "fetch_model.py")
        target = Path(self.root) / "src" / "lorelog" / "models" / "data" / "e5-small-v2"
        try:
            script.ensure_model(target)
        except script.FetchError as error:
            sys.exit(f"lorelog cannot be built without its model: {error}")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lorelog_fetch_model", path)
    if spec is None or spec.loader is None:
        sys.exit(f"lorelog cannot be built: {path} is missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module
