#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command lines of README.md in the order in which they stand, in a folder in which nothing is but what its
reader has: settings with hooks of another host, an MCP server, and a model, which are stood in for here.

    python3 tests/integration/readme_test.py TURNPHASE README.md MCP_SERVER GUIDE

An empty MCP_SERVER is the one that npx has (tests/chroot.sh).

Prints TAP. A line of a kind that is not known here fails: it is to be run, too. The lines of C are those of the guide,
whose program another test runs.
"""

import http.server
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading

LIMIT_S = 60 if sys.argv[3:4] != [''] else 600  # npx may have to fetch the server
FIRST_SENTENCE_WORDS = 25
# What people have in ~/.claude/settings.json: a guard by exit code, and a log.
SETTINGS = {'hooks': {
    'PreToolUse': [{'matcher': 'Bash|mcp__files__.*', 'hooks': [
        {'type': 'command', 'command': 'grep -q forbidden && { echo "it is forbidden" >&2; exit 2; }; exit 0'}]}],
    'PostToolUse': [{'matcher': '*', 'hooks': [{'type': 'command', 'command': 'cat >> "$HOME/.claude/log.txt"'}]}]}}
CALL = {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {
    'name': 'files__echo', 'arguments': {'text': 'forbidden'}, '_meta': {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo':
        {'name': 'reader', 'version': '1'}, 'io.modelcontextprotocol/clientCapabilities': {}}}}


class Model(http.server.BaseHTTPRequestHandler):
    """An endpoint that answers each request with one stream."""
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        assert self.path == '/v1/chat/completions' and self.headers['Authorization'] == 'Bearer sk-of-the-reader'
        self.rfile.read(int(self.headers['Content-Length']))
        pieces = [{'choices': [{'index': 0, 'delta': {'content': 'Hello, reader.'}}]},
                  {'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]}]
        body = ''.join(f'data: {json.dumps(piece)}\n\n' for piece in pieces) + 'data: [DONE]\n\n'
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def lines_of(readme, kind='```'):
    """The lines of the blocks of a kind, by default of no language, without what follows two blanks and a #."""
    block = None
    for line in readme.splitlines():
        if line.startswith('```'):
            block = line if block is None else None
        elif block == kind:
            yield re.sub(r'\s{2,}#.*', '', line).strip()


class Reader:
    def __init__(self, program, place, mcp_server, model_url):
        self.program, self.place, self.model_url = program, place, model_url
        self.background = None
        os.makedirs(os.path.join(place, 'bin'))
        os.makedirs(os.path.join(place, '.claude'))
        with open(os.path.join(place, '.claude', 'settings.json'), 'w', encoding='utf-8') as file:
            json.dump(SETTINGS, file)
        self.call = json.loads(json.dumps(CALL))
        if mcp_server:
            with open(os.path.join(place, 'bin', 'npx'), 'w', encoding='utf-8') as file:
                file.write(f'#!/bin/sh\nexec {shlex.quote(os.path.abspath(mcp_server))}\n')
            os.chmod(os.path.join(place, 'bin', 'npx'), 0o755)
        else:
            os.symlink(os.path.expanduser('~/.npm'), os.path.join(place, '.npm'))  # the packages that npx has fetched
            self.call['params'].update(name='files__read_text_file', arguments={'path': 'forbidden.txt'})
        self.environment = {**os.environ, 'HOME': place, 'XDG_CONFIG_HOME': place + '/config',
                            'PATH': place + '/bin:' + os.environ['PATH']}

    def words(self, line):
        """The words of a line as a shell reads it, with the reader's things in their places."""
        line = line.replace('~', self.place)
        if ' TURN ' in line:
            shown = self.ran(['runs', './kept', '--json', '--limit', '0'])
            turns = [json.loads(row)['ids'].get('turn') for row in shown.splitlines()]
            line = line.replace(' TURN ', f' {next(turn for turn in turns if turn)} ')
        words = shlex.split(line)[1:]
        if '--model' in words:
            words += ['--base-url', self.model_url, '--key-env', 'OPENAI_API_KEY']
        return words

    def ran(self, words, text='', status=0):
        done = subprocess.run([self.program, *words], cwd=self.place, env=self.environment, input=text, text=True,
                              capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == status, f'{words} ended with {done.returncode}: {done.stdout}{done.stderr}'
        return done.stdout

    def serves(self, words):
        self.background = subprocess.Popen([self.program, *words, '--http', '127.0.0.1:0'], cwd=self.place,
                                           env=self.environment, stderr=subprocess.PIPE, text=True)
        line = ' '
        while line and 'serving http://' not in line:
            line = self.background.stderr.readline()
        assert line, 'serve has ended'

    def stop(self):
        if not self.background:
            return
        self.background.send_signal(signal.SIGTERM)
        said = self.background.stderr.read()
        self.background.stderr.close()
        assert self.background.wait(LIMIT_S) == 0, said

    def run(self, line):
        kind = ' '.join(line.split()[:3])
        if line.startswith('export OPENAI_API_KEY='):
            self.environment['OPENAI_API_KEY'] = 'sk-of-the-reader'
        elif kind in ('turnphase hooks import', 'turnphase hooks trust', 'turnphase mcp check'):
            said = self.ran(self.words(line))
            assert 'mcp check' not in line or 'allow' in said, said
        elif kind == 'turnphase mcp serve':
            said = self.ran(self.words(line), json.dumps(self.call) + '\n')
            assert 'it is forbidden' in said, said
        elif kind == 'turnphase audit ./kept':
            assert 'it is forbidden' in self.ran(self.words(line))
        elif line.startswith('turnphase serve '):
            self.serves(self.words(line))
        elif line.startswith('turnphase chat '):
            assert 'Hello, reader.' in self.ran(self.words(line), 'Hi\n')
        elif kind == 'turnphase runs ./kept':
            assert 'memory.' in self.ran(self.words(line))
        elif kind == 'turnphase plot ./kept':
            self.ran(self.words(line))
            with open(os.path.join(self.place, 'turn.html'), encoding='utf-8') as page:
                assert '<svg' in page.read()
        else:
            raise AssertionError('a line of this kind is not known here')


def main():
    program, readme, guide = (os.path.abspath(sys.argv[i]) for i in (1, 2, 4))
    with open(readme, encoding='utf-8') as file:
        text = file.read()
    with open(guide, encoding='utf-8') as file:
        code = ' '.join(file.read().split())
    lines = [line for line in lines_of(text) if line and not line.startswith('./dev ')]  # CI itself
    others = [line for line in lines_of(text, '```c') if line.rstrip(';') not in code]
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Model)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    first = text.split('\n\n')[1]
    failed = len(lines) < 10 or bool(others) or len(first.split()) > FIRST_SENTENCE_WORDS
    print(f'1..{len(lines) + 3}')
    with tempfile.TemporaryDirectory() as place:
        reader = Reader(program, place, sys.argv[3], f'http://127.0.0.1:{server.server_port}/v1')
        for number, line in enumerate([*lines, 'what serves ends'], 1):
            try:
                reader.run(line) if number <= len(lines) else reader.stop()
                print(f'ok {number} - {line}'.replace('#', ''), flush=True)
            except Exception as error:  # also an error from a child
                failed = True
                print(f'not ok {number} - {line}'.replace('#', ''), flush=True)
                print(f'# {type(error).__name__}: {error}'.replace('\n', '\n# '), flush=True)
        if reader.background and reader.background.poll() is None:
            reader.background.kill()
    print(f'{"not " if others else ""}ok {len(lines) + 2} - the lines of C are those of the guide {others or ""}')
    short = len(first.split()) <= FIRST_SENTENCE_WORDS
    print(f'{"" if short else "not "}ok {len(lines) + 3} - the first sentence has at most {FIRST_SENTENCE_WORDS} words')
    server.shutdown()
    return failed


if __name__ == '__main__':
    sys.exit(main())
