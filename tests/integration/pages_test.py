#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages are without a warning and whole, and shells complete the words of the command.

    python3 tests/integration/pages_test.py PAGES [TURNPHASE]

PAGES is docs/pages of a build directory. Without TURNPHASE the pages of the headers only. Each shell is tried as a
person has it: a line is typed with a Tab at its end, and a function in the command's place prints what the line was
then. Prints TAP; a program that is not installed is a case that is skipped with its reason.
"""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

LIMIT_S = 60
PAGES = os.path.abspath(sys.argv[1])
COMMAND = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None

# The text before the Tab, and the words that the command then gets.
CASES = [
    ('critical-ch', 'critical-chain'),
    ('help critical-ch', 'help critical-chain'),
    ('jobs red', 'jobs redrive'),
    ('jobs --json red', 'jobs --json redrive'),
    ('run --scr', 'run --script'),
    ('run --color al', 'run --color always'),
    ('run --color=al', 'run --color=always'),
    ('run -s mod', 'run -s model.yaml'),
    ('run --script mod', 'run --script model.yaml'),
    ('runs kep', 'runs kept/'),
    ('hooks trust kep', 'hooks trust kept/'),
    ('hooks trust mod', 'hooks trust mod'),  # a file, and a folder is wanted
    ('show kept mond', 'show kept monday-one'),
    ('explain kept/ mond', 'explain kept/ monday-one'),
    ('show kept a:', 'show kept a:b-two'),
    ('sessions show kept mea', 'sessions show kept meadow'),
    ('chat --data kept --session mea', 'chat --data kept --session meadow'),
    ('plan turn.pre_prompt_cont', 'plan turn.pre_prompt_context'),
    ('runs kept --phase turn.pre_prompt_cont', 'runs kept --phase turn.pre_prompt_context'),
    ('ask answer kept 3 al', 'ask answer kept 3 allow'),
    ('store hash kept mod', 'store hash kept model.yaml'),
]
FILES = {
    'model.yaml': 'repeat: true\nresponses:\n  - text: Hello.\n',
    'talk.jsonl': '{"session": "meadow", "turn": "monday-one", "user": "hi"}\n'
                  '{"session": "other", "turn": "a:b-two", "user": "hi"}\n',
}


class Report:
    def __init__(self):
        self.count = self.failed = 0

    def line(self, name, wrong):
        self.count += 1
        self.failed += bool(wrong)
        print('%s %d - %s' % ('not ok' if wrong else 'ok', self.count, name))
        for row in (wrong or '').splitlines():
            print('# ' + row)

    def skip(self, name, reason):
        self.count += 1
        print('ok %d - %s # SKIP %s' % (self.count, name, reason))


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, encoding='utf-8', timeout=LIMIT_S, **more)


# ---- man pages ----

def pages(section):
    folder = os.path.join(PAGES, 'man' + section)
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def check_pages(report, section):
    whole = [path for path in pages(section) if not read(path).startswith('.so ')]
    for name, words in (('mandoc', ['mandoc', '-Tlint']), ('groff', ['groff', '-ww', '-man', '-Tutf8'])):
        title = '%s of the pages of section %s' % (name, section)
        if shutil.which(name) is None:
            report.skip(title, name + ' is not installed')
            continue
        made = run(*words, *whole)
        report.line(title, made.stderr if name == 'groff' else made.stdout + made.stderr)
    links = [read(path).split()[1] for path in pages(section) if read(path).startswith('.so ')]
    report.line('links between the pages of section ' + section,
                '\n'.join(sorted({link for link in links if not os.path.exists(os.path.join(PAGES, link))})))


def check_functions(report):
    """Each function, struct and enum has a page of its name, which has its declaration near its top, or leads there."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
    wrong, described = [], json.loads(read(os.path.join(root, 'turnphase.abi.json')))
    for name in [*described['functions'], *described['structs'], *described['enums']]:
        path = os.path.join(PAGES, 'man3', name + '.3')
        if not os.path.exists(path):
            wrong.append('no page ' + name)
            continue
        text = read(path)
        if text.startswith('.so '):
            text = read(os.path.join(PAGES, text.split()[1]))
        declared, described_at = re.search(r'\b%s\b[({; ]' % name, text), text.find('.SH DESCRIPTION')
        if not declared or declared.start() > described_at:
            wrong.append('not on its page: ' + name)
    report.line('a page for each function and type', '\n'.join(wrong))


def check_commands(report, commands):
    """Each command has a page with each of its options and actions."""
    wrong, overview = [], read(os.path.join(PAGES, 'man1/turnphase.1'))
    for command in commands:
        name = command['command']
        text = read(os.path.join(PAGES, 'man1/turnphase-%s.1' % name)).replace('\\-', '-')
        if 'fB%s\\fR' % name not in overview.replace('\\-', '-'):
            wrong.append('turnphase(1) lacks ' + name)
        wrong += ['%s lacks --%s' % (name, row['name']) for row in command['options']
                  if 'fB--%s\\fR' % row['name'] not in text]
        wrong += ['%s lacks %s' % (name, action) for action in command['actions'] if action not in text]
    count = len(os.listdir(os.path.join(PAGES, 'man1')))
    if count != len(commands) + 1:
        wrong.append('%d pages for %d commands' % (count, len(commands)))
    report.line('a page for each command, with its options', '\n'.join(wrong))


# ---- completions ----

def typed_in(words, setup, lines, folder):
    """The words that an interactive shell passes to the command for each line with a Tab at its end."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(PATH=os.path.dirname(COMMAND) + ':' + os.environ['PATH'], TERM='dumb', PS1='> ', HOME=folder,
                          INPUTRC='/dev/null', HISTFILE='', COLUMNS='200')
        os.execvp(words[0], words)
    end, said, results = time.monotonic() + LIMIT_S, '', []

    def read_until(pattern):
        nonlocal said
        while not (found := re.search(pattern, said)):
            if time.monotonic() > end or not select.select([terminal], [], [], end - time.monotonic())[0]:
                raise TimeoutError('%s was not seen in %r' % (pattern, said[-300:]))
            said += os.read(terminal, 65536).decode(errors='replace')
        said = said[found.end():]
        return found

    os.write(terminal, (setup + '\nturnphase() { printf "<<""%s"">>\\n" "$*"; }\necho is"-"ready\n').encode())
    try:
        read_until(r'is-ready')
        for line in lines:
            os.write(terminal, ('turnphase %s\t\n' % line).encode())
            results.append(read_until(r'<<(.*?)>>').group(1))
    except (TimeoutError, OSError) as error:
        results += [str(error)] * (len(lines) - len(results))
    os.write(terminal, b'\x03\nexit\n')
    os.close(terminal)
    os.waitpid(child, 0)
    return results


def compare(cases, results):
    return '\n'.join('turnphase %s: %r, not %r' % (line, got, wanted) for (line, wanted), got in zip(cases, results)
                     if got.rstrip() != wanted)


def in_bash(folder):
    results = typed_in(['bash', '--norc', '--noprofile', '-i'], 'source %s/turnphase' % PAGES,
                       [line for line, _ in CASES], folder)
    return compare(CASES, results)


def in_zsh(folder):
    setup = 'fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D; compdef _turnphase turnphase' % PAGES
    results = typed_in(['zsh', '-f', '-i'], setup, [line for line, _ in CASES], folder)
    # zsh removes the slash of a folder at the end of a line.
    return compare([(line, wanted.removesuffix('/')) for line, wanted in CASES], results)


def ask_fish(lines, folder):
    return run('fish', '--no-config', '-c', 'source %s/turnphase.fish\n%s' % (PAGES, '\n'.join(lines)), cwd=folder,
               env={**os.environ, 'PATH': os.path.dirname(COMMAND) + ':' + os.environ['PATH'], 'HOME': folder})


def in_fish(folder):
    """fish itself prints the candidates, one a line, with the description after a tab."""
    lines = ["complete -C 'turnphase %s'; echo ---" % line for line, _ in CASES]
    made = ask_fish(lines, folder)
    wrong = made.stderr
    for (line, wanted), part in zip(CASES, made.stdout.split('---\n')):
        got = [row.split('\t')[0] for row in part.splitlines()]
        if ([] if wanted == line else [wanted.split()[-1]]) != got:
            wrong += 'turnphase %s: %r, not %r\n' % (line, got, wanted.split()[-1])
    return wrong


def all_in_bash(commands):
    """The words that bash offers for each command are those of its table: all commands, options and actions."""
    lines, wanted = ['turnphase '], [sorted([row['command'] for row in commands] + ['help'])]
    for command in commands:
        lines.append('turnphase %s --' % command['command'])
        wanted.append(sorted('--' + row['name'] for row in command['options']))
        if command['actions']:
            lines.append('turnphase %s ' % command['command'])
            wanted.append(sorted(command['actions']))
    ask = 'ask() { COMP_LINE=$1 COMP_POINT=${#1}; read -ra COMP_WORDS <<<"$1"; [[ $1 != *" " ]] || COMP_WORDS+=("");' \
          'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _turnphase; echo "${COMPREPLY[@]}"; }\n'
    made = run('bash', '-c', 'source %s/turnphase\n%s%s' % (PAGES, ask, '\n'.join("ask '%s'" % line for line in lines)))
    return made.stderr + '\n'.join('%s: %s, not %s' % row for row in zip(
        lines, (sorted(line.split()) for line in made.stdout.splitlines()), wanted) if row[1] != row[2])


def all_in_fish(commands, folder):
    """The same for fish, whose options have descriptions, too."""
    lines = ["complete -C 'turnphase %s -'; echo ---" % row['command'] for row in commands]
    made = ask_fish(lines, folder)
    wrong = made.stderr
    for command, part in zip(commands, made.stdout.split('---\n')):
        got = sorted({row.split('\t')[0].rstrip('=') for row in part.splitlines()})
        wanted = sorted(['--' + row['name'] for row in command['options']] +
                        ['-' + row['letter'] for row in command['options'] if 'letter' in row])
        if got != wanted:
            wrong += '%s: %s, not %s\n' % (command['command'], got, wanted)
    return wrong


def check_completions(report, commands):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(text)
        made = run(COMMAND, 'run', '--script', 'model.yaml', '--data', 'kept', 'talk.jsonl', cwd=folder)
        report.line('a directory to complete names of', made.returncode and made.stderr)
        before = sorted(os.listdir(folder))
        for shell, check in (('bash', in_bash), ('zsh', in_zsh), ('fish', in_fish)):
            title = shell + ' completes what is typed'
            if shutil.which(shell) is None:
                report.skip(title, shell + ' is not installed')
                continue
            report.line(title, check(folder))
        report.line('bash offers every word of the tables', all_in_bash(commands))
        if shutil.which('fish'):
            report.line('fish offers every option of the tables', all_in_fish(commands, folder))
        else:
            report.skip('fish offers every option of the tables', 'fish is not installed')
        left = set(os.listdir(folder)) - set(before) - {'.local', '.config', '.cache'}  # the files of fish itself
        report.line('a completion makes nothing', ' '.join(left))


def main():
    report = Report()
    check_pages(report, '3')
    check_functions(report)
    if COMMAND:
        rows = [json.loads(line) for line in run(COMMAND, 'help', '--json').stdout.splitlines()]
        commands = [row for row in rows if 'command' in row]
        report.line('the command says what it takes', '' if len(commands) > 20 else str(rows)[:200])
        check_pages(report, '1')
        check_commands(report, commands)
        check_completions(report, commands)
    print('1..%d' % report.count)
    return 1 if report.failed else 0


sys.exit(main())
