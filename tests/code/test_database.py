"""Packed uses are decoded to what was encoded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lorelog.code.tables import USE_KINDS, pack_uses, unpack_uses
from lorelog.core.code import NameUse, UseKind

_USES = st.lists(
    st.builds(
        NameUse,
        st.just("name"),
        st.sampled_from(UseKind),
        st.integers(1, 2**40),
        st.integers(1, 2**33),
        st.integers(-1, 2**21),
        st.one_of(st.sampled_from(["", "?", "self", "cls", "this", "os.path"]), st.text(max_size=200)),
        st.booleans(),
    ),
    max_size=50,
)


@given(_USES)
def test_uses_survive_a_round_trip(uses: list[NameUse]) -> None:
    """All uses are decoded, sorted by position, with any numbers and receivers."""
    unpacked = unpack_uses("name", pack_uses(uses))
    assert sorted(unpacked) == sorted(uses)
    assert [(use.line, use.column) for use in unpacked] == sorted((use.line, use.column) for use in uses)


def test_every_kind_of_use_has_a_code() -> None:
    """Every kind of use can be stored; a new kind is appended."""
    assert set(USE_KINDS) == set(UseKind)
    assert USE_KINDS[:5] == (UseKind.CALL, UseKind.READ, UseKind.WRITE, UseKind.TYPE, UseKind.IMPORT)
