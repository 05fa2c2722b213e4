#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the rows of docs/seeds.md by their state, and the examples in tests/seeds: what ./dev test prints of them.

    python3 tests/seeds.py ROOT
"""
import collections
import os
import re
import sys

ROW = re.compile(r'^\| (?:S\d|Card)\.\d+ \|.*?\| (\w+) \| .* \|$', re.M)


def main():
    root = sys.argv[1]
    with open(os.path.join(root, 'docs/seeds.md'), encoding='utf-8') as file:
        states = collections.Counter(ROW.findall(file.read()))
    examples = sum(len(names) for _, _, names in os.walk(os.path.join(root, 'tests/seeds')))
    print('seed documents: %d of %d rows work, %d are otherwise by decision, %d belong to later work; %d files of '
          'examples' % (states['works'], sum(states.values()), states['otherwise'], states['later'], examples))


main()
