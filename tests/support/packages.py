# SPDX-License-Identifier: Apache-2.0
"""Packages of npm and PyPI for tests: they are fetched once into a folder, and what cannot be fetched is skipped with
its reason. counts has how many cases passed, failed and were skipped."""

import os
import subprocess
import sys

counts = {'Ok': 0, 'Fail': 0, 'Skipped': 0}


def run(words, limit_s=900, **more):
    """(exit code, output) of a program; what it cannot begin, or not end in time, is a failure with its reason."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s,
                              check=False, **more)
        return done.returncode, done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)


def skip(what, why):
    counts['Skipped'] += 1
    print('skipped %s: %s' % (what, ' '.join(why.split())[-300:]))


def fetched(folder, name, wanted, fetch):
    """Whether the packages are in the folder. fetch() gets them, once: (exit code, output)."""
    stamp = os.path.join(folder, name)
    if os.path.exists(stamp) and open(stamp, encoding='utf-8').read() == '\n'.join(wanted):
        return True
    status, output = fetch()
    if status != 0:
        skip(name, output)
        return False
    with open(stamp, 'w', encoding='utf-8') as file:
        file.write('\n'.join(wanted))
    return True


def fetched_wheels(folder, name, wheels):
    """The Python of the folder that has the wheels, or None."""
    python = os.path.join(folder, 'venv/bin/python')

    def fetch():
        status, output = run([sys.executable, '-m', 'venv', os.path.join(folder, 'venv')])
        return (status, output) if status != 0 else run([python, '-m', 'pip', 'install', '-q', *wheels])

    return python if fetched(folder, name, wheels, fetch) else None


def fetched_modules(folder, name, packages):
    """Whether the folder has the packages of npm."""

    def fetch():
        with open(os.path.join(folder, 'package.json'), 'w', encoding='utf-8') as file:
            file.write('{"private": true}')
        return run(['npm', 'install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund',
                    '--fetch-retries', '1', *packages])

    return fetched(folder, name, packages, fetch)
