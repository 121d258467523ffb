"""Errors of each language and tool are recognised with their type, message and frames."""

from __future__ import annotations

import pytest

from lorelog.core.session import StackFrame, StackTrace
from lorelog.ingest.tracebacks.finder import find_traces, shorten_trace

CHAINED = """\
Traceback (most recent call last):
  File "/srv/app/db.py", line 12, in load
    return rows[key]
           ~~~~^^^^^
KeyError: 'id'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/app/main.py", line 3, in <module>
    main()
  File "/srv/app/main.py", line 9, in main
    raise RuntimeError("no row") from error
RuntimeError: no row
"""
TWO_LINES = CHAINED.replace("KeyError: 'id'\n", "KeyError: 'id'\nand more of it\n")
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/tmp/g.py", line 3, in <module>
  |     raise ExceptionGroup("many", [ValueError(1), TypeError("a")])
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/tmp/g.py", line 2, in f
    |     raise TypeError("a")
    | TypeError: a
    +------------------------------------
"""
SYNTAX = """\
  File "x.py", line 3
    def f(:
          ^
SyntaxError: invalid syntax
"""
NODE = """\
/srv/f.js:10
    throw new Error('outer failed', { cause });
    ^

Error: outer failed
    at inner (/srv/f.js:10:11)
    at async A.go (file:///srv/a.mjs:3:4)
    at Object.<anonymous> (/srv/f.js:1:1)
    at node:internal/main/run_main_module:23:47 {
  [cause]: TypeError: x is not a function
      at baz (/srv/z.js:1:2) {
    code: 'ERR'
  }
}

Node.js v20.20.2
"""
RUST = """\
thread 'main' (26446) panicked at src/parse.rs:12:9:
index out of bounds: the len is 1 but the index is 7
stack backtrace:
   0: __rustc::rust_begin_unwind
             at /rustc/59807616e1fa/library/std/src/panicking.rs:689:5
   1: core::panicking::panic_fmt
   2: <usize as core::slice::index::SliceIndex<[T]>>::index
   3: app::parse::h0123456789abcdef
   4: app::main
             at ./src/main.rs:3:5
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
RUST_OLD = """\
thread 'main' panicked at 'called `Option::unwrap()` on a `None` value', src/main.rs:4:5
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
RUST_CHAIN = """\
Error: could not read config

Caused by:
    0: opening app.toml
    1: No such file or directory (os error 2)
"""
GO = """\
panic: runtime error: index out of range [5] with length 3 [recovered]
	panic: again
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x47b2a1]

goroutine 1 [running]:
panic({0x45, 0x1})
	/usr/local/go/src/runtime/panic.go:884 +0x213
main.(*Reader).next(0xc000012345, {0x3, 0x4})
	/home/u/reader.go:12 +0x1d
main.main()
	/home/u/main.go:5 +0x20

goroutine 2 [chan receive]:
main.other()
	/home/u/other.go:1 +0x1
exit status 2
"""
JAVA = """\
Exception in thread "main" java.lang.IllegalStateException: outer
second line
	at com.x.Main.run(Main.java:12)
	at java.base/java.lang.Thread.run(Thread.java:834)
Caused by: java.lang.NullPointerException: inner
	at com.x.A.b(A.java:3)
	at java.base/jdk.internal.reflect.DelegatingMethodAccessorImpl.invoke(DelegatingMethodAccessorImpl.java:43)
	... 12 more
"""
CSHARP = """\
Unhandled exception. System.InvalidOperationException: bad thing
   at App.Program.Run(String[] args) in /src/Program.cs:line 12
   at App.Program.Main(String[] args)
"""
RUBY = "app.rb:3:in `foo': undefined method `x' for nil (NoMethodError)\n\tfrom app.rb:7:in `<main>'\n"
PHP = """\
PHP Fatal error:  Uncaught LogicException: boo in /x/a.php:12
Stack trace:
#0 /x/b.php(3): foo()
#1 {main}
  thrown in /x/a.php on line 12
"""
PYTEST = """\
=================================== FAILURES ===================================
____________________________ TestIt.test_it ____________________________

    def test_it():
>       assert f(1) == 2
E       assert 1 == 2
E        +  where 1 = f(1)

tests/test_x.py:12: AssertionError
=========================== short test summary info ============================
FAILED tests/test_x.py::TestIt::test_it - assert 1 == 2
FAILED tests/test_x.py::test_other - ValueError: x
2 failed in 0.12s
"""


def only(text: str) -> StackTrace:
    (located,) = find_traces(text)
    return located.trace


def identity(trace: StackTrace) -> tuple[str, str, str]:
    return trace.language, trace.type, trace.message


@pytest.mark.parametrize(
    ("text", "is_", "frames"),
    [
        (SYNTAX, ("python", "SyntaxError", "invalid syntax"), [("", "x.py", 3, 0)]),
        (RUST_OLD, ("rust", "panic", "called `Option::unwrap()` on a `None` value"), [("", "src/main.rs", 4, 5)]),
        (CSHARP, ("csharp", "System.InvalidOperationException", "bad thing"),
         [("App.Program.Run", "/src/Program.cs", 12, 0), ("App.Program.Main", "", 0, 0)]),
        (RUBY, ("ruby", "NoMethodError", "undefined method `x' for nil"), [("foo", "app.rb", 3, 0), ("<main>", "app.rb", 7, 0)]),
        (PHP, ("php", "LogicException", "boo"), [("", "/x/a.php", 12, 0), ("foo", "/x/b.php", 3, 0), ("{main}", "", 0, 0)]),
        (GO, ("go", "panic", "runtime error: index out of range [5] with length 3"),
         [("main.(*Reader).next", "/home/u/reader.go", 12, 0), ("main.main", "/home/u/main.go", 5, 0)]),
        (RUST, ("rust", "panic", "index out of bounds: the len is 1 but the index is 7"),
         [("app::parse", "src/parse.rs", 12, 9), ("app::main", "./src/main.rs", 3, 5)]),
        ("--- FAIL: TestFoo (0.00s)\n    foo_test.go:12: expected 1, got 2\nFAIL\n", ("go", "test failure", "expected 1, got 2"),
         [("TestFoo", "foo_test.go", 12, 0)]),
        ("error[E0308]: mismatched types\n  --> src/main.rs:4:5\n   |\n", ("rust", "E0308", "mismatched types"), [("", "src/main.rs", 4, 5)]),
        ("src/foo.c:10:5: error: 'x' undeclared", ("generic", "error", "'x' undeclared"), [("", "src/foo.c", 10, 5)]),
        ("src/a.ts(12,5): error TS2322: Not assignable.", ("generic", "TS2322", "Not assignable."), [("", "src/a.ts", 12, 5)]),
        ("src/a.ts:12:5 - error TS2322: Not assignable.", ("generic", "TS2322", "Not assignable."), [("", "src/a.ts", 12, 5)]),
        ("x.py:12: error: Incompatible type  [return-value]", ("generic", "error", "Incompatible type  [return-value]"), [("", "x.py", 12, 0)]),
        ("B.java:1: error: incompatible types", ("generic", "error", "incompatible types"), [("", "B.java", 1, 0)]),
        ("./x.go:12:5: undefined: foo", ("generic", "error", "undefined: foo"), [("", "./x.go", 12, 5)]),
        ("x.py:1:8: F401 `os` imported but unused", ("generic", "F401", "`os` imported but unused"), [("", "x.py", 1, 8)]),
        ("/usr/bin/ld: l.c:(.text+0x4): undefined reference to `y'", ("generic", "error", "undefined reference to `y'"), [("", "l.c", 0, 0)]),
        ("bash: line 1: foo: command not found", ("generic", "bash", "foo: command not found"), []),
        ("npm error code ENOENT", ("generic", "npm error", "code ENOENT"), []),
        ("ValueError: bad", ("generic", "ValueError", "bad"), []),
    ],
)  # fmt: skip
def test_an_error_is_recognised(text: str, is_: tuple[str, str, str], frames: list[tuple[str, str, int, int]]) -> None:
    """Language, type, message and frames are recognised, innermost first, without runtime frames."""
    trace = only(text)
    assert identity(trace) == is_
    assert [tuple(frame) for frame in trace.frames] == frames


@pytest.mark.parametrize(
    ("text", "is_", "functions", "causes"),
    [
        (CHAINED, ("python", "RuntimeError", "no row"), ["main", "<module>"], [("KeyError", "'id'", 1)]),
        (TWO_LINES, ("python", "RuntimeError", "no row"), ["main", "<module>"], [("KeyError", "'id'\nand more of it", 1)]),
        (GROUP, ("python", "ExceptionGroup", "many (2 sub-exceptions)"), ["<module>"], [("ValueError", "1", 0), ("TypeError", "a", 1)]),
        (NODE, ("javascript", "Error", "outer failed"), ["inner", "A.go", "Object.<anonymous>"], [("TypeError", "x is not a function", 1)]),
        (JAVA, ("java", "java.lang.IllegalStateException", "outer\nsecond line"), ["com.x.Main.run", "java.lang.Thread.run"],
         [("java.lang.NullPointerException", "inner", 1)]),
        (RUST_CHAIN, ("rust", "Error", "could not read config"), [],
         [("Error", "opening app.toml", 0), ("Error", "No such file or directory (os error 2)", 0)]),
    ],
)  # fmt: skip
def test_an_error_has_its_causes(
    text: str, is_: tuple[str, str, str], functions: list[str], causes: list[tuple[str, str, int]]
) -> None:
    """The last error of a chain has the earlier ones, or the members of a group, as causes, without runtime frames."""
    trace = only(text)
    assert identity(trace) == is_
    assert [frame.function for frame in trace.frames] == functions
    assert [(cause.type, cause.message, len(cause.frames)) for cause in trace.causes] == causes


def test_a_failure_of_pytest_is_counted_once() -> None:
    """A failure printed in full is not counted again in the summary; one only in the summary is."""
    first, second = (trace.trace for trace in find_traces(PYTEST))
    assert identity(first) == ("python", "AssertionError", "assert 1 == 2\n+  where 1 = f(1)")
    assert first.frames == (StackFrame("TestIt.test_it", "tests/test_x.py", 12),)
    assert identity(second) == ("python", "ValueError", "x")


@pytest.mark.parametrize(
    "text",
    [
        "everything went well\n",
        "0 errors, 0 warnings\n",
        "panic: at the disco\n",
        "the error rate is at 3:4\n",
        "    at last, we are done\n",
        'see File "x.py", line 3, in f for more\n',
        'Traceback (most recent call last):\n  File "x.py", line 1, in f\n',
        "error: aborting due to 1 previous error\n",
        "Caused by:\n    rain\n",
        "",
    ],
)  # fmt: skip
def test_error_words_alone_are_not_an_error(text: str) -> None:
    """Error words alone, or half an error, are not recognised."""
    assert find_traces(text) == []


def test_a_deep_stack_is_held_within_bounds() -> None:
    """Of a hundred thousand frames only both ends are kept, and `shorten_trace` keeps fewer."""
    frames = '  File "/a.py", line 7, in f\n    f()\n' * 100_000
    (located,) = find_traces(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")
    assert (located.trace.type, located.trace.frames[0]) == ("RecursionError", StackFrame("f", "/a.py", 7))
    assert len(located.trace.frames) < 1_000
    assert len(shorten_trace(located).trace.frames) == 40
    assert len(shorten_trace(located).text) < 2_100
