#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The settings of single agents of turnphase serve: limits, tools, skills, memory.

    python3 tests/integration/serve_agents_test.py TURNPHASE

Prints TAP.
"""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import LIMIT_S, LOOK, Serving, play, trust, until  # noqa: E402 pylint: disable=wrong-import-position

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


def begin(program, agents, *options, memory=False, **files):
    files = {'agents.yaml': agents, 'calls.yaml': CALLS, 'loops.yaml': LOOPS, **files}
    return Serving(program, 'agents.yaml', *options, files=files, memory=memory)


def fails(serving, model, body=None, path='/v1/chat/completions'):
    """How a request to an agent ends: (status, code of the error)."""
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


class Model(http.server.BaseHTTPRequestHandler):
    """Gives one answer, and keeps each request."""

    def do_POST(self):
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
        event = {'id': 'x', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm',
                 'choices': [{'index': 0, 'delta': {'role': 'assistant', 'content': 'ok'}, 'finish_reason': 'stop'}]}
        body = f'data: {json.dumps(event)}\n\ndata: [DONE]\n\n'.encode()
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Models(http.server.ThreadingHTTPServer):
    """A model that answers with the names of the offered tools."""

    def __init__(self):
        super().__init__(('127.0.0.1', 0), Model)
        self.bodies = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def agent(self, id, **more):  # pylint: disable=redefined-builtin
        return {'id': id, 'model': 'openai:m', 'base_url': f'http://127.0.0.1:{self.server_port}/v1', **more}

    def asked(self, serving, model, text='hi', **more):
        """The request to the model that a request of a client becomes."""
        body = {'model': model, 'messages': [{'role': 'user', 'content': text}], **more}
        status, _, answer = serving.ask('POST', '/v1/chat/completions', body)
        assert status == 200, answer
        return self.bodies[-1]

    def tools(self, serving, model, **more):
        return sorted(tool['function']['name'] for tool in self.asked(serving, model, **more).get('tools', []))

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def results(serving, tool):
    """The kinds of results of a tool's calls."""
    text = serving.ask('GET', '/metrics')[2]
    return [line.split('result="')[1].split('"')[0] for line in text.splitlines()
            if line.startswith('turnphase_tool_calls_total{') and f'tool="{tool}"' in line]


def an_agent_has_the_tools_that_its_file_gives_it(program):
    with Models() as models:
        agents = [models.agent('all'), models.agent('none', tools=[]),
                  models.agent('reads', tools=['*_read', 'look']),
                  models.agent('safe', tools={'deny': ['files_w*', 'files_l?st']}),
                  models.agent('both', tools={'allow': ['files_*'], 'deny': ['files_write']}),
                  agent('calls', 'reads', tools=['look'])]
        script = 'responses: [{tool_calls: [{name: files_read, arguments: {path: talk.yaml}}]}, {text: over}]'
        with begin(program, file_of(*agents), '--files', '.', **{'reads.yaml': script}) as serving:
            every = models.tools(serving, 'all')
            assert every == ['files_list', 'files_read', 'files_search', 'files_write'], every
            assert models.tools(serving, 'none') == []
            assert models.tools(serving, 'reads') == ['files_read']
            assert models.tools(serving, 'safe') == ['files_read', 'files_search']
            assert models.tools(serving, 'both') == every[:3]
            # A model that calls another tool reads that there is no such tool, and the turn goes on.
            assert fails(serving, 'calls') == (200, None)
            assert results(serving, 'files_read') == ['out_of_scope'], results(serving, 'files_read')
            # A tool of the client is one of these, too, or its request is refused.
            assert models.tools(serving, 'reads', tools=LOOK['tools']) == ['files_read', 'look']
            assert fails(serving, 'none', {'tools': LOOK['tools']}) == (400, 'tool_not_allowed')
            reload(serving, file_of(models.agent('reads', tools=['files_write']), models.agent('all')))
            assert models.tools(serving, 'reads') == ['files_write']
            assert models.tools(serving, 'all') == every


def a_pattern_that_fits_no_tool_is_named(program):
    """A pattern that fits no tool may be mistyped; a pattern of MCP tools is not named, since a server's tools may come
    later."""
    with begin(program, file_of(agent('a', 'calls')), '--files', '.') as serving:
        tools = {'allow': ['files_*', 'files_raed', 'mcp__x__*'], 'deny': ['file_write']}
        serving.write('agents.yaml', file_of(agent('a', 'calls', tools=tools)))
        serving.process.send_signal(signal.SIGHUP)
        assert 'warning: agent a: tools: no tool here fits "files_raed"' in serving.heard('no tool here fits')
        assert 'warning: agent a: tools: deny: no tool here fits "file_write"' in serving.heard('no tool here fits')
        serving.heard('hooks, agents and keys are read')


def an_agent_has_the_mcp_servers_that_its_file_gives_it(program):
    server = {'command': program, 'args': ['mcp', 'serve', '--files', '.', '--files-writes', 'never']}
    with Models() as models:
        agents = [models.agent('all'), models.agent('one', mcp=['here']), models.agent('other', mcp=['there']),
                  models.agent('none', mcp=[], tools={'deny': ['look']})]
        words = program + ' mcp serve --files . --files-writes never'
        with begin(program, file_of(*agents, mcp={'here': server}), '--mcp', 'there=' + words) as serving:
            def servers(model):
                return {name.split('__')[1] for name in models.tools(serving, model)}
            assert servers('all') == {'here', 'there'}
            assert servers('one') == {'here'}
            assert servers('other') == {'there'}
            assert servers('none') == set()
            assert fails(serving, 'none', {'tools': LOOK['tools']}) == (400, 'tool_not_allowed')
            reload(serving, file_of(models.agent('all'), models.agent('one', mcp=['there']), mcp={'here': server}))
            assert servers('one') == {'there'}


def an_agent_has_the_skills_that_its_file_gives_it(program):
    skills = {'skills/review.md': 'Review it.\n', 'skills/deploy.md': 'Deploy it.\n'}
    with Models() as models:
        agents = file_of(models.agent('one', skills=['review']), models.agent('all'), models.agent('none', skills=[]))
        with begin(program, agents, '--skills', 'skills', **skills) as serving:
            said = {'messages': [{'role': 'user', 'content': '/deploy now'}]}
            assert fails(serving, 'one', said) == (403, 'denied')
            assert fails(serving, 'none', said) == (403, 'denied')
            assert 'Deploy it.' in json.dumps(models.asked(serving, 'all', '/deploy now'))
            assert 'Review it.' in json.dumps(models.asked(serving, 'one', '/review now'))
            reload(serving, file_of(models.agent('one', skills=['deploy']), models.agent('all')))
            assert 'Deploy it.' in json.dumps(models.asked(serving, 'one', '/deploy now'))


def an_agent_without_memory_recalls_and_keeps_nothing(program):
    with Models() as models:
        agents = file_of(models.agent('with', memory=True), models.agent('without', memory=False))
        with begin(program, agents, memory=True) as serving:
            models.asked(serving, 'with', 'My sister Ingrid moved to Oslo.')
            models.asked(serving, 'without', 'My brother Sven moved to Bergen.')
            until(lambda: 'Oslo' in json.dumps(models.asked(serving, 'with', 'Where does Ingrid live?')))
            assert 'memory_search' in models.tools(serving, 'with')
            asked = models.asked(serving, 'without', 'Where does Ingrid live?')
            assert 'Oslo' not in json.dumps(asked) and 'emor' not in json.dumps(asked), asked
            assert 'Bergen' not in json.dumps(models.asked(serving, 'with', 'Where does my brother Sven live?'))
            reload(serving, file_of(models.agent('with'), models.agent('without')))
            assert 'Oslo' in json.dumps(models.asked(serving, 'without', 'Where does Ingrid live?'))


def guard(name, pattern):
    denied = {'kind': 'ability_guard', 'code': 'DENIED', 'payload': {'reason': name}}
    say = "cat >/dev/null; echo '%s'" % json.dumps({'hook_signals': [denied]})
    return json.dumps({'id': name, 'event': 'tool.pre', 'match': {'agent': pattern},
                       'handler': {'command': ['sh', '-c', say]}})


def a_hook_may_be_of_some_agents(program):
    script = 'repeat: true\nresponses: [{tool_calls: [{name: look, arguments: {n: 7}}]}]'
    once = {'requests': 1}  # so that a turn whose call is denied ends at once
    agents = file_of(agent('open', 'calls', limits=once), agent('closed', 'calls', limits=once))
    hooks = {'hooks/guard.yaml': guard('guard', 'closed')}
    files = {'agents.yaml': agents, 'calls.yaml': script, **hooks}
    with Serving(program, 'agents.yaml', '--hooks', 'hooks', files=files, before=trust) as serving:
        def finish(model):
            return fails(serving, model, {'tools': LOOK['tools']})
        assert finish('open') == (200, None) and finish('closed') == (400, 'max_requests')
        # A guard does not go with a change that is refused.
        serving.write('hooks/guard.yaml', guard('guard', 'open'))
        reload(serving, agents, 'stay as they were')  # the directory is not trusted
        assert finish('open') == (200, None) and finish('closed') == (400, 'max_requests')
        trust(serving)
        reload(serving, file_of(agent('open', 'absent'), agent('closed', 'calls')), 'stay as they were')
        assert finish('open') == (200, None) and finish('closed') == (400, 'max_requests')
        reload(serving, agents)
        assert finish('open') == (400, 'max_requests') and finish('closed') == (200, None)


def the_agents_are_listed_and_counted(program):
    with begin(program, file_of(agent('a', 'talk'), agent('b', 'loops', limits={'requests': 1}))) as serving:
        assert fails(serving, 'a')[0] == 200 and fails(serving, 'b')[0] == 400 and fails(serving, 'a')[0] == 200
        listed = json.loads(serving.ask('GET', '/v1/models')[2])['data']
        assert [model['id'] for model in listed] == ['a', 'b'], listed
        text = serving.ask('GET', '/metrics')[2]
        assert 'turnphase_agent_turns_total{agent="a",status="ok"} 2\n' in text, text
        assert 'turnphase_agent_turns_total{agent="b",status="failed"} 1\n' in text, text


WRONG = [
    ({'tools': 'read_file'}, [], 'tools must be a list, or a map of lists'),
    ({'tools': {}}, [], 'tools is a list of names, or a map of allow and deny'),
    ({'tools': {'allow': 'x'}}, [], 'allow must be a list'),
    ({'tools': {'except': ['x']}}, [], 'tools has no key "except", only allow, deny'),
    ({'tools': ['']}, [], 'tools: each must be a text of 1 to 255 bytes'),
    ({'tools': {'deny': ['x' * 256]}}, [], 'tools: deny: each must be a text of 1 to 255 bytes'),
    ({'mcp': {'x': {'command': 'true'}}}, [], 'mcp must be a list'),
    ({'mcp': ['nobody']}, [], 'there is no server "nobody" under mcp of this file'),
    ({'mcp': []}, ['--mcp-config', 'servers.json'], 'the servers of --mcp-config are not known by their names'),
    ({'skills': ['review']}, [], 'there are none without --skills DIR'),
    ({'skills': 'review'}, [], 'skills must be a list'),
    ({'memory': 'off'}, [], 'memory must be true or false'),
    ({'memory': {'scope': 'user'}}, [], 'memory must be true or false'),
    ({'memory': True}, [], 'memory is true, and --no-memory leaves none'),
    ({'hooks': ['hooks.yaml']}, [], 'write "match: {agent: ID}" into the hooks of --hooks DIR'),
    ({'limits': {'steps': 3}}, [], 'limits: steps is no limit: there are requests, tool_calls'),
    ({'limits': {'time': '60s'}}, [], 'limits: time must be a whole number above 0'),
]


def what_is_wrong_is_named_with_its_agent(program):
    for given, options, part in WRONG:
        with tempfile.TemporaryDirectory() as place:
            with open(place + '/agents.yaml', 'w', encoding='utf-8') as file:
                file.write('agents:\n  - {id: first, model: "script:talk.yaml"}\n  - ' +
                           json.dumps(agent('second', 'talk', **given)) + '\n')
            said = subprocess.run([program, 'serve', 'agents.yaml', '--no-memory', *options], cwd=place, text=True,
                                  capture_output=True, timeout=LIMIT_S, check=False)
        assert said.returncode != 0 and part in said.stderr, (given, said.stderr)
        assert 'agents.yaml:3:5: agent 2: ' in said.stderr, (given, said.stderr)


def the_file_of_the_page_is_read(program):
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'serve.md')
    with open(page, encoding='utf-8') as file:
        (text,) = [block.split('```')[0] for block in file.read().split('```yaml\n')[1:] if 'id: support' in block]
    assert all(f' {key}: ' in text for key in ('tools', 'mcp', 'skills', 'memory', 'limits', 'system', 'model')), text
    with tempfile.TemporaryDirectory() as place:
        with open(place + '/agents.yaml', 'w', encoding='utf-8') as file:
            file.write(text)
        said = subprocess.run([program, 'serve', 'agents.yaml', '--skills', '.', '--keys', 'absent'], cwd=place,
                              text=True, capture_output=True, timeout=LIMIT_S, check=False)
    assert said.returncode != 0 and said.stderr.count('\n') == 1 and 'absent' in said.stderr, said.stderr


CASES = [a_pattern_that_fits_no_tool_is_named, an_agent_has_the_limits_that_its_file_gives_it,
         the_time_of_an_agent_comes_before_that_of_the_server,
         a_client_makes_the_limit_of_calls_only_smaller, limits_change_with_their_agent,
         an_agent_has_the_tools_that_its_file_gives_it, an_agent_has_the_mcp_servers_that_its_file_gives_it,
         an_agent_has_the_skills_that_its_file_gives_it, an_agent_without_memory_recalls_and_keeps_nothing,
         a_hook_may_be_of_some_agents, the_agents_are_listed_and_counted, what_is_wrong_is_named_with_its_agent,
         the_file_of_the_page_is_read]

if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
