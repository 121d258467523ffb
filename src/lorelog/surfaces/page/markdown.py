"""Markdown as a tree of elements, for the page to build: no HTML text exists that could be misread.

Memory text is data from anywhere. Raw HTML stays text, images become their description (nothing is loaded from outside), links
have an address only if its scheme is harmless, and characters that reorder text on the screen become visible.

A node is a text, or a list of a tag, its attributes and its children: `["p", {}, "see ", ["code", {}, "a.py"]]`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

MAX_CHARS = 200_000
"""Longer text is cut: a browser would take seconds to lay it out."""
_MAX_BRACKETS = 4
"""Links are not sought in deeper brackets: each level searches the rest of a paragraph once more."""
_TAGS = frozenset(
    "p h1 h2 h3 h4 h5 h6 ul ol li blockquote hr br em strong s code pre table thead tbody tr th td a".split()
)
_SCHEMES = frozenset({"http", "https", "mailto"})
_HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f]")
_COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*", re.DOTALL | re.MULTILINE)

_WIKI_PAGE = re.compile(
    r"(?:\.\./)?((?:(?:tasks|pages)/)?[\w-]{1,200}\.md)(?:#\w{1,40}?-([0-9a-f]{8}-[0-9a-f-]{27})|#[\w-]{0,200})?",
    re.ASCII,
)
"""A link of the wiki: a page, and the record that its heading names. Only the view of the wiki follows it."""

Node = str | list[Any]


def render_tree(text: str) -> list[Node]:
    """Return the nodes of a Markdown text. Anchors (comments) are left out, text beyond a limit is cut."""
    closed, end, rest = text[:MAX_CHARS].rpartition("-->")  # beyond it, the end of a comment is sought in vain
    return _build(_parser().parse(_COMMENT.sub("", closed + end) + rest), [])


def show_hidden(text: str) -> str:
    """Return text in which characters that are invisible or reorder others are named."""
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    options = {"html": False, "linkify": False}
    parser = MarkdownIt("commonmark", {**options, "maxNesting": 30}).enable(["table", "strikethrough"])
    shallow = MarkdownIt("commonmark", {**options, "maxNesting": _MAX_BRACKETS}).enable("strikethrough")

    def parse_shallow(state: StateCore) -> None:
        state.md = shallow

    parser.core.ruler.before("inline", "shallow", parse_shallow)
    return parser


def _build(tokens: Sequence[Token], into: list[Node]) -> list[Node]:
    stack = [into]
    for token in tokens:
        here = stack[-1]
        if token.nesting == 1:
            node = _element(token)
            here.append(node)
            stack.append(node)
        elif token.nesting == -1:
            if len(stack) > 1:
                stack.pop()
        elif token.type == "inline":
            _build(token.children or (), here)
        else:
            here.append(_leaf(token))
    return into


def _element(token: Token) -> list[Any]:
    tag = token.tag if token.tag in _TAGS else "span"
    if tag == "a":
        return ["a", _link(str(token.attrs.get("href", "")))]
    start = token.attrs.get("start")
    return [tag, {"start": start} if tag == "ol" and isinstance(start, int) else {}]


def _leaf(token: Token) -> Node:
    if token.type in {"fence", "code_block"}:
        return ["pre", {}, ["code", {}, show_hidden(token.content)]]
    if token.type == "code_inline":
        return ["code", {}, show_hidden(token.content)]
    if token.type == "image":
        return ["span", {"class": "image"}, show_hidden(token.content or "image")]
    if token.type == "softbreak":
        return "\n"
    return [token.tag, {}] if token.tag in {"hr", "br"} else show_hidden(token.content)


def _link(address: str) -> dict[str, str]:
    """Return the attributes of a link; none for an address that a browser could run or that leads to a local file."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return {}
    if parts.scheme.lower() not in _SCHEMES:
        match = _WIKI_PAGE.fullmatch(address)
        return {"page": match[1], "record": match[2] or ""} if match else {}
    return {"href": address, "host": parts.hostname or parts.path}
