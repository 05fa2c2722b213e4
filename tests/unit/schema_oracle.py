# SPDX-License-Identifier: Apache-2.0
"""Random JSON schemas and values, with what python3-jsonschema says of each, in the form of the official tests.
Usage: schema_oracle.py SEED COUNT. Exit: 3 without jsonschema."""
import json
import random
import sys

try:
    from jsonschema import Draft202012Validator
except ImportError:
    sys.exit(3)

NAMES = ['a', 'b', 'c', 'päth', '$ref']
PATTERNS = ['^a', 'b$', '^[a-c]+$', '^(a|b)*c?$', '[^ab]', '^.{2,3}$', 'a+b', '^\\d{1,2}$', '\\bb', '^(?:ab|c)+$', 'ä']
TEXTS = ['', 'a', 'b', 'ab', 'abc', 'cab', 'aab', 'b c', '12', '123', 'päth', 'ä', '☃', 'aaaa']
TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object']
NUMBERS = [-3, -1, 0, 1, 2, 3, 4, 7, 0.5, -2.5, 1.25, 100]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, depth=0):
        r = self.random
        kind = r.randrange(5 if depth > 2 else 8)
        if kind == 0:
            return r.choice([None, True, False])
        if kind in (1, 2):
            return r.choice(NUMBERS)
        if kind in (3, 4):
            return r.choice(TEXTS)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(r.randrange(4))]
        return {name: self.value(depth + 1) for name in r.sample(NAMES, r.randrange(4))}

    def schemas(self, depth):
        return [self.schema(depth + 1) for _ in range(self.random.randrange(1, 4))]

    def keyword(self, depth):
        r, s = self.random, self.schema
        deep = {
            'properties': lambda: {n: s(depth + 1) for n in r.sample(NAMES, r.randrange(1, 4))},
            'additionalProperties': lambda: s(depth + 1),
            'patternProperties': lambda: {p: s(depth + 1) for p in r.sample(PATTERNS, r.randrange(1, 3))},
            'propertyNames': lambda: s(depth + 1),
            'dependentSchemas': lambda: {r.choice(NAMES): s(depth + 1)},
            'items': lambda: s(depth + 1),
            'prefixItems': lambda: self.schemas(depth),
            'contains': lambda: s(depth + 1),
            'allOf': lambda: self.schemas(depth),
            'anyOf': lambda: self.schemas(depth),
            'oneOf': lambda: self.schemas(depth),
            'not': lambda: s(depth + 1),
            'if': lambda: s(depth + 1),
            'then': lambda: s(depth + 1),
            'else': lambda: s(depth + 1),
        }
        flat = {
            # a float without a fraction is no integer here
            'type': lambda: r.choice([r.choice(TYPES), r.sample(TYPES, 2)]),
            'enum': lambda: [self.value(1) for _ in range(r.randrange(1, 4))],
            'const': lambda: self.value(1),
            'minimum': lambda: r.choice(NUMBERS[:6]),
            'maximum': lambda: r.choice(NUMBERS[6:]) + 100,
            'exclusiveMinimum': lambda: r.choice(NUMBERS),
            'exclusiveMaximum': lambda: r.choice(NUMBERS),
            'multipleOf': lambda: r.choice([1, 2, 0.5, 3]),
            'minLength': lambda: r.randrange(4),
            'maxLength': lambda: r.randrange(4),
            'pattern': lambda: r.choice(PATTERNS),
            'minItems': lambda: r.randrange(3),
            'maxItems': lambda: r.randrange(4),
            'uniqueItems': lambda: r.random() < 0.8,
            'minContains': lambda: r.randrange(3),
            'maxContains': lambda: r.randrange(3),
            'minProperties': lambda: r.randrange(3),
            'maxProperties': lambda: r.randrange(4),
            'required': lambda: r.sample(NAMES, r.randrange(3)),
            'dependentRequired': lambda: {r.choice(NAMES): r.sample(NAMES, r.randrange(3))},
            '$ref': lambda: r.choice(['#/$defs/x', '#/$defs/y', '#named']),
        }
        name = r.choice(list(flat) + (list(deep) if depth < 4 else []))
        return name, (deep.get(name) or flat[name])()

    def schema(self, depth=1):
        if self.random.random() < 0.08:
            return self.random.random() < 0.7
        return dict(self.keyword(depth) for _ in range(self.random.randrange(4)))

    def root(self):
        whole = self.schema(0)
        whole = whole if isinstance(whole, dict) else {'allOf': [whole]}
        x = {k: v for k, v in dict([self.keyword(4), self.keyword(4)]).items() if k != '$ref'}
        named = {k: v for k, v in dict([self.keyword(4)]).items() if k != '$ref'}
        # y is a tree: it leads into itself, one level further down
        whole['$defs'] = {'x': x, 'y': {'properties': {'a': {'$ref': '#/$defs/y'}}, 'items': {'$ref': '#/$defs/y'},
                                       'not': {'type': 'boolean'}},
                          'z': {'$anchor': 'named', **named}}
        return whole


def main():
    maker, groups = Maker(int(sys.argv[1])), []
    for number in range(int(sys.argv[2])):
        schema = maker.root()
        validator, tests = Draft202012Validator(schema), []
        for index in range(8):
            data = maker.value()
            tests.append({'description': f'value {index}', 'data': data, 'valid': validator.is_valid(data)})
        groups.append({'description': f'schema {number}', 'schema': schema, 'tests': tests})
    json.dump(groups, sys.stdout)


main()
