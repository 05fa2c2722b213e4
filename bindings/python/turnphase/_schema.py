# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of a tool, made from the signature of its function, and arguments of its types, made from JSON.

Types: str, int, float, bool, None, Any, list[T], tuple[T, ...], set[T], dict[str, T], Literal, Enum, Optional and
unions, dataclasses, TypedDict, and pydantic models if pydantic is installed. Annotated[T, "text"] describes a
parameter. A type without a schema is refused when the tool is registered; the error names the parameter.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import sys
import types
import typing
from typing import Any, Callable, Union

Schema = dict[str, Any]
Build = Callable[[Any], Any]
_PLAIN: dict[Any, str] = {str: 'string', int: 'integer', float: 'number', bool: 'boolean', type(None): 'null'}


def _same(value: Any) -> Any:
    return value


def _is_pydantic(hint: Any) -> bool:
    pydantic = sys.modules.get('pydantic')
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def _inlined(schema: Any, definitions: Schema, where: str) -> Any:
    """Returns a schema without $ref, which the library's subset does not have."""
    if isinstance(schema, list):
        return [_inlined(item, definitions, where) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if '$ref' in schema:
        name = schema['$ref'].rsplit('/', 1)[-1]
        if name not in definitions:
            raise TypeError(f'{where}: a type that contains itself has no schema here')
        rest = {key: value for key, value in definitions.items() if key != name}
        return {**_inlined(definitions[name], rest, where), **{k: v for k, v in schema.items() if k != '$ref'}}
    return {key: _inlined(value, definitions, where) for key, value in schema.items() if key != '$defs'}


def _object(members: dict[str, tuple[Any, bool, Any]], where: str) -> tuple[Schema, dict[str, Build]]:
    """Makes the schema of an object with these members: name -> (type, required, default)."""
    properties: Schema = {}
    builds: dict[str, Build] = {}
    for name, (hint, required, default) in members.items():
        schema, builds[name] = of(hint, f'{where}.{name}')
        if not required and isinstance(default, (str, int, float, bool)):
            schema = {**schema, 'default': default}
        properties[name] = schema
    needed = [name for name, (_, required, _) in members.items() if required]
    return {
        'type': 'object',
        'properties': properties,
        'additionalProperties': False,
        **({'required': needed} if needed else {}),
    }, builds


def _built(builds: dict[str, Build], value: dict[str, Any]) -> dict[str, Any]:
    return {name: builds[name](item) if name in builds else item for name, item in value.items()}


def _of_dataclass(hint: Any, where: str) -> tuple[Schema, Build]:
    hints = typing.get_type_hints(hint, include_extras=True)
    members = {}
    for field in dataclasses.fields(hint):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.init:
            members[field.name] = (hints[field.name], required, field.default)
    schema, builds = _object(members, where)
    return schema, lambda value: hint(**_built(builds, value))


def _of_typed_dict(hint: Any, where: str) -> tuple[Schema, Build]:
    hints = typing.get_type_hints(hint, include_extras=True)
    members = {}
    for name, kind in hints.items():
        while typing.get_origin(kind) in (typing.Required, typing.NotRequired):
            kind = typing.get_args(kind)[0]
        members[name] = (kind, name in hint.__required_keys__, None)
    schema, builds = _object(members, where)
    return schema, lambda value: _built(builds, value)


def _of_choices(values: list[Any], make: Build, where: str) -> tuple[Schema, Build]:
    kinds = {_PLAIN.get(type(value)) for value in values}
    if None in kinds or not kinds:
        raise TypeError(f'{where}: choices are str, int, float or bool, not {values!r}')
    schema: Schema = {'enum': values}
    if len(kinds) == 1:
        schema['type'] = kinds.pop()
    return schema, make


def _of_union(kinds: tuple[Any, ...], where: str) -> tuple[Schema, Build]:
    found = [of(kind, where) for kind in kinds]
    simple = [schema.get('type') for schema, _ in found if set(schema) == {'type'}]
    schema: Schema = {'type': simple} if len(simple) == len(found) else {'anyOf': [schema for schema, _ in found]}

    def build(value: Any) -> Any:
        for kind, (_, make) in zip(kinds, found):
            if accepts(kind, value):
                return make(value)
        return value

    return schema, build


def accepts(hint: Any, value: Any) -> bool:
    """Whether a value of JSON fits a member of a union. The library has checked the whole value against the schema."""
    while typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    origin = typing.get_origin(hint) or hint
    if origin is Any:
        return True
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if origin in _PLAIN:
        return type(value) is origin
    if isinstance(origin, type) and issubclass(origin, enum.Enum):
        return value in [member.value for member in origin]
    if origin in (list, tuple, set):
        return isinstance(value, list)
    if not isinstance(value, dict):
        return False
    names: Any = getattr(origin, '__required_keys__', None)
    if names is None and dataclasses.is_dataclass(origin):
        names = {
            field.name
            for field in dataclasses.fields(origin)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
    if names is None and _is_pydantic(origin):
        names = {name for name, field in origin.model_fields.items() if field.is_required()}
    return names is None or set(names) <= set(value)


def of(hint: Any, where: str = 'the type') -> tuple[Schema, Build]:
    """Returns (schema, function that makes an object of the type from a value that the schema accepted)."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is inspect.Parameter.empty:
        return {}, _same
    if origin is typing.Annotated:
        schema, build = of(arguments[0], where)
        words = [text for text in arguments[1:] if isinstance(text, str)]
        return ({**schema, 'description': words[0]} if words else schema), build
    if hint is None or hint in _PLAIN:
        return {'type': _PLAIN[type(None) if hint is None else hint]}, float if hint is float else _same
    if origin is typing.Literal:
        return _of_choices(list(arguments), _same, where)
    if origin in (Union, types.UnionType):
        return _of_union(arguments, where)
    if origin in (list, set, tuple) or hint in (list, set, tuple):
        if (origin or hint) is tuple and arguments[1:] not in ((), (Ellipsis,)):
            raise TypeError(f'{where}: a tuple of fixed length has no schema here: use a dataclass')
        items, build = of(arguments[0], where) if arguments else ({}, _same)
        make: Any = origin or hint
        return {'type': 'array', **({'items': items} if items else {})}, lambda value: make(
            build(item) for item in value
        )
    if origin is dict or hint is dict:
        if arguments and arguments[0] is not str:
            raise TypeError(f'{where}: the keys of a dict are str')
        items, build = of(arguments[1], where) if arguments else ({}, _same)
        return (
            {'type': 'object', **({'additionalProperties': items} if items else {})},
            lambda value: {key: build(item) for key, item in value.items()},
        )
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _of_choices([member.value for member in hint], hint, where)
    if _is_pydantic(hint):
        schema = hint.model_json_schema()
        return _inlined(schema, schema.get('$defs', {}), where), hint.model_validate
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _of_dataclass(hint, where)
    if typing.is_typeddict(hint):
        return _of_typed_dict(hint, where)
    raise TypeError(
        f'{where}: {hint!r} has no JSON Schema: use str, int, float, bool, list, dict, Literal, an Enum, a '
        'dataclass, a TypedDict or a pydantic model'
    )


@dataclasses.dataclass(slots=True)
class Signature:
    """The signature of a tool's function."""

    schema: Schema
    description: str
    builds: dict[str, Build]
    run_name: str | None  # the parameter that gets the ToolRun
    is_plain: bool  # JSON's own objects are of its types

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the function, of its types. Those that are missing have defaults, as the schema requires."""
        return given if self.is_plain else _built(self.builds, given)


def signature(function: Callable[..., Any], run_type: type) -> Signature:
    called: Any = function
    while isinstance(called, functools.partial):
        called = called.func
    if not inspect.isroutine(called):
        called = called.__call__
    name = getattr(called, '__name__', repr(function))
    try:
        hints = typing.get_type_hints(called, include_extras=True)
    except NameError as error:
        raise TypeError(f'{name}: a type of its signature is not known where it is defined: {error}') from error
    members: dict[str, tuple[Any, bool, Any]] = {}
    run_name = None
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f'{name}: a tool has named parameters only, not {parameter}')
        hint = hints.get(key, Any)
        if hint is run_type:
            run_name = key
        else:
            members[key] = (hint, parameter.default is parameter.empty, parameter.default)
    schema, builds = _object(members, name)
    is_plain = all(build is _same for build in builds.values())
    return Signature(schema, inspect.getdoc(called) or '', builds, run_name, is_plain)
