"""Hints about local variables are appended to the receiver of a use."""

from __future__ import annotations

import pytest

from lorelog.code.extract import extract


def receiver(body: str) -> str:
    """Return the receiver of `.end` in the body of a function."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return next(use.receiver for use in extract(f"def f(p):\n{lines}".encode(), "python").uses if use.name == "end")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = Foo(1)\nx.end()", "x=Foo"),
        ("x = await pkg.foo()\nx.a.end()", "x.a=pkg.foo"),
        ("x: Foo = y\nx.end", "x:Foo"),
        ("x = self.y\nx.end()", "x~self.y"),
        ("with pkg.open() as x:\n    x.end()", "x=pkg.open"),
        ("try:\n    pass\nexcept Oops as x:\n    x.end", "x:Oops"),
        ("for x in self.items:\n    x.end()", "x*self.items"),
        ("for x in sorted(make()):\n    x.end()", "x*=make"),
        ("for _, x in enumerate(y):\n    x.end()", "x*y"),
        ("for _, x in y.items():\n    x.end()", "x*=y.values"),
        ("[x.end() for x in y]", "x*y"),
        ("if isinstance(p, Foo) and p:\n    p.end()", "p:Foo"),
        ("if isinstance(p, (Foo, pkg.Bar)):\n    p.end()", "p:Foo | pkg.Bar"),
        ("if isinstance(p, Foo):\n    pass\np.end()", "p"),
        ("if isinstance(p, Foo):\n    pass\nelse:\n    p.end()", "p"),
        ("if not isinstance(p, Foo):\n    p.end()", "p"),
        ("assert isinstance(p, Foo)\np.end()", "p:Foo"),
        ("return isinstance(p, Foo) and p.end", "p:Foo"),
        ("Foo(1).end()", "?=Foo"),
        ("(await pkg.foo()).end()", "?=pkg.foo"),
        ("super().end()", "super"),
        ("p.end()", "p"),
        ("x[0].end()", "?"),
        ("x = Foo()\nx = x.end()", "x=Foo"),
        ("x = Foo()\nfor x in range(3):\n    x.end()", "x*=range"),
        ("x = Foo()\nx = 1\nx.end()", "x"),
        ("x = Foo()\ndef g():\n    x.end()", "x=Foo"),
        ("x = Foo()\ndef g(x):\n    x.end()", "x"),
    ],
)
def test_a_receiver_has_the_last_hint(body: str, expected: str) -> None:
    """The last assignment, annotation, `with`, loop or `isinstance` above a use counts; parameters have no hint."""
    assert receiver(body) == expected
