#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""turnphase serve and the libraries of its clients, the newest of npm and PyPI that run here: openai, @openai/agents,
ai with @ai-sdk/openai-compatible, @langchain/openai; openai, openai-agents, langchain-openai, pydantic-ai. Each asks
plainly, streams, uses a tool, reads an error, leaves a stream, and reads a structured answer.

    python3 tests/serve_hosts.py COMMAND FOLDER [--latest]

COMMAND is turnphase; FOLDER gets the packages (npm, pip; once). ./dev test --long runs it. With --latest the newest
versions are fetched in place of those that are listed. What cannot be fetched is skipped with its reason.
Prints a line for each case, then how many passed, failed and were skipped. Exit: 0 none failed; 1.
"""

import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, 'integration'))
from serve_load_test import Model, numbers  # noqa: E402 pylint: disable=wrong-import-position
from serve_test import Serving, until  # noqa: E402 pylint: disable=wrong-import-position

PACKAGES = ['openai@6.49.0', '@openai/agents@0.20.0', 'ai@6.0.326', '@ai-sdk/openai-compatible@2.0.92',
            '@langchain/openai@1.5.8', '@langchain/core@1.4.0', 'zod@4.6.7']
WHEELS = ['openai==3.57.0', 'openai-agents==0.24.0', 'langchain-openai==1.7.4', 'pydantic-ai-slim[openai]==2.68.0']
OF_NODE = ['openai', '@openai/agents', '@ai-sdk/openai-compatible', '@langchain/openai']
OF_PYTHON = ['openai', 'openai-agents', 'langchain-openai', 'pydantic-ai']
TALK = 'repeat: true\nresponses:\n  - {text: One two three., usage: {input_tokens: 7, output_tokens: 2}}\n'
LOOK = 'repeat: true\nresponses:\n  - tool_calls: [{name: look, arguments: {n: 7}}]\n  - text: Seen.\n'
SHAPE = 'repeat: true\nresponses:\n  - text: \'{"steps": 3}\'\n'
CASES = 6
counts = {'Ok': 0, 'Fail': 0, 'Skipped': 0}


def run(words, limit_s=900, **more):
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s,
                              check=False, **more)
        return done.returncode, done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)


def skip(what, why):
    counts['Skipped'] += 1
    print('skipped %s: %s' % (what, ' '.join(why.split())[-300:]))


def fetched(folder, name, wanted, fetch):
    stamp = os.path.join(folder, name)
    if os.path.exists(stamp) and open(stamp, encoding='utf-8').read() == '\n'.join(wanted):
        return True
    status, output = fetch()
    if status != 0:
        skip(name, output)
        return False
    with open(stamp, 'w', encoding='utf-8') as file:
        file.write('\n'.join(wanted))
    return True


def turns_open(serving):
    return int(numbers(serving)['turns_open'])


def play(label, words, libraries, serving, **more):
    url = f'http://127.0.0.1:{serving.port}/v1'
    status, output = run([*words, url, *libraries], 600, **more)
    seen = [json.loads(line) for line in output.splitlines() if line.startswith('{')]
    for case in seen:
        counts['Ok' if case['ok'] else 'Fail'] += 1
        print('%s: %s: %s: %s' % (label, case['library'], case['case'], 'ok' if case['ok'] else case['why']))
    if status != 0 or len(seen) != CASES * len(libraries):
        counts['Fail'] += 1
        print('%s ended with %d after %d cases: %s' % (label, status, len(seen), output[-2000:]))
    until(lambda: turns_open(serving) == 0)  # also the turns whose clients left in the middle


def main(command, folder, latest):
    packages, wheels = [[re.sub(r'(?<=.)(@|==)[0-9.]+$', '', name) for name in names] if latest else names
                        for names in (PACKAGES, WHEELS)]
    python = os.path.join(folder, 'venv/bin/python')
    os.makedirs(folder, exist_ok=True)

    def fetch_packages():
        with open(os.path.join(folder, 'package.json'), 'w', encoding='utf-8') as file:
            file.write('{"private": true}')
        return run(['npm', 'install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund',
                    '--fetch-retries', '1', *packages])

    def fetch_wheels():
        status, output = run([sys.executable, '-m', 'venv', os.path.join(folder, 'venv')])
        return (status, output) if status != 0 else run([python, '-m', 'pip', 'install', '-q', *wheels])

    with Model() as model:
        agents = {'agents': [{'id': 'talker', 'model': 'script:talk.yaml'},
                             {'id': 'looker', 'model': 'script:look.yaml'},
                             {'id': 'shape', 'model': 'script:shape.yaml'},
                             {'id': 'endless', 'model': 'openai:m', 'base_url': model.options[-1]}]}
        files = {'talk.yaml': TALK, 'look.yaml': LOOK, 'shape.yaml': SHAPE, 'agents.yaml': json.dumps(agents)}
        with Serving(command, 'agents.yaml', files=files) as serving:
            if fetched(folder, 'clients-of-npm', packages, fetch_packages):
                play('npm', ['node', os.path.join(HERE, 'serve_hosts/clients.mjs')], OF_NODE, serving, cwd=folder)
            if fetched(folder, 'clients-of-pip', wheels, fetch_wheels):
                play('pip', [python, os.path.join(HERE, 'serve_hosts/clients.py')], OF_PYTHON, serving)
    print('\n'.join('%s: %d' % item for item in counts.items()))
    return 1 if counts['Fail'] else 0


if __name__ == '__main__':
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), '--latest' in sys.argv[3:]))
