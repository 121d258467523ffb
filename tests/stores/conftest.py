"""Every store opens here; the conformance suite runs over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores.making import PlainAnalyser
from tests.stores.test_embedded import check_lanes

from recollect.core.ports import Store
from recollect.stores.embedded import EmbeddedStore
from recollect.stores.memory import MemoryStore

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda place: MemoryStore(PlainAnalyser(), provider="test", model="m"),
    "embedded": lambda place: EmbeddedStore(place / "index", PlainAnalyser(), provider="test", model="m"),
}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each store in turn, empty."""
    opened = STORES[request.param](tmp_path)
    yield opened
    if isinstance(opened, EmbeddedStore):
        check_lanes(opened)
    opened.close()
