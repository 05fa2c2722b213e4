#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packages for Python and Node with the frameworks that they have adapters and examples for: openai-agents,
pydantic-ai, LangGraph and FastAPI; @openai/agents, LangGraph.js, the AI SDK, Hono; and the compiler of TypeScript. And
what 100,000 turns leave (TURNPHASE_LEAK_TURNS).

    python3 tests/adapters.py BUILD FOLDER

BUILD is a build folder with bindings/python/_core.abi3.so and bindings/node/turnphase.node; FOLDER gets the frameworks
(pip, npm; once). ./dev test --long runs it. What cannot be fetched, or was not built, is skipped with its reason.
Prints what the tests say, then how many passed, failed and were skipped. Exit: 0 none failed; 1.
"""

import os
import re
import shutil
import sys

WHEELS = [
    'openai-agents==0.24.0', 'pydantic-ai-slim==2.68.0', 'langgraph==1.2.24', 'fastapi==0.165.0', 'httpx==0.28.1',
    'uvicorn==0.54.0', 'mypy'
]
PACKAGES = [
    '@openai/agents@0.20.0', '@langchain/langgraph@1.7.3', '@langchain/core@1.4.0', 'ai@6.0.326', 'zod@4.6.7',
    'hono@4.13.19', '@hono/node-server@2.1.9', 'typescript@7.0.2', '@types/node@22'
]
TSC = [
    '--strict', '--noEmit', '--skipLibCheck', '--module', 'nodenext', '--target', 'es2023', '--types', 'node', '--lib',
    'es2023,esnext.disposable,dom'
]
TURNS = int(os.environ.get('TURNPHASE_LEAK_TURNS', '100000'))
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, 'support'))
from packages import counts, fetched_modules, fetched_wheels, run, skip  # noqa: E402


def count_of(output, *patterns):
    return [int(found.group(1)) if (found := re.search(pattern, output)) else 0 for pattern in patterns]


def play_leaks(words, **more):
    status, output = run([*words, str(TURNS)], **more)
    print(words[-1] + ': ' + output)
    counts['Fail' if status else 'Ok'] += 1


def link(module, folder):
    """The folder with the package of links to a module, as bindings/python/tests/run.py makes it."""
    sys.path.insert(0, os.path.join(ROOT, 'bindings/python/tests'))
    import run as tests  # pylint: disable=import-outside-toplevel
    tests.link_package(module, os.path.join(folder, 'python'))
    return os.path.join(folder, 'python')


def play_python(module, folder):
    if not os.path.exists(module):
        return skip('Python', 'this build has no package for Python')
    python = fetched_wheels(folder, 'frameworks-of-pip', WHEELS)
    if not python:
        return None
    tests = os.path.join(ROOT, 'bindings/python/tests')
    play_leaks([python, os.path.join(tests, 'leaks.py')], env={**os.environ, 'PYTHONPATH': link(module, folder)})
    status, output = run([python, '-m', 'mypy', '--strict', '--cache-dir', os.path.join(folder, 'mypy'),
                          os.path.join(ROOT, 'bindings/python/turnphase')])
    print('mypy --strict: ' + output)
    counts['Fail' if status else 'Ok'] += 1
    for name in sorted(os.listdir(os.path.join(tests, 'adapters'))):
        if not name.startswith('test_'):
            continue
        play = [python, os.path.join(tests, 'run.py'), module, os.path.join(folder, 'python'), 'adapters/' + name]
        status, output = run(play, env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'})
        ran, failed, errors = count_of(output, r'Ran (\d+) test', r'failures=(\d+)', r'errors=(\d+)')
        print(output)
        failed = max(failed + errors, int(status != 0))
        counts['Ok'] += max(ran - failed, 0)
        counts['Fail'] += failed
    return None


def play_node(addon, folder):
    if not os.path.exists(addon):
        return skip('Node', 'this build has no package for Node')
    if not fetched_modules(folder, 'frameworks-of-npm', PACKAGES):
        return None
    sources, tests = os.path.join(ROOT, 'bindings/node'), os.path.join(folder, 'node-tests')
    status, output = run(['node', os.path.join(sources, 'pack.js'), addon,
                          os.path.join(folder, 'node_modules/turnphase')])
    shutil.rmtree(tests, ignore_errors=True)
    shutil.copytree(os.path.join(sources, 'tests/adapters'), tests)
    typed = [(os.path.join(tests, 'types.ts'), 'adapters.mts'),
             (os.path.join(sources, 'tests/types.ts'), 'package.mts')]
    for source, name in typed:
        shutil.copy(source, os.path.join(tests, name))
    os.remove(os.path.join(tests, 'types.ts'))
    compiler = os.path.join(folder, 'node_modules/.bin/tsc')
    status, output = run([compiler, *TSC, *(os.path.join(tests, name) for _, name in typed)], cwd=folder)
    print('tsc --strict: %s\n%s' % ('ok' if status == 0 else 'failed', output))
    counts['Fail' if status else 'Ok'] += 1
    shutil.copy(os.path.join(sources, 'tests/leaks.js'), tests)
    play_leaks(['node', '--expose-gc', os.path.join(tests, 'leaks.js')])
    files = [os.path.join(tests, name) for name in sorted(os.listdir(tests)) if name.endswith('.test.js')]
    status, output = run(['node', '--test', '--test-reporter', 'tap', '--test-timeout', '60000', *files],
                         env={**os.environ, 'TURNPHASE_ROOT': ROOT})
    print(output)
    passed, failed = count_of(output, r'(?m)^# pass (\d+)', r'(?m)^# fail (\d+)')
    counts['Ok'] += passed
    counts['Fail'] += max(failed, int(status != 0))
    return None


def main():
    build, folder = (os.path.abspath(word) for word in sys.argv[1:3])
    os.makedirs(folder, exist_ok=True)
    play_python(os.path.join(build, 'bindings/python/_core.abi3.so'), folder)
    play_node(os.path.join(build, 'bindings/node/turnphase.node'), folder)
    print('\n'.join('%s: %d' % row for row in counts.items()))  # in the form that meson reads
    return 1 if counts['Fail'] else 0


if __name__ == '__main__':
    sys.exit(main())
