#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes phases/blank.def: the characters that escape.c reads over, from the tables of the Unicode Character Database.

Usage: phases/blank.py [FOLDER] >phases/blank.def

FOLDER has DerivedCoreProperties.txt and PropList.txt (default: /usr/share/unicode, of Debian's package unicode-data).
Taken are Default_Ignorable_Code_Point, White_Space and the controls, which are U+0000 to U+001F and U+007F to U+009F
for ever."""
import os
import re
import sys

CONTROLS = [(0x00, 0x1F), (0x7F, 0x9F)]


def read(path, prop):
    with open(path, encoding='utf-8') as table:
        first = table.readline()
        for line in table:
            found = re.match(r'([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*;\s*(\w+)', line)
            if found and found.group(3) == prop:
                yield int(found.group(1), 16), int(found.group(2) or found.group(1), 16)
    yield first.strip('# \n')


def main(folder='/usr/share/unicode'):
    ignorable = list(read(os.path.join(folder, 'DerivedCoreProperties.txt'), 'Default_Ignorable_Code_Point'))
    white = list(read(os.path.join(folder, 'PropList.txt'), 'White_Space'))
    merged = []
    for first, last in sorted(ignorable[:-1] + white[:-1] + CONTROLS):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    print('/* SPDX-License-Identifier: Apache-2.0')
    print(' *')
    print(' * Written by phases/blank.py from %s and %s: BLANK(first, last). */' % (ignorable[-1], white[-1]))
    for first, last in merged:
        print('BLANK(0x%X, 0x%X)' % (first, last))


main(*sys.argv[1:])
