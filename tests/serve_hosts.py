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
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, 'integration'), os.path.join(HERE, 'support')]
from packages import counts, fetched_modules, fetched_wheels, run  # noqa: E402
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
    os.makedirs(folder, exist_ok=True)
    with Model() as model:
        agents = {'agents': [{'id': 'talker', 'model': 'script:talk.yaml'},
                             {'id': 'looker', 'model': 'script:look.yaml'},
                             {'id': 'shape', 'model': 'script:shape.yaml'},
                             {'id': 'endless', 'model': 'openai:m', 'base_url': model.options[-1]}]}
        files = {'talk.yaml': TALK, 'look.yaml': LOOK, 'shape.yaml': SHAPE, 'agents.yaml': json.dumps(agents)}
        with Serving(command, 'agents.yaml', files=files) as serving:
            if fetched_modules(folder, 'clients-of-npm', packages):
                play('npm', ['node', os.path.join(HERE, 'serve_hosts/clients.mjs')], OF_NODE, serving, cwd=folder)
            python = fetched_wheels(folder, 'clients-of-pip', wheels)
            if python:
                play('pip', [python, os.path.join(HERE, 'serve_hosts/clients.py')], OF_PYTHON, serving)
    print('\n'.join('%s: %d' % item for item in counts.items()))
    return 1 if counts['Fail'] else 0


if __name__ == '__main__':
    sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), '--latest' in sys.argv[3:]))
