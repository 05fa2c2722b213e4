#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants: small changes drawn at random, each of which a test should find.

  tests/mutate.py [--range A..B] [--under FOLDER]… [--count N] [--seed S] [--jobs N] [--json FILE]

Lines of C that the commits of the range wrote and that still stand are candidates; B is what stands now. One change is
made at a time, in a clone under build/mutate, and built. A change that gives the same optimized object
cannot be seen by any test and is drawn again, as is one that does not compile. Then the tests run, those whose name
shares a word with the file's path first, until one fails. A change that none finds has survived: a test is missing, or
the change cannot be seen from outside. Exit: 0 when at least nine of ten were found, else 1.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys

TREE = 'build/mutate/tree'
FOLDERS = ['runtime', 'phases', 'domains', 'stores', 'providers', 'cli', 'support']
DEMANDED = 0.9

# (name, pattern, replacements): one match of the pattern is replaced by one of the replacements.
OPERATORS = [
    ('compare', r'(?<![-<>=!+*/&|])(<=|>=|==|!=)', {'<=': ['<', '>'], '>=': ['>', '<'], '==': ['!='], '!=': ['==']}),
    ('less', r' (<|>) ', {' < ': [' <= ', ' >= '], ' > ': [' >= ', ' <= ']}),
    ('logic', r' (&&|\|\|) ', {' && ': [' || '], ' || ': [' && ']}),
    ('not', r'(?<=[( ])!(?=[a-z(])', {'!': ['']}),
    ('plus', r' (\+|-) (?=\w)', {' + ': [' - '], ' - ': [' + ']}),
    ('bool', r'\b(true|false)\b', {'true': ['false'], 'false': ['true']}),
    ('number', r'(?<![\w.\'])([0-9]{1,4})(?![\w.\'])', None),
    ('status', r'\bTP_OK\b', {'TP_OK': ['TP_ERR_INTERNAL']}),
]
CALL = re.compile(r'^\s+(?:\(void\))?[a-z_]\w*(?:->\w+|\.\w+)*(?: \+?=|\(|\+\+|--).*;$')
IF = re.compile(r'\bif \((.*)\) ?(.*)$')
DECLARES = re.compile(r'^\s+(?:const |static |struct |enum )?\w+ \**\w+(\[.*\])? = ')
LEFT_OUT = re.compile(r'assert|tp__check|_CHECK|_fini\(|^\s*(//|/?\*|#|case |default:|typedef|return;|break;|goto )')


def run(words, **more):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)


def git(*words):
    return subprocess.run(['git', *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def lines_of_range(span, folders):
    """(path, number) of each line of C that commits of the range wrote."""
    first, _, last = span.partition('..')
    last = last or 'HEAD'
    found = []
    for path in git('diff', '--name-only', '--diff-filter=d', first, last, '--', *folders).split('\n'):
        if not path.endswith('.c') or not os.path.isfile(path):
            continue
        for line in git('blame', '-l', '-s', '%s..%s' % (first, last), '--', path).split('\n'):
            match = re.match(r'^[0-9a-f]{40} (?:\S+ +)?(\d+)\) ', line)  # an older line begins with ^
            if match:
                found.append((path, int(match.group(1))))
    return found


def code_of(line):
    """The line with its strings and trailing comment blanked, of the same length."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', lambda match: '"' + ' ' * (len(match.group()) - 2) + '"', line)
    return re.sub(r'/\*.*', lambda match: ' ' * len(match.group()), line)


def changes_of(line):
    """(operator, the line as it would be) for each change that can be made to the line."""
    code = code_of(line)
    if LEFT_OUT.search(code) or not code.strip():
        return []
    found = []
    for name, pattern, replacements in OPERATORS:
        for match in re.finditer(pattern, code):
            old = match.group()
            for new in replacements[old] if replacements else [str(int(old) + 1)]:
                found.append((name, line[:match.start()] + new + line[match.end():]))
    condition = IF.search(code)
    if condition and code.rstrip().endswith((';', '{')) and code.count('(') == code.count(')'):
        start = condition.start()
        for value in ('0', '1'):
            depth, end = 0, start + 3
            while end < len(code):
                depth += (code[end] == '(') - (code[end] == ')')
                end += 1
                if depth == 0:
                    break
            found.append(('if ' + value, line[:start] + 'if (%s)' % value + line[end:]))
    if CALL.match(code) and code.count('(') == code.count(')') and not DECLARES.match(code):
        found.append(('leave out', line[:len(line) - len(line.lstrip())] + ';'))
    return found


class Tree:
    """A clone of what stands now, with a build of its own."""

    def __init__(self, jobs):
        self.jobs, self.build = jobs, TREE + '/build'
        if not os.path.isdir(TREE):
            git('clone', '-q', '--shared', '--no-checkout', '.', TREE)
        git('-C', TREE, 'fetch', '-q', 'origin')
        git('-C', TREE, 'checkout', '-q', '--force', '--detach', git('rev-parse', 'HEAD').strip())
        libraries = 'declared sqlite memory files skills tasks openai cli libedit webhook'.split()
        if not os.path.isdir(self.build):
            set_up = run(['meson', 'setup', self.build, TREE, '-Doptimization=0', '-Ddebug=true', '-Dbench=disabled',
                          *('-D%s=enabled' % name for name in libraries)])
            if set_up.returncode:
                sys.exit(set_up.stdout)
        if not self.make():
            sys.exit('the tree does not build as it stands')
        self.tests = []
        for test in json.loads(run(['meson', 'introspect', self.build, '--tests']).stdout):
            suites = {suite.split(':')[-1] for suite in test['suite']}
            left_out = {'seeds', 'slow', 'project', 'headers', 'bench', 'released', 'torture'}
            if test['is_parallel'] and not suites & left_out:
                self.tests.append((test['name'], suites))
        with open(self.build + '/compile_commands.json', encoding='utf-8') as file:
            self.commands = {os.path.normpath(os.path.join(entry['directory'], entry['file'])): entry
                             for entry in json.load(file)}

    def make(self):
        return run(['ninja', '-C', self.build, '-j', str(self.jobs)]).returncode == 0

    def object_of(self, path):
        """The optimized object of a source, or None when it does not compile."""
        entry = self.commands.get(os.path.abspath(os.path.join(TREE, path)))
        if not entry:
            return None
        words = [word for word in entry['command'].split() if word not in ('-g', '-O0', '-MD', '-Winvalid-pch')]
        for option in ('-o', '-MF', '-MQ', '-c'):
            if option in words:
                at = words.index(option)
                words[at:at + 2] = []
        out = os.path.abspath('build/mutate/object.o')
        source = os.path.abspath(os.path.join(TREE, path))
        made = run([*words, '-w', '-g0', '-O2', '-o', out, '-c', source], cwd=entry['directory'])
        if made.returncode:
            return None
        with open(out, 'rb') as file:
            return file.read()

    def found_by(self, path):
        """The first test that fails, or None."""
        words = set(re.findall(r'[a-z]{3,}', path.lower()))
        near = [name for name, _ in self.tests if words & set(re.findall(r'[a-z]{3,}', name.lower()))]
        stages = [near, *([name for name, suites in self.tests if suites & stage and name not in near]
                          for stage in ({'unit', 'store', 'fault'}, {'integration', 'sim', 'fuzz'}))]
        for stage in stages:
            left = sorted(set(stage))
            while left:
                failed = self.first_failure(left)
                if not failed:
                    break
                if failed not in left or self.first_failure([failed]):
                    return failed
                left.remove(failed)  # it passes by itself: the machine was busy, and the change is not seen by it
        return None

    def first_failure(self, names):
        """The first of these tests that fails, something else that went wrong, or None."""
        # Meson builds what the tests need: most changes are found before the other programs are linked.
        ran = run(['meson', 'test', '-C', self.build, '--maxfail', '1', '--num-processes', str(self.jobs), *names])
        if 'ninja: build stopped' in ran.stdout or 'Could not rebuild' in ran.stdout:
            return 'the linker'
        failed = re.search(r'^ *\d+/\d+ (?:\S+ / )?(.*?) +(FAIL|TIMEOUT|ERROR)', ran.stdout, re.MULTILINE)
        if failed:
            return failed.group(1).strip()
        return 'the tests, status %d' % ran.returncode if ran.returncode else None


def play(tree, path, number, draw):
    """One change to a line: None when none can be made that counts, else a row of the report."""
    full = os.path.join(TREE, path)
    with open(full, encoding='utf-8') as file:
        kept = file.read()
    lines = kept.split('\n')
    changes = changes_of(lines[number - 1])
    if not changes:
        return None
    operator, changed = draw.choice(changes)
    before = tree.object_of(path)
    old, lines[number - 1] = lines[number - 1], changed
    try:
        with open(full, 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines))
        after = tree.object_of(path)
        if before is None or after is None or before == after:
            return None
        by = tree.found_by(path)
    finally:
        with open(full, 'w', encoding='utf-8') as file:
            file.write(kept)
    return {'path': path, 'line': number, 'operator': operator, 'old': old.strip(), 'new': changed.strip(), 'by': by}


def main():
    parser = argparse.ArgumentParser(prog='./dev mutate', add_help=False)
    parser.add_argument('--range', default='HEAD~50..HEAD')
    parser.add_argument('--under', action='append')
    parser.add_argument('--count', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--json')
    options = parser.parse_args()
    lines = lines_of_range(options.range, options.under or FOLDERS)
    if not lines:
        sys.exit('mutate: the commits of %s wrote no line of C that still stands there' % options.range)
    draw = random.Random(options.seed)
    draw.shuffle(lines)
    tree, rows = Tree(options.jobs), []
    before = tree.found_by('')
    if before:
        sys.exit('mutate: a test fails before anything is changed: ' + before)
    for path, number in lines:
        if len(rows) == options.count:
            break
        row = play(tree, path, number, draw)
        if row:
            rows.append(row)
            print('%s:%d: %s: %s\n  - %s\n  + %s' % (path, number, row['operator'],
                                                   'found by ' + row['by'] if row['by'] else 'SURVIVED', row['old'],
                                                   row['new']), flush=True)
            if options.json:
                with open(options.json, 'w', encoding='utf-8') as file:
                    json.dump(rows, file, indent=1)
    found = sum(1 for row in rows if row['by'])
    print('%d changes in %d lines of %s, seed %d: %d found, %d survived' %
          (len(rows), len(lines), options.range, options.seed, found, len(rows) - found))
    return 0 if rows and found >= DEMANDED * len(rows) else 1


if __name__ == '__main__':
    sys.exit(main())
