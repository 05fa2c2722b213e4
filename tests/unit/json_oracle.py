#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's json as the other parser: reads lines "TEXT JSON" or "TEXT -" (hexadecimal digits) and ends with 1 when it
would decide otherwise, or reads another value from JSON than from TEXT. What turnphase refuses beyond RFC 8259 is
refused here, too: repeated keys, numbers out of range, lone surrogates, depth over 32."""
import json
import sys


def unique(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError('a repeated key')
    return dict(pairs)


def int64(text):
    number = int(text)
    if not -2**63 <= number < 2**63:
        raise ValueError('out of range')
    return number


def finite(text):
    number = float(text)
    if number in (float('inf'), float('-inf')):
        raise ValueError('out of range')
    return number


def refused(text):
    raise ValueError(text)


def checked(value, depth=0):
    if isinstance(value, (dict, list)):
        if depth == 32:
            raise ValueError('too deep')
        for item in value.values() if isinstance(value, dict) else value:
            checked(item, depth + 1)
        for key in value if isinstance(value, dict) else ():
            key.encode('utf-8')
    if isinstance(value, str):
        value.encode('utf-8')  # refuses lone surrogates
    return value


def parse(data):
    try:
        return checked(json.loads(data.decode('utf-8'), object_pairs_hook=unique, parse_int=int64, parse_float=finite,
                                  parse_constant=refused))
    except (ValueError, RecursionError):
        return ValueError


def main():
    count, bad = 0, 0
    for line in sys.stdin:
        text, result = line.split(' ')
        text, result = bytes.fromhex(text), result.strip()
        theirs = parse(text)
        ours = ValueError if result == '-' else parse(bytes.fromhex(result))
        count += 1
        if repr(theirs) != repr(ours):
            bad += 1
            print('%r: turnphase reads %r, Python %r' % (text[:300], ours, theirs), file=sys.stderr)
    sys.exit(1 if bad or count < 1000 else 0)


main()
