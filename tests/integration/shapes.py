# SPDX-License-Identifier: Apache-2.0
"""Whether a value has the shape that a document says, which is a JSON schema of a small subset."""
KINDS = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'number': (int, float)}


def violation(value, rule, path='$'):
    """@return where and how a value breaks the schema; None: it fits."""
    if 'const' in rule and value != rule['const']:
        return f'{path} is {value!r}, not {rule["const"]!r}'
    if 'enum' in rule and value not in rule['enum']:
        return f'{path} is {value!r}, none of {rule["enum"]}'
    kind = rule.get('type')
    if kind and (not isinstance(value, KINDS[kind]) or (kind == 'number' and isinstance(value, bool))):
        return f'{path} is {value!r}, no {kind}'
    if kind == 'object':
        missing = [name for name in rule.get('required', []) if name not in value]
        if missing:
            return f'{path} lacks {missing}'
        more = sorted(set(value) - set(rule.get('properties', {})))
        if rule.get('additionalProperties') is False and more:
            return f'{path} has {more}'
        for name, inner in rule.get('properties', {}).items():
            found = name in value and violation(value[name], inner, f'{path}.{name}')
            if found:
                return found
    if kind == 'array':
        for index, item in enumerate(value):
            found = violation(item, rule.get('items', {}), f'{path}[{index}]')
            if found:
                return found
    return None
