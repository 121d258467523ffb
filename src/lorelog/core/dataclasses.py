"""The standard library's dataclasses, with their methods compiled at first use.

`dataclasses.dataclass` compiles five methods of every class when its module is imported, about 1 ms a class, and a
short command imports many classes that it never instantiates. Here a class gets its slots at once, and a compiled
constructor only when it has made many instances. Type checkers see the standard library's functions, and `dataclasses.fields`,
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
    """A field as it was declared. Attributes that only the standard library's `Field` has are made when asked for."""

    __slots__ = ("_standard", "annotation", "declared_default", "factory", "kw_only", "name", "repr")

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
        self.declared_default = default
        self.factory = default_factory
        self.repr = repr
        self.kw_only = kw_only
        self._standard: Any = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the standard library's field, which `dataclasses.fields` and msgspec read."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self._standard is None:
            self._standard = self._make_standard()
        return getattr(self._standard, name)

    def _make_standard(self) -> Any:
        import dataclasses

        made = dataclasses.field(
            default=dataclasses.MISSING if self.declared_default is _MISSING else self.declared_default,
            default_factory=self.factory or dataclasses.MISSING,
            repr=self.repr,
            kw_only=bool(self.kw_only),
        )
        # With a docstring, or `dataclass` would ask `inspect` for a signature.
        body = {"__doc__": "A field.", "__annotations__": {self.name: self.annotation}, self.name: made}
        holder: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(type("Holder", (), body))
        return holder.__dataclass_fields__[self.name]


class _KeywordOnly:
    """Annotation after which fields are keyword-only."""


def _dataclass(
    cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
) -> Any:
    def decorate(cls: type) -> type:
        own = _own_specs(cls, kw_only=kw_only)
        specs = {name: spec for base in cls.__mro__[-2:0:-1] for name, spec in _declared_specs(base).items()} | own
        init, set_class = _deferred_init(tuple(specs.values()), frozen=frozen)
        methods: dict[str, Any] = {
            "__dataclass_fields__": specs,
            "__match_args__": tuple([name for name, spec in specs.items() if not spec.kw_only]),
            "__init__": init,
        }
        defaults: dict[str, Any] = {"__repr__": _repr}
        if eq:
            defaults |= _comparison_methods(tuple(specs), frozen=frozen)
        if frozen:
            methods |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
        if frozen and slots:
            defaults |= {"__getstate__": _get_state, "__setstate__": _set_state}
        declared = cls.__dict__
        methods |= {name: method for name, method in defaults.items() if declared.get(name) is None}
        made = _with_slots(cls, own, methods) if slots else _with_defaults(cls, own, methods)
        set_class(made)
        return made

    return decorate if cls is None else decorate(cls)


def _declared_specs(cls: type) -> dict[str, _FieldSpec]:
    """Return the fields of a class; none if it was not decorated here."""
    fields: dict[str, Any] = cls.__dict__.get("__dataclass_fields__", {})
    return fields if all(type(spec) is _FieldSpec for spec in fields.values()) else {}


def _specs_of(instance: object) -> Sequence[_FieldSpec]:
    return tuple(instance.__dataclass_fields__.values())  # type: ignore[attr-defined]


def _own_specs(cls: type, *, kw_only: bool) -> dict[str, _FieldSpec]:
    specs = {}
    # Strings, because every module here postpones annotations; `inspect` would cost more than the rest together.
    annotations: dict[str, Any] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063
    for name, annotation in annotations.items():
        if annotation in ("KW_ONLY", _KeywordOnly):
            kw_only = True
            continue
        if isinstance(annotation, str) and annotation.startswith("ClassVar"):
            continue
        value = cls.__dict__.get(name, _MISSING)
        if not isinstance(value, _FieldSpec):
            if type(value).__hash__ is None:
                raise ValueError(f"the default of {cls.__name__}.{name} is mutable; use default_factory")
            value = _FieldSpec(default=value)
        value.name, value.annotation = name, annotation
        if value.kw_only is None:
            value.kw_only = kw_only
        specs[name] = value
    return specs


def _with_defaults(cls: type, own: dict[str, _FieldSpec], methods: dict[str, Any]) -> type:
    """Return the class with these methods, and with defaults as plain attributes."""
    for name, spec in own.items():
        if spec.declared_default is not _MISSING:
            setattr(cls, name, spec.declared_default)
        elif name in cls.__dict__:
            delattr(cls, name)
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _with_slots(cls: type, own: dict[str, _FieldSpec], methods: dict[str, Any]) -> type:
    """Return the class made again, with these methods and slots: slots cannot be added to a class that exists."""
    inherited = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
    body = {name: value for name, value in cls.__dict__.items() if name not in own} | methods
    body["__slots__"] = tuple([name for name in own if name not in inherited])
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    slotted = type(cls)(cls.__name__, cls.__bases__, body)
    slotted.__qualname__ = cls.__qualname__
    return slotted


_INTERPRETED = 40
"""Instances of a class that are filled field by field before its constructor is compiled, which takes as long as sixty."""


def _deferred_init(specs: Sequence[_FieldSpec], *, frozen: bool) -> tuple[Callable[..., None], Callable[[type], None]]:
    """Return a constructor that replaces itself by a compiled one, and a function that tells it its class."""
    owner: Any = None
    left = _INTERPRETED
    filler: _Filler | None = None

    def init(self: object, /, *args: Any, **kwargs: Any) -> None:
        nonlocal left, filler
        left -= 1
        if filler is None:
            filler = _Filler(specs)
        if left < 0 or not filler.fill(self, args, kwargs):
            owner.__init__ = _compile_init(owner, specs, frozen=frozen)
            owner.__init__(self, *args, **kwargs)

    def set_class(cls: type) -> None:
        nonlocal owner
        owner = cls

    return init, set_class


class _Filler:
    """Sets the fields of new instances of a class, as its compiled constructor would."""

    __slots__ = ("_defaults", "_factories", "_names", "_positional")

    def __init__(self, specs: Sequence[_FieldSpec]) -> None:
        self._names = {spec.name for spec in specs}
        self._positional = [spec.name for spec in specs if not spec.kw_only]
        self._factories = [(spec.name, spec.factory) for spec in specs if spec.factory is not None]
        self._defaults = {spec.name: spec.declared_default for spec in specs if spec.declared_default is not _MISSING}

    def fill(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Set the fields; return False, with nothing set, if the arguments do not fit the fields."""
        values = self._defaults | dict(zip(self._positional, args, strict=False)) | kwargs
        if args and (len(args) > len(self._positional) or not kwargs.keys().isdisjoint(self._positional[: len(args)])):
            return False
        for name, make in self._factories:
            if name not in values:
                values[name] = make()
        if values.keys() != self._names:
            return False
        set_field = object.__setattr__
        for name, value in values.items():
            set_field(instance, name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()
        return True


def _compile_init(cls: type, specs: Sequence[_FieldSpec], *, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"_MISSING": _MISSING, "_set": object.__setattr__}
    parameters = {False: ["self"], True: []}
    statements = []
    for spec in specs:
        name = value = spec.name
        parameter = name
        if spec.factory is not None:
            names[f"_factory_{name}"] = spec.factory
            parameter = f"{name}=_MISSING"
            value = f"_factory_{name}() if {name} is _MISSING else {name}"
        elif spec.declared_default is not _MISSING:
            names[f"_default_{name}"] = spec.declared_default
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
    return tuple(class_or_instance.__dataclass_fields__.values())


_PLAIN_TYPES = frozenset({str, int, float, bool, bytes, type(None)})


def _asdict(instance: Any) -> dict[str, Any]:
    """Return the fields by name, as the standard library does; importing that takes as long as a tenth of a small index run."""
    return {spec.name: _plain_value(getattr(instance, spec.name)) for spec in _specs_of(instance)}


def _plain_value(value: Any) -> Any:
    """Return a copy of a field's value with dictionaries instead of data classes."""
    cls = type(value)
    if cls in _PLAIN_TYPES:
        return value
    if hasattr(cls, "__dataclass_fields__"):
        return _asdict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return cls(*[_plain_value(item) for item in value])
    if isinstance(value, (list, tuple)):
        return cls(_plain_value(item) for item in value)
    if isinstance(value, dict):
        return cls((_plain_value(key), _plain_value(item)) for key, item in value.items())
    from copy import deepcopy

    return deepcopy(value)


def _is_dataclass(value: object) -> bool:
    return hasattr(value if isinstance(value, type) else type(value), "__dataclass_fields__")


if TYPE_CHECKING:
    from dataclasses import KW_ONLY, asdict, dataclass, field, fields, is_dataclass, replace
else:
    KW_ONLY, dataclass, field, replace = _KeywordOnly, _dataclass, _FieldSpec, _replace
    asdict, fields, is_dataclass = _asdict, _fields, _is_dataclass

__all__ = ["KW_ONLY", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]
