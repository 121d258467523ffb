"""Find the uses of a definition, each with a certainty.

A use is resolved by its scope first, then by imports (followed from file to file, through aliases), then by its
receiver: a module, a class, `self`, or in Python a value whose type can be inferred. If the receiver is unknown, the
use is likely to mean a method whose name is unique to one class or its relatives.
"""

from __future__ import annotations

import builtins
import io
import posixpath
from collections.abc import Iterator, Sequence

from lorelog.code.tables import StoredDefinition, StoredUse
from lorelog.core.code import Certainty, Symbol, UseKind
from lorelog.services.code.receiver_types import TypeResolver
from lorelog.services.code.view import (
    CLASSES,
    FUNCTIONS,
    IMPORT_SCOPED,
    SCRIPTS,
    CodeView,
    DefinitionKey,
    ModuleReceiver,
    NameScope,
    definition_key,
    scope_chain,
)

# fmt: off
_BUILTIN_TYPES: tuple[type, ...] = (
    str, bytes, bytearray, list, tuple, dict, set, frozenset, int, float, complex, object, memoryview, range, slice, property,
    BaseException, OSError, UnicodeError, ImportError, StopIteration, SystemExit,
    io.TextIOWrapper, io.BytesIO, io.StringIO, io.BufferedReader,
)
# fmt: on
_OTHER_NAMES = """
absolute acquire add_argument apply args as_posix await basename bind body call callback cancel catch chmod clone code command
config connect contains content context cookies count create current cursor cwd data date debug default delete description detach
dirname disable dispatch done each emit enable end environ error event exception execute exit exists expanduser fetch fetchall
fetchone fileno filter finally find first fire flags float forEach from get_name getvalue group groups handle handler has head
headers height host id includes info init input is_alive is_dir is_file iterdir join json key keys kind kwargs label last length
level line lines listen load loads location lock log logger loop main map match message method mkdir mode model move msg name
names new next notify number ok on once open options output owner params parent parse parts password patch path pid poll port
position post prefix print process push query queue raise_for_status reader reason recv reduce release render replace request
reset resolve response result results returncode root run samefile save schedule search send session set setdefault shape shift
shutdown size sleep slice some source span splice sql start stat state status status_code stderr stdin stdout stem stop stream
sub submit success suffix symlink_to target task template terminate test text then time timeout timestamp title toString token
total touch trace trigger type unlink unwrap update url user username validate value values version view visit wait warn warning
choice choices randint sample seed shuffle uniform width with_suffix write_bytes write_text read_bytes read_text
"""

COMMON_MEMBER_NAMES: frozenset[str] = frozenset(
    {name for builtin_type in _BUILTIN_TYPES for name in dir(builtin_type)}
    | set(_OTHER_NAMES.split())
    | (set(dir(builtins)) & {"id", "type"})
)
"""Members of strings, lists, files and the like: with an unknown receiver, `x.get()` rarely means our class."""
_FOLDER_SCOPED = frozenset({"go", "java", "kotlin", "scala", "swift", "csharp"})
"""Languages in which files of one folder see each other's names."""
_IMPLICIT_THIS = frozenset({"java", "kotlin", "scala", "swift", "csharp", "cpp", "ruby"})
"""Languages in which a method calls other methods of its class without a receiver."""
_NAMESPACED = frozenset({"cpp", "csharp", "php", "ruby", "rust", "scala", "kotlin"})
"""Languages in which a name inside a namespace or class can be used without a receiver."""
_MAX_OVERRIDES = 3
"""Up to this many definitions that override one another, each is likely to be meant; of more, only the first."""

_Targets = dict[DefinitionKey, StoredDefinition]


class ReferenceResolver:
    """Resolves uses in one working tree."""

    def __init__(self, code: CodeView) -> None:
        self._code = code
        self._types = TypeResolver(code)

    def references(self, targets: Sequence[StoredDefinition]) -> Iterator[tuple[StoredUse, Certainty]]:
        """Yield the uses that mean, or may mean, one of some definitions of one name."""
        by_key = {definition_key(target): target for target in targets}
        names = dict.fromkeys(target.symbol.name for target in targets)
        for target in targets:
            if not target.symbol.container:
                names |= dict.fromkeys(name for _, name in sorted(self._code.export_sites(target)))
        for name in names:
            for used in self._code.uses(name):
                certainty = self.certainty_of(used, by_key)
                if certainty is not None:
                    yield used, certainty

    def definitions_of(self, used: StoredUse) -> list[tuple[StoredDefinition, Certainty]]:
        """Return the definitions that a use means; if none is certain, those that it may mean."""
        imports = self._code.imported_as(used.path, used.use.name)
        names = {used.use.name, *(statement.name for statement in imports)}
        judged = (
            (definition, self.certainty_of(used, {definition_key(definition): definition}))
            for name in sorted(names)
            for definition in self._code.definitions(name)
        )
        found = [(definition, certainty) for definition, certainty in judged if certainty is not None]
        return [pair for pair in found if pair[1] is Certainty.EXACT] or found

    def certainty_of(self, used: StoredUse, targets: _Targets) -> Certainty | None:
        """Return the certainty that a use means one of some definitions; None if it does not."""
        if not _share_names(used.language, next(iter(targets.values())).language):
            return None
        if used.use.kind is UseKind.IMPORT:
            is_meant = self._in_module(used, [used.use.receiver], used.use.name, targets)
            return Certainty.EXACT if is_meant else None
        if used.use.receiver:
            return self._judge_qualified(used, targets)
        return self._judge_unqualified(used, targets)

    def _in_module(self, used: StoredUse, modules: Sequence[str], name: str, targets: _Targets) -> bool:
        return any(
            self._code.is_exported_by(target, name, module, used.path, used.language)
            for target in targets.values()
            if not target.symbol.container
            for module in modules
        )

    def _judge_unqualified(self, used: StoredUse, targets: _Targets) -> Certainty | None:
        name = used.use.name
        imports = self._code.imported_as(used.path, name)
        local_imports = [statement for statement in imports if _is_in_function(statement.line, used.enclosing)]
        if local_imports:  # they hide the file's own name
            is_meant = any(self._in_module(used, [local.module], local.name, targets) for local in local_imports)
            return Certainty.EXACT if is_meant else None
        matches = self._in_scope(used)
        if matches is None or any(definition_key(match) in targets for match in matches):
            return None if matches is None else Certainty.EXACT
        if matches and not self._is_imported_at_top(used):
            return None
        if any(
            not target.symbol.container and (used.path, name) in self._code.export_sites(target)
            for target in targets.values()
        ):
            return Certainty.EXACT
        return None if used.language in IMPORT_SCOPED or imports else self._judge_implicit(used, targets)

    def _in_scope(self, used: StoredUse) -> list[StoredDefinition] | None:
        """Return the definitions in the innermost scope that has the name; None for a local variable."""
        use = used.use
        own = self._code.defined_at(use.name, used.path)
        if not own:
            return None if use.local else []
        for index, level in enumerate(scope_chain(used.enclosing)):
            if use.local and not level:
                return None
            if index and level and self._is_python_class(level, used) and not (index == 1 and _is_in_head(used)):
                continue
            matches = [definition for definition in own if definition.symbol.container == level]
            if matches:
                return matches
        return []

    def _is_imported_at_top(self, used: StoredUse) -> bool:
        """Return True if a name that the file assigns is also imported at its top: `x = None` after a failed import."""
        imports = self._code.imported_as(used.path, used.use.name)
        symbols = [definition.symbol for definition in self._code.symbols(used.path)] if imports else []
        return any(not any(_is_in_function(statement.line, symbol) for symbol in symbols) for statement in imports)

    def _is_python_class(self, qualified: str, used: StoredUse) -> bool:
        return used.language == "python" and any(
            definition.symbol.kind in CLASSES for definition in self._types.definitions_at(qualified, used.path)
        )

    def _judge_implicit(self, used: StoredUse, targets: _Targets) -> Certainty | None:
        """Judge an unqualified name in a language that sees names of other files without an import."""
        name = used.use.name
        if used.language in _IMPLICIT_THIS:
            classes = self._types.enclosing_class(NameScope(used.path, used.language, used.enclosing))
            members = self._types.member_definitions(classes, name)
            if members:
                return Certainty.EXACT if any(definition_key(member) in targets for member in members) else None
        free_targets = [target for target in targets.values() if _is_free(target)]
        if not free_targets:
            return None
        candidates = [definition for definition in self._code.definitions(name) if _is_free(definition)]
        if used.language in _FOLDER_SCOPED:
            folder = posixpath.dirname(used.path)
            near = [candidate for candidate in candidates if posixpath.dirname(candidate.path) == folder]
            if near:
                return Certainty.EXACT if any(definition_key(candidate) in targets for candidate in near) else None
        modules = [statement.module for statement in self._code.imports(used.path)]
        for target in free_targets:
            if any(self._code.is_module_file(used.path, module, target.path, used.language) for module in modules):
                return Certainty.EXACT
        is_ambiguous = any(definition_key(candidate) not in targets for candidate in candidates)
        return Certainty.NAME if is_ambiguous else Certainty.LIKELY

    def _judge_qualified(self, used: StoredUse, targets: _Targets) -> Certainty | None:
        name, receiver = used.use.name, used.use.receiver
        scope = NameScope(used.path, used.language, used.enclosing)
        # Types of values are inferred in Python only: there the index stores hints about local variables.
        resolved = (
            self._types.resolve_receiver(receiver, scope)
            if used.language == "python"
            else self._types.resolve_named_receiver(receiver, scope)
        )
        if isinstance(resolved, ModuleReceiver):
            return Certainty.EXACT if self._in_module(used, resolved.names, name, targets) else None
        if resolved is None:
            return self._judge_unknown_receiver(used, targets)
        if any(definition_key(member) in targets for member in self._types.member_definitions(resolved, name)):
            return Certainty.EXACT
        if any(self._overrides(target, cls) for target in targets.values() for cls in resolved):
            return Certainty.NAME
        return None

    def _overrides(self, target: StoredDefinition, cls: StoredDefinition) -> bool:
        """Return True if a definition belongs to a subclass of a class: then a call may reach it."""
        return bool(target.symbol.container) and definition_key(cls) in self._ancestors_of(target)

    def _ancestors_of(self, member: StoredDefinition) -> set[DefinitionKey]:
        def find() -> set[DefinitionKey]:
            holders = self._holders(member)
            return {definition_key(above) for cls in holders for above in self._types.linearized_bases(cls)}

        return self._code.cached(("ancestors", definition_key(member)), find)

    def _holders(self, member: StoredDefinition) -> list[StoredDefinition]:
        return self._types.definitions_at(member.symbol.container, member.path)

    def _judge_unknown_receiver(self, used: StoredUse, targets: _Targets) -> Certainty | None:
        if not any(self._is_member(target) for target in targets.values()):
            return None
        name = used.use.name
        if name in COMMON_MEMBER_NAMES or (name.startswith("__") and name.endswith("__")):
            return Certainty.NAME
        family = self._family(name, used.language)
        is_likely = len(family) <= _MAX_OVERRIDES or any(
            definition_key(member) in targets and self._is_first(member, family) for member in family
        )
        return Certainty.LIKELY if family and is_likely else Certainty.NAME

    def _is_first(self, member: StoredDefinition, family: Sequence[StoredDefinition]) -> bool:
        """Return True if all others of a family override this definition."""
        keys = {definition_key(cls) for cls in self._holders(member)}
        return all(
            keys & {definition_key(above) for above in self._types.linearized_bases(cls)}
            for other in family
            for cls in self._holders(other)
        )

    def _is_member(self, definition: StoredDefinition) -> bool:
        if not definition.symbol.container:
            return False
        holders = self._holders(definition)
        return any(holder.symbol.kind in CLASSES for holder in holders) or not holders

    def _family(self, name: str, language: str) -> list[StoredDefinition]:
        """Return all members of a name if their classes share an ancestor; else nothing."""

        def find() -> list[StoredDefinition]:
            members = [
                definition
                for definition in self._code.definitions(name)
                if _share_names(definition.language, language) and self._is_member(definition)
            ]
            common = self._ancestors_of(members[0]) if members else set()
            for member in members:
                common = common and common & self._ancestors_of(member)
            return members if common else []

        return self._code.cached(("family", name, language), find)


def _is_in_function(line: int, function: Symbol | None) -> bool:
    if function is None or function.kind not in FUNCTIONS:
        return False
    return function.span.start_line < line <= function.span.end_line


def _is_in_head(used: StoredUse) -> bool:
    """Return True for a use in the decorators or the signature of its function, which are evaluated outside of it."""
    function = used.enclosing
    return function is not None and function.kind in FUNCTIONS and used.use.line <= function.name_line


def _is_free(definition: StoredDefinition) -> bool:
    """Return True if another file can use the definition without a receiver."""
    return not definition.symbol.container or definition.language in _NAMESPACED


def _share_names(language: str, other: str) -> bool:
    return language == other or (language in SCRIPTS and other in SCRIPTS) or {language, other} == {"c", "cpp"}
