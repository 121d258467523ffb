"""Signatures say what parameters, results and variables are, and no text makes reading them fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.code.said import element, held, made_by, parameters, returned, types_in

SIGNATURE = "def f(self, a, b: int = 3, *args: str, c: 'Foo | None' = None, d: dict[str, list[Foo]] = {}, **kw) -> Optional[Foo]"


def test_parameters_come_with_their_types() -> None:
    """Each parameter by its name, with its type as it is written; without one, with nothing."""
    assert parameters(SIGNATURE, "python") == {
        "self": "",
        "a": "",
        "b": "int",
        "args": "tuple",
        "c": "'Foo | None'",
        "d": "dict[str, list[Foo]]",
        "kw": "dict",
    }
    assert parameters("function f(x: Box, y?: number): void", "typescript") == {"x": "Box", "y": "number"}
    assert parameters("func (s *Server) Run(ctx context.Context, n int) error", "go") == {
        "ctx": "context.Context",
        "n": "int",
    }
    assert parameters("void go(final Box box, int n)", "java") == {"box": "Box", "n": "int"}


@pytest.mark.parametrize(
    ("signature", "language", "said"),
    [
        (SIGNATURE, "python", "Optional[Foo]"),
        ("def f(x)", "python", ""),
        ("async def f(x) -> list[int]", "python", "list[int]"),
        ("function f(x: Box): Promise<Foo> {", "typescript", "Promise<Foo>"),
        ("fn f(&self) -> Option<Foo>", "rust", "Option<Foo>"),
        ("func (s *Server) Run(n int) (*Foo, error)", "go", "*Foo"),
        ("public Foo make(int n)", "java", "Foo"),
    ],
)
def test_results_are_read(signature: str, language: str, said: str) -> None:
    """What a function says that it returns, in each language's order."""
    assert returned(signature, language) == said


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("Foo", ("Foo",)),
        ("'Foo'", ("Foo",)),
        ("Optional['pkg.Foo']", ("pkg.Foo",)),
        ("Foo | Bar | None", ("Foo", "Bar")),
        ("Union[Foo, str]", ("Foo", "str")),
        ("list[Foo]", ("list",)),
        ("Annotated[Foo, 3]", ("Foo",)),
        ("type[Foo]", ("Foo",)),
        ("Promise<Foo>", ("Foo",)),
        ("&mut Foo", ("Foo",)),
        ("Box<dyn Foo>", ("Foo",)),
        ("None", ()),
        ("", ()),
        ("[1]", ()),
    ],
)
def test_types_are_taken_apart(said: str, names: tuple[str, ...]) -> None:
    """What does not change whose members are meant is left out: optional, unions with nothing, references."""
    assert types_in(said) == names


def test_what_is_in_a_collection_is_read() -> None:
    """Items of lists and the like, values of mappings, their keys where those are meant."""
    assert element("list[Foo]") == "Foo"
    assert element("Optional[Sequence[Foo]]") == "Foo"
    assert element("dict[str, Foo] | None") == "Foo"
    assert element("Mapping[Key, Foo]", key=True) == "Key"
    assert element("tuple[Foo, ...]") == "Foo"
    assert element("Foo") == ""
    assert element("Foo[Bar]") == ""


def test_variables_say_what_they_hold() -> None:
    """A type, a value, or both; and of a value what makes it."""
    assert held("x: Foo = make()") == ("Foo", "make()")
    assert held("self.x = Foo(a, b=1)") == ("", "Foo(a, b=1)")
    assert held("x: dict[str, int]") == ("dict[str, int]", "")
    assert held("x = a == b") == ("", "a == b")
    assert made_by("Foo(a, b=(1, 2))") == ("call", "Foo")
    assert made_by("await pkg.make(") == ("call", "pkg.make")  # cut off
    assert made_by("self.x") == ("name", "self.x")
    assert made_by("new Foo()") == ("call", "Foo")
    assert made_by("Foo().bar()") == ("", "")
    assert made_by("a + b") == ("", "")
    assert made_by("[1, 2]") == ("", "")


@given(st.text(alphabet="abFoo[](){}<>,:=|&*'\"-. ", max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    """Signatures may be cut off anywhere, and be in any language."""
    for language in ("python", "go", "java", "rust", "typescript"):
        parameters(text, language)
        returned(text, language)
    types_in(text)
    element(text)
    made_by(text)
    assert len(held(text)) == 2
