"""A project whose memories are read by hooks."""

from __future__ import annotations

from pathlib import Path

from lorelog.light.delivery_files import DeliveryFiles


def files(home: Path, project: Path) -> DeliveryFiles:
    return DeliveryFiles(str(home / "data" / "default"), str(project.resolve()))
