"""Uses of something that is not defined in the code at hand: `json.loads`, `requests.get`, a name of the language itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lorelog.code.tables import Used
from lorelog.core.code import UseKind
from lorelog.core.code_answers import Certainty
from lorelog.services.code.classes import Classes
from lorelog.services.code.sources import Sources, Spot

_JOINTS = re.compile(r"\.|::|/|\\")


def external_uses(sources: Sources, name: str, container: str) -> Iterator[tuple[Used, Certainty]]:
    """Yield uses of a name that no file defines: exact where the module that was named is the one it comes from."""
    classes = Classes(sources)
    wanted = [part for part in _JOINTS.split(container) if part]
    for used in sources.uses(name):
        if used.use.local:
            continue
        if not wanted:
            yield used, Certainty.NAME
        elif any(_ends(module, wanted) for module in _modules(classes, sources, used)):
            yield used, Certainty.EXACT


def _modules(classes: Classes, sources: Sources, used: Used) -> list[str]:
    """Return the modules that a used name comes from."""
    use = used.use
    if use.kind is UseKind.IMPORT:
        return [use.receiver]
    if use.receiver:
        bare = re.split("[=:~*]", use.receiver, maxsplit=1)[0]
        return classes.modules(bare, Spot(used.path, used.language, used.enclosing)) or [bare]
    return [one.module for one in sources.imported_as(used.path, use.name)]


def _ends(module: str, wanted: list[str]) -> bool:
    return [part for part in _JOINTS.split(module) if part][-len(wanted) :] == wanted
