#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The regression gate: how many instructions the workloads take, against stored values.

    python3 bench/gate.py BUILD              counts, and compares with bench/instructions.txt
    python3 bench/gate.py --accept BUILD     counts, and writes bench/instructions.txt anew
    python3 bench/gate.py --prove            only shows that the gate can fail

BUILD is a build directory with bench/gate in it; valgrind counts. A row fails that takes more than 5 % above its stored
value. Counts hold for one compiler, one set of flags and one kind of machine: elsewhere nothing can be compared, and
each row says that it was skipped. How the cost grows with the graph is checked everywhere. Before anything is counted
every rule is tried on planted counts: a gate that cannot fail proves nothing. The last lines count the results as meson
does. Exit: 0 nothing failed, 1 something did, 2 the gate itself is broken.
"""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STORED = os.path.join(HERE, 'instructions.txt')
ABOVE = 0.05  # the tolerance above the stored value

# What grows with a graph: the rows NAME.10, NAME.100, … and how much more ten times the graph may take than ten times
# as much. Running it is linear; compiling it sorts.
GROWTH = {'grown': 0.20, 'compiled': 0.30}

HEAD = """# How many instructions one run of a row takes: ./dev gate compares with this, ./dev gate --accept writes it.
# W1 to W5 with full time-stamps, .bare without, .coarse with coarse ones, .parallel with nodes of placement parallel
# that no worker helps with; W9: 64 tool calls, and a sixteenth of a turn; turn: a whole turn with seven inline handlers
# and two tool calls, .late with 2,000 turns of its session behind it; commit: one change among 50 subscriptions over 5
# phases. The values hold under these conditions:
"""


class Broken(Exception):
    pass


# ---- judging: from counts and stored values to verdicts (name, 'OK' | 'FAIL' | 'SKIP', what to say) ----


def family(name):
    return name.split('.')[0]


def judge_row(name, count, stored):
    if name not in stored:
        return name, 'FAIL', '%.1f; no value is stored: ./dev gate --accept' % count
    change = count / stored[name] - 1
    said = '%.1f, stored %.1f: %+.1f %%' % (count, stored[name], 100 * change)
    if change > ABOVE:
        return name, 'FAIL', said + ', more than %g %% above' % (100 * ABOVE)
    if change < -ABOVE:
        said += '; much better: ./dev gate --accept'
    return name, 'OK', said


def judge_growth(counts):
    for grown, more in GROWTH.items():
        sizes = sorted(int(name.split('.')[1]) for name in counts if family(name) == grown)
        for small, large in zip(sizes, sizes[1:]):
            each = [counts['%s.%d' % (grown, size)] / size for size in (small, large)]
            said = '%.1f a node, of %d nodes %.1f: %+.1f %%' % (each[1], small, each[0], 100 * (each[1] / each[0] - 1))
            verdict = 'FAIL' if each[1] > each[0] * (1 + more) else 'OK'
            yield '%s.%d' % (grown, large), verdict, said


def differences(conditions, stored_conditions):
    return [name for name in conditions if stored_conditions and conditions[name] != stored_conditions.get(name)]


def judge(conditions, counts, stored_conditions, stored):
    differ = differences(conditions, stored_conditions)
    for name, count in counts.items():
        if family(name) in GROWTH:
            continue
        if differ:
            yield name, 'SKIP', '%.1f, compared with nothing: stored for another %s' % (count, ' and '.join(differ))
        else:
            yield judge_row(name, count, stored)
    for name in () if differ else stored:
        if name not in counts:
            yield name, 'FAIL', 'stored, but there is no such row: ./dev gate --accept'
    yield from judge_growth(counts)


# ---- planted counts ----


def prove():
    here = {'machine': 'm', 'compiler': 'c'}
    counts = {'W1': 100.0, 'W5.bare': 2e5, 'grown.10': 250.0, 'grown.100': 2000.0, 'grown.1000': 20000.0,
              'compiled.10': 1e4, 'compiled.100': 1.2e5}
    same = {'W1': 100.0, 'W5.bare': 2e5}

    def expect(what, wanted, counted=counts, stored=same, conditions=here, stored_conditions=here):
        found = {name: verdict for name, verdict, _ in judge(conditions, counted, stored_conditions, stored)}
        wrong = {name: found.get(name) for name in wanted if found.get(name) != wanted[name]}
        if wrong:
            raise Broken('%s: expected %s, but %s' % (what, wanted, wrong))

    expect('the stored values', {name: 'OK' for name in ('W1', 'W5.bare', 'grown.100', 'grown.1000', 'compiled.100')})
    for name in same:
        expect('a stored value 6 % lower', {name: 'FAIL'}, stored={**same, name: same[name] * 0.94})
        expect('a stored value 4 % lower', {name: 'OK'}, stored={**same, name: same[name] * 0.96})
        expect('a stored value twice as high', {name: 'OK'}, stored={**same, name: same[name] * 2})
    expect('no stored value', {'W1': 'FAIL'}, stored={'W5.bare': 2e5})
    expect('no stored file', {'W1': 'FAIL', 'W5.bare': 'FAIL'}, stored={}, stored_conditions={})
    expect('a row that is gone', {'W9': 'FAIL'}, stored={**same, 'W9': 1.0})
    for name in here:
        expect('another ' + name, {'W1': 'SKIP', 'W5.bare': 'SKIP', 'grown.1000': 'OK'},
               stored={name: 1.0 for name in same}, conditions={**here, name: 'another'})
    expect('a graph that grows worse', {'grown.1000': 'FAIL', 'grown.100': 'OK'},
           counted={**counts, 'grown.1000': 20000.0 * 1.21})
    expect('a commit that grows worse', {'compiled.100': 'FAIL'}, counted={**counts, 'compiled.100': 1.4e5})


# ---- counting ----


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def flags_of(build):
    """The compiler's options for the engine, without paths, warnings and names."""
    with open(os.path.join(build, 'build.ninja'), encoding='utf-8') as file:
        found = re.search(r'^build \S*runtime_exec_entry\.c\.o:.*\n(?: .*\n)*? ARGS = (.*)', file.read(), re.M)
    if not found:
        raise Broken('build.ninja does not say how runtime/exec/entry.c is compiled')
    words = [word.strip('"\'') for word in found.group(1).split()]
    kept = re.compile(r'-(O|f|m|std=|D_FORTIFY|DNDEBUG)(?!file-prefix-map|diagnostics|visibility)')
    return ' '.join(word for word in words if kept.match(word))


def conditions_of(build):
    lines = output_of(os.path.join(build, 'bench/gate'), '--conditions').splitlines()
    return {**dict(line.split(' ', 1) for line in lines), 'flags': flags_of(build)}


def count(build):
    """Returns the instructions of a run, by row. The counter leaves one file for each row, in their order."""
    program = os.path.join(build, 'bench/gate')
    rows = [line.split() for line in output_of(program, '--rows').splitlines()]
    counts = {}
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, 'out')
        done = subprocess.run(
            ['valgrind', '--tool=callgrind', '--toggle-collect=gate_counted', '--dump-after=gate_counted',
             '--callgrind-out-file=' + out, program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Broken('valgrind or the program failed:\n' + done.stdout)
        for number, (name, times) in enumerate(rows, 1):
            with open('%s.%d' % (out, number), encoding='utf-8') as file:
                total = int(re.search(r'^totals: (\d+)', file.read(), re.M).group(1))
            counts[name] = total / int(times)
    return counts


# ---- stored values: lines "condition: value", then lines "row count" ----


def read_stored(path):
    conditions, stored = {}, {}
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            lines = [line for line in file.read().splitlines() if line and line[0] != '#']
        conditions = dict(line.split(': ', 1) for line in lines if ': ' in line)
        stored = {line.split()[0]: float(line.split()[1]) for line in lines if ': ' not in line}
    return conditions, stored


def write_stored(path, conditions, counts):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(HEAD)
        file.writelines('%s: %s\n' % item for item in conditions.items())
        file.write('\n')
        file.writelines('%-8s %12.1f\n' % (name, counts[name]) for name in counts if family(name) not in GROWTH)


def report(conditions, stored_conditions, verdicts):
    for name, value in conditions.items():
        print('%-9s %s' % (name, value))
    for name in differences(conditions, stored_conditions):
        print('Nothing is compared: the stored values are for %s %s.' % (name, stored_conditions.get(name)))
    tally = {'OK': 0, 'FAIL': 0, 'SKIP': 0}
    for number, (name, verdict, said) in enumerate(verdicts, 1):
        tally[verdict] += 1
        print('%2d/%d %-15s %-4s %s' % (number, len(verdicts), name, verdict, said))
    print('\nOk: %d\nFail: %d\nSkipped: %d' % (tally['OK'], tally['FAIL'], tally['SKIP']))
    return 1 if tally['FAIL'] else 0


def main(words):
    accept = words[:1] == ['--accept']
    prove()
    if words == ['--prove']:
        print('the gate fails where it should')
        return 0
    if len(words) != 1 + accept:
        print(__doc__, file=sys.stderr)
        return 2
    conditions, counts = conditions_of(words[-1]), count(words[-1])
    if accept:
        write_stored(STORED, conditions, counts)
        print('wrote ' + os.path.relpath(STORED))
    stored_conditions, stored = read_stored(STORED)
    return report(conditions, stored_conditions, list(judge(conditions, counts, stored_conditions, stored)))


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        print('gate: %s' % broken, file=sys.stderr)
        sys.exit(2)
