#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of durations at the end of ./dev test.

  tests/durations.py <STEPS

A line of STEPS is `title|begin|end|testlog`: when the step began and ended in seconds since 1970, and meson's
testlog.json of it, or nothing. What passed before its first test is the time to configure and compile.
"""
import json
import os
import sys

SLOWEST = 15


def tests_of(path, begin):
    """(duration, start, name) of each test of a step."""
    if not os.path.isfile(path):
        return
    with open(path, encoding='utf-8') as file:
        for line in file:
            test = json.loads(line)
            if test['starttime'] >= begin - 1:
                yield test['duration'], test['starttime'], test['name'].replace('turnphase:', '')


def main():
    slowest, sums = [], [0, 0]
    print('\n%-52s %8s %8s' % ('seconds', 'compile', 'run'))
    for line in sys.stdin:
        title, begin, end, path = line.rstrip('\n').split('|')
        begin, end = float(begin), float(end)
        tests = list(tests_of(path, begin))
        first = min((start for _, start, _ in tests), default=begin)
        compiled, ran = max(0, first - begin), end - max(first, begin)
        print('%-52s %8.0f %8.0f' % (title, compiled, ran))
        sums = [sums[0] + compiled, sums[1] + ran]
        slowest += [(duration, '%s (%s)' % (name, title)) for duration, _, name in tests]
    print('%-52s %8.0f %8.0f   together %.0f' % ('', *sums, sum(sums)))
    print('\nThe slowest tests:')
    for duration, name in sorted(slowest, reverse=True)[:SLOWEST]:
        print('%8.1f s  %s' % (duration, name))


if __name__ == '__main__':
    main()
