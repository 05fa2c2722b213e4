#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts how the tree is cut: lines, functions, names, includes.

    python3 tests/count_tree.py ROOT [--where]

Prints the lines of code, of comments and of blank lines of each module; functions per 1,000 lines of code of the
product; function names that are defined in several files; the largest circle of includes of phases and of declared;
the headers of runtime/exec that phases includes. --where names them. Nothing here is a bound: two trees are compared.

A unit is a .c with the .h of its name, wherever the .h stands. A unit that includes the header of another depends on
it; a circle is a set of units of which each depends on each other one, directly or through others.
"""

import os
import re
import sys

import count_support as support

PRODUCT = ('runtime', 'phases', 'domains', 'stores', 'providers', 'cli', 'support', 'server', 'include')
NAME_IN_FILES = 4  # a name that is defined in so many files is of no use in a backtrace


def module_of(path):
    parts = path.split('/')
    if parts[0] in ('domains', 'stores', 'providers', 'runtime', 'tests', 'cli') and len(parts) > 2:
        return '/'.join(parts[:2])
    return parts[0]


def lines_of(text):
    """(code, comments, blank): a line with both a statement and a comment counts as code."""
    code = support.without_comments(text).split('\n')
    kept = text.split('\n')
    if kept and not kept[-1]:
        kept.pop()
    counts = [0, 0, 0]
    for with_comment, without in zip(kept, code):
        counts[0 if without.strip() else 1 if with_comment.strip() else 2] += 1
    return counts


def includes_of(text):
    return re.findall(r'^#include "([^"]+)"', text, re.M)


def largest_circle(graph):
    """The largest strongly connected set of the graph, by Tarjan's algorithm without recursion."""
    number, low, stack, on_stack, best = {}, {}, [], set(), []
    for root in sorted(graph):
        if root in number:
            continue
        work = [(root, iter(sorted(graph[root])))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            unit, others = work[-1]
            other = next(others, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == number[unit]:
                    circle = []
                    while not circle or circle[-1] != unit:
                        circle.append(stack.pop())
                        on_stack.discard(circle[-1])
                    best = max(best, circle, key=len)
            elif other not in number:
                number[other] = low[other] = len(number)
                stack.append(other)
                on_stack.add(other)
                work.append((other, iter(sorted(graph[other]))))
            elif other in on_stack:
                low[unit] = min(low[unit], number[other])
    return sorted(best) if len(best) > 1 else []


def include_graph(texts, under):
    """{unit: units that it includes} of the sources below a folder."""
    unit_of = {path: os.path.splitext(path)[0] for path in texts if path.startswith(under)}
    graph = {unit: set() for unit in unit_of.values()}
    for path, unit in unit_of.items():
        for name in includes_of(texts[path]):
            target = os.path.splitext(name)[0]
            if target in graph and target != unit:
                graph[unit].add(target)
    return graph


def main():
    if len(sys.argv) < 2 or not os.path.isfile(os.path.join(sys.argv[1], 'meson.build')):
        print('usage: count_tree.py ROOT [--where]', file=sys.stderr)
        return 2
    root, where = sys.argv[1], '--where' in sys.argv
    texts = {}
    for path in support.files_below(root):
        if path.endswith(('.c', '.h', '.def')):
            with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
                texts[path] = file.read()

    sums = {}
    for path, text in texts.items():
        row = sums.setdefault(module_of(path), [0, 0, 0, 0])
        for at, count in enumerate(lines_of(text)):
            row[at] += count
        row[3] += len(support.all_functions(text)) if path.endswith(('.c', '.h')) else 0
    print('%-24s %8s %8s %8s %10s' % ('module', 'code', 'comments', 'blank', 'functions'))
    for name, row in sorted(sums.items()):
        print('%-24s %8d %8d %8d %10d' % (name, *row))
    for title, wanted in (('product', True), ('tests and bench', False)):
        rows = [row for name, row in sums.items() if (name.split('/')[0] in PRODUCT) == wanted]
        print('%-24s %8d %8d %8d %10d' % (title, *(sum(row[at] for row in rows) for at in range(4))))
    product = [row for name, row in sums.items() if name.split('/')[0] in PRODUCT]
    every_line = sum(sum(row[:3]) for row in product)
    print('functions per 1,000 lines of the product: %.1f' % (1000 * sum(row[3] for row in product) / every_line))

    files_of = {}
    for path, text in texts.items():
        if path.endswith('.c') and path.split('/')[0] in PRODUCT:
            for name in {function[2] for function in support.functions(support.code_only(text))}:
                files_of.setdefault(name, []).append(path)
    shared = {name: paths for name, paths in files_of.items() if len(paths) >= NAME_IN_FILES}
    print('names of functions in %d or more files: %d' % (NAME_IN_FILES, len(shared)))
    if where:
        for name, paths in sorted(shared.items()):
            print('    %s: %s' % (name, ' '.join(paths)))

    for under in ('phases/', 'runtime/exec/', 'domains/declared/'):
        circle = largest_circle(include_graph(texts, under))
        print('largest circle of includes in %s: %d' % (under[:-1], len(circle)))
        if where and circle:
            print('    ' + ' '.join(circle))

    doors = {name for path, text in texts.items() if path.startswith('phases/') for name in includes_of(text)
             if name.startswith('runtime/exec/')}
    print('headers of runtime/exec that phases includes: %d' % len(doors))
    if where:
        print('    ' + ' '.join(sorted(doors)))
    return 0


if __name__ == '__main__':
    sys.exit(main())
