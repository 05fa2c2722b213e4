#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutants: small changes drawn at random, each of which a test should find.

  tests/mutate.py [--range A..B] [--under FOLDER]… [--count N] [--seed S] [--jobs N] [--json FILE] [--again FILE]

Lines of C that the commits of the range wrote and that still stand are candidates; B is what stands now. One change is
made at a time, in a clone under build/mutate, and built. A change that gives the same optimized object cannot be seen
by any test and is drawn again, as is one that does not compile.

Which tests execute a line is known from a build with the source coverage of clang, whose counters are shared memory: a
test that is killed, or whose children are, has told what it executed. Each test is played in it once by itself, and
once in the build in which mutants are made, for how long it takes and to see that it passes; the answers are kept in
build/mutate/tests.json, and asked again for tests that changed, or for all of them when anything else did.

The tests that execute the changed line are played, the fastest first and those whose name shares a word with the path
before others, until one fails, and fails again by itself. A change that none finds has survived: a test is missing, or
the change cannot be seen from outside. So has one in a line that no test executes, and one whose tests take longer than
MOST seconds: those that were not played are named. --again plays those that survived in a report of --json.
Exit: 0 when at least nine of ten were found, else 1.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.abspath('build/mutate')
TREE = HERE + '/tree'
FOLDERS = ['runtime', 'phases', 'domains', 'stores', 'providers', 'cli', 'support']
BUILT = [*FOLDERS, 'include', 'server', 'tests', 'examples', 'meson']
LEFT_OUT_SUITES = {'seeds', 'slow', 'project', 'headers', 'bench', 'soak'}
DEMANDED = 0.9
MOST = 60
COMPILER = 'the compiler'  # a warning, where those are errors: nobody could commit it

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
    """A clone of the current tree, with a build for mutants, and a build that counts which lines are executed."""

    def __init__(self, jobs):
        self.jobs, self.build, self.cover = jobs, HERE + '/build', HERE + '/cover'
        os.makedirs(HERE, exist_ok=True)
        if not os.path.isdir(TREE):
            git('clone', '-q', '--shared', '--no-checkout', '.', TREE)
        self.head = git('rev-parse', 'HEAD').strip()
        git('-C', TREE, 'fetch', '-q', 'origin')
        git('-C', TREE, 'checkout', '-q', '--force', '--detach', self.head)
        set_up(self.build, os.environ.get('CC', 'gcc'), '-g0', '')
        # A program of a test may be started with an empty environment: where the counts go is compiled in.
        count = '-fprofile-instr-generate=%s/counts/%%c%%m -fcoverage-mapping' % HERE
        set_up(self.cover, 'clang', '-g0 -mllvm -runtime-counter-relocation ' + count, count)
        targets = {entry['id']: entry for entry in json.loads(run(['meson', 'introspect', self.build,
                                                                   '--targets']).stdout)}
        libraries = [entry['filename'][0] for entry in targets.values() if entry['type'] == 'shared library']
        self.tests = {}
        for test in json.loads(run(['meson', 'introspect', self.build, '--tests']).stdout):
            if not test['is_parallel'] or {suite.split(':')[-1] for suite in test['suite']} & LEFT_OUT_SUITES:
                continue
            files = [file for name in test['depends'] for file in targets[name]['filename']]
            # A program of C links archives; a script starts programs, which load libraries.
            self.tests[test['name']] = {**test, 'files': files if len(test['cmd']) == 2 else files + libraries}
        with open(self.build + '/compile_commands.json', encoding='utf-8') as file:
            self.commands = {os.path.normpath(os.path.join(entry['directory'], entry['file'])): entry
                             for entry in json.load(file)}
        self.plain = {}  # path -> its optimized object as it stands
        self.known = self.play_tests()

    def make(self, names, build=None):
        """Builds what these tests need. @return whether that went well."""
        files = sorted({os.path.relpath(file, self.build) for name in names for file in self.tests[name]['files']})
        return not files or run(['ninja', '-C', build or self.build, '-j', str(self.jobs), *files]).returncode == 0

    def seconds(self, name, limit=None, build=None):
        """How long a test took that passed, or None; of one that was skipped, 0."""
        test = self.tests[name]
        where = build or self.build
        words = [word.replace(self.build, where) for word in test['cmd']]
        more = {key: value.replace(self.build, where) for key, value in test['env'].items()}
        start = time.monotonic()
        with tempfile.TemporaryFile('w+', errors='replace') as out:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                     env={**os.environ, **more}, cwd=test['workdir'] or where)
            try:
                status = child.wait(limit or test['timeout'])
            except subprocess.TimeoutExpired:
                status = -1
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
            took = time.monotonic() - start
            out.seek(0)
            said = out.read()
        if status == 77 or re.search(r'^1\.\.0', said, re.MULTILINE):
            return 0
        return None if status or re.search(r'^not ok', said, re.MULTILINE) else took

    def play_tests(self):
        """name -> {'seconds', 'lines': {path: [number]}} of the tests that pass and are not skipped."""
        kept, known = HERE + '/tests.json', {'head': '', 'tests': {}}
        if os.path.exists(kept):
            with open(kept, encoding='utf-8') as file:
                known = json.load(file)
        changed = set()
        if known['head']:
            changed = set(git('diff', '--name-only', known['head'], self.head).split())
        of_tests = {path for path in changed if re.fullmatch(r'tests/\w+/\w+_test\.(c|py)', path)}
        words = {re.sub(r'.*/|_test\..*', '', path) for path in of_tests}
        beside = {path for path in changed - of_tests if path.startswith(tuple(BUILT))} - {'tests/meson.build'}
        for name in self.tests:
            if beside or name.replace(' ', '_') in words or name not in known['tests']:
                known['tests'].pop(name, None)
        left = [name for name in self.tests if name not in known['tests']]
        for build in (self.build, self.cover):
            if not self.make(left, build):
                sys.exit('mutate: the tree does not build as it stands: ninja -C ' + build)
        known['head'] = self.head
        try:
            for at, name in enumerate(left):
                print('\r%d of %d tests played to see what they execute' % (at, len(left)), end='', file=sys.stderr)
                took = self.seconds(name, MOST)
                known['tests'][name] = {'seconds': took, 'lines': self.lines_of(name) if took else {}}
        finally:
            with open(kept, 'w', encoding='utf-8') as file:
                json.dump(known, file)
        for name, test in known['tests'].items():
            if test['seconds'] is None:
                print('left out, since it fails as it stands or takes longer than %d s: %s' % (MOST, name))
        return {name: test for name, test in known['tests'].items() if name in self.tests and test['seconds']}

    def lines_of(self, name):
        """{path: [the number of each line]} that a test executes."""
        counts, merged = HERE + '/counts', HERE + '/merged'
        shutil.rmtree(counts, ignore_errors=True)
        self.seconds(name, MOST, self.cover)
        files = [os.path.join(counts, file) for file in os.listdir(counts)] if os.path.isdir(counts) else []
        if not files or run(['llvm-profdata', 'merge', '-failure-mode=all', '-o', merged, *files]).returncode:
            return {}
        objects = [file.replace(self.build, self.cover) for file in self.tests[name]['files']]
        objects = [word for file in objects for word in ('-object', file) if os.path.isfile(file)]
        told = run(['llvm-cov', 'export', '-format=lcov', '-instr-profile', merged, *objects[1:]])
        lines, path = {}, None
        for line in told.stdout.split('\n'):
            if line.startswith('SF:'):
                path = os.path.relpath(line[3:], TREE)
            elif line.startswith('DA:') and path.startswith(tuple(FOLDERS)):
                number, count = line[3:].split(',')
                if count != '0':
                    lines.setdefault(path, []).append(int(number))
        return lines

    def object_of(self, path):
        """The optimized object of a source, or None when it does not compile."""
        entry = self.commands.get(os.path.abspath(os.path.join(TREE, path)))
        if not entry:
            return None
        words = [word for word in entry['command'].split() if word not in ('-O0', '-MD', '-Winvalid-pch')]
        for option in ('-o', '-MF', '-MQ', '-c'):
            if option in words:
                at = words.index(option)
                words[at:at + 2] = []
        out = HERE + '/object.o'
        source = os.path.abspath(os.path.join(TREE, path))
        made = run([*words, '-w', '-O2', '-o', out, '-c', source], cwd=entry['directory'])
        if made.returncode:
            return None
        with open(out, 'rb') as file:
            return file.read()

    def tests_of(self, path, number):
        """The tests that execute a line, in the order in which they are played."""
        known = self.known
        names = [name for name in known if number in known[name]['lines'].get(path, [])]
        if not names and in_table(path, number):
            names = [name for name in known if path in known[name]['lines']]
        near = set(re.findall(r'[a-z]{3,}', path.lower()))
        return sorted(names, key=lambda name: known[name]['seconds'] /
                      (5 if near & set(re.findall(r'[a-z]{3,}', name.lower())) else 1))

    def fails(self, name):
        usual = self.known[name]['seconds']
        if self.seconds(name, limit=min(5 + 8 * usual, self.tests[name]['timeout'])):
            return False
        return self.seconds(name) is None  # once more, with a longer limit, since the machine may have been busy

    def found_by(self, names):
        """(the first test that fails or None, the tests that were not played)."""
        spent, made, left = 0, set(), list(names)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            while left and spent <= MOST:
                # The files of one kind of test share a program: as little as possible is linked.
                programs = set(self.tests[left[0]]['files'])
                some = [name for name in left if programs.issuperset(self.tests[name]['files'])][:self.jobs]
                left = [name for name in left if name not in some]
                if not programs <= made and not self.make(some):
                    return COMPILER, []
                made |= programs
                for name, fails in zip(some, pool.map(self.fails, some)):
                    if fails:
                        return name, []
                    spent += self.known[name]['seconds']
        return None, left


def in_table(path, number):
    """Whether a line is in an initializer outside of functions, for which there is no count."""
    with open(os.path.join(TREE, path), encoding='utf-8') as file:
        lines = file.read().split('\n')[:number]
    return ' = ' in next((line for line in reversed(lines) if re.match(r'[a-z]|} \w', line)), '')


def set_up(build, compiler, options, links):
    if os.path.exists(build + '/build.ninja'):
        return
    made = run(['meson', 'setup', build, TREE, '-Doptimization=0', '-Ddebug=true', '-Dbench=disabled',
                '-Dpython=disabled', '-Dnode=disabled', '-Db_lundef=false', '-Dc_args=' + options,
                '-Dc_link_args=' + links], env={**os.environ, 'CC': compiler})
    if made.returncode:
        sys.exit(made.stdout)


def play(tree, path, number, pick):
    """One change to a line, picked of those that can be made: None when none counts, else a row of the report."""
    full = os.path.join(TREE, path)
    with open(full, encoding='utf-8') as file:
        kept = file.read()
    lines = kept.split('\n')
    change = pick(changes_of(lines[number - 1]))
    if not change:
        return None
    operator, changed = change
    if path not in tree.plain:
        tree.plain[path] = tree.object_of(path)
    before = tree.plain[path]
    old, lines[number - 1] = lines[number - 1], changed
    try:
        with open(full, 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines))
        after = tree.object_of(path)
        if before is None or after is None or before == after:
            return None
        names = tree.tests_of(path, number)
        by, left = tree.found_by(names)
        if by == COMPILER:
            return None
    finally:
        with open(full, 'w', encoding='utf-8') as file:
            file.write(kept)
    return {'path': path, 'line': number, 'operator': operator, 'old': old.strip(), 'new': changed.strip(), 'by': by,
            'tests': len(names), 'not played': left}


def survivors_of(report):
    """(path, number, pick) of each change of a report that survived, where its line stands now."""
    with open(report, encoding='utf-8') as file:
        rows = [row for row in json.load(file) if not row['by']]
    for row in rows:
        with open(row['path'], encoding='utf-8') as file:
            lines = [line.strip() for line in file.read().split('\n')]
        at = [number for number, line in enumerate(lines, 1) if line == row['old']]
        if not at:
            print('%s:%d: is no more: %s' % (row['path'], row['line'], row['old']))
            continue
        number = min(at, key=lambda number: abs(number - row['line']))
        yield row['path'], number, lambda changes, row=row: next(
            (change for change in changes if change[0] == row['operator'] and change[1].strip() == row['new']), None)


def tell(row):
    how = 'found by %s' % row['by']
    if not row['by']:
        how = 'SURVIVED, ' + ('%d tests execute it' % row['tests'] if row['tests'] else 'no test executes it')
        if row['not played']:
            how += ', %d of them were not played: %s' % (len(row['not played']), ', '.join(row['not played']))
    print('%s:%d: %s: %s\n  - %s\n  + %s' % (row['path'], row['line'], row['operator'], how, row['old'], row['new']),
          flush=True)


def main():
    parser = argparse.ArgumentParser(prog='./dev mutate', add_help=False)
    parser.add_argument('--range', default='HEAD~50..HEAD')
    parser.add_argument('--under', action='append')
    parser.add_argument('--count', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--json')
    parser.add_argument('--again')
    options = parser.parse_args()
    if options.again:
        drawn, title = list(survivors_of(options.again)), 'the survivors of ' + options.again
    else:
        lines = lines_of_range(options.range, options.under or FOLDERS)
        draw = random.Random(options.seed)
        draw.shuffle(lines)
        drawn = [(path, number, lambda changes: draw.choice(changes) if changes else None) for path, number in lines]
        title = '%d lines of %s, seed %d' % (len(lines), options.range, options.seed)
    if not drawn:
        sys.exit('mutate: nothing to change in ' + title)
    tree, rows = Tree(options.jobs), []
    for path, number, pick in drawn:
        if len(rows) == options.count and not options.again:
            break
        row = play(tree, path, number, pick)
        if row:
            rows.append(row)
            tell(row)
            if options.json:
                with open(options.json, 'w', encoding='utf-8') as file:
                    json.dump(rows, file, indent=1)
    found = sum(1 for row in rows if row['by'])
    print('%d changes in %s: %d found, %d survived' % (len(rows), title, found, len(rows) - found))
    return 0 if rows and found >= DEMANDED * len(rows) else 1


if __name__ == '__main__':
    sys.exit(main())
