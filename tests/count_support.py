#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what the modules outside the core write for themselves instead of using support/.

    python3 tests/count_support.py ROOT [--where]

Prints one line for each kind, with the count for each module; --where adds file:line of each place. tests/lint.py
refuses what is not ALLOWED. The core is runtime/ and phases/; the modules outside are domains, stores, providers,
server and cli. support/ is where each kind is written once, so it counts only for assertions and checked locks.
"""

import functools
import os
import re
import sys

OUTSIDE = r'(domains|stores|providers|server|cli)/.*\.[ch]$'
WITH_SUPPORT = r'(domains|stores|providers|server|cli|support)/.*\.[ch]$'
ANY_PRODUCT = r'(runtime|phases|domains|stores|providers|server|cli|support)/.*\.[ch]$'

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
FUNCTION = re.compile(r'^(?!typedef|struct|enum|union|#|\})(\w[^;{}=]*?\b(\w+)\([^;{}]*\)(?: __attribute__\S*)?) \{'
                      r'(.*?)(?:^\}|\}$)', re.M | re.S)
ASSERTION = re.compile(r'(?<!\w)(?:assert|TP__(?:ASSERT|CHECK|LOCKED|OWNED))\s*\(')


def blank(text):
    return re.sub(r'[^\n]', ' ', text)


@functools.lru_cache(maxsize=8)  # several kinds look at the same view of a file
def code_only(text):
    return TOKEN.sub(lambda m: blank(m.group()), text)


@functools.lru_cache(maxsize=8)
def without_comments(text):
    return TOKEN.sub(lambda m: blank(m.group()) if m.group()[0] == '/' else m.group(), text)


def functions(code):
    """(offset, head, name, body) of each function."""
    for match in FUNCTION.finditer(code):
        yield match.start(), match.group(1), match.group(2), match.group(3)


def matches(pattern, view=code_only):
    compiled = re.compile(pattern, re.M | re.S)
    return lambda text: [match.start() for match in compiled.finditer(view(text))]


def unchecked_locked(text):
    """Functions whose callers hold a lock, and that do not assert it."""
    return [offset for offset, _, name, body in functions(code_only(text))
            if name.endswith('_locked') and 'TP__LOCKED(' not in body]


def fault_builders(text):
    return [offset for offset, head, _, body in functions(code_only(text))
            if 'tp_fault *' in head and 'vsnprintf(' in body]


def file_readers(text):
    """Functions that open a file for reading, so that type and size are checked here or not at all."""
    found = []
    for offset, _, _, body in functions(without_comments(text)):
        opens = re.search(r'\bopen(?:at)?\([^;]*O_RDONLY[^;]*;', body)
        if (opens and 'O_DIRECTORY' not in opens.group()) or re.search(r'\bfopen\([^;]*"r', body):
            found.append(offset)
    return found


def assertions(text):
    return [match.start() for match in ASSERTION.finditer(code_only(text))]


def all_functions(text):
    return [function[0] for function in functions(code_only(text))]


# kind: (files, function of the text that gives the offsets)
KINDS = {
    'unranked locks': (OUTSIDE, matches(r'\bpthread_(?:mutex|rwlock|spin)_(?:lock|rdlock|wrlock|trylock)\s*\(')),
    'raw condition waits': (OUTSIDE, matches(r'\bpthread_cond_(?:timed|clock)?wait\s*\(')),
    '_locked without a check': (WITH_SUPPORT, unchecked_locked),
    'JSON string writers': (ANY_PRODUCT, matches(r'\\\\u%0\*?4?', without_comments)),
    'byte buffers': (OUTSIDE, matches(r'char \*\w+;[^\n]*\n\s*size_t [^;\n]*\bcapacity\b')),
    'fault builders': (OUTSIDE, fault_builders),
    'clocks': (OUTSIDE, matches(r'\b(?:clock_gettime|gettimeofday)\s*\(')),
    'file readers': (OUTSIDE, file_readers),
    'text equalities': (OUTSIDE, matches(r'\bsize == [^;]{1,60}memcmp\(')),
    'TRY macros': (OUTSIDE, matches(r'#define (?:\w+_)?TRY\(')),
    'thread starts': (OUTSIDE, matches(r'\bpthread_create\s*\(')),
    'assertions': (WITH_SUPPORT, assertions),
    'functions': (WITH_SUPPORT, all_functions),
}


# The places that are left, by file, with the reasons.
ALLOWED = {
    'JSON string writers': ('cli/hooks/hooks_import.c', 'domains/declared/json.c', 'runtime/plan/print.c'),
    'byte buffers': ('cli/chat/line.c',),  # its begin moves
    'file readers': ('cli/common/machine.c', 'cli/run/ask.c'),  # /proc/cpuinfo, the terminal
}
ASSERTIONS_PER_FUNCTION = 0.15


def module_of(path):
    parts = path.split('/')
    return '/'.join(parts[:2]) if parts[0] in ('domains', 'stores', 'providers') else parts[0]


def count(paths, read):
    """{kind: [(path, line)]}"""
    places = {}
    for kind, (files, find) in KINDS.items():
        places[kind] = []
        for path in paths:
            if re.match(files, path):
                text = read(path)
                places[kind] += [(path, text.count('\n', 0, offset) + 1) for offset in find(text)]
    return places


def breaches(path, text):
    """(line, sentence) of each place in a file where support/ is to be used."""
    for kind, (files, find) in KINDS.items():
        if kind in ('assertions', 'functions') or not re.match(files, path) or path in ALLOWED.get(kind, ()):
            continue
        for offset in find(text):
            yield text.count('\n', 0, offset) + 1, '%s are 0 outside the core: use support/' % kind


@functools.lru_cache(maxsize=None)  # the lint asks twice for the whole tree
def assertions_and_functions(text):
    return len(assertions(text)), len(all_functions(text))


def lacks_assertions(paths, read):
    """A sentence when there are too few; None."""
    asserted = written = 0
    for path in paths:
        if re.match(WITH_SUPPORT, path):
            in_file = assertions_and_functions(read(path))
            asserted, written = asserted + in_file[0], written + in_file[1]
    if asserted >= ASSERTIONS_PER_FUNCTION * written:
        return None
    return 'outside the core %d assertions in %d functions, below %.2f for each: state what holds' % (
        asserted, written, ASSERTIONS_PER_FUNCTION)


def files_below(root):
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {'.git', 'build', '__pycache__', 'node_modules'})
        found += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)]
    return found


def main():
    if len(sys.argv) < 2 or not os.path.isfile(os.path.join(sys.argv[1], 'meson.build')):
        print('usage: count_support.py ROOT [--where]', file=sys.stderr)
        return 2
    root = sys.argv[1]

    def read(path):
        with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
            return file.read()

    places = count(files_below(root), read)
    for kind, found in places.items():
        by_module = {}
        for path, _ in found:
            by_module[module_of(path)] = by_module.get(module_of(path), 0) + 1
        print('%-24s %5d  %s' % (kind, len(found), ', '.join('%s %d' % row for row in sorted(by_module.items()))))
        if '--where' in sys.argv and kind not in ('assertions', 'functions'):
            print('\n'.join('    %s:%d' % place for place in found))
    print('%-24s %5.3f' % ('assertions a function', len(places['assertions']) / max(1, len(places['functions']))))
    return 0


if __name__ == '__main__':
    sys.exit(main())
