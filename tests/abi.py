#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the public headers declare, compared with what is checked in (docs/abi.md).

    python3 tests/abi.py symbols ROOT [--write | --copy FILE]

symbols: the functions that the public headers declare are those that turnphase.map exports, each in one node. --write
adds what is missing to the newest node and removes what is declared no more; --copy writes the map to FILE when it is
right (the build links with that copy). Exit: 0 they agree, 1 they do not, 2 usage.
"""

import os
import re
import sys

COMMENT = re.compile(r'/\*.*?\*/', re.S)
FUNCTION = re.compile(r'\bTP_API\b[^;({]*?\b(tp_\w+)\s*\(')
VERSION = re.compile(r'^#define TP_VERSION_(MAJOR|MINOR) (\d+)$', re.M)
NODE = re.compile(r'(TURNPHASE_[\d.]+)\s*\{(.*?)\}\s*(TURNPHASE_[\d.]+)?\s*;', re.S)


def headers(root):
    folder = os.path.join(root, 'include/turnphase')
    for name in sorted(os.listdir(folder)):
        if name.endswith('.h'):
            with open(os.path.join(folder, name), encoding='utf-8') as file:
                yield name, file.read()


# ---- symbols --------------------------------------------------------------------------------------------------------


def declared_functions(root):
    """{header: [function, …]}, comments and macros left out."""
    found = {}
    for name, text in headers(root):
        code = re.sub(r'^[ \t]*#[^\n]*', '', COMMENT.sub(' ', text), flags=re.M)
        found[name] = sorted(set(FUNCTION.findall(code)))
    return found


def version_node(root):
    """The node of the headers' version: TURNPHASE_0.1."""
    with open(os.path.join(root, 'include/turnphase/base.h'), encoding='utf-8') as file:
        numbers = dict(VERSION.findall(file.read()))
    return 'TURNPHASE_%s.%s' % (numbers['MAJOR'], numbers['MINOR'])


def map_nodes(text):
    """[(node, [function, …], the node before or None)], oldest first."""
    code = COMMENT.sub(' ', text)
    return [(m.group(1), re.findall(r'\b(tp_\w+)\s*;', m.group(2)), m.group(3)) for m in NODE.finditer(code)]


def map_text(declared, nodes, newest):
    """The map with every declared function in the node where it stands today, new ones in the newest."""
    place = {function: node for node, functions, _ in nodes for function in functions}
    names = [node for node, _, _ in nodes]
    if newest not in names:
        names.append(newest)
    lines = ['/* SPDX-License-Identifier: Apache-2.0',
             ' * What the libraries export, one node a minor version; each exports what it has of it. The review',
             ' * list of the public functions: ./dev symbols writes it from the headers, and the build refuses to link',
             ' * when they differ (docs/abi.md). */']
    before = None
    for node in names:
        lines += [node + ' {', '  global:']
        for header, functions in declared.items():
            own = [function for function in functions if place.get(function, newest) == node]
            if own:
                lines += ['    /* %s */' % header] + ['    %s;' % function for function in own]
        if before is None:
            lines += ['  local:', '    *;']
        lines += ['}%s;' % (' ' + before if before else '')]
        before = node
    return '\n'.join(lines) + '\n'


def symbols(root, words):
    if words not in ([], ['--write']) and not (len(words) == 2 and words[0] == '--copy'):
        return usage()
    path = os.path.join(root, 'turnphase.map')
    with open(path, encoding='utf-8') as file:
        text = file.read()
    wanted = map_text(declared_functions(root), map_nodes(text), version_node(root))
    there = {function for _, functions, _ in map_nodes(text) for function in functions}
    need = {function for functions in declared_functions(root).values() for function in functions}
    if words == ['--write']:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(wanted)
    elif there != need:
        print('turnphase.map is not what the public headers declare:')
        print(''.join('  + %s\n' % name for name in sorted(need - there)), end='')
        print(''.join('  - %s\n' % name for name in sorted(there - need)), end='')
        print('run ./dev symbols and commit turnphase.map')
        return 1
    if words[:1] == ['--copy']:
        with open(words[1], 'w', encoding='utf-8') as file:
            file.write(wanted)
    return 0


# ---- the command ----------------------------------------------------------------------------------------------------


def usage():
    print(__doc__.strip(), file=sys.stderr)
    return 2


def main(words):
    verbs = {'symbols': symbols}
    if len(words) < 2 or words[0] not in verbs or not os.path.isdir(os.path.join(words[1], 'include/turnphase')):
        return usage()
    return verbs[words[0]](words[1], words[2:])


sys.exit(main(sys.argv[1:]))
