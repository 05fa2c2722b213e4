#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether turnphase bench --compare is right on this machine, with whatever else runs on it.

    python3 tests/bench_long.py BUILD/cli/turnphase BUILD/tests/test_domain.so

A against A must be no difference in 19 of 20 runs, and a planted 10 % must be found in 19 of 20, with its interval
around it. ./dev test --long plays it; tests/unit/comparison_test.c has the same on drawn samples.
"""
import json
import os
import subprocess
import sys
import tempfile

COMMAND, DOMAIN = sys.argv[1], sys.argv[2]
RUNS, MAY_MISS, ROUNDS, TURNS, TIME_NS = 20, 1, 12, 40, 200000


def turn_of(directory, a_ns, b_ns):
    sides = []
    for name, time_ns in ('a', a_ns), ('b', b_ns):
        path = os.path.join(directory, name + '.json')
        with open(path, 'w') as file:
            json.dump({'text': str(time_ns)}, file)
        sides.append('bench --payload ' + path)
    done = subprocess.run([COMMAND, 'bench', '--json', '--load', DOMAIN, '--no-memory', '--turns', str(TURNS),
                           '--warm-up', '5', '--rounds', str(ROUNDS), '--compare', *sides],
                          capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, TURNPHASE_TEST_DOMAIN='spins'))
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)['rows'][0]
    assert (row['name'], row['figure']) == ('the whole turn', 'median'), row
    return row


def main():
    print('1..2')
    with tempfile.TemporaryDirectory() as directory:
        same = [turn_of(directory, TIME_NS, TIME_NS) for _ in range(RUNS)]
        slower = [turn_of(directory, TIME_NS, TIME_NS * 11 // 10) for _ in range(RUNS)]
    none = sum(row['verdict'] == 'no difference' for row in same)
    found = sum(row['verdict'] == 'a is faster' and row['low'] < 1.105 and row['high'] > 1.095 for row in slower)
    print(f'# A/A: no difference in {none} of {RUNS}; A/B of 10 %: found in {found} of {RUNS}')
    print(f"{'ok' if none >= RUNS - MAY_MISS else 'not ok'} 1 - A against A is no difference")
    print(f"{'ok' if found >= RUNS - MAY_MISS else 'not ok'} 2 - ten per cent are found", flush=True)
    return 0 if min(none, found) >= RUNS - MAY_MISS else 1


if __name__ == '__main__':
    sys.exit(main())
