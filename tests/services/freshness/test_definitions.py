"""Lines that define a name are told from lines that use it, and formatting from change."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.freshness.mention_targets import DefinitionRank, definition_shape, rank_line

LIKELY, POSSIBLE, USE = DefinitionRank.LIKELY, DefinitionRank.POSSIBLE, DefinitionRank.USE


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("def handle(self):", LIKELY),
        ("    async def handle(self):", LIKELY),
        ("func (s *Server) handle(w io.Writer) error {", LIKELY),
        ("func handle[T any](w T) {", LIKELY),
        ("export const handle = () => 1", LIKELY),
        ("export function* handle() {", LIKELY),
        ("app.handle = function handle(req) {", LIKELY),
        ("handle: function () {", LIKELY),
        ("pub(crate) fn handle(&self) {", LIKELY),
        ("  handle(event: Event): void {", POSSIBLE),
        ("public static List<String> handle(int one) {", POSSIBLE),
        ("int handle(int one)", POSSIBLE),
        ("x = other.handle(1)", USE),
        ("    handle(1)", USE),
        ("    return handle(1)", USE),
        ("const answer = handle(1)", USE),
        ("// handle is called", USE),
        ("if handle == 1:", USE),
    ],
)
def test_lines_are_ranked(line: str, rank: DefinitionRank) -> None:
    """A line with a keyword or an assignment is a likely definition, one like a method's head a possible one."""
    assert rank_line(line.encode(), b"handle") is rank


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=20), st.binary(max_size=300))
def test_any_line_is_ranked(before: bytes, name: bytes, after: bytes) -> None:
    """No bytes make the ranking fail."""
    assert rank_line(before + name + after, name) in DefinitionRank


@pytest.mark.parametrize("piece", ["<", "a.", "a::", "(", "export ", "[", " ", "func ("])
def test_ranking_takes_linear_time(piece: str) -> None:
    """A long line without a definition is ranked in linear time."""
    assert rank_line((piece * 100_000 + " handle").encode(), b"handle") is USE


SCRIPT = "function show(a) {\n  const b = a.map(x => x + 'one', [1, 2])\n  return b\n}\n"
FORMATTED = 'function show(a) {\n  // why\n  const b = a.map((x) => x + "one", [1, 2,]);\n  return b;\n}\n'


def test_formatting_of_scripts_is_not_a_change() -> None:
    """Quotes, semicolons, trailing commas, comments and the parentheses of a parameter are layout."""
    assert definition_shape("a.ts", (SCRIPT,), "show") == definition_shape("a.ts", (FORMATTED,), "show") != ""


@pytest.mark.parametrize(
    ("old", "new"), [("x + 'one'", "x + 'two'"), ("[1, 2]", "[1, 2, 3]"), ("a.map", "b.map"), ("return b", "return -b")]
)
def test_other_changes_of_scripts_are_changes(old: str, new: str) -> None:
    """Another value, name or operator is another shape."""
    assert definition_shape("a.ts", (SCRIPT,), "show") != definition_shape("a.ts", (SCRIPT.replace(old, new),), "show")


NAMES = st.sampled_from(["alpha", "beta", "gamma"])
TEXTS = st.text("ab'\"\\ ", max_size=5)
EXPRESSIONS = st.recursive(
    NAMES | TEXTS.map(repr) | st.integers(0, 99).map(str),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})")
        | st.lists(inner, min_size=2, max_size=3).map(lambda items: f"print({', '.join(items)},)")
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, EXPRESSIONS)
def test_a_shape_is_that_of_the_syntax(first: str, second: str) -> None:
    """Python definitions have the same shape if they have the same syntax tree, and only then."""
    sources = [
        f"    def run(alpha, beta, gamma):\n        '''What.'''\n        return {value}\n" for value in (first, second)
    ]
    plain = [ast.unparse(ast.parse(f"def run(alpha, beta, gamma):\n    return {value}")) for value in (first, second)]
    shapes = [definition_shape("a.py", (source,), "run") for source in sources]
    assert all(shapes)
    same = ast.dump(ast.parse(first)) == ast.dump(ast.parse(second))
    assert (shapes[0] == shapes[1]) is same
    assert (definition_shape("a.py", (plain[0],), "run") == definition_shape("a.py", (plain[1],), "run")) is same
