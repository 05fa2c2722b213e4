# SPDX-License-Identifier: Apache-2.0
"""Schemas of signatures, and values both ways."""

import copy
import dataclasses
import enum
import json
import math
import pickle
import typing
import unittest
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

from support import turnphase
from turnphase import ToolRun, _core, _schema

try:
    import pydantic
except ImportError:
    pydantic = None
try:
    import hypothesis
    from hypothesis import strategies
except ImportError:
    hypothesis = None


class Colour(enum.Enum):
    RED = 'red'
    BLUE = 'blue'


@dataclasses.dataclass
class Point:
    x: int
    y: float = 1.5


@dataclasses.dataclass
class Line:
    points: list[Point]
    colour: Colour = Colour.RED


class Place(TypedDict):
    city: str
    zip: NotRequired[int]


class Tree(TypedDict):
    parent: 'Tree'


class Signatures(unittest.TestCase):
    def test_types(self):
        rows = [
            (str, {'type': 'string'}),
            (int, {'type': 'integer'}),
            (float, {'type': 'number'}),
            (bool, {'type': 'boolean'}),
            (Any, {}),
            (list[str], {'type': 'array', 'items': {'type': 'string'}}),
            (list, {'type': 'array'}),
            (tuple[int, ...], {'type': 'array', 'items': {'type': 'integer'}}),
            (dict, {'type': 'object'}),
            (dict[str, int], {'type': 'object', 'additionalProperties': {'type': 'integer'}}),
            (Literal['a', 'b'], {'type': 'string', 'enum': ['a', 'b']}),
            (Colour, {'type': 'string', 'enum': ['red', 'blue']}),
            (Optional[int], {'type': ['integer', 'null']}),
            (int | str, {'type': ['integer', 'string']}),
            (Annotated[int, 'in mm'], {'type': 'integer', 'description': 'in mm'}),
            (
                Point,
                {
                    'type': 'object',
                    'properties': {'x': {'type': 'integer'}, 'y': {'type': 'number', 'default': 1.5}},
                    'additionalProperties': False,
                    'required': ['x'],
                },
            ),
            (
                Place,
                {
                    'type': 'object',
                    'properties': {'city': {'type': 'string'}, 'zip': {'type': 'integer'}},
                    'additionalProperties': False,
                    'required': ['city'],
                },
            ),
        ]
        for hint, schema in rows:
            with self.subTest(hint):
                self.assertEqual(_schema.of(hint)[0], schema)

    def test_what_has_no_schema_is_refused_with_its_place(self):
        for hint in (object, bytes, complex, set[bytes], dict[int, str], tuple[int, str], typing.Callable):
            with self.subTest(hint), self.assertRaises(TypeError) as raised:

                def act(point: Point, wrong: hint):
                    pass

                _schema.signature(act, ToolRun)
            self.assertIn('act.wrong', str(raised.exception))
        for act in (lambda *rest: 0, lambda **rest: 0, eval('lambda a, /: 0')):
            self.assertRaises(TypeError, _schema.signature, act, ToolRun)
        self.assertRaises((TypeError, RecursionError), _schema.of, Tree)

    def test_arguments_are_of_their_types(self):
        def act(
            line: Line,
            place: Place,
            run: ToolRun,
            either: Point | str = 'x',
            size: float = 1.0,
            some: set[int] = frozenset(),
        ):
            """Acts."""

        signature = _schema.signature(act, ToolRun)
        self.assertEqual(
            (signature.run_name, signature.description, signature.schema['required']),
            ('run', 'Acts.', ['line', 'place']),
        )
        made = signature.arguments(
            {
                'line': {'points': [{'x': 1}, {'x': 2, 'y': 3}], 'colour': 'blue'},
                'place': {'city': 'Oslo'},
                'either': {'x': 4},
                'size': 3,
                'some': [1, 1, 2],
            }
        )
        self.assertEqual(made['line'], Line([Point(1), Point(2, 3.0)], Colour.BLUE))
        self.assertEqual((made['place'], made['either'], made['some']), ({'city': 'Oslo'}, Point(4), {1, 2}))
        self.assertIs(type(made['size']), float)
        self.assertEqual(signature.arguments({'either': 'words'})['either'], 'words')
        json.dumps(signature.schema)

    @unittest.skipUnless(pydantic, 'pydantic is not here')
    def test_pydantic_models(self):
        class Inner(pydantic.BaseModel):
            n: int = pydantic.Field(ge=0, description='how many')

        class Outer(pydantic.BaseModel):
            inner: Inner
            names: list[str] = []

        Outer.model_rebuild(_types_namespace={'Inner': Inner})
        schema, build = _schema.of(Outer)
        self.assertNotIn('$ref', json.dumps(schema))
        self.assertEqual(schema['properties']['inner']['properties']['n']['description'], 'how many')
        self.assertEqual(build({'inner': {'n': 3}}), Outer(inner=Inner(n=3)))

    @unittest.skipUnless(pydantic, 'pydantic is not here')
    def test_a_pydantic_model_that_contains_itself_is_refused(self):
        class Node(pydantic.BaseModel):
            next: Optional['Node'] = None

        Node.model_rebuild(_types_namespace={'Node': Node})
        self.assertRaises(TypeError, _schema.of, Node)


class Values(unittest.TestCase):
    def test_round_trips(self):
        for value in (
            None,
            True,
            False,
            0,
            -1,
            2**63 - 1,
            -(2**63),
            0.5,
            math.inf,
            '',
            'é\0ü',
            b'',
            b'\xff\0',
            [],
            {},
            [1, [2, {'a': None}]],
            {'': 1, 'k' * 300: [True] * 70},
        ):
            self.assertEqual(_core.round_trip(value), value)
        self.assertTrue(math.isnan(_core.round_trip(math.nan)))
        self.assertEqual(_core.round_trip((1, 2)), [1, 2])

    def test_what_is_no_value_is_refused(self):
        deep = []
        for _ in range(40):
            deep = [deep]
        circle = []
        circle.append(circle)
        for value, kind in (
            (2**63, OverflowError),
            (object(), TypeError),
            ({1: 2}, TypeError),
            (deep, ValueError),
            (circle, ValueError),
            ({'a': {2}}, TypeError),
            ('\ud800', UnicodeEncodeError),
        ):
            with self.subTest(type(value)):
                self.assertRaises(kind, _core.round_trip, value)

    @unittest.skipUnless(hypothesis, 'hypothesis is not here')
    def test_any_value_comes_back(self):
        plain = (
            strategies.none()
            | strategies.booleans()
            | strategies.integers(-(2**63), 2**63 - 1)
            | strategies.text()
            | strategies.binary()
            | strategies.floats(allow_nan=False)
        )
        values = strategies.recursive(
            plain,
            lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
            max_leaves=20,
        )

        @hypothesis.given(values)
        @hypothesis.settings(max_examples=200, deadline=None, database=None)
        def comes_back(value):
            self.assertEqual(_core.round_trip(value), value)

        comes_back()


class Members(unittest.TestCase):
    def test_a_text_shows_the_members(self):
        self.assertEqual(repr(turnphase.Deny('no')), "Deny(reason='no')")
        self.assertEqual(repr(turnphase.Allow()), 'Allow()')
        self.assertEqual(repr(turnphase.Part('link', uri='u')), (
            "Part(kind='link', text=None, bytes=None, uri='u', media_type=None, name=None, description=None)"))

    def test_equal_are_those_of_one_class_with_equal_members(self):
        self.assertEqual(turnphase.ToolCall('a', {'b': [1]}), turnphase.ToolCall('a', {'b': [1]}))
        self.assertNotEqual(turnphase.ToolCall('a', {'b': [1]}), turnphase.ToolCall('a', {'b': [2]}))
        self.assertNotEqual(turnphase.Deny('no'), turnphase.Ask('no'))
        self.assertNotEqual(turnphase.Deny('no'), 'no')

    def test_a_verdict_is_one_member_of_a_set(self):
        self.assertEqual(len({turnphase.Deny('no'), turnphase.Deny('no'), turnphase.Ask('no'), turnphase.Deny()}), 3)
        with self.assertRaises(AttributeError):
            turnphase.Deny('no').reason = 'yes'
        with self.assertRaises(TypeError):
            hash(turnphase.ToolCall('a'))

    def test_a_copy_has_the_members(self):
        for whole in (turnphase.Deny('no'), turnphase.Response('x', calls=[turnphase.ToolCall('a')])):
            self.assertEqual(copy.deepcopy(whole), whole)
            self.assertEqual(pickle.loads(pickle.dumps(whole)), whole)
        self.assertEqual(dataclasses.replace(turnphase.Failed('x'), retryable=True), turnphase.Failed('x', True))


class Errors(unittest.TestCase):
    def test_categories(self):
        from turnphase import _errors

        error = _errors.of(119, 'TP_ERR_CYCLE', 'usage', 'a -> b -> a', 'a', '', 3, 4)
        self.assertIsInstance(error, turnphase.UsageError)
        self.assertIn('line 3, column 4', str(error))
        self.assertIsInstance(_errors.of(300, 'TP_ERR_TIMEOUT', 'timeout', 'x'), TimeoutError)
        self.assertIs(type(_errors.of(9999, 'TP_ERR_UNKNOWN', 'new', 'x')), turnphase.Error)


if __name__ == '__main__':
    unittest.main()
