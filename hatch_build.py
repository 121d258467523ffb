"""Metadata hook: the README's links are absolute on the package index, which has no files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^\]]*\])\((?!https?:|mailto:|#)(?P<target>[^)\s]+)\)")
_RELATIVE_SOURCE = re.compile(r'(?P<attribute>src|href)="(?!https?:|mailto:|#)(?P<target>[^"]+)"')


class ReadmeHook(MetadataHookInterface):
    """Writes the description from README.md."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        repository = metadata["urls"]["Repository"]
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute_links(text, repository)}


def absolute_links(text: str, repository: str) -> str:
    """Return Markdown whose links to files of the repository are absolute: pages as pages, pictures as raw files."""

    def link(match: re.Match[str]) -> str:
        kind = "raw" if match["image"] else "blob"
        return f"{match['image']}{match['text']}({repository}/{kind}/main/{match['target'].removeprefix('./')})"

    def source(match: re.Match[str]) -> str:
        kind = "raw" if match["attribute"] == "src" else "blob"
        return f'{match["attribute"]}="{repository}/{kind}/main/{match["target"].removeprefix("./")}"'

    return _RELATIVE_SOURCE.sub(source, _RELATIVE_LINK.sub(link, text))
