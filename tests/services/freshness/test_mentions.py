"""What a text mentions, and which definitions a mentioned name means."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.services.freshness.mention_targets import DefinitionRank, definition_shape, rank_line
from lorelog.services.freshness.mentions import MAX_MENTIONS, Mention, MentionKind, find_mentions


def mentions_of(text: str, kind: MentionKind) -> list[str]:
    return [mention.text for mention in find_mentions(text) if mention.kind is kind]


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("`parse_config()` decides", ["parse_config"]),
        ("parse_config decides", ["parse_config"]),
        ("call open() first", ["open"]),
        ("Engine.search is slow", ["Engine.search"]),
        ("`Engine::search` and `Foo#bar` and `a->begin_it`", ["Engine.search", "Foo.bar", "a.begin_it"]),
        ("`Asking` answers", ["Asking"]),
        ("the `x = open_engine(here)` line", ["open_engine"]),
        ("HTTPServer and camelCase", ["HTTPServer", "camelCase"]),
        ("search is slow, and so is Engine", []),
        ("xa_b and (a_b), then a_b.call() at src/a_b.py", ["xa_b", "a_b", "a_b.call"]),
        ("`return value`", []),
        ("see https://a.example/parse_config.py#foo_bar", []),
        ("write to some_one@example.org", []),
        ("<!-- session:abc turn:def_ghi -->", []),
        ("```python\nparse_config()\n```", []),
        ("`if`, `self`, `ab`", []),
    ],
)
def test_names_are_found_if_they_look_like_code(text: str, symbols: list[str]) -> None:
    """Backticks, parentheses, underscores and camel case make a name; words, links and code samples do not."""
    assert mentions_of(text, MentionKind.SYMBOL) == symbols


@pytest.mark.parametrize(
    ("text", "mention"),
    [
        ("in src/a/b.py:10-20 it", Mention(MentionKind.PATH, "src/a/b.py", 10, 20)),
        ("in ./src/a/b.py:10", Mention(MentionKind.PATH, "src/a/b.py", 10, 10)),
        ("`web/app.tsx#L3-L9`", Mention(MentionKind.PATH, "web/app.tsx", 3, 9)),
        ("the Makefile says", Mention(MentionKind.PATH, "Makefile")),
        ("below src/lorelog/code/.", Mention(MentionKind.PATH, "src/lorelog/code")),
        ("load.py, too", Mention(MentionKind.PATH, "load.py")),
    ],
)
def test_files_are_found_with_their_lines(text: str, mention: Mention) -> None:
    """A path has the line numbers that follow it, and no punctuation."""
    assert mention in find_mentions(text)


def test_settings_and_commands_are_found() -> None:
    """Dotted keys in backticks, variables and targets of runners are found; not every verb after `make` is a target."""
    text = "Set `search.k` or LORELOG_HOME, then `make bench-code`; make sure of it.\n```sh\n$ npm run build:all\nnpm install\n```\n"
    assert mentions_of(text, MentionKind.SETTING) == ["search.k", "LORELOG_HOME"]
    assert mentions_of(text, MentionKind.COMMAND) == ["make bench-code", "npm run build:all"]


def test_the_number_of_mentions_is_limited() -> None:
    """A long listing gives a limited number of mentions."""
    assert len(find_mentions(" ".join(f"name_{number}" for number in range(500)))) == MAX_MENTIONS


@pytest.mark.parametrize(
    "piece",
    [
        "`",
        "~",
        "``a",
        "` ",
        "```\n",
        "~~~\n```\n",
        ".",
        "_",
        "a.",
        "a/",
        "./",
        "../",
        "+",
        "a+",
        "a-",
        "a@",
        "A_",
        "aA.",
        "<!--",
        "x+",
        " \n",
    ],
)
def test_patterns_take_linear_time(piece: str) -> None:
    """A hundred thousand letters of any pattern are searched; with a backtracking pattern this would take hours."""
    assert len(find_mentions(piece * (100_000 // len(piece)))) <= MAX_MENTIONS


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("~~~~\n~~~\ninside_it()\n~~~~\noutside_it()", ["outside_it"]),
        ("```\n~~~\ninside_it()\n```\noutside_it()", ["outside_it"]),
        ("```py\ninside_it()", []),
        ("```spanned_it()``` is a span, and outside_it() is not", ["outside_it"]),
        ("   ```\ninside_it()\n   ```\r\noutside_it()", ["outside_it"]),
    ],
)
def test_fences_end_like_in_markdown(text: str, symbols: list[str]) -> None:
    """A fence ends with a line of at least as many of the same marks, or at the end of the text."""
    assert [name for name in mentions_of(text, MentionKind.SYMBOL) if name != "spanned_it"] == symbols


@given(st.text(alphabet="ab_./:`#L-1 \n()<>!$~é\x00", max_size=300))
def test_any_text_is_accepted(text: str) -> None:
    """No text makes the search fail; mentions are unique and have no white space."""
    mentions = find_mentions(text)
    assert len(set(mentions)) == len(mentions)
    for mention in mentions:
        assert mention.text
        assert mention.first_line <= mention.last_line or not mention.last_line
        assert mention.kind is MentionKind.COMMAND or not any(letter.isspace() for letter in mention.text)


@given(
    st.lists(st.from_regex(r"[a-z][a-z_]{2,8}", fullmatch=True), min_size=2, max_size=4),
    st.sampled_from(["see `{}`", "see {} there", "`{}` and `{}:12`", "look (at {})"]),
)
def test_parts_of_a_path_are_not_symbols(parts: list[str], sentence: str) -> None:
    """A path is one mention: neither its first folder nor its file name is a symbol."""
    found = find_mentions(sentence.replace("{}", "/".join(parts) + ".py"))
    assert {mention.kind for mention in found} == {MentionKind.PATH}


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
