#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host of the first guide stays small: it fits on a screen, uses few functions and types of turnphase, and runs.

    python3 tests/hello.py ROOT LIBRARY COMPILER…

The first guide is the first row of the table of guides in docs/README.md, and its host the C block that has a main().
Functions and types are those of turnphase.abi.json: handles, structs, enums, callbacks and plain types, each counted
once, wherever the host names it. The host is that of examples/guides; it is compiled as a reader would compile it, with
all warnings as errors, and prints what the guide shows. The counter is tried on a planted host first.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

FUNCTIONS_MAX, TYPES_MAX, LINES_MAX = 8, 5, 50
GUIDE_ROW = re.compile(r'^\| \[(guides/\w+\.md)\]', re.M)
BLOCK = re.compile(r'^```(\w+)\n(.*?)^```$', re.M | re.S)
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"', re.S)
TYPE_TABLES = 'types', 'handles', 'structs', 'enums', 'callbacks'

PLANTED = '''/* tp_edit */ #include "tp_agent"
static const char *tp_call(void); int32_t a(tp_tool_run *run) { return tp_tool_ok(run, tp_text_of("tp_token")); }
struct tp_fault one = {sizeof(tp_fault)}; tp_status (*new)(void) = tp_runtime_new; tp_answer b = tp_tool_ok(0, x);'''


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def used(abi, text):
    """(functions, types) of turnphase that a C text names."""
    words = set(re.findall(r'\btp_\w+', NOISE.sub(' ', text)))
    types = {name for table in TYPE_TABLES for name in abi[table]}
    return sorted(words & set(abi['functions'])), sorted(words & types)


def host_of_first_guide(root):
    """(name of the guide, its host, what it prints)"""
    name = GUIDE_ROW.search(read(root, 'docs/README.md')).group(1)
    blocks = BLOCK.findall(read(root, 'docs', name))
    hosts = [text for kind, text in blocks if kind == 'c' and re.search(r'^int main\(', text, re.M)]
    prints = [text for kind, text in blocks if kind == 'text']
    if len(hosts) != 1 or len(prints) != 1:
        sys.exit('%s has %d hosts and %d outputs, not one of each' % (name, len(hosts), len(prints)))
    return name, hosts[0], prints[0]


def run(host, include, library, compiler):
    """What the host prints, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, 'host.c'), os.path.join(folder, 'host')
        with open(source, 'w', encoding='utf-8') as file:
            file.write(host)
        words = ['-std=c11', '-Wall', '-Wextra', '-Wpedantic', '-Werror', '-I', include, source, '-o', program, library,
                 '-Wl,-rpath,' + os.path.dirname(library)]
        done = subprocess.run([*compiler, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0:
            done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return ('' if done.returncode == 0 else 'exit code %d\n' % done.returncode) + done.stdout


def wrong(root, library, compiler):
    """Yields what is wrong with the host."""
    abi = json.loads(read(root, 'turnphase.abi.json'))
    name, host, prints = host_of_first_guide(root)
    functions, types = used(abi, host)
    lines = host.count('\n')
    print('%s: %d functions (%s), %d types (%s), %d lines' % (name, len(functions), ', '.join(functions), len(types),
                                                              ', '.join(types), lines))
    if len(functions) > FUNCTIONS_MAX:
        yield 'more than %d functions' % FUNCTIONS_MAX
    if len(types) > TYPES_MAX:
        yield 'more than %d types' % TYPES_MAX
    if lines > LINES_MAX or any(len(line) > 120 for line in host.split('\n')):
        yield 'more than a screen of %d lines and 120 columns' % LINES_MAX
    if host not in read(root, 'examples', name.replace('.md', '.c')):
        yield 'the host of the guide is not that of examples/' + name.replace('.md', '.c')
    printed = run(host, os.path.join(root, 'include'), os.path.abspath(library), compiler)
    if printed != prints:
        yield 'the host prints\n%s' % printed


def main(root, library, *compiler):
    planted = used(json.loads(read(root, 'turnphase.abi.json')), PLANTED)
    if planted != (['tp_runtime_new', 'tp_text_of', 'tp_tool_ok'],
                   ['tp_answer', 'tp_call', 'tp_fault', 'tp_status', 'tp_tool_run']):
        sys.exit('the counter is broken: %s' % (planted,))
    faults = list(wrong(root, library, compiler))
    for fault in faults:
        print('wrong: ' + fault)
    return 1 if faults else 0


if __name__ == '__main__':
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
