"""Annotations are parsed out of signatures, and no text makes the parser fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.code.receiver_types import (
    element_annotation,
    parameter_types,
    return_type,
    type_names,
    value_origin,
    variable_annotation,
)


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        ("Foo", ("Foo",)),
        ("'Foo'", ("Foo",)),
        ("Optional['pkg.Foo']", ("pkg.Foo",)),
        ("Foo | Bar | None", ("Foo", "Bar")),
        ("Union[Foo, str]", ("Foo", "str")),
        ("list[Foo]", ("list",)),
        ("Annotated[Foo, 3]", ("Foo",)),
        ("type[Foo]", ("Foo",)),
        ("ns::Foo<int>", ("ns.Foo",)),
        ("*Foo", ("Foo",)),
        ("None", ()),
        ("", ()),
        ("[1]", ()),
    ],
)
def test_types_are_split_into_names(annotation: str, names: tuple[str, ...]) -> None:
    """Wrappers that do not change the members are removed: Optional, None in a union, references."""
    assert type_names(annotation) == names


def test_variables_have_an_annotation_and_an_origin() -> None:
    """A variable has an annotation, a value, or both; a value is a call, a name, or neither."""
    assert variable_annotation("x: Foo = make()", "x") == ("Foo", "make()")
    assert variable_annotation("self.x = Foo(a, b=1)", "x") == ("", "Foo(a, b=1)")
    assert variable_annotation("x: dict[str, int]", "x") == ("dict[str, int]", "")
    assert variable_annotation("x = a == b", "x") == ("", "a == b")
    assert variable_annotation("self.w, self.x = one, two", "x") == ("", "two")
    assert value_origin("Foo(a, b=(1, 2))") == ("call", "Foo")
    assert value_origin("await pkg.make(") == ("call", "pkg.make")  # truncated
    assert value_origin("self.x") == ("name", "self.x")
    assert value_origin("Foo().bar()") == ("", "")
    assert value_origin("a + b") == ("", "")
    assert value_origin("[1, 2]") == ("", "")


@given(st.text(alphabet="abFoo[](){}<>,:=|&*'\"-. ", max_size=80))
def test_any_text_is_accepted(text: str) -> None:
    """Signatures may be truncated anywhere."""
    parameter_types(text)
    return_type(text)
    type_names(text)
    element_annotation(text)
    value_origin(text)
    assert len(variable_annotation(text, "Foo")) == 2
