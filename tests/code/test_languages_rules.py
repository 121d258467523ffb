"""What a language's hooks decide: cases that no query can say, and those that a grammar stumbles over."""

from __future__ import annotations

from lorelog.code.extract import extract
from lorelog.code.languages import language_of
from lorelog.core.code import Extract


def said(language: str, source: str) -> Extract:
    """Return what a source says."""
    return extract(source.encode(), language)


def names(found: Extract) -> list[str]:
    """Return the symbols with their containers."""
    return [symbol.qualified for symbol in found.symbols]


def kinds(found: Extract) -> dict[str, str]:
    """Return what each symbol is."""
    return {symbol.qualified: str(symbol.kind) for symbol in found.symbols}


def visible(found: Extract) -> dict[str, str]:
    """Return who may use each symbol."""
    return {symbol.qualified: symbol.visibility for symbol in found.symbols}


def uses(found: Extract, name: str) -> list[tuple[str, bool]]:
    """Return what is done with a name, and whether it is local there."""
    return [(str(use.kind), use.local) for use in found.uses if use.name == name]


class TestJavaScript:
    """Modules of both kinds, assignments, and what TypeScript's grammar does not know."""

    def test_a_required_module_is_imported_and_not_defined(self) -> None:
        """`const x = require("y")` is an import, once, whatever stands on the left."""
        found = said(
            "javascript", 'const a = require("a");\nconst {b, c: d} = require("m");\nx = require("z");\nrequire("s");\n'
        )
        assert names(found) == []
        assert [(one.module, one.name, one.alias) for one in found.imports] == [
            ("a", "", "a"),
            ("m", "b", ""),
            ("m", "c", "d"),
            ("z", "", ""),
            ("s", "", ""),
        ]

    def test_what_is_assigned_belongs_to_what_stands_before_the_dot(self) -> None:
        """Prototypes, classes and exports get what is assigned to them; other objects only functions."""
        found = said(
            "javascript",
            "exports.a = function () {};\nmodule.exports.b = 1;\nA.prototype.c = function () {};\nA.d = () => 1;\nA.E = 2;\n"
            "el.style.color = 3;\nexports.f = f;\nmodule.exports = {};\n",
        )
        assert kinds(found) == {"a": "function", "b": "variable", "A.c": "method", "A.d": "method", "A.E": "variable"}

    def test_a_constructor_gives_a_class_its_fields_once(self) -> None:
        """The first `this.x = …` defines a field, unless the class declares it or has a method of that name."""
        found = said(
            "javascript",
            "class A {\n  y = 1;\n  constructor() {\n    this.x = 1;\n    this.x = 2;\n    this.y = 3;\n    this.go = this.go.bind(this);\n  }\n  go() {}\n}\n",
        )
        assert names(found) == ["A", "A.y", "A.constructor", "A.x", "A.go"]
        assert uses(found, "x") == [("write", False)]

    def test_computed_names_define_nothing(self) -> None:
        """`[Symbol.iterator]() {}` has no name that anybody could look for."""
        assert names(said("typescript", "class A {\n  [Symbol.iterator]() {}\n  b() {}\n}\n")) == ["A", "A.b"]

    def test_a_module_shows_what_it_exports_and_a_script_everything(self) -> None:
        """Visibility follows export statements, lists and defaults."""
        module = visible(
            said(
                "javascript",
                "export const a = 1;\nconst b = 2, c = 3;\nfunction d() {}\nexport { b };\nexport default d;\n",
            )
        )
        assert module == {"a": "public", "b": "public", "c": "private", "d": "public"}
        assert visible(said("javascript", "const a = 1;\n")) == {"a": "public"}

    def test_type_parameters_are_local_to_their_class(self) -> None:
        """`T` of one class is no other's `T`, and fields stay fields."""
        found = said("typescript", "export class Box<T> {\n  value: T;\n  get(): T { return this.value; }\n}\n")
        assert names(found) == ["Box", "Box.value", "Box.get"]
        assert uses(found, "T") == [("type", True), ("type", True)]

    def test_variance_and_bare_call_signatures_do_not_break_a_file(self) -> None:
        """What the grammar does not know is blanked out, and places stay what they are."""
        found = said(
            "typescript",
            "export interface Box<in out T> {\n  value: T\n}\nexport const make: {\n  <A>(a: A): Box<A>\n  <A, B>(a: A, b: B): Box<A>\n} = dual()\nexport const after = 1\n",
        )
        assert found.broken == 0
        assert [(symbol.qualified, symbol.name_line) for symbol in found.symbols] == [
            ("Box", 1),
            ("Box.value", 2),
            ("make", 4),
            ("after", 8),
        ]

    def test_types_of_flow_are_read_in_javascript(self) -> None:
        """A file that says `@flow` has types, and those that TypeScript writes otherwise do no harm."""
        found = said(
            "javascript",
            "/** @flow strict */\nimport typeof T from './t';\nexport type Props = {|\n  +title: ?string,\n  ...\n|};\n"
            "class View extends React.Component<Props> {\n  go(x: ?number): void {\n    run((x: any));\n  }\n}\n",
        )
        assert (found.language, found.broken) == ("javascript", 0)
        assert names(found) == ["Props", "Props.title", "View", "View.go"]

    def test_one_strange_definition_does_not_take_the_others_with_it(self) -> None:
        """Where a file does not parse at all, parts that do not are kept by their name, and the line is told."""
        found = said(
            "typescript",
            "export const before = 1\n"
            "export type Odd\n  = { <A>(a: A): (@ b: } ((((\n"
            "export const strange: { <<<( [ = `\n\nexport function after(): void {}\nexport class Last { run() {} }\n",
        )
        assert names(found)[:1] == ["before"]
        assert found.broken == 2
        assert {"Odd", "strange", "after", "Last", "Last.run"} <= set(names(found))
        assert {symbol.name: symbol.name_line for symbol in found.symbols}["after"] == 6


class TestC:
    """Macros, tags and declarators."""

    def test_macros_before_a_declaration_do_not_hide_it(self) -> None:
        """`LIB_API type name(…)` is a function, although only the preprocessor knows LIB_API."""
        found = said(
            "c", "LIB_API size_t lib_size(const lib_t *lib);\nstatic FORCE_INLINE int twice(int x) { return x * 2; }\n"
        )
        assert kinds(found) == {"lib_size": "function", "twice": "function"}

    def test_a_parameter_may_be_called_as_its_struct(self) -> None:
        """`struct queue *queue` uses the type, and binds the name."""
        found = said("c", "int push(struct queue *queue) { return queue->size; }\n")
        assert uses(found, "queue") == [("type", False), ("read", True)]

    def test_declarators_of_every_shape_have_their_name(self) -> None:
        """Pointers, arrays, function pointers and functions that return them."""
        found = said(
            "c",
            "int **a, b[2][3], (*c)(int);\nchar *(*d[4])(void);\nvoid (*(e(void)))(int);\ntypedef unsigned char byte_t, *byte_p;\nint *f(void) { return 0; }\n",
        )
        assert kinds(found) == {
            "a": "variable",
            "b": "variable",
            "c": "variable",
            "d": "variable",
            "e": "function",
            "byte_t": "type",
            "byte_p": "type",
            "f": "function",
        }

    def test_a_struct_and_its_typedef_stand_beside_each_other(self) -> None:
        """`typedef struct a {…} b` defines both; fields belong to the struct."""
        assert names(said("c", "typedef struct node { int v; } node_t;\n")) == ["node", "node.v", "node_t"]

    def test_a_header_of_objective_c_is_none_of_c(self) -> None:
        """Nothing is better than messages taken for variables."""
        assert language_of("a.h", b"#import <Foo/Foo.h>\n@interface A : NSObject\n@end\n") is None
        assert language_of("a.h", b"class A {};\nnamespace b {}\n") == "cpp"
        assert language_of("a.h", b"int a(void);\n") == "c"


class TestCpp:
    """Scopes, templates, access."""

    def test_what_is_defined_outside_of_its_class_belongs_to_it(self) -> None:
        """`A::B::f` is `f` of `A.B`, with or without a template."""
        found = said(
            "cpp",
            "int A::B::f() { return 1; }\ntemplate <class T> void Box<T>::put(T t) {}\nA::~A() {}\nint A::count = 0;\n",
        )
        assert kinds(found) == {"A.B.f": "method", "Box.put": "method", "A.~A": "method", "A.count": "variable"}

    def test_an_object_with_arguments_is_no_prototype(self) -> None:
        """`Lock lock(mutex);` in a function is a local variable."""
        found = said("cpp", "void f() { Lock lock(mutex); lock.release(); }\n")
        assert names(found) == ["f"]
        assert uses(found, "lock") == [("write", True), ("read", True)]

    def test_access_specifiers_count_until_the_next(self) -> None:
        """A class begins private, a struct public."""
        found = visible(
            said("cpp", "class A {\n  int a;\npublic:\n  int b;\nprotected:\n  int c;\n};\nstruct S { int d; };\n")
        )
        assert found == {
            "A": "public",
            "A.a": "private",
            "A.b": "public",
            "A.c": "protected",
            "S": "public",
            "S.d": "public",
        }

    def test_export_macros_do_not_hide_a_class(self) -> None:
        """`class LIB_EXPORT A` is the class A."""
        assert names(said("cpp", "class LIB_EXPORT Engine : public Base {\n public:\n  void run();\n};\n")) == [
            "Engine",
            "Engine.run",
        ]


class TestOthers:
    """Rules of single languages."""

    def test_rust_use_trees_are_taken_apart(self) -> None:
        """Every name of a tree is an import of its own, in the order that it is written."""
        found = said("rust", "use a::{b, c::{self, d as e}, f::*};\nuse g;\nuse ::h::i as j;\n")
        assert [(one.module, one.name, one.alias) for one in found.imports] == [
            ("a", "b", ""),
            ("a::c", "", ""),
            ("a::c", "d", "e"),
            ("a::f", "*", ""),
            ("g", "", ""),
            ("::h", "i", "j"),
        ]

    def test_rust_types_are_what_is_implemented_for_them(self) -> None:
        """`impl Trait for Type` makes the trait a base of the type."""
        found = said(
            "rust",
            "struct A<T>(T);\nimpl<T: X> fmt::Display for A<T> where T: Y { fn f(&self) {} }\nimpl A<u8> {}\nimpl Drop for A<u8> {}\n",
        )
        assert found.symbols[0].bases == ("fmt::Display", "Drop")
        assert names(found) == ["A", "A.f"]

    def test_rust_calls_inside_macros_are_calls(self) -> None:
        """Brackets of a macro hold tokens only; calls are seen all the same."""
        found = said("rust", "fn f() { assert_eq!(a.len(), B::make(c)); }\n")
        assert {(use.name, str(use.kind), use.receiver) for use in found.uses} >= {
            ("assert_eq", "call", ""),
            ("len", "call", "a"),
            ("make", "call", "B"),
            ("c", "read", ""),
        }

    def test_go_names_on_one_line_are_all_defined(self) -> None:
        """`const A, B` and `var x, y` define two each; the blank name none."""
        assert names(
            said("go", "package p\nconst A, B = 1, 2\nvar x, _ = 3, 4\nvar _ T = y\nfunc _() { var z int }\n")
        ) == ["A", "B", "x"]

    def test_java_anonymous_classes_have_members(self) -> None:
        """They stand below the type that is made."""
        found = said(
            "java", "class A {\n  Runnable r = new Runnable() {\n    int n = 1;\n    public void run() {}\n  };\n}\n"
        )
        assert names(found) == ["A", "A.r", "A.r.Runnable.n", "A.r.Runnable.run"]

    def test_ruby_private_covers_what_follows(self) -> None:
        """Alone, before a method, and with a name."""
        found = visible(
            said(
                "ruby",
                "class A\n  def a; end\n  private\n  def b; end\n  public\n  def c; end\n  private def d; end\n  def e; end\n  private :e\nend\n",
            )
        )
        assert found == {
            "A": "public",
            "A.a": "public",
            "A.b": "private",
            "A.c": "public",
            "A.d": "private",
            "A.e": "private",
        }

    def test_kotlin_properties_of_a_constructor_are_no_locals(self) -> None:
        """`class A(val x: Int, y: Int)`: x is a member everywhere, y only a name of the head."""
        found = said("kotlin", "class A(val x: Int, y: Int) {\n    val z = y\n    fun f() = x\n}\n")
        assert names(found) == ["A", "A.x", "A.z", "A.f"]
        assert (uses(found, "x"), uses(found, "y")) == ([("read", False)], [("read", True)])

    def test_php_properties_are_called_without_their_sign(self) -> None:
        """`$this->total`, `self::$total` and the declaration name one thing; a variable keeps its sign."""
        found = said(
            "php",
            "<?php\nclass A { private static $total = 0; function f($total) { self::$total = $total; return $this->total; } }\n",
        )
        assert names(found) == ["A", "A.total", "A.f"]
        assert uses(found, "total") == [("write", False), ("read", False)]
        assert uses(found, "$total") == [("read", True)]

    def test_shell_variables_are_defined_once(self) -> None:
        """The first assignment defines, the others write."""
        found = said("bash", "a=1\na=2\nf() { local b=3; a=$b; }\n")
        assert names(found) == ["a", "f"]
        assert uses(found, "a") == [("write", False), ("write", False)]

    def test_comments_document_what_is_directly_below(self) -> None:
        """A blank line between ends it, and a second definition on the line has none."""
        found = said("go", "package p\n\n// Apart.\n\n// A is first.\n// It has two lines.\nvar A = 1\nvar B = 2\n")
        assert [symbol.docstring for symbol in found.symbols] == ["A is first.\nIt has two lines.", ""]
