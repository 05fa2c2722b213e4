#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows one turn through the code (tests/trace/turn.c): through how many files, with how many changes of file.

  tests/trace.py BUILD_DIR [--list]

Fails when it is more of either than FILES_MAX and CHANGES_MAX say: then a way has been made longer, and the code that
made it so is to be looked at. --list prints the way.

Counted is the way to whatever the turn does outside of itself: it calls a function of the host, hands work to another
thread, or gives a record to the store. At each of these the stack of the thread is looked at (the compiler's
instrumentation notes each call and return, in a build without optimization): the files on it, and each call on it that
goes from a function of one file to a function of another. A call that was seen before is not counted again: who has
followed it for one phase knows it for the next. A function that returns before any of that happens is on no such stack.

A file is a .c with the .h of its name. The modules that stand for a standard library are left out: runtime/base (lists,
allocation), runtime/os (locks, clock, threads) and runtime/value.
"""
import os
import subprocess
import sys

LEFT_OUT = ('runtime/base/', 'runtime/os/', 'runtime/value/')
HOST = 'tests/trace/turn'
FILES_MAX, CHANGES_MAX = 25, 50
HANDS_OVER = {'tp__strand_push', 'tp__pool_submit', 'tp__cond_signal', 'tp__cond_broadcast', 'tp__parker_unpark'}
RECORDS = {'tp__memory_store_take', 'turn_record'}


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(root, directory):
    if not os.path.exists(os.path.join(directory, 'build.ninja')):
        run('meson', 'setup', directory, root, '--buildtype=debug', '--auto-features=disabled',
            '-Dc_args=-finstrument-functions')
    run('ninja', '-C', directory, 'libturnphase.a')
    program = os.path.join(directory, 'trace_turn')
    run('cc', '-g', '-no-pie', '-finstrument-functions', '-I', os.path.join(root, 'include'), '-o', program,
        os.path.join(root, 'tests/trace/turn.c'), os.path.join(directory, 'libturnphase.a'), '-lck', '-lmsgpackc',
        '-lpthread', '-lm')
    return program


def functions_of(program, root, addresses):
    """Of each address: the function's file, without its ending, and its name."""
    lines = run('addr2line', '-f', '-e', program, *addresses).splitlines()
    found = {}
    for address, name, place in zip(addresses, lines[::2], lines[1::2]):
        path = os.path.normpath(os.path.join(root, place.rsplit(':', 1)[0]))
        found[address] = os.path.splitext(os.path.relpath(path, root))[0], name
    return found


def stacks(notes, functions):
    """The stacks, outermost call first, at which the turn does something outside of itself."""
    of_thread = {}
    for thread, what, address in notes:
        stack = of_thread.setdefault(thread, [])
        if what == 'X':
            if stack:
                stack.pop()
            continue
        file, name = functions[address]
        stack.append((file, name))
        if file == HOST or name in HANDS_OVER or name in RECORDS:
            yield tuple(frame for frame in stack if not frame[0].startswith(LEFT_OUT) and frame[0] != HOST)


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ['--list']):
        sys.exit(__doc__.strip())
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = build(root, os.path.abspath(sys.argv[1]))
    notes = [line.split() for line in run(program).splitlines()]
    functions = functions_of(program, root, sorted({address for _, _, address in notes}))
    files, changes = set(), {}
    for stack in stacks(notes, functions):
        files.update(file for file, _ in stack)
        for caller, called in zip(stack, stack[1:]):
            if caller[0] != called[0]:
                changes.setdefault((caller, called), None)
    if sys.argv[2:]:
        print('\n'.join(sorted(files)))
        for caller, called in changes:
            print('%s: %s -> %s: %s' % (caller + called))
    print('%d files, %d changes of file' % (len(files), len(changes)))
    if not files or len(files) > FILES_MAX or len(changes) > CHANGES_MAX:
        sys.exit('the bounds are %d and %d' % (FILES_MAX, CHANGES_MAX))


if __name__ == '__main__':
    main()
