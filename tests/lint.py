#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of the project that no compiler checks.

    python3 tests/lint.py ROOT

Each rule is a row: which files, a pattern that must not occur there, what to do instead, and a planted breach. Before
the tree is read every rule is tried on its breach: a rule that cannot fail proves nothing. Prints file:line: message
for each breach. Exit: 0 none, 1 some, 2 the lint itself is broken.
"""

import os
import re
import subprocess
import sys

import count_support
import count_tree
import documents
from count_support import TOKEN, blank, code_only, without_comments

LIBRARY = r'(runtime|phases|support|server|providers|stores|domains)/.*\.[ch]$'
PROGRAMS = r'domains/declared/(sandbox|webhook)_main\.c$'  # a helper that a library starts
CORE = r'(runtime|phases)/.*\.[ch]$'
ANY_C = r'.*\.[ch]$'

# ---- views of a file: the text with some of it blanked, so that lines keep their numbers ----

VIEWS = {'all': lambda text: text, 'text': without_comments, 'code': code_only}

# ---- rules that are one pattern: name, files, files left out, view, pattern, message, (path, breach) ----


def calls(*names):
    return r'(?<![\w.>])(?:%s)\s*\(' % '|'.join(names)


PATTERNS = [
    ('ck', ANY_C, r'runtime/os/(queue\.c|tsan_ck_pr\.h)$', 'text', r'#\s*include\s*[<"]ck_\w+\.h',
     'ck belongs to runtime/os/queue.c alone; use runtime/os/queue.h',
     ('tests/unit/x_test.c', '#include <ck_ring.h>\n')),
    ('ck-allowed', r'runtime/os/queue\.c$', None, 'code',
     r'\bck_(ht|hs|rhs|array|hp|fifo_mpmc|spinlock|rwlock|stack_batch_pop_mpmc|stack_pop_mpmc|epoch_poll|ec_inc)\w*',
     'this part of ck 0.7.1 has faults that were fixed later, or misleads ThreadSanitizer',
     ('runtime/os/queue.c', 'ck_stack_batch_pop_mpmc(&stack);\n')),
    ('runtime object', ANY_C, r'runtime/exec/(runtime|runtime_api|drain|records|begin|entry|inline)\.[ch]$', 'text',
     r'#\s*include\s*"runtime/exec/(runtime_object|begin)\.h"',
     'the fields of a runtime are its owners\' alone: use the functions of runtime/exec/runtime.h',
     ('phases/x.c', '#include "runtime/exec/runtime_object.h"\n')),
    ('fence', ANY_C, r'runtime/os/tsan_ck_pr\.h$', 'code',
     r'\b(atomic_thread_fence|__atomic_thread_fence|ck_spinlock\w*)\b',
     'ThreadSanitizer does not understand it; put the order on the operation',
     ('runtime/exec/x.c', 'atomic_thread_fence(memory_order_acquire);\n')),
    ('atomics', LIBRARY, r'runtime/os/', 'code',
     r'<stdatomic\.h>|\b_Atomic\b|(?<![\w.>])atomic_(?!init\b)\w+\s*\(|\b__(atomic|sync)_\w+',
     'atomics come from runtime/os/os.h, where the order stands in the name (atomic_init alone has none)',
     ('runtime/exec/x.c', 'atomic_load(&a);\n')),
    ('volatile', LIBRARY, r'runtime/os/', 'code', r'\bvolatile\b', 'volatile orders nothing between threads',
     ('phases/x.c', 'static volatile int done;\n')),
    ('threads', CORE, r'runtime/os/', 'code',
     r'<(pthread|threads)\.h>|\b(pthread|thrd|mtx|cnd)_\w+\s*\(|\b(_Thread_local|__thread)\b',
     'threads, locks and thread-locals come from runtime/os/os.h, so that the simulator can stand in for them',
     ('phases/x.c', 'pthread_mutex_lock(&m);\n')),
    ('clock', CORE, r'runtime/os/', 'code',
     calls('clock_gettime', 'clock_nanosleep', 'gettimeofday', 'timespec_get', 'time', 'nanosleep', 'usleep', 'sleep'),
     'the clock is runtime/os/os.h\'s, so that the simulator can move it',
     ('runtime/exec/x.c', 'clock_gettime(CLOCK_MONOTONIC, &now);\n')),
    ('random', CORE, r'runtime/os/', 'code',
     calls('s?rand', 's?random', 'rand_r', 'getrandom', 'getentropy', 'arc4random'),
     'randomness comes from tp__random(), so that a seed replays',
     ('runtime/exec/x.c', 'int r = rand();\n')),
    ('allocation', CORE, r'runtime/(os|base)/', 'code',
     calls('malloc', 'calloc', 'realloc', 'reallocarray', 'aligned_alloc', 'posix_memalign',
           'free', 'strn?dup', 'v?asprintf', 'getline'),
     'memory comes from the given tp_allocator (tp__alloc), so that a test can refuse it',
     ('phases/x.c', 'char *s = strdup(text);\n')),
    ('printing', LIBRARY, PROGRAMS, 'code',
     calls('v?f?printf', 'v?dprintf', 'f?puts', 'f?putc', 'putchar', 'fputs', 'perror', 'syslog') +
     r'|\b(stdout|stderr)\b',
     'library code never prints: pass it to the log callback or a print callback',
     ('runtime/base/x.c', 'fprintf(stderr, "no");\n')),
    ('ending', LIBRARY, PROGRAMS, 'code',
     calls('abort', 'exit', '_exit', '_Exit', 'quick_exit', 'raise', 'err', 'errx'),
     'library code never ends its host: return a tp_status (assert is for our own invariants)',
     ('domains/memory/x.c', 'if (bad) abort();\n')),
    ('host state', LIBRARY, PROGRAMS, 'code',
     calls('signal', 'sigaction', 'sigprocmask', 'f?chdir', 'umask', 'setenv', 'putenv', 'unsetenv',
           'setlocale', 'atexit', 'system', 'popen'),
     'signals, working directory, environment and locale are the host\'s',
     ('stores/x.c', 'signal(SIGPIPE, SIG_IGN);\n')),
    ('unsafe text', ANY_C, r'tests/', 'code',
     calls('strcpy', 'strcat', 'v?sprintf', 'gets', 'strtok', 'alloca', 'atoi', 'atol', 'atof'),
     'no bound, no error or not for threads: use snprintf, memcpy, strtol',
     ('cli/x.c', 'strcpy(a, b);\n')),
    ('unfinished', r'.*', r'tests/lint\.py$', 'all', r'\b(TODO|FIXME|XXX|HACK)\b', 'finish it, or leave it out',
     ('cli/x.c', '/* TO' 'DO: later */\n')),
    ('suppressions', r'tests/tsan\.supp$', None, 'all',
     r'^(?!#|race:_ck_|$).*', 'no frame of our own is ever suppressed',
     ('tests/tsan.supp', 'race:tp__queue_mpmc_pop\n')),
    ('line comment', r'.*\.[ch]$', None, 'code-with-slashes', r'//', 'comments are /* */',
     ('cli/x.c', 'int x; // why\n')),
    ('disabled code', ANY_C, None, 'text', r'^\s*#\s*if\s+0\b', 'delete what is not used; the history keeps it',
     ('cli/x.c', '#if 0\n#endif\n')),
]
VIEWS['code-with-slashes'] = lambda text: TOKEN.sub(
    lambda m: m.group() if m.group().startswith('//') else blank(m.group()), text)

# ---- rules that need more than a pattern: functions of (path, text, tree) that yield (line, message) ----

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
# Top to bottom: a module includes only what stands before it, and itself. The modules that stand on the public face
# see only that and themselves.
MODULES = ['include/turnphase', 'runtime/base', 'runtime/os', 'runtime/value', 'runtime/store', 'runtime/record',
           'runtime/inbox', 'runtime/sched', 'runtime/plan', 'runtime/exec', 'runtime/process', 'phases']
PUBLIC_FACE_ONLY = ['support', 'server', 'providers', 'stores', 'domains/declared', 'domains/files', 'domains/mcp',
                    'domains/memory', 'domains/skills', 'domains/tasks', 'cli', 'examples']
# One piece of code in several libraries (docs/architecture.md): these headers of another module, and no other.
SHARED_HEADERS = {
    'domains/mcp': ('server/http.h', 'server/mount.h'),
    'domains/memory': ('stores/sqlite/database.h', 'stores/sqlite/group.h', 'stores/sqlite/statement.h'),
}
FOR_ALL = ('runtime/base/check.h', 'runtime/base/printf.h')  # macros and nothing else
PLAIN_HEADERS = {'stdarg.h', 'stdbool.h', 'stddef.h', 'stdint.h'}


def line_of(text, offset):
    return text.count('\n', 0, offset) + 1


def module_of(path):
    if path.startswith('turnphase/'):
        return 'include/turnphase'
    for module in MODULES + PUBLIC_FACE_ONLY + ['runtime', 'bench', 'tests']:
        if path.startswith(module + '/'):
            return module
    return None


def modules_look_down(path, text, tree):
    here = module_of(path)
    for match in INCLUDE.finditer(without_comments(text)):
        quote, name = match.groups()
        line = line_of(text, match.start())
        if here == 'include/turnphase':
            if path.startswith('include/turnphase/test/'):  # functions for tests of a host, in the header itself
                continue
            if not name.startswith('turnphase/') and name not in PLAIN_HEADERS:
                yield line, 'a public header shows only turnphase/ and %s, not %s' % (
                    ', '.join(sorted(PLAIN_HEADERS)), name)
            continue
        there = module_of(name)
        if quote == '<' or there is None:
            if quote == '"' and here is not None and here != 'tests':
                yield line, 'include by the path from the root, not "%s"' % name
            continue
        if path.startswith('cli/common/') and name.startswith('cli/') and not name.startswith('cli/common/'):
            yield line, 'cli/common knows none of the commands, not %s' % name
        if here in MODULES and (there not in MODULES or MODULES.index(there) > MODULES.index(here)):
            yield line, '%s may not know %s: modules look only at those above them' % (here, there)
        elif here in PUBLIC_FACE_ONLY and there not in ('include/turnphase', here) and \
                not (name.startswith('support/') and here != 'examples') and \
                name not in (*SHARED_HEADERS.get(here, ()), *FOR_ALL):
            yield line, '%s stands on the public headers alone, not on %s' % (here, there)


# The modules of phases, top to bottom, and which of the others each may include. agent_layer.c makes the objects of all
# of them, and no file includes anything of it.
PHASES = {
    'merge': (),
    'model': ('merge',),
    'turn': ('merge', 'model'),
    'session': ('merge', 'model', 'turn'),
    'tools': ('merge', 'model', 'turn', 'session'),
    'drive': ('merge', 'model', 'turn', 'session', 'tools'),
}
# Which of them see the engine (runtime/exec, runtime/sched): the other ones work on values.
PHASES_ON_THE_ENGINE = ('turn', 'session', 'tools', 'drive')
# Its headers that they see: those of entries, of the runtime and its memory, and one door for all else.
EXEC_FOR_PHASES = ('exec.h', 'entry.h', 'runtime.h', 'blocks.h')


def phases_look_down(path, text, tree):
    """Each folder of phases includes only the folders that PHASES lists for it."""
    here = re.match(r'phases/(?:(\w+)/)?[\w.]+$', path)
    if not here:
        return
    for match in INCLUDE.finditer(without_comments(text)):
        name, line = match.group(2), line_of(text, match.start())
        if re.match(r'runtime/exec/', name) and name[len('runtime/exec/'):] not in EXEC_FOR_PHASES:
            yield line, 'phases see of the engine only %s: exec.h is the door' % ', '.join(EXEC_FOR_PHASES)
        there = re.match(r'phases/(?:(\w+)/)?[\w.]+$', name)
        if there and there.group(1) not in PHASES:
            yield line, 'no file includes what stands in phases/ itself: %s' % name
        elif here.group(1) is None:
            if path != 'phases/agent_layer.c':
                yield line, 'a file of phases stands in one of its folders: %s' % ', '.join(PHASES)
        elif here.group(1) not in PHASES:
            yield line, 'phases/%s is none of the folders that this rule lists' % here.group(1)
        elif there and there.group(1) not in (here.group(1), *PHASES[here.group(1)]):
            yield line, 'phases/%s may not know phases/%s' % (here.group(1), there.group(1))
        elif re.match(r'runtime/(exec|sched)/', name) and here.group(1) not in PHASES_ON_THE_ENGINE and \
                path != 'phases/merge/sets.h':  # the sets of a turn are the engine's to keep
            yield line, 'phases/%s works on values, and may not know %s' % (here.group(1), name)


# Headers of none of the sources that a reader would open first, and why.
LEADS_ELSEWHERE = {
    'runtime/base/check.h': 'macros and nothing else, also for modules that use nothing else of ours',
    'runtime/base/printf.h': 'a macro and nothing else, also for modules that use nothing else of ours',
    'runtime/exec/runtime_object.h': 'the object that runtime.c makes; runtime.h is what others use',
    'runtime/os/sim_internal.h': 'between the files sim_*.c; os.h and sim.h are what others use',
    'runtime/os/tsan_ck_pr.h': 'stands in for ck_pr.h under ThreadSanitizer',
    'domains/declared/hook.h': 'one hook, whose files are hook_*.c; those of a whole file of hooks are in hooks.c',
    'stores/columns.h': 'lists of members only, of which each library of a store has a copy',
    'domains/memory/store_internal.h': 'the part of store.c that shows SQLite; store.h is what others use',
}


ROOT_FILES = {'.clang-format', '.editorconfig', '.gitattributes', '.gitignore', 'CHANGELOG.md', 'CONTRIBUTING.md',
              'LICENSE', 'README.md', 'SECURITY.md', 'dev', 'meson.build', 'meson_options.txt', 'pyproject.toml',
              'turnphase.abi.json', 'turnphase.map'}


def root_has_known_files(path, text, tree):
    """Files that a program left in the root, from which it was called, do not belong to the tree."""
    if '/' not in path and path not in ROOT_FILES and path != '.git':
        yield 1, 'a file of the root is listed in ROOT_FILES of tests/lint.py: delete it, or add it there'


def header_leads_to_its_source(path, text, tree):
    """A header has a source of its name beside it, or is the one of its folder: it has the folder's name."""
    match = re.match(r'(?:runtime|phases|providers|server|stores|domains|cli)/(?:.*/)?(\w+)\.h$', path)
    if not match or path in LEADS_ELSEWHERE or path[:-1] + 'c' in tree.files:
        return
    if os.path.basename(os.path.dirname(path)) != match.group(1):
        yield 1, 'there is no %sc: name the header after the source that has its functions, ' \
                 'or move it into the header of that' % (
            path[:-1])


def sched_is_tested_without_a_runtime(path, text, tree):
    """A test of a file of runtime/sched uses what that module may use, and makes no runtime."""
    match = re.match(r'tests/unit/(\w+)_test\.c$', path)
    if not match or 'runtime/sched/%s.c' % match.group(1) not in tree.files:
        return
    for include in INCLUDE.finditer(without_comments(text)):
        there = module_of(include.group(2))
        if include.group(2) == 'tests/support/test.h':
            continue
        if there not in [None] + MODULES[:MODULES.index('runtime/sched') + 1]:
            yield line_of(text, include.start()), \
                'runtime/sched is tested without a runtime, not with %s' % include.group(2)


NAME_FUNCTION = re.compile(r'^const char \*\w+\((tp_\w+) \w+\) \{\n'
                           r'  static const char \*const names\[\] = \{(.*?)\};\n  return TP__NAME_AT', re.M | re.S)


def each_value_has_its_name(path, text, tree):
    """A table of names has one for each value of the public enum; but for 0, where that is none."""
    for match in NAME_FUNCTION.finditer(text):
        names, shown = match.groups()[1], match.group(1)
        for header in [each for each in tree.files if each.startswith('include/')]:
            text_of_header = without_comments(tree.read(header))
            enum = re.search(r'typedef enum %s \{(.*?)\} %s;' % (shown, shown), text_of_header, re.S)
            values = re.findall(r'(\w+) = (\d+)\b', enum.group(1)) if enum else []
            for value, number in values:
                named = '[%s]' % value in names if '[' in names else int(number) < names.count(',') + 1
                if not named and not (number == '0' and value.endswith('_NONE')):
                    yield line_of(text, match.start()), '%s has no name' % value


FOREIGN_WORDS = {'agent', 'agents', 'prompt', 'prompts', 'model', 'models', 'tool', 'tools'}
IDENTIFIER = re.compile(r'[A-Za-z_]\w*')


def runtime_has_no_foreign_words(path, text, tree):
    """runtime/ never names an agent, a prompt, a model or a tool, but by the names that public headers gave."""
    if not path.startswith('runtime/') or path == 'runtime/os/lock.def':  # it ranks the locks of all modules
        return
    for match in IDENTIFIER.finditer(text):
        word = match.group()
        if FOREIGN_WORDS & set(word.lower().split('_')) and word not in tree.public_words:
            line = line_of(text, match.start())
            yield line, '"%s": runtime/ never names an agent, a prompt, a model or a tool' % word


def has_licence(path, text, tree):
    if re.search(r'\.([ch]|def|map|sh|py)$|meson\.build$|meson_options\.txt$|^dev$|^\.ci/run$', path):
        if path == 'tests/seeds/s4/list.sh':  # as its document has it
            return
        if 'SPDX-License-Identifier: Apache-2.0' not in '\n'.join(text.split('\n')[:2]):
            yield 1, 'the first line (after #!) is SPDX-License-Identifier: Apache-2.0'


def editor_settings(path, config):
    """What .editorconfig says of a file: the last section that fits counts."""
    settings, fits = {}, False
    for line in config.split('\n'):
        if line.startswith('['):
            glob = re.escape(line.strip()[1:-1])
            for sign, meaning in ((r'\*', '.*'), (r'\{', '('), (r'\}', ')'), (',', '|')):
                glob = glob.replace(sign, meaning)
            fits = re.fullmatch(glob, path if '/' in glob else os.path.basename(path))
        elif fits and '=' in line and not line.startswith('#'):
            key, value = line.split('=')
            settings[key.strip()] = value.strip()
    return settings


# What a setting refuses, and why. The longest line is the one number among the values.
EDITOR_RULES = [
    ('charset', 'utf-8', r'\ufffd|\A\ufeff', 'the text is UTF-8, without a byte order mark'),
    ('end_of_line', 'lf', r'\r', 'lines end with LF alone'),
    ('insert_final_newline', 'true', r'[^\n]\Z', 'the last line has no end'),
    ('trim_trailing_whitespace', 'true', r'[^\S\n\r]+$', 'no white space at the end of a line'),
    ('indent_style', 'space', r'\t', 'no tab'),
]


def follows_editorconfig(path, text, tree):
    settings = editor_settings(path, tree.read('.editorconfig'))
    rules = [(pattern, message) for key, value, pattern, message in EDITOR_RULES if settings.get(key) == value]
    width = settings.get('max_line_length', 'off')
    if width != 'off':
        rules.append(('^.{%d,}$' % (int(width) + 1), 'a line has at most %s characters' % width))
    for pattern, message in rules:
        for match in re.finditer(pattern, text, re.M):
            yield line_of(text, match.start()), message


def cases_register_themselves(path, text, tree):
    """A case that only a list of cmocka's names is in no program's --list, and a second list breaks the TAP plan."""
    if not re.match(r'tests/\w+/\w+_test\.c$', path):
        return
    code = code_only(text)
    for match in re.finditer(r'cmocka\.h>|\b_?cmocka_(?:run_group_tests|unit_test)\w*\s*\(', code):
        yield line_of(code, match.start()), 'a case is a TEST() of tests/support/test.h'
    for match in re.finditer(r'^int main\(', code, re.M):
        yield line_of(code, match.start()), 'a file of tests has a TEST_MAIN: its program has other files, too'
    if not re.search(r'^TEST(?:_WITH)?\(', code, re.M):
        yield 1, 'a file of tests has a TEST()'


def is_built(path, text, tree):
    """Nothing is left out: sources, tests and public headers stand in a meson.build."""
    match = re.match(r'(runtime|phases|support|server|stores|domains/\w+|providers/\w+|cli)/(.+\.c)$', path)
    if match and "'%s'" % match.group(2) not in tree.read(match.group(1) + '/meson.build'):
        yield 1, 'not listed in %s/meson.build' % match.group(1)
    match = re.match(r'tests/(\w+)/(\w+)_test\.c$', path)
    if match and not re.search(r"\['%s',\s*'%s'," % match.groups(), tree.read('tests/meson.build')):
        yield 1, 'not in the table of tests/meson.build'
    match = re.match(r'tests/fuzz/(\w+)_fuzz\.c$', path)
    if match and "'%s'" % match.group(1) not in tree.read('tests/fuzz/meson.build'):
        yield 1, 'not listed in tests/fuzz/meson.build'
    match = re.match(r'examples/guides/(\w+)\.c$', path)
    if match and "'%s'" % match.group(1) not in tree.read('examples/meson.build'):
        yield 1, 'not in the guide_names of examples/meson.build'
    match = re.match(r'include/turnphase/(\w+\.(?:h|def))$', path)
    if match:
        name = match.group(1)
        if name.endswith('.h') and "'%s'" % name not in tree.read('tests/headers/meson.build'):
            yield 1, 'not in tests/headers/meson.build'
        if not any("include/turnphase/%s'" % name in tree.read(file)
                   for file in tree.files if file.endswith('meson.build')):
            yield 1, 'installed by no meson.build'


SEED_ROW = re.compile(r'^\| ((?:S\d|Card)\.\d+) \|.*?\| (\w+) \| (.*) \|$')
SEED_STATES = ('works', 'otherwise', 'later')


def seeds_name_tests(path, text, tree):
    """A row of docs/seeds.md that works names tests that are there; one that works later names a piece of work that
    the page lists, and what is missing."""
    if path != 'docs/seeds.md':
        return
    pieces = re.findall(r'^- \*\*(.+?)\*\*: ', text, re.M)
    for line, row in enumerate(text.split('\n'), 1):
        match = SEED_ROW.match(row)
        if not match:
            if re.match(r'\| (?:S\d|Card)\.', row):
                yield line, 'not of the form | number | demand | state | shown by |'
            continue
        number, state, shown = match.groups()
        named = re.findall(r'`(\w+)/(\w+)`: `(\w+)`', shown)
        if state not in SEED_STATES:
            yield line, '%s: "%s" is none of %s' % (number, state, ', '.join(SEED_STATES))
        if state == 'works' and not named:
            yield line, '%s works, but no test is named that shows it' % number
        if state == 'later' and not any(shown.startswith(piece + ': ') for piece in pieces):
            yield line, '%s: "later" begins with one of the pieces of work that the page lists, and a colon' % number
        for kind, name, case in named:
            if not has_case(tree, kind, name, case):
                yield line, '%s: there is no case %s in tests/%s/%s_test.c' % (number, case, kind, name)


def has_case(tree, kind, name, case):
    """Whether a program of tests, in C or Python, has a case of this name."""
    if re.search(r'^def %s\(' % case, tree.read('tests/%s/%s_test.py' % (kind, name)), re.M):
        return True
    return re.search(r'^TEST(?:_WITH)?\(%s\b' % case, tree.read('tests/%s/%s_test.c' % (kind, name)), re.M)


def models_name_tests(path, text, tree):
    """Each row of a table of docs/models.md that has a column "test" names a case that is there."""
    if path != 'docs/models.md':
        return
    wanted = False
    for line, row in enumerate(text.split('\n'), 1):
        wanted = row.startswith('|') and (wanted or row.endswith('| test |'))
        if not wanted or row.endswith('| test |') or row.startswith('|---'):
            continue
        named = re.search(r'\| `(\w+)/(\w+)`: `(\w+)` \|$', row)
        if not named or not has_case(tree, *named.groups()):
            yield line, 'the row ends with a case of a test that is there: `unit/x`: `case`'


def first_hour_names_tests(path, text, tree):
    """Each row of docs/first-hour.md ends with cases that are there, a file of tests, or "by hand"."""
    if path != 'docs/first-hour.md':
        return
    for line, row in enumerate(text.split('\n'), 1):
        shown = row.rstrip(' |').rsplit(' | ', 1)[-1]
        if not row.startswith('| ') or shown == 'shown by' or shown.startswith('by hand'):
            continue
        cases, files = re.findall(r'`(\w+)/(\w+)`: `(\w+)`', shown), re.findall(r'`(tests/[\w./]+)`', shown)
        if not cases and not files:
            yield line, 'the row ends with what shows it: `unit/x`: `case`, a file of tests, or "by hand"'
        for case in cases:
            if not has_case(tree, *case):
                yield line, 'there is no case %s in tests/%s/%s_test.*' % (case[2], case[0], case[1])
        for file in files:
            if file not in tree.files:
                yield line, 'there is no %s' % file


# Pages with lines for turnphase that no test runs as they stand, and why. Other tests play what they show.
NOT_RUN = {
    'docs/command/ask.md': 'the number of a question is known only when it is open; the how-to has the whole',
    'docs/command/export.md': 'needs jq, and a directory of several people',
    'docs/how-to/memory.md': 'needs an endpoint of embeddings',
    'docs/mcp.md': 'needs a file of servers and a host that speaks MCP',
    'docs/models.md': 'needs endpoints of several kinds',
    'docs/overview.md': 'a list of forms, each with a page of its own',
    'docs/serve.md': 'serves addresses that other machines reach',
    'docs/tasks.md': 'needs a model that creates a task',
}
COMMANDS_BLOCK = re.compile(r'^```(\w*)\n(.*?)^```$|((?:^    \S[^\n]*\n)+)', re.M | re.S)


def commands_are_run(path, text, tree):
    """Lines for turnphase in a document are of the kind `sh`, which tests/integration/documents_test.py runs."""
    if not re.match(r'docs/.*\.md$', path) or path in NOT_RUN:
        return
    for match in COMMANDS_BLOCK.finditer(text):
        if match.group(1) != 'sh' and re.search(r'^ *turnphase \w', match.group(2) or match.group(3) or '', re.M):
            yield line_of(text, match.start()), 'a block of commands is of the kind sh, or its page is in NOT_RUN'


STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# Style sheets, and words of other programs.
NO_OPTIONS = ('cli/inspect/plot_page.c', 'cli/inspect/plot_svg.c', 'cli/run/changed.c')


def errors_name_options(path, text, tree):
    """An option that a text of the command or of a provider names is one of the command, and a member that a remedy of
    a provider names is one of the public headers."""
    if not re.match(r'(cli|providers)/.+\.c$', path) or path in NO_OPTIONS:
        return
    options = set(re.findall(r'^OPTION\([^,]+, "([a-z-]+)"', tree.read('cli/common/options.def'), re.M)) | {'version'}
    headers = ' '.join(tree.read(file) for file in tree.files if file.startswith('include/turnphase/'))
    for match in STRING.finditer(text):
        for option in re.findall(r'(?<![\w-])--([a-z][a-z-]+)', match.group(0)):
            if option not in options:
                yield line_of(text, match.start()), 'there is no option --%s' % option
        for member in re.findall(r'\b(?:raise|check|set|above|or) ([a-z]+(?:_[a-z]+)+)\b', match.group(0)):
            if path.startswith('providers/') and not re.search(r'\b%s\b' % member, headers):
                yield line_of(text, match.start()), 'no public header has %s' % member


def seeds_are_played(path, text, tree):
    """A file of tests/seeds is named by a test, or a folder in which it is; an interface also has a schema."""
    if not path.startswith('tests/seeds/'):
        return
    parts = path.split('/')[2:]
    names = ['/'.join(parts[:count]) for count in range(len(parts), 1, -1)]
    tests = [each for each in tree.files if re.match(r'tests/\w+/\w+_test\.(c|py)$', each)]
    if not any(name in tree.read(test) for test in tests for name in names):
        yield 1, 'no test names it: play the example as its document has it'
    if '/interfaces/' in path and path.endswith('.ts') and path[:-2] + 'schema.json' not in tree.files:
        yield 1, 'an interface has a JSON Schema beside it, which contexts and results are validated by'


DECISION = re.compile(r'# .+\n\n(20\d\d-\d\d-\d\d), (in force(?=[.;])|superseded(?: in part)?(?= by \S))')


def decisions_have_a_status(path, text, tree):
    """A decision says below its title since when it is in force, or what superseded it; the list of them agrees."""
    if not path.startswith('docs/decisions/'):
        return
    match = DECISION.match(text)
    name = path[len('docs/decisions/'):]
    if not match:
        yield 3, 'below the title of a decision stands "DATE, in force.", "DATE, in force; changed DATE: ...", ' \
                 '"DATE, superseded by ..." or "DATE, superseded in part by ..."'
    elif '](decisions/%s) | %s | %s |\n' % (name, *match.groups()) not in tree.read('docs/README.md'):
        yield 3, 'the table of docs/README.md has no row of it with %s | %s' % match.groups()


PUBLIC_STRUCT = re.compile(r'typedef struct (tp_\w+) \{\n(.*?)\n\} \1;', re.S)
COMMENT_BESIDE = re.compile(r'^[^\n/]*;[ ]*/\*(?!\*)(?:[^*]|\*(?!/))*\*/', re.M)


def comments_stand_above_fields(path, text, tree):
    """In public headers: of each option above its field, and of other fields, too, unless it fits beside."""
    if not path.startswith('include/turnphase/'):
        return
    for struct in PUBLIC_STRUCT.finditer(text):
        for match in COMMENT_BESIDE.finditer(struct.group(2)):
            line = line_of(text, struct.start(2) + match.start())
            if struct.group(1).endswith('_options'):
                yield line, 'the comment of an option stands above it: /** … */'
            elif '\n' in match.group():
                yield line, 'a comment that does not fit beside its field stands above it: /** … */'


def lists_are_sorted(path, text, tree):
    if not path.endswith('meson.build'):
        return
    for block in re.finditer(r"\w+(?:_sources|_names|_headers) = (?:files\()?\[?\n((?:  '[^']+',\n)+)", text):
        names = re.findall(r"'([^']+)'", block.group(1))
        for before, after in zip(names, names[1:]):
            if before >= after:
                yield line_of(text, block.start()), (
                    "the list is in the order of the alphabet: '%s' stands before '%s'" % (before, after))


STEP_ROW = re.compile(r'^STEP\((\w+), (\w+)((?:[^()]|\([^()]*\))*)\)', re.M)


def diagram_of_steps(definition):
    """The order of the steps as Mermaid draws it. That any step above COMMIT may go there is said beside it."""
    lines = ['```mermaid', 'stateDiagram-v2']
    for name, follows, columns in STEP_ROW.findall(definition):
        phase = re.search(r'\.phase = TP_PHASE_(\w+)', columns)
        if phase:
            lines.append('    %s: %s (phase %s)' % (name, name, phase.group(1)))
        targets = ([] if follows == 'NONE' else [follows]) + re.findall(r'TO\((\w+)\)', columns)
        lines += ['    %s --> %s' % (name, target) for target in targets] or ['    %s --> [*]' % name]
    return '\n'.join(lines + ['```', ''])


def architecture_shows_the_steps(path, text, tree):
    if path == 'docs/architecture.md':
        diagram = diagram_of_steps(tree.read('phases/drive/steps.def'))
        if diagram not in text:
            yield 1, 'the diagram of the steps is not that of phases/drive/steps.def, which is:\n' + diagram


def keys_of_hooks_are_documented(path, text, tree):
    if path == 'docs/hooks.md':
        for name in re.findall(r'^KEY\(\w+, (\w+)', tree.read('domains/declared/hook_keys.def'), re.M):
            if not re.search(r'`%s`|\b%s:' % (name, name), text):
                yield 1, 'the key %s of domains/declared/hook_keys.def is not described' % name


FUNCTION_IN_FILE = re.compile(r'\| `([\w/]+\.c)` \| `(\w+)\(\)`|`(\w+)\(\)` in\s+`([\w/]+\.c)`')


def functions_are_where_the_page_says(path, text, tree):
    """docs/call-order.md names files with their functions."""
    if path != 'docs/call-order.md':
        return
    for match in FUNCTION_IN_FILE.finditer(text):
        file, name = match.group(1) or match.group(4), match.group(2) or match.group(3)
        if not re.search(r'^\w[^;{}=]*\b%s\([^;{}]*\)[^;{}]*\{' % name, tree.read(file), re.M):
            yield line_of(text, match.start()), '%s has no function %s()' % (file, name)


def locks_stand_in_their_order(path, text, tree):
    """The rows of lock.def rise with their ranks, and each names the source that has the lock."""
    if path not in ('runtime/os/lock.def', 'support/lock.def'):
        return
    last = 0
    for match in re.finditer(r'^\w+\(\w+, (\d+), "([\w./]+)?', text, re.M):
        line, rank, source = line_of(text, match.start()), int(match.group(1)), match.group(2) or ''
        if rank < last:
            yield line, 'rank %d stands after rank %d' % (rank, last)
        if '.' in source and not {source.rstrip('.'), 'runtime/' + source.rstrip('.')} & set(tree.files):
            yield line, 'there is no %s' % source
        last = rank


WITHOUT_CIRCLES = ('domains/declared/',)


def includes_have_no_circle(path, text, tree):
    """In these folders no unit depends, by its includes, on one that depends on it."""
    folder = next((folder for folder in WITHOUT_CIRCLES if path.startswith(folder)), None)
    if not folder or not path.endswith(('.c', '.h')):
        return
    graph = tree.include_graph(folder)
    unit = os.path.splitext(path)[0]
    for name in count_tree.includes_of(text):
        reached, ahead = set(), [os.path.splitext(name)[0]]
        if ahead[0] == unit:
            continue
        while ahead:
            other = ahead.pop()
            if other not in reached and other in graph:
                reached.add(other)
                ahead += graph[other]
        if unit in reached:
            yield line_of(text, text.index(name)), '%s depends on %s: the includes are a circle' % (name, path)


def guides_quote_their_examples(path, text, tree):
    """The C code of a guide stands in its example as it is there; the others are the line that makes it, and what it
    prints."""
    match = re.match(r'docs/guides/(\w+)\.md$', path)
    if not match:
        return
    example = 'examples/guides/%s.c' % match.group(1)
    blocks = list(re.finditer(r'^```(\w*)\n(.*?)^```$', text, re.M | re.S))
    for block in blocks:
        if block.group(1) == 'c' and block.group(2) not in tree.read(example):
            yield line_of(text, block.start()), 'this code is not in %s' % example
    kinds = [block.group(1) for block in blocks]
    if set(kinds) != {'c', 'sh', 'text'} or kinds.count('sh') != 1 or kinds.count('text') != 1:
        yield 1, 'a guide has blocks of the kind c, one of the kind sh, one of the kind text, and no others'
    if 'guides/%s.md' % match.group(1) not in tree.read('docs/README.md'):
        yield 1, 'not in docs/README.md'


# A function ends with a brace alone on its line, or stands on one line. The floor rises with what the core has.
FUNCTION_END = re.compile(r'^}$|^(?!typedef|struct|enum|union|#)\w.*\) \{.*\}$', re.M)
ASSERTION = re.compile(r'(?<!\w)(?:assert|TP__(?:ASSERT|CHECK|LOCKED|OWNED))\s*\(')
ASSERTIONS_PER_FUNCTION = 0.18


def core_asserts_what_holds(path, text, tree):
    """The functions of the core assert as much as they did."""
    if path != 'runtime/base/base.h':
        return
    functions = assertions = 0
    for file in tree.files:
        if re.match(CORE, file):
            code = code_only(text if file == path else tree.read(file))
            functions += len(FUNCTION_END.findall(code))
            assertions += len(ASSERTION.findall(code))
    if assertions < ASSERTIONS_PER_FUNCTION * functions:
        yield 1, 'runtime/ and phases/ have %d assertions in %d functions, below %.2f for each: state what holds' % (
            assertions, functions, ASSERTIONS_PER_FUNCTION)


def modules_use_support(path, text, tree):
    """The modules outside the core have locks, faults, buffers, clocks and files of support/, and assert what holds."""
    yield from count_support.breaches(path, text)
    if path == 'support/lock.c':  # once for the tree
        lack = count_support.lacks_assertions(tree.files, lambda file: text if file == path else tree.read(file))
        if lack:
            yield 1, lack


# ---- words: one standard term for one concept, in what users read ----

READ_BY_USERS = re.compile(r'include/.*\.(h|def)$|docs/.*\.md$|(README|CONTRIBUTING|SECURITY)\.md$|bench/README\.md$')
# (words, what to say instead). A word is matched whole, in any case; an underscore is a letter, so names are not.
WORDS = [
    (r'told|tells?|telling', 'notify, report, return, show'),
    (r'stor(y|ies)', 'message, fault, trace'),
    (r'dear|dearer|cheap|cheaper|cheapest|cheaply', 'expensive; costs less'),
    (r'watched', 'sampled, listened to, followed'),
    (r'parcels?|lots?', 'batch'),
    (r'lent|lends?|lending', 'borrowed until ...'),
    (r'hungry|starv(e|es|ed|ing)|visitors?', 'idle workers; completers'),
    (r'berths?|seats?|shel(f|ves)|depots?', 'slot, quota, cache, list of magazines'),
    (r'hand(s|ed|ing)? (\w+ )?(in|over|back|out|on)', 'submit, pass, return'),
    (r'g(i|a)v(e|es|en|ing) (\w+ ){0,3}back|take_down', 'return, release, unref'),
    (r'let(s|ting)? go|forget(s|ting)?|forgot(ten)?', 'unref, free, delete, clear'),
    (r'fates?|deciders?|sheltered', 'entry state, deciding node, ignores_cancel'),
    (r'rosters?|wish(es|ed)?|hopefuls?', 'phase members, requested change, optional target'),
    (r'due|undue', 'timer entry, expired, deadline'),
    (r'hard_ns|easy_ns|tail_ns', 'deadline_ns, fast_path_until_ns, required_tail_ns'),
    (r'narrow|wide', 'compact, full; of numbers: has 32 bits'),
    (r'took|brought|brings?|bringing', 'duration, lasted; contributed, has'),
    (r'doors?|rooms?|house', 'API; module, project; space, capacity'),
    (r'one_less|run_plainly|spare', 'unref, run_inline, free'),
    (r'sheets?|rides?|traffic|yardsticks?', 'statistics, request, load, baseline'),
    (r'errands?|crowds?|editions?|dialogues?|onlookers?|weather', 'workload, observer, fault level'),
    (r'manieth|mend(s|ed|ing)?', 'rank; repair, fix'),
    (r'ordinary|odd|easy|quiet|plainly', 'fast path; exceptional'),
    (r'plain(?! (text|scalars?|SQLite|HTTP|`http))', 'fast path; exceptional'),
    (r'quick|quickly', 'inline; within microseconds'),
    (r'whoever|somebody|someone|nobody|everybody|everyone|anybody|anyone',
     'the role: the owner, a worker, the caller, the host'),
]
# What these words also are: a term of a domain, a name, an option, a format. Taken out of a line before it is read.
TERMS = re.compile(r'`[^`]*`|\]\([^)]*\)|"[^"]*"|\b(memory|turnphase)[ _]forget\b|'
                   r'\b(show|sessions), forget\b|\b[Qq]uick start\b|test --quick|\bquick_check\b')


def words_are_standard_terms(path, text, tree):
    """What users read has the terms of the field, and none of the words that stood for them once."""
    if not READ_BY_USERS.match(path):
        return
    fence = False
    for line, row in enumerate(text.split('\n'), 1):
        if row.lstrip().startswith('```'):
            fence = not fence
        if fence and path.endswith('.md'):
            continue  # commands and what they print
        row = TERMS.sub(' ', row)
        for words, instead in WORDS:
            for match in re.finditer(r'(?i)(?<![\w-])(%s)(?![\w-])' % words, row):
                yield line, '"%s": say %s' % (match.group(), instead)


# What a name in code is never made of. Words of the list above that a library, a format or a domain has, too
# (curl_easy_setopt, --quick, memory_forget), are left to the reader.
NAMES_NEVER = set((
    'depot depots lot lots lent lend lends hungry starve starves took brought bring brings tell '
    'tells told somebody someone nobody whoever everybody anybody roster berth seat shelf parcel '
    'dear fate decider sheltered undue door doors house spare sheet ride traffic yardstick errand '
    'edition onlooker manieth mend ordinary odd plainly'
).split())
NAMED_BY_THE_RULE = re.compile(r'(runtime|phases|cli|server|domains|stores|providers|bench|examples)/.*\.[ch]$')


def names_are_standard_terms(path, text, tree):
    """Names in code have the terms of the field."""
    if not NAMED_BY_THE_RULE.match(path):
        return
    for match in IDENTIFIER.finditer(code_only(text)):
        for word in NAMES_NEVER & set(match.group().lower().split('_')):
            yield line_of(text, match.start()), '"%s" is no term of the field' % word


def each_word_is_seen():
    """A planted breach for each of the words."""
    plants = ['told tell story dear cheap watched parcel lot lent hungry starve berth seat shelf depot visitor',
              'fate decider sheltered roster wish hopeful due undue hard_ns easy_ns tail_ns narrow wide took',
              'brought door room house one_less run_plainly spare sheet ride traffic yardstick take_down errand',
              'crowd edition dialogue onlooker weather manieth mend ordinary odd easy quiet plainly plain quick',
              'whoever somebody someone nobody everybody anybody forget lends']
    plants = ' '.join(plants).split() + ['hand in', 'handed it over', 'gives the reference back', 'lets go']
    return ['the rule of words does not see "%s"' % word for word in plants
            for path in ('include/turnphase/x.h', 'docs/x.md', 'README.md', 'bench/README.md')
            if not list(words_are_standard_terms(path, 'The owner %s it.\n' % word, None))]


NAMES_PLANTED = """const char *tp_backoff_name(tp_backoff value) {
  static const char *const names[] = {%s};
  return TP__NAME_AT(names, value, "");
}
"""

FUNCTIONS = [
    (modules_look_down, 'include/turnphase/x.h', '#include <msgpack.h>\n'),
    (modules_look_down, 'runtime/os/x.c', '#include "runtime/exec/runtime.h"\n'),
    (modules_look_down, 'runtime/exec/x.c', '#include "phases/turn/turn.h"\n'),
    (modules_look_down, 'domains/memory/x.c', '#include "runtime/base/base.h"\n'),
    (modules_look_down, 'domains/memory/x.c', '#include "stores/sqlite/x.h"\n'),
    (modules_look_down, 'domains/declared/x.c', '#include "stores/sqlite/database.h"\n'),
    (modules_look_down, 'cli/x.c', '#include "x.h"\n'),
    (modules_look_down, 'cli/common/x.c', '#include "cli/run/x.h"\n'),
    (phases_look_down, 'phases/merge/x.c', '#include "phases/model/model.h"\n'),
    (phases_look_down, 'phases/model/x.c', '#include "phases/turn/turn.h"\n'),
    (phases_look_down, 'phases/turn/x.c', '#include "phases/session/session.h"\n'),
    (phases_look_down, 'phases/session/x.c', '#include "phases/tools/tools.h"\n'),
    (phases_look_down, 'phases/tools/x.h', '#include "phases/drive/drive.h"\n'),
    (phases_look_down, 'phases/drive/x.c', '#include "phases/agent_layer.h"\n'),
    (phases_look_down, 'phases/x.c', '#include "phases/turn/turn.h"\n'),
    (phases_look_down, 'phases/more/x.c', '#include "phases/turn/turn.h"\n'),
    (phases_look_down, 'phases/model/x.c', '#include "runtime/exec/runtime.h"\n'),
    (phases_look_down, 'phases/turn/x.c', '#include "runtime/exec/turn_table.h"\n'),
    (root_has_known_files, 'zzz.log', '0 ms\n'),
    (header_leads_to_its_source, 'runtime/exec/missing_zzz.h', '\n'),
    (header_leads_to_its_source, 'phases/missing_zzz.h', '\n'),
    (sched_is_tested_without_a_runtime, 'tests/unit/pool_test.c', '#include "runtime/exec/runtime.h"\n'),
    (sched_is_tested_without_a_runtime, 'tests/unit/worker_test.c', '#include "tests/support/host.h"\n'),
    (runtime_has_no_foreign_words, 'runtime/exec/x.c', '/* runs the model\'s tool_zzz calls */\n'),
    (each_value_has_its_name, 'runtime/x.c', NAMES_PLANTED % '"none", "fixed"'),
    (each_value_has_its_name, 'runtime/x.c', NAMES_PLANTED % '[TP_BACKOFF_NONE] = "none", [TP_BACKOFF_FIXED] = "f"'),
    (has_licence, 'cli/x.c', '\n'),
    (follows_editorconfig, 'cli/x.c', 'caf\ufffd\n'),  # as Tree.read() shows what is not UTF-8
    (follows_editorconfig, 'cli/x.c', '\ufeffint x;\n'),
    (follows_editorconfig, 'cli/x.c', 'int x;\r\n'),
    (follows_editorconfig, 'cli/x.c', 'int x;'),
    (follows_editorconfig, 'docs/x.md', 'Text. \n'),
    (follows_editorconfig, '.gitignore', '\tbuild\n'),
    (follows_editorconfig, 'examples/x.yaml', 'x' * 121 + '\n'),
    (cases_register_themselves, 'tests/unit/x_test.c', 'TEST(a) {}\nint main(void) { cmocka_run_group_tests(a); }\n'),
    (cases_register_themselves, 'tests/unit/x_test.c', 'static void a(void **state) {}\n'),
    (cases_register_themselves, 'tests/unit/x_test.c', 'TEST(a) {}\nint main(void) { return 0; }\n'),
    (is_built, 'runtime/base/missing_zzz.c', '\n'),
    (is_built, 'tests/unit/missing_zzz_test.c', '\n'),
    (is_built, 'include/turnphase/missing_zzz.h', '\n'),
    (is_built, 'examples/guides/missing_zzz.c', '\n'),
    (guides_quote_their_examples, 'docs/guides/handler.md', '```sh\n```\n```c\nint zzz;\n```\n```text\n```\n'),
    (guides_quote_their_examples, 'docs/guides/handler.md', '```sh\n```\n```c\n```\n```text\n```\n```text\n```\n'),
    (guides_quote_their_examples, 'docs/guides/missing_zzz.md', '```sh\n```\n```c\n```\n```text\n```\n'),
    (seeds_name_tests, 'docs/seeds.md', '| S9.1 | it works | works | `unit/edit`: `zzz_is_not_there` |\n'),
    (seeds_name_tests, 'docs/seeds.md', '| S9.1 | it works | works | by itself |\n'),
    (seeds_name_tests, 'docs/seeds.md', '| S9.1 | it works | partly | most of it |\n'),
    (seeds_name_tests, 'docs/seeds.md', '- **zzz**: a piece\n\n| S9.1 | it works | later | some day |\n'),
    (errors_name_options, 'cli/run/x.c', 'void f(void) {\n  cli_error("--no-such-zzz is wrong");\n}\n'),
    (errors_name_options, 'providers/openai/x.c', 'char x[] = "try again, or raise zzz_zzz_ms";\n'),
    (models_name_tests, 'docs/models.md', '| test |\n|---|\n| `unit/openai_calls`: `zzz_is_not_there` |\n'),
    (models_name_tests, 'docs/models.md', '| what | test |\n|---|---|\n| x | `unit/openai_calls` |\n'),
    (first_hour_names_tests, 'docs/first-hour.md', '| 1 | a | b | `unit/openai_calls`: `zzz_is_not_there` |\n'),
    (first_hour_names_tests, 'docs/first-hour.md', '| 1 | a | b | `tests/zzz.py` |\n'),
    (first_hour_names_tests, 'docs/first-hour.md', '| 1 | a | b | seen |\n'),
    (commands_are_run, 'docs/zzz.md', '```\nturnphase runs ./kept\n```\n'),
    (commands_are_run, 'docs/zzz.md', 'Such as\n\n    turnphase runs ./kept\n'),
    (seeds_are_played, 'tests/seeds/s4/zzz.yaml', 'id: zzz\n'),
    (seeds_are_played, 'tests/seeds/s4/interfaces/Zzz.ts', 'interface Zzz {}\n'),
    (architecture_shows_the_steps, 'docs/architecture.md', '# Architecture\n'),
    (keys_of_hooks_are_documented, 'docs/hooks.md', '# Hooks\n'),
    (functions_are_where_the_page_says, 'docs/call-order.md', 'x | `runtime/exec/jobs.c` | `missing_zzz()` |\n'),
    (functions_are_where_the_page_says, 'docs/call-order.md', '`missing_zzz()` in\n`runtime/exec/jobs.c`\n'),
    (locks_stand_in_their_order, 'runtime/os/lock.def', 'X(a, 2, "exec/jobs.c: a")\nX(b, 1, "exec/jobs.c: b")\n'),
    (locks_stand_in_their_order, 'runtime/os/lock.def', 'X(a, 2, "exec/missing_zzz.c: a")\n'),
    (includes_have_no_circle, 'domains/declared/hook.h', '#include "domains/declared/hook_read.h"\n'),
    (core_asserts_what_holds, 'runtime/base/base.h', 'void f(void) {\n}\n' * 10000),
    (modules_use_support, 'support/lock.c', 'void f(void) {\n}\n' * 10000),
    (modules_use_support, 'stores/sqlite/x.c', 'void f(void) {\n  pthread_mutex_lock(&x->mutex);\n}\n'),
    (modules_use_support, 'cli/run/x.c', 'void f(void) {\n  pthread_cond_wait(&x->c, &x->mutex);\n}\n'),
    (modules_use_support, 'domains/memory/x.c', 'static int put_locked(store *s) {\n  return s->x;\n}\n'),
    (modules_use_support, 'phases/x.c', 'void f(void) {\n  printf("\\\\u%04x", c);\n}\n'),
    (modules_use_support, 'domains/skills/x.c', 'struct b {\n  char *data;\n  size_t size, capacity;\n};\n'),
    (modules_use_support, 'cli/x.c', 'void f(tp_fault *fault, ...) {\n  vsnprintf(m, n, format, args);\n}\n'),
    (modules_use_support, 'cli/x.c', 'void f(void) {\n  clock_gettime(CLOCK_MONOTONIC, &now);\n}\n'),
    (modules_use_support, 'cli/x.c', 'void f(void) {\n  int fd = open(path, O_RDONLY | O_CLOEXEC);\n}\n'),
    (modules_use_support, 'cli/x.c', 'bool f(tp_text a) {\n  return a.size == b.size && memcmp(a.data, b.data, 1);\n}'),
    (modules_use_support, 'cli/x.c', '#define TRY(expression) expression\n'),
    (modules_use_support, 'cli/x.c', 'void f(void) {\n  pthread_create(&t, NULL, run, NULL);\n}\n'),
    (names_are_standard_terms, 'cli/x.c', 'int told_zzz;\n'),
    (documents.links_lead_somewhere, 'docs/x.md', 'See [it](zzz.md).\n'),
    (documents.links_lead_somewhere, 'docs/x.md', 'See [it](../SECURITY.md#zzz).\n'),
    (documents.defaults_are_right, 'docs/command/x.md', '`--warm-up N` (101) turns\n'),
    (documents.exit_statuses_are_documented, 'docs/command/exit-status.md', '| 0 | all went well |\n'),
    (documents.events_are_documented, 'docs/events.md', '| `zzz` | it |\n'),
    (documents.event_keys_are_documented, 'docs/events.md', '| event | its kind |\n'),
    (documents.commands_are_run, 'docs/how-to/zzz.md', '```sh\ntrue\n```\n'),
    (documents.commands_are_run, 'docs/command/zzz.md', '```sh\ntrue\n```\n'),
    (documents.commands_are_run, 'SECURITY.md', '```sh\ntrue\n```\n'),
    (documents.commands_are_run, 'docs/hooks.md', '```bash\ntrue\n```\n'),
    (documents.commands_have_pages, 'docs/command.md', '# No link\n'),
    (documents.verbs_take_options, documents.VERBS, 'VERB(X, cli_x, .name = "x", .options = "json zzz")\n'),
    (documents.verbs_take_options, documents.VERBS, 'VERB(X, cli_x, .name = "x", .options = "json load")\n'),
    (documents.verbs_take_options, documents.VERBS, 'VERB(X, cli_x, .name = "x", .meanings = {{"json", "a"}})\n'),
    (words_are_standard_terms, 'docs/x.md', 'The thread that ends first is told so.\n'),
    (decisions_have_a_status, 'docs/decisions/gate.md', '# Title\n\n**Question.** Why?\n'),
    (decisions_have_a_status, 'docs/decisions/gate.md', '# Title\n\n2026-11-22, superseded.\n'),
    (decisions_have_a_status, 'docs/decisions/gate.md', '# Title\n\n2025-01-01, in force.\n'),
    (decisions_have_a_status, 'docs/decisions/missing_zzz.md', '# Title\n\n2026-11-22, in force.\n'),
    (comments_stand_above_fields, 'include/turnphase/x.h',
     'typedef struct tp_x_options {\n  size_t struct_size;\n  const char *one; /* of it */\n} tp_x_options;\n'),
    (comments_stand_above_fields, 'include/turnphase/x.h',
     'typedef struct tp_x {\n  tp_status (*one)(void *ctx); /* of it,\n     twice */\n  int two;\n} tp_x;\n'),
    (lists_are_sorted, 'cli/meson.build', "cli_sources = files(\n  'b.c',\n  'a.c',\n)\n"),
]

# Lines that must stay allowed: a rule that reports these is wrong.
INNOCENT = [
    ('runtime/base/x.c', '/* SPDX-License-Identifier: Apache-2.0 */\n#include "turnphase/base.h"\n'
                         '/* never abort(), printf() or malloc(): */\n'
                         'int n = snprintf(a, b, "free(%d) // no comment", tp__time(x));\n'
                         'self->free(self);\nstore.time(1);\n'),
    ('domains/memory/x.c', '/* SPDX-License-Identifier: Apache-2.0 */\n#include "turnphase/memory.h"\n'
                           '#include <sqlite3.h>\n#include "domains/memory/file.h"\n'
                           '#include "stores/sqlite/database.h"\n/* the tools of the model */\nfree(memory);\n'),
    ('docs/x.md', 'Unlike plain text, `quick` is a name; `./dev test --quick` an option; memory forget a command.\n'),
    ('docs/x.md', '# A b: `c`\n[1](#a-b-c) [2](../SECURITY.md#reporting) [3](https://zzz) `[4](zzz)` \\[5\\](zzz)\n'),
]

# ---- the tree ----


class Tree:
    """The files that git would keep, but for the corpus of the fuzz targets, which is bytes."""

    def __init__(self, root):
        self.root = root
        self.files = []
        self.texts = {}
        self.graphs = {}
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(set(folders) - {'.git', 'build', '__pycache__', 'node_modules', 'corpus'})
            for name in sorted(n for n in names if not n.endswith('.swp')):
                self.files.append(os.path.relpath(os.path.join(folder, name), root))
        self.public_words = set()
        for path in self.files:
            if path.startswith('include/'):
                self.public_words |= set(IDENTIFIER.findall(code_only(self.read(path))))

    def include_graph(self, folder):
        """As of count_tree.include_graph()."""
        if folder not in self.graphs:
            paths = [path for path in self.files if path.startswith(folder) and path.endswith(('.c', '.h'))]
            self.graphs[folder] = count_tree.include_graph({path: self.read(path) for path in paths}, folder)
        return self.graphs[folder]

    def read(self, path):
        if path not in self.texts:
            try:
                with open(os.path.join(self.root, path), encoding='utf-8', errors='replace', newline='') as file:
                    self.texts[path] = file.read()
            except OSError:
                self.texts[path] = ''  # the file is missing
        return self.texts[path]


def breaches_of_pattern(rule, path, text):
    name, files, left_out, view, pattern, message, _ = rule
    if not re.match(files, path) or (left_out and re.match(left_out, path)):
        return
    for match in re.finditer(pattern, VIEWS[view](text), re.M):
        yield line_of(text, match.start()), message


def breaches(path, text, tree):
    for rule in PATTERNS:
        for line, message in breaches_of_pattern(rule, path, text):
            yield line, '%s: %s' % (rule[0], message)
    seen = set()
    for function, _, _ in FUNCTIONS:
        if function not in seen:
            seen.add(function)
            for line, message in function(path, text, tree):
                yield line, message


def check_the_lint(tree):
    """Every rule is tried on its planted breach, and all rules on what is innocent."""
    broken = each_word_is_seen()
    broken += ['LEADS_ELSEWHERE: %s is not there, or needs no exception' % header for header in LEADS_ELSEWHERE
               if header not in tree.files or header[:-1] + 'c' in tree.files]
    for rule in PATTERNS:
        path, text = rule[-1]
        if not list(breaches_of_pattern(rule, path, text)):
            broken.append('rule "%s" does not see its planted breach' % rule[0])
    for function, path, text in FUNCTIONS:
        if not list(function(path, text, tree)):
            broken.append('rule "%s" does not see its planted breach in %s' % (function.__name__, path))
    for path, text in INNOCENT:
        for line, message in breaches(path, text, tree):
            if not message.startswith('not listed'):
                broken.append('a rule cries at what is innocent: %s:%d: %s' % (path, line, message))
    return broken


# ---- the form of C, which a tool knows ----


def misformatted(root, paths, text=None):
    """What clang-format would write otherwise, as (file, line) of each first difference; text: of one file, planted."""
    command = ['clang-format', '--dry-run', '-Werror', '--ferror-limit=1']
    command += paths if text is None else ['--assume-filename=' + paths[0]]
    done = subprocess.run(command, cwd=root, input=text, stderr=subprocess.PIPE, text=True, check=False)
    found = re.findall(r'^(.+?):(\d+):\d+: error: code should be clang-formatted', done.stderr, re.M)
    if done.returncode != 0 and not found:
        raise RuntimeError('clang-format failed: ' + done.stderr)
    return found


def has_the_formatter():
    """Other versions than that of Debian 12 write other code."""
    try:
        said = subprocess.run(['clang-format', '--version'], stdout=subprocess.PIPE, text=True, check=False).stdout
    except OSError:
        return False
    return re.search(r'version 14\.', said) is not None


def check_the_form(tree):
    """@return how many files differ; the lint is broken where a planted difference is not seen."""
    if not has_the_formatter():
        print('lint: the formatting was not checked: there is no clang-format 14')
        return 0
    if not misformatted(tree.root, ['runtime/zzz.c'], 'int  zzz;\n') or \
            misformatted(tree.root, ['runtime/zzz.c'], 'int zzz;\n'):
        print('lint: clang-format does not see what was planted')
        sys.exit(2)
    found = misformatted(tree.root, [path for path in tree.files if re.match(ANY_C, path)])
    for path, line in found:
        print('%s:%s: not as .clang-format says: run clang-format -i (version 14)' % (path, line))
    return len(found)


def main():
    if len(sys.argv) != 2 or not os.path.isfile(os.path.join(sys.argv[1], 'meson.build')):
        print('usage: lint.py ROOT (the folder with the root meson.build)', file=sys.stderr)
        return 2
    tree = Tree(sys.argv[1])
    broken = check_the_lint(tree)
    if broken:
        print('\n'.join('lint: ' + message for message in broken))
        return 2
    found = check_the_form(tree)
    for path in tree.files:
        for line, message in breaches(path, tree.read(path), tree):
            print('%s:%d: %s' % (path, line, message))
            found += 1
    rules = len(PATTERNS) + len({function for function, _, _ in FUNCTIONS})
    print('lint: %d rules, %d files, %d breaches' % (rules, len(tree.files), found))
    return 1 if found else 0


sys.exit(main())
