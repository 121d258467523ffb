"""JSON without the package `json`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.light import quick_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.none() | st.booleans() | st.integers() | st.floats(), inner)
    ),
    max_leaves=10,
)
TEXTS = st.text(alphabet='{}[]",:01.-eE ntrufalsNI\\\n\ufeff\x01', max_size=30) | st.binary(max_size=30)


def outcome(function: Callable[[Any], object], value: Any) -> object:
    """Return what a function returns or raises, so that NaN is equal to itself."""
    try:
        return repr(function(value))
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


@given(VALUES)
def test_values_are_written_as_json_writes_them(value: Any) -> None:
    """Text in ASCII, in Unicode and in lines is that of `json.dumps`, and is read back as `json.loads` reads it."""
    text = json.dumps(value, ensure_ascii=False)

    assert quick_json.dumps(value) == json.dumps(value)
    assert quick_json.dumps(value, ensure_ascii=False) == text
    assert quick_json.dumps_indented(value) == json.dumps(value, ensure_ascii=False, indent=2)
    assert repr(quick_json.loads(text)) == repr(json.loads(text))


@given(TEXTS)
def test_faulty_text_is_refused_as_json_refuses_it(text: str | bytes) -> None:
    """Any text or bytes give the value or the error that `json.loads` gives."""
    assert outcome(quick_json.loads, text) == outcome(json.loads, text)


@pytest.mark.parametrize("text", ["{", '"abc', '{"a" 1}', "[1 2]", "[1,", '"\x01"', b"\xff"])
def test_a_fault_is_named_where_json_was_not_imported(text: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first faulty text of a process gives the error of `json.loads`: the C functions alone would give a SystemError."""
    expected = outcome(json.loads, text)
    for name in [name for name in sys.modules if name.partition(".")[0] == "json"]:
        monkeypatch.delitem(sys.modules, name)

    assert outcome(quick_json.loads, text) == expected


def test_a_value_that_is_not_json_raises_the_error_of_json() -> None:
    """A value that JSON cannot hold gives the error of `json.dumps`."""
    for value in (object(), {1: {2}}, {(1, 2): 3}, [b"x"]):
        assert outcome(quick_json.dumps, value) == outcome(json.dumps, value)


def test_a_python_without_the_c_functions_uses_json() -> None:
    """Without `_json` the results are the same."""
    script = (
        "import sys; sys.modules['_json'] = None\n"
        "from lorelog.light.quick_json import dumps, dumps_indented, loads\n"
        "print(dumps({'a': ['é']}), dumps_indented({'a': 1}).count('\\n'), loads(b' [1] '))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == '{"a": ["\\u00e9"]} 2 [1]\n'
