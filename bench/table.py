#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of README.md from the JSON output of the benches.

    ./dev bench --json >figures.jsonl && python3 bench/table.py figures.jsonl

Prints Markdown: a line for each form of turnphase in each row, with what it is compared with, its bound and the peers;
then the single figures. All times are medians.
"""

import json
import sys


def shown(ns):
    for limit, unit, size in ((1e6, 'ms', 1e6), (1e4, 'µs', 1e3)):
        if ns >= limit:
            return '%.*f %s' % (2 if ns / size < 100 else 0, ns / size, unit)
    return '%.*f ns' % (0 if ns >= 100 else 1, ns)


def bound_of(line):
    bounds = []
    if 'ratio_max' in line:
        bounds.append('ratio ≤ %.2f' % line['ratio_max'])
    if 'ns_max' in line:
        bounds.append('≤ ' + shown(line['ns_max']))
    if not bounds:
        return ''
    return ', '.join(bounds) + (': kept' if line['kept'] else ': **not kept**')


def is_ours(line):
    return line['contestant'].startswith('turnphase')


def peers_of(group):
    baselines = {line.get('against') for line in group}
    return '; '.join('%s %s' % (line['contestant'], shown(line['ns']['median'])) for line in group
                     if not is_ours(line) and line['contestant'] not in baselines)


def lines_of(group):
    medians = {line['contestant']: line['ns']['median'] for line in group}
    peers = peers_of(group)
    for line in filter(is_ours, group):
        against = line.get('against')
        form = line['contestant'][len('turnphase'):].strip(', ') or line['form']
        if line['row'] in ('W7', 'flight', 'W8', 'W8b', 'W9'):
            form += '%sCPU %s %s' % (', ' if form else '', shown(line['cpu_ns']), line['cpu_unit'])
        yield [line['row'], form, shown(line['ns']['median']),
               '%s %s' % (against, shown(medians[against])) if against in medians else '',
               '%.2f' % line['ratio'] if against in medians else '',
               '%s, %.2f' % (line['distance'], line['others']), bound_of(line), peers]
        peers = ''


def groups_of(lines):
    groups = {}
    for line in lines:
        groups.setdefault((line['bench'], line['row'], line['what']), []).append(line)
    return groups.values()


def figure_of(line):
    bound = '≤ %g: %s' % (line['max'], 'kept' if line['kept'] else '**not kept**') if 'max' in line else ''
    return [line['row'], line['what'], '%.4g %s' % (line['value'], line['unit']), bound]


def print_table(head, rows):
    print('\n| %s |\n|%s' % (' | '.join(head), '---|' * len(head)))
    last = None
    for row in rows:
        print('| %s |' % ' | '.join(['' if row[0] == last else row[0]] + row[1:]))
        last = row[0]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding='utf-8') as file:
        lines = [json.loads(line) for line in file if line.startswith('{')]
    machine = next(line['machine'] for line in lines if 'machine' in line)
    print('%(date)s, %(system)s %(architecture)s, %(processor)s, %(processors)d processors, %(compiler)s, '
          '%(build_type)s build; peers: %(peers)s.' % machine)
    timed = [line for line in lines if 'contestant' in line]
    print_table(['', '', 'turnphase', 'beside', 'ratio', 'processors, others', 'bound', 'peers'],
                [row for group in groups_of(timed) for row in lines_of(group)])
    print_table(['', 'figure', 'value', 'bound'], [figure_of(line) for line in lines if 'value' in line])
    print_table(['module', 'operation', 'median'],
                [[line['row'], line['contestant'], shown(line['ns']['median'])] for line in timed
                 if line['bench'] == line['row']])


main()
