"""Uses of a name come out of their bytes as they went in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lorelog.code.packing import KINDS, pack_numbers, pack_uses, unpack_numbers, unpack_uses
from lorelog.core.code import Use, UseKind

_USES = st.lists(
    st.builds(
        Use,
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
def test_uses_come_out_as_they_went_in_sorted_by_place(uses: list[Use]) -> None:
    """Nothing is lost, whatever the numbers and whatever stands before the dot."""
    found = unpack_uses("name", pack_uses(uses))
    assert sorted(found) == sorted(uses)
    assert [(one.line, one.column) for one in found] == sorted((one.line, one.column) for one in uses)


@given(st.lists(st.integers(0, 2**62)))
def test_numbers_come_out_as_they_went_in(numbers: list[int]) -> None:
    """Numbers of any size, and none."""
    assert unpack_numbers(pack_numbers(numbers)) == numbers


def test_every_kind_of_use_has_its_place() -> None:
    """A kind that is added to the values must be added to what is stored, behind the others."""
    assert set(KINDS) == set(UseKind)
    assert KINDS[:5] == (UseKind.CALL, UseKind.READ, UseKind.WRITE, UseKind.TYPE, UseKind.IMPORT)
