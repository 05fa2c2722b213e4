#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an agent of turnphase serve has of its own: limits.

    python3 tests/integration/serve_agents_test.py TURNPHASE

Prints TAP.
"""

import json
import os
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import LOOK, Serving, play  # noqa: E402 pylint: disable=wrong-import-position

# Two calls of a tool of the client in one response; each request has 7 tokens of input and 2 of output.
CALLS = """
repeat: true
responses:
  - text: Let me look.
    tool_calls: [{name: look, arguments: {n: 7}}, {name: look, arguments: {n: 7}}]
    usage: {input_tokens: 7, output_tokens: 2, cost_micros: 3}
"""
# Calls a tool that there is not, so that the model is asked again and again.
LOOPS = CALLS.replace('look', 'absent')


def agent(id, model, **more):  # pylint: disable=redefined-builtin
    return {'id': id, 'model': f'script:{model}.yaml', **more}


def file_of(*agents, **more):
    return json.dumps({'agents': list(agents), **more})


def begin(program, agents, *options, **files):
    files = {'agents.yaml': agents, 'calls.yaml': CALLS, 'loops.yaml': LOOPS, **files}
    return Serving(program, 'agents.yaml', *options, files=files)


def fails(serving, model, body=None, path='/v1/chat/completions'):
    """How a request to an agent ends: status, and code of the error."""
    body = {'messages': [{'role': 'user', 'content': 'hi'}], **(body or {}), 'model': model}
    status, _, text = serving.ask('POST', path, body)
    error = json.loads(text).get('error') or {}
    return status, error.get('code')


def reload(serving, agents, outcome='hooks, agents and keys are read'):
    serving.write('agents.yaml', agents)
    serving.process.send_signal(signal.SIGHUP)
    return serving.heard(outcome)


def an_agent_has_the_limits_that_its_file_gives_it(program):
    limits = {'requests': {'requests': 2}, 'tokens': {'tokens': 8}, 'cost': {'cost': '0.000002'},
              'repeats': {'repeats': 1}, 'calls': {'tool_calls': 1}}
    agents = file_of(*(agent(name, 'loops', limits=each) for name, each in limits.items()),
                     agent('free', 'talk', limits={'time': 2147483647}))
    with begin(program, agents) as serving:
        assert fails(serving, 'requests') == (400, 'max_requests')
        assert fails(serving, 'tokens') == (400, 'max_tokens')
        assert fails(serving, 'cost') == (400, 'max_cost')
        assert fails(serving, 'repeats') == (400, 'repeated_call')
        assert fails(serving, 'calls') == (400, 'max_tool_calls')
        assert fails(serving, 'free') == (200, None)


def the_time_of_an_agent_comes_before_that_of_the_server(program):
    with socket.create_server(('127.0.0.1', 0)) as silent:  # accepts no connection: its model never answers
        url = f'http://127.0.0.1:{silent.getsockname()[1]}/v1'
        agents = file_of(agent('talker', 'talk'), {'id': 'slow', 'model': 'openai:x', 'base_url': url,
                                                   'limits': {'time': 1}})
        with begin(program, agents, '--max-time', '600') as serving:
            assert fails(serving, 'slow') == (504, 'timeout')


def a_client_makes_the_limit_of_calls_only_smaller(program):
    agents = file_of(agent('one', 'calls', limits={'tool_calls': 1}), agent('two', 'calls', limits={'tool_calls': 2}))
    tools = [{'type': 'function', **LOOK['tools'][0]['function']}]
    with begin(program, agents) as serving:
        def ask(model, **more):
            return fails(serving, model, {'input': 'hi', 'messages': None, 'tools': tools, **more}, '/v1/responses')
        assert ask('two') == (200, None)
        assert ask('two', max_tool_calls=1) == (400, 'max_tool_calls')
        assert ask('one', max_tool_calls=9) == (400, 'max_tool_calls')
        assert ask('two', max_tool_calls=9) == (200, None)


def limits_change_with_their_agent(program):
    with begin(program, file_of(agent('a', 'loops', limits={'requests': 2}), agent('b', 'talk'))) as serving:
        assert fails(serving, 'a') == (400, 'max_requests')
        reload(serving, file_of(agent('a', 'loops', limits={'tokens': 8}), agent('b', 'talk')))
        assert fails(serving, 'a') == (400, 'max_tokens')
        reload(serving, file_of(agent('a', 'loops', limits={'tokens': -8}), agent('b', 'talk')), 'stay as they were')
        assert fails(serving, 'a') == (400, 'max_tokens')


CASES = [an_agent_has_the_limits_that_its_file_gives_it, the_time_of_an_agent_comes_before_that_of_the_server,
         a_client_makes_the_limit_of_calls_only_smaller, limits_change_with_their_agent]

if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
