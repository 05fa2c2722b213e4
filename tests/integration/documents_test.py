#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of documents in the order in which they stand: each block of the kind `sh`, in one shell for each
document, in a folder in which nothing is but what its reader has (readme_test.py).

    python3 tests/integration/documents_test.py [--fresh] TURNPHASE MCP_SERVER BUILD DOCUMENT…

Prints TAP, a line for each command. A comment `# exit status N` at the end of a command names the status that it ends
with, if not 0. A block of the kind `text` right after one of the kind `sh` is what the newest command printed, where
`…` stands for anything. A block of another kind, such as `bash`, is not run. Lines that begin with ./dev are not run:
CI runs them itself. Each guard that a document writes must have denied a call by the end of the document, because one
that reads what is not there allows everything, and its document shows nothing of that.

With --fresh (tests/chroot.sh) `./dev demo`, `install` and `setup` run too; the libraries are those that are installed,
where BUILD is empty, and the MCP server is that of npx, where MCP_SERVER is empty.
"""

import http.server
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

import readme_test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r'^```(\w*)\n(.*?)^```$', re.M | re.S)
HERE_DOCUMENT = re.compile(r"<<-?'?(\w+)'?")
GUARD = re.compile(r'>+ \S*hooks/([\w-]+)\.(yaml|py|js|sh) <<')
GUARDED = re.compile(r'^event(_type)?: *(tool\.pre|tool\.create|PreAbilityCall|PreAbilityCreate|PreToolUse)\b', re.M)
DENIED_STATUS = 77
STATUS = re.compile(r'#.*\bexit status (\d+)')
LIMIT_S = 1200 if '--fresh' in sys.argv else 120
FRESH = '--fresh' in sys.argv
DEV = re.compile(r'\./dev (?!(demo|install|setup)\b)' if FRESH else r'\./dev ')  # these lines are not run
MESSAGE = 'Hi'  # what the reader types where a command reads a message


def commands_of(block):
    """The commands of a block: a line each, but for here-documents and lines that end with a backslash."""
    lines = iter(block.splitlines())
    for line in lines:
        here = HERE_DOCUMENT.search(line)
        while here or line.endswith('\\'):
            more = next(lines)
            line += '\n' + more
            if here and more == here.group(1):
                break
        if line.strip() and not line.startswith('#') and not DEV.match(line):
            yield line


def steps_of(text):
    """Returns (command, status, printed text or None), in the order of the document."""
    steps, last, end = [], None, 0
    for match in BLOCK.finditer(text):
        kind, block = match.groups()
        follows, end = not text[end:match.start()].strip(), match.end()
        if kind == 'sh':
            for command in commands_of(block):
                status = STATUS.search(command.splitlines()[0])
                steps.append([command, int(status.group(1)) if status else 0, None])
            last = steps[-1] if steps else None
        elif kind == 'text' and last and follows:
            last[2] = block
            last = None
        else:
            last = None
    return steps


def guards_of(steps):
    """The ids of the hooks that the document writes and that decide about calls, but for those that ask a person."""
    for command, _, _ in steps:
        match = GUARD.match(command.splitlines()[0].partition('cat ')[2])
        if match and (match.group(2) != 'yaml' or (GUARDED.search(command) and 'kind: ask' not in command)):
            yield match.group(1)


def fits(expected, printed):
    """Whether each line of the block is in the printed text, in this order; … is anything within a line, or several
    lines."""
    place = 0
    for line in expected.splitlines():
        words = [re.escape(' '.join(piece.split())) for piece in line.split('…')]
        match = re.compile(r'.*?'.join(words)).search(printed, place)
        if not match:
            return line
        place = match.end()
    return None


class Shell:
    """One shell for all commands of a document."""

    def __init__(self, place, environment):
        self.message = os.path.join(place, '.message')
        with open(self.message, 'w', encoding='utf-8') as file:
            file.write(MESSAGE + '\n')
        self.process = subprocess.Popen(['bash', '--norc'], cwd=place, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, command):
        """@return (exit status, what was printed)."""
        timer = threading.Timer(LIMIT_S, self.process.kill)
        timer.start()
        self.process.stdin.write('{ %s\n} < %s; printf "\\n--ended-- %%d\\n" $?\n' %
                                 (command, shlex.quote(self.message)))
        self.process.stdin.flush()
        printed = []
        for line in self.process.stdout:
            if line.startswith('--ended-- '):
                timer.cancel()
                return int(line.split()[1]), ''.join(printed)
            printed.append(line)
        timer.cancel()
        return -1, ''.join(printed) + '\nthe shell has ended: exit, or more than %d s' % LIMIT_S

    def end(self):
        self.process.stdin.write('kill $(jobs -p) 2>/dev/null; wait; exit\n')
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(LIMIT_S)


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Reader:
    """The things that a reader has: the command, an MCP server, a model, settings of another host, the examples."""

    def __init__(self, place, program, mcp_server, build, model_url):
        self.port = free_port()
        os.makedirs(os.path.join(place, 'bin'))
        os.makedirs(os.path.join(place, 'project', '.claude'))
        os.symlink(os.path.join(ROOT, 'examples'), os.path.join(place, 'project', 'examples'))
        with open(os.path.join(place, 'project', '.claude', 'settings.json'), 'w', encoding='utf-8') as file:
            json.dump(readme_test.SETTINGS, file)
        self.script(place, 'project/dev', 'exec %s "$@"' % shlex.quote(os.path.join(ROOT, 'dev')))
        if mcp_server:
            self.script(place, 'bin/npx', 'exec %s' % shlex.quote(os.path.abspath(mcp_server)))
        else:
            os.symlink(os.path.expanduser('~/.npm'), os.path.join(place, '.npm'))  # the packages that npx has fetched
        self.script(place, 'bin/turnphase', '''
case "$* " in *" openai:"*) set -- "$@" --base-url %s --key-env OPENAI_API_KEY ;; esac
case "$* " in *" --http "*) ;; "serve "*) set -- "$@" --http 127.0.0.1:%d ;; esac
exec %s "$@"''' % (model_url, self.port, shlex.quote(program)))
        self.environment = {**os.environ, 'HOME': place, 'XDG_CONFIG_HOME': place + '/config',
                            'PATH': place + '/bin:' + os.environ['PATH']}
        if build:
            build = os.path.abspath(build)
            self.environment.update(PKG_CONFIG_PATH=os.path.join(build, 'meson-uninstalled'), LD_LIBRARY_PATH=build)
        self.shell = Shell(os.path.join(place, 'project'), self.environment)
        self.denials = ''

    @staticmethod
    def script(place, name, text):
        path = os.path.join(place, name)
        with open(path, 'w', encoding='utf-8') as file:
            file.write('#!/bin/bash\n%s\n' % text)
        os.chmod(path, 0o755)

    def run(self, command, status, expected):
        command = re.sub(r'(OPENAI_API_KEY=)…', r'\1sk-of-the-reader', command)
        command = command.replace('127.0.0.1:8080', '127.0.0.1:%d' % self.port)
        ended, printed = self.shell.run(command)
        if ended != status:
            return 'it ended with %d:\n%s' % (ended, printed)
        self.denials += printed if status == DENIED_STATUS else ''
        missing = expected and fits(expected, ' '.join(printed.split()))
        return missing and 'it did not print: %s\nbut:\n%s' % (missing, printed)


def main():
    program, mcp_server, build, *documents = [word for word in sys.argv[1:] if word != '--fresh']
    program = os.path.abspath(program)
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), readme_test.Model)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    number = failed = 0
    for document in documents:
        with open(document, encoding='utf-8') as file:
            steps = steps_of(file.read())
        name = os.path.relpath(document, ROOT)
        with tempfile.TemporaryDirectory() as place:
            reader = Reader(place, program, mcp_server, build, 'http://127.0.0.1:%d/v1' % server.server_port)
            for command, status, expected in steps or [['false # no command in ' + name, 0, None]]:
                number += 1
                if command.startswith('curl ') and not shutil.which('curl'):
                    print('ok %d # SKIP curl is not installed' % number, flush=True)
                    continue
                wrong = reader.run(command, status, expected)
                failed += bool(wrong)
                title = '%s: %s' % (name, command.splitlines()[0])
                print('%sok %d - %s' % ('not ' if wrong else '', number, title.replace('#', '')), flush=True)
                if wrong:
                    print('# ' + wrong.replace('\n', '\n# '), flush=True)
            for guard in sorted(set(guards_of(steps))):
                number += 1
                is_seen = re.search(r'\bhook %s\b' % re.escape(guard), reader.denials)
                failed += not is_seen
                print('%sok %d - %s: its guard %s denies a call' % ('' if is_seen else 'not ', number, name, guard))
            reader.shell.end()
    print('1..%d' % number)
    server.shutdown()
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
