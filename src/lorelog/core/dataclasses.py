"""The standard library's dataclasses, with their methods compiled at first use.

`dataclasses.dataclass` compiles five methods of every class when its module is imported, about 1 ms a class, and a
short command imports many classes that it never instantiates. Here a class gets its slots at once and its constructor
with its first instance. Type checkers see the standard library's functions, and `dataclasses.fields`,
`dataclasses.asdict` and msgspec accept the classes. Supported: `frozen`, `slots`, `kw_only`, `eq`, `KW_ONLY`, and
`field` with `default`, `default_factory`, `repr` and `kw_only`.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

_MISSING = object()


class _FieldSpec:
    """A field as it was declared."""

    __slots__ = ("annotation", "default", "default_factory", "kw_only", "name", "repr")

    def __init__(
        self,
        *,
        default: Any = _MISSING,
        default_factory: Callable[[], Any] | None = None,
        repr: bool = True,  # noqa: A002 - the standard library's name
        kw_only: bool | None = None,
    ) -> None:
        self.name = ""
        self.annotation: Any = None
        self.default = default
        self.default_factory = default_factory
        self.repr = repr
        self.kw_only = kw_only


class _Fields:
    """`__dataclass_fields__`, which the standard library and msgspec read: made when it is asked for."""

    __slots__ = ("_fields", "specs")

    def __init__(self, specs: Sequence[_FieldSpec]) -> None:
        self.specs = specs
        self._fields: dict[str, Any] | None = None

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        if self._fields is None:
            self._fields = self._make()
        return self._fields

    def _make(self) -> dict[str, Any]:
        import dataclasses

        body: dict[str, Any] = {"__annotations__": {spec.name: spec.annotation for spec in self.specs}}
        for spec in self.specs:
            body[spec.name] = dataclasses.field(
                default=dataclasses.MISSING if spec.default is _MISSING else spec.default,
                default_factory=spec.default_factory or dataclasses.MISSING,
                repr=spec.repr,
                kw_only=bool(spec.kw_only),
            )
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type("Fields", (), body))
        fields: dict[str, Any] = made.__dataclass_fields__
        return fields


class _KeywordOnly:
    """Annotation after which fields are keyword-only."""


def _dataclass(
    cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
) -> Any:
    def decorate(cls: type) -> type:
        own = _own_specs(cls, kw_only=kw_only)
        inherited = {spec.name: spec for base in reversed(cls.__mro__[1:]) for spec in _declared_specs(base)}
        specs = tuple((inherited | {spec.name: spec for spec in own}).values())
        _set_defaults(cls, own, slots=slots)
        if slots:
            cls = _with_slots(cls, own)
        methods: dict[str, Any] = {
            "__dataclass_fields__": _Fields(specs),
            "__match_args__": tuple(spec.name for spec in specs if not spec.kw_only),
            "__init__": _deferred_init(cls, specs, frozen=frozen),
        }
        defaults: dict[str, Any] = {"__repr__": _repr}
        if eq:
            defaults |= _comparison_methods([spec.name for spec in specs], frozen=frozen)
        if frozen:
            methods |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        if frozen and slots:
            defaults |= {"__getstate__": _get_state, "__setstate__": _set_state}
        for name, method in defaults.items():
            if cls.__dict__.get(name) is None:
                setattr(cls, name, method)
        for name, method in methods.items():
            setattr(cls, name, method)
        return cls

    return decorate if cls is None else decorate(cls)


def _declared_specs(cls: type) -> Sequence[_FieldSpec]:
    """Return the fields of a class that was decorated here; none for any other."""
    fields = cls.__dict__.get("__dataclass_fields__")
    return fields.specs if isinstance(fields, _Fields) else ()


def _specs_of(instance: object) -> Sequence[_FieldSpec]:
    for base in type(instance).__mro__:
        if "__dataclass_fields__" in base.__dict__:
            return _declared_specs(base)
    raise TypeError(f"{type(instance).__name__} is not a dataclass")


def _own_specs(cls: type, *, kw_only: bool) -> list[_FieldSpec]:
    specs = []
    # Strings, because every module here postpones annotations; `inspect` would cost more than the rest together.
    annotations: dict[str, Any] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063
    for name, annotation in annotations.items():
        if annotation in ("KW_ONLY", _KeywordOnly):
            kw_only = True
            continue
        if isinstance(annotation, str) and annotation.startswith("ClassVar"):
            continue
        value = cls.__dict__.get(name, _MISSING)
        if not isinstance(value, _FieldSpec) and type(value).__hash__ is None:
            raise ValueError(f"the default of {cls.__name__}.{name} is mutable; use default_factory")
        spec = value if isinstance(value, _FieldSpec) else _FieldSpec(default=value)
        spec.name, spec.annotation = name, annotation
        if spec.kw_only is None:
            spec.kw_only = kw_only
        specs.append(spec)
    return specs


def _set_defaults(cls: type, own: Sequence[_FieldSpec], *, slots: bool) -> None:
    """Make the class attributes plain defaults; with slots there are none."""
    for spec in own:
        if not slots and spec.default is not _MISSING:
            setattr(cls, spec.name, spec.default)
        elif spec.name in cls.__dict__:
            delattr(cls, spec.name)


def _with_slots(cls: type, own: Sequence[_FieldSpec]) -> type:
    """Return the class made again with slots: they cannot be added to a class that exists."""
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    body = dict(cls.__dict__)
    body["__slots__"] = tuple(spec.name for spec in own if spec.name not in inherited)
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    slotted = type(cls)(cls.__name__, cls.__bases__, body)
    slotted.__qualname__ = cls.__qualname__
    return slotted


def _deferred_init(cls: Any, specs: Sequence[_FieldSpec], *, frozen: bool) -> Callable[..., None]:
    """Return a constructor that replaces itself by a compiled one."""

    def init(self: object, /, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = _compile_init(cls, specs, frozen=frozen)
        cls.__init__(self, *args, **kwargs)

    return init


def _compile_init(cls: type, specs: Sequence[_FieldSpec], *, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_MISSING": _MISSING, "_set": object.__setattr__}
    parameters = {False: ["self"], True: []}
    statements = []
    for spec in specs:
        name = value = spec.name
        parameter = name
        if spec.default_factory is not None:
            names[f"_factory_{name}"] = spec.default_factory
            parameter = f"{name}=_MISSING"
            value = f"_factory_{name}() if {name} is _MISSING else {name}"
        elif spec.default is not _MISSING:
            names[f"_default_{name}"] = spec.default
            parameter = f"{name}=_default_{name}"
        parameters[bool(spec.kw_only)].append(parameter)
        slot = getattr(cls, name, None)
        if not frozen:
            statements.append(f"self.{name} = {value}")
        elif type(slot).__name__ == "member_descriptor":
            names[f"_set_{name}"] = slot.__set__  # type: ignore[union-attr]
            statements.append(f"_set_{name}(self, {value})")
        else:
            statements.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        statements.append("self.__post_init__()")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    source = f"def __init__({', '.join([*parameters[False], *keywords])}):\n " + "\n ".join(statements or ["pass"])
    made: dict[str, Any] = {}
    exec(source, names, made)  # noqa: S102 - as the standard library does; the names are those of annotations
    init: Callable[..., None] = made["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _repr(self: object) -> str:
    values = ", ".join(f"{spec.name}={getattr(self, spec.name)!r}" for spec in _specs_of(self) if spec.repr)
    return f"{type(self).__qualname__}({values})"


def _comparison_methods(names: Sequence[str], *, frozen: bool) -> dict[str, Any]:
    get: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def equal(self: object, other: object) -> bool:
        return get(self) == get(other) if other.__class__ is self.__class__ else NotImplemented

    def hash_value(self: object) -> int:
        return hash(get(self))

    return {"__eq__": equal, "__hash__": hash_value if frozen else None}


def _refuse_assignment(self: object, name: str, value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: object) -> list[Any]:
    return [getattr(self, spec.name) for spec in _specs_of(self)]


def _set_state(self: object, state: list[Any]) -> None:
    for spec, value in zip(_specs_of(self), state, strict=True):
        object.__setattr__(self, spec.name, value)


_GETTERS: dict[type, tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]] = {}
"""By class: the names of its fields, and what gets their values at once. A search copies dozens of values."""


def _replace(instance: Any, /, **changes: Any) -> Any:
    cls = type(instance)
    if cls not in _GETTERS:
        names = tuple(spec.name for spec in _specs_of(instance))
        get: Any = attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
        _GETTERS[cls] = names, get
    names, get = _GETTERS[cls]
    return cls(**(dict(zip(names, get(instance), strict=True)) | changes))


def _fields(class_or_instance: Any) -> Any:
    import dataclasses

    return dataclasses.fields(class_or_instance)


def _asdict(instance: Any) -> dict[str, Any]:
    import dataclasses

    return dataclasses.asdict(instance)


def _is_dataclass(value: object) -> bool:
    return hasattr(value if isinstance(value, type) else type(value), "__dataclass_fields__")


if TYPE_CHECKING:
    from dataclasses import KW_ONLY, asdict, dataclass, field, fields, is_dataclass, replace
else:
    KW_ONLY, dataclass, field, replace = _KeywordOnly, _dataclass, _FieldSpec, _replace
    asdict, fields, is_dataclass = _asdict, _fields, _is_dataclass

__all__ = ["KW_ONLY", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]
