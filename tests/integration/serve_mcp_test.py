#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of MCP at /mcp of turnphase serve: who may call, both eras of the protocol, what is offered, guards that deny
and guards that ask, clients that leave, reloads, the end.

    python3 tests/integration/serve_mcp_test.py TURNPHASE

Prints TAP. Nothing waits for time where it can wait for an event.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import (  # noqa: E402 pylint: disable=wrong-import-position
    KEY, LIMIT_S, TALK, Serving, play, trust, until)

ADMIN = 'operator-key-0123456789'
OTHER = 'another-key-0123456789'
OLD, NEW = '2025-11-25', '2026-07-28'
FORMS = {'elicitation': {}}


def tool(name, script):
    return json.dumps({'kind': 'tool', 'name': name, 'description': 'Does it.', 'command': ['sh', '-c', script]})


def guard(name, kind, reason):
    signals = {'hook_signals': [{'kind': 'ability_guard', 'code': kind, 'payload': {'reason': reason}}]}
    return json.dumps({'id': 'guard-' + name, 'event': 'tool.pre', 'match': {'ability_scope': [name]},
                       'handler': {'command': ['sh', '-c', "cat >/dev/null; echo '%s'" % json.dumps(signals)]}})


HOOKS = {'hooks/echo.yaml': tool('echo', 'cat'), 'hooks/shut.yaml': tool('shut', 'echo never'),
         'hooks/ask.yaml': tool('ask', 'echo allowed; echo >> ran'),
         'hooks/slow.yaml': tool('slow', 'echo >> begun; until [ -e go ]; do sleep 0.01; done; echo done'),
         'hooks/guard-shut.yaml': guard('shut', 'DENIED', 'not on a Friday'),
         'hooks/guard-ask.yaml': guard('ask', 'REQUIRES_HUMAN', 'in prod?')}
FILES = {**HOOKS, 'admin': ADMIN + '\n', 'keys': f'{KEY} acme\n{OTHER} other\n'}
OPTIONS = ['--model', 'script:talk.yaml', '--hooks', 'hooks', '--keys', 'keys', '--admin-key', 'admin']


def begin(program, *options, files=None, memory=False):
    return Serving(program, *OPTIONS, *(options or ['--expose', 'tools']), files={**FILES, **(files or {})},
                   before=trust, memory=memory)


def bearer(key):
    return {'Authorization': 'Bearer ' + key}


def message(method, params=None, number=1):
    return {'jsonrpc': '2.0', 'method': method, **({} if number is None else {'id': number}),
            **({} if params is None else {'params': params})}


class Client:
    """One client with a key, of the version with a handshake or of the one without."""

    def __init__(self, serving, version=NEW, key=KEY, can=None):
        self.serving, self.version, self.can = serving, version, can or {}
        self.headers = {**bearer(key), 'Content-Type': 'application/json',
                        'Accept': 'application/json, text/event-stream'}
        if version == NEW:
            self.headers['MCP-Protocol-Version'] = NEW
            return
        status, headers, _ = self.post(message('initialize', {
            'protocolVersion': version, 'capabilities': self.can, 'clientInfo': {'name': 't', 'version': '1'}}))
        assert status == 200, status
        self.headers.update({'Mcp-Session-Id': headers['Mcp-Session-Id'], 'MCP-Protocol-Version': version})
        assert self.post(message('notifications/initialized', number=None))[0] == 202

    def shaped(self, body):
        headers = dict(self.headers)
        if self.version == NEW and 'id' in body:
            meta = {'io.modelcontextprotocol/protocolVersion': NEW,
                    'io.modelcontextprotocol/clientCapabilities': self.can}
            body = {**body, 'params': {**body.get('params', {}), '_meta': meta}}
            headers['Mcp-Method'] = body['method']
            if 'name' in body['params']:
                headers['Mcp-Name'] = body['params']['name']
        return json.dumps(body), headers

    def post(self, body, **more):
        text, headers = self.shaped(body)
        return self.serving.ask('POST', '/mcp', text, {**headers, **more})

    def ask(self, method, params=None, number=1):
        status, headers, text = self.post(message(method, params or {}, number))
        assert status == 200, (status, text)
        if headers['Content-Type'] == 'text/event-stream':
            text = [line[6:] for line in text.splitlines() if line.startswith('data: ')][-1]
        answer = json.loads(text)
        assert answer['id'] == number, answer
        return answer

    def call(self, name, arguments=None, **more):
        return self.ask('tools/call', {'name': name, 'arguments': arguments or {}, **more})['result']

    def tools(self):
        return sorted(listed['name'] for listed in self.ask('tools/list')['result']['tools'])

    def open(self, method, body=None, path='/mcp'):
        """A connection whose answer is not read."""
        connection = http.client.HTTPConnection('127.0.0.1', self.serving.port, timeout=LIMIT_S)
        text, headers = self.shaped(body) if body else (None, self.headers)
        connection.request(method, path, text, headers)
        return connection

    def begin_call(self, name, number=1):
        return self.open('POST', message('tools/call', {'name': name, 'arguments': {}}, number))


def text_of(result):
    return ' '.join(part['text'] for part in result['content'])


def admin(serving, path, body=None):
    status, _, text = serving.ask('POST' if body else 'GET', '/admin/' + path, body, bearer(ADMIN))
    assert status == 200, text
    return json.loads(text) if text else None


def events(serving, kinds):
    connection = http.client.HTTPConnection('127.0.0.1', serving.port, timeout=LIMIT_S)
    connection.request('GET', '/admin/events?kinds=' + kinds, headers=bearer(ADMIN))
    for line in connection.getresponse():
        if line.startswith(b'data: '):
            yield json.loads(line[6:])


def has(serving, name):
    return os.path.exists(os.path.join(serving.place, name))


def add_tool(serving):
    serving.write('hooks/more.yaml', tool('more', 'echo more'))
    trust(serving)
    serving.process.send_signal(signal.SIGHUP)
    serving.heard('hooks, agents and keys are read')


def told(response):
    """The method of the next message of a stream."""
    return json.loads(next(line for line in response if line.startswith(b'data: '))[6:])['method']


def decide(serving, verdict):
    question, = until(lambda: admin(serving, 'questions'))
    admin(serving, 'questions/answer', {'key': question['key'], 'verdict': verdict, 'reason': 'as said',
                                        'arguments_hash': question['arguments_hash'], 'person': 'ann'})
    return question


# ---- who may call ----


def it_is_not_there_unless_it_is_asked_for(program):
    with Serving(program, '--model', 'script:talk.yaml') as serving:
        for method in ('POST', 'GET', 'DELETE', 'OPTIONS'):
            assert serving.ask(method, '/mcp', '{}')[0] == 404, method


WRONG = [(['--expose', 'everything'], "--expose is tools, memory or tasks, not 'everything'"),
         (['--expose', 'memory', '--no-memory'], '--no-memory leaves the memory out'),
         (['--expose', 'tasks'], 'tasks needs --tasks'),
         (['--origin', 'https://example.org'], '--origin is for clients of MCP'),
         (['--ask', 'client'], '--ask client is for clients of MCP'),
         (['--expose', 'tools', '--ask-wait', '3'], '--ask-wait needs --ask data or --ask admin')]
FILE = {'agents': [{'id': 'a', 'model': 'script:talk.yaml'}]}
WRONG_FILES = [({'mcp_expose': 'tools'}, 'mcp_expose must be a list'),
               ({'mcp_expose': ['files']}, "mcp_expose is tools, memory or tasks, not 'files'"),
               ({'mcp_expose': [7]}, 'mcp_expose is tools, memory or tasks')]


def what_is_wrong_is_named_at_the_start(program):
    with tempfile.TemporaryDirectory() as place:
        def refused(words, part, command='serve'):
            ran = subprocess.run([program, command, *words], cwd=place, capture_output=True, text=True,
                                 timeout=LIMIT_S, env={**os.environ, 'HOME': place}, check=False)
            assert ran.returncode in (2, 78) and part in ran.stderr, (words, ran)

        def write(name, text):
            with open(os.path.join(place, name), 'w', encoding='utf-8') as file:
                file.write(text)
        write('talk.yaml', TALK)
        for words, part in WRONG:
            refused(['--http', '127.0.0.1:0', '--model', 'script:talk.yaml', *words], part)
        for more, part in WRONG_FILES:
            write('agents.yaml', json.dumps({**FILE, **more}))
            refused(['agents.yaml', '--http', '127.0.0.1:0'], part)
        write('agents.yaml', json.dumps({**FILE, 'mcp_expose': ['tools'], 'sessions': []}))
        refused(['agents.yaml'], 'mcp_expose is for turnphase serve', 'run')


def a_key_of_serve_is_needed(program):
    with begin(program) as serving:
        body = json.dumps(message('ping'))
        json_type = {'Content-Type': 'application/json'}
        for headers in ({}, bearer(''), bearer(KEY[:-1]), bearer(KEY + '0'), bearer(KEY.upper()), bearer(ADMIN),
                        {'Authorization': 'Basic ' + KEY}, {'Authorization': KEY}):
            for method in ('POST', 'GET', 'DELETE'):
                status, answered, text = serving.ask(method, '/mcp', body, {**json_type, **headers})
                assert status == 401 and answered['WWW-Authenticate'] == 'Bearer', (headers, text)
        assert Client(serving).call('echo', {'n': 7})['content'][0]['text'] == '{"n":7}'
    with Serving(program, '--model', 'script:talk.yaml', '--expose', 'tools') as serving:
        client = Client(serving)
        del client.headers['Authorization']  # as on other routes, for an address of this machine
        assert client.ask('server/discover')['result']
        assert client.post(message('server/discover'), Host='evil.example')[0] == 403


def a_page_of_another_site_may_not_call(program):
    with begin(program, '--expose', 'tools', '--origin', 'https://friend.example') as serving:
        client = Client(serving, OLD)
        for origin, status in (('https://evil.example', 403), ('null', 403), ('https://friend.example.evil', 403),
                               ('https://localhost.evil.example', 403), ('http://localhost:5000', 200),
                               ('https://friend.example', 200), ('http://127.0.0.1', 200)):
            got = client.post(message('ping'), Origin=origin)
            assert got[0] == status, (origin, got)
        connection = http.client.HTTPConnection('127.0.0.1', serving.port, timeout=LIMIT_S)
        connection.putrequest('POST', '/mcp')
        body = json.dumps(message('ping')).encode()
        for name, value in (*client.headers.items(), ('Origin', 'http://localhost'), ('Origin', 'http://localhost'),
                            ('Content-Length', str(len(body)))):
            connection.putheader(name, value)
        connection.endheaders(body)
        assert connection.getresponse().status == 403
        connection.close()


def a_path_that_looks_like_it_is_none(program):
    with begin(program) as serving:
        client = Client(serving, OLD)
        for path in ('/mcp/', '//mcp', '/MCP', '/%6dcp', '/mcp%00', '/v1/../mcp', '/mcp/../mcp', '/mcp;x', '/v1/mcp',
                     '/mcp%3fx', '/./mcp', '/mcp.json'):
            assert serving.ask('POST', path, json.dumps(message('ping')), client.headers)[0] == 404, path
        assert serving.ask('POST', '/mcp?x=1', json.dumps(message('ping')), client.headers)[0] == 200
        for method in ('PUT', 'PATCH', 'OPTIONS', 'HEAD'):
            status, headers, _ = serving.ask(method, '/mcp', None, client.headers)
            assert status == 405 and headers['Allow'] == 'POST, GET, DELETE', (method, status)


# ---- the protocol ----


def both_eras_list_and_call(program):
    with begin(program, '--expose', 'tools', '--access-log', 'log') as serving:
        for version in (OLD, NEW, '2025-03-26'):
            client = Client(serving, version)
            assert client.tools() == ['ask', 'echo', 'shut', 'slow'], client.tools()
            assert text_of(client.call('echo', {'word': 'hi'})) == '{"word":"hi"}'
            wrong = client.ask('tools/call', {'name': 'nothing', 'arguments': {}})['error']
            assert wrong['code'] == -32602 and 'no such tool' in wrong['message'], wrong
        status, _, text = client.post([message('ping', number=1), message('ping', number=2)])  # an array is allowed in
                                                                                               # that version
        assert status == 200 and text.count('"result"') == 2, text
        modern = Client(serving)
        text, headers = modern.shaped(message('tools/call', {'name': 'echo', 'arguments': {}}))
        status, _, text = serving.ask('POST', '/mcp', text, {**headers, 'Mcp-Name': 'shut'})
        assert status == 400 and json.loads(text)['error']['code'] == -32020, text
        for body, status in (('{', 400), ('[]', 400), ('{"jsonrpc":"2.0"}', 400), ('"' + 'x' * (9 << 20) + '"', 413)):
            assert serving.ask('POST', '/mcp', body, client.headers)[0] == status, body[:20]
        for more, status in (({'Content-Type': 'text/plain'}, 415), ({'Accept': 'text/html'}, 406),
                             ({'MCP-Protocol-Version': '1999-01-01'}, 400)):
            assert client.post(message('ping'), **more)[0] == status, more


def the_access_log_has_its_route_and_tenant(program):
    with begin(program, '--expose', 'tools', '--access-log', 'log') as serving:
        Client(serving).call('echo', {'word': 'my secret'})
        serving.ask('POST', '/mcp', '{}')
        lines = until(lambda: len(serving.lines()) == 2 and serving.lines())
        assert [(line['route'], line['status'], line.get('tenant')) for line in lines] == [
            ('/mcp', 200, 'acme'), ('/mcp', 401, None)], lines
        assert lines[0]['bytes_in'] > 0 and 'secret' not in json.dumps(lines) and 'turn' not in lines[0], lines
        metrics = serving.ask('GET', '/metrics', headers=bearer(ADMIN))[2]
        assert 'turnphase_http_requests_total{route="/mcp",status="200"} 1' in metrics, metrics


def a_session_is_its_keys(program):
    with begin(program) as serving:
        client, other = Client(serving, OLD), Client(serving, OLD, key=OTHER)
        mine = client.headers['Mcp-Session-Id']
        for session in ('0' * 32, mine[:-1], mine + '0', other.headers['Mcp-Session-Id']):
            for method in ('POST', 'GET', 'DELETE'):
                got = serving.ask(method, '/mcp', json.dumps(message('ping')),
                                  {**client.headers, 'Mcp-Session-Id': session})
                assert got[0] == 404, (method, session, got)
        without = {name: value for name, value in client.headers.items() if name != 'Mcp-Session-Id'}
        assert serving.ask('POST', '/mcp', json.dumps(message('ping')), without)[0] == 400
        assert serving.ask('GET', '/mcp', None, without)[0] == 405
        assert serving.ask('DELETE', '/mcp', None, client.headers)[0] == 204
        assert client.post(message('ping'))[0] == 404 and other.post(message('ping'))[0] == 200


# ---- what is offered, and to whom ----


def only_the_kinds_that_are_named_are_offered(program):
    tasks = ['--tasks', 'tools']
    for kind, wanted, hidden in (('tools', ['ask', 'echo', 'shut', 'slow'], 'task_create'),
                                 ('tasks', ['abilities_list', 'task_create', 'task_run'], 'echo'),
                                 ('memory', ['memory'], 'task_create')):
        with begin(program, *tasks, '--expose', kind, memory=True) as serving:
            client = Client(serving)
            listed = client.tools()
            assert listed == wanted or kind == 'memory' and all('memor' in name for name in listed), listed
            wrong = client.ask('tools/call', {'name': hidden, 'arguments': {}})['error']
            assert wrong['code'] == -32602 and 'no such tool' in wrong['message'], wrong


def the_file_of_agents_may_name_them(program):
    agents = {**FILE, 'mcp_expose': ['tools']}
    with Serving(program, 'agents.yaml', '--hooks', 'hooks', files={**HOOKS, 'agents.yaml': json.dumps(agents)},
                 before=trust) as serving:
        assert 'echo' in Client(serving).tools()
        serving.write('agents.yaml', json.dumps({**FILE, 'mcp_expose': ['tools', 'memory']}))
        serving.process.send_signal(signal.SIGHUP)
        serving.heard('mcp_expose has changed: what /mcp offers begins with serve; start it anew')
        serving.heard('the change is refused')


def a_call_has_the_tenant_of_its_key(program):
    with begin(program) as serving:
        seen = events(serving, 'tool_end')
        assert next(seen)['kind'] == 'begin'
        for key, tenant in ((KEY, 'acme'), (OTHER, 'other'), (KEY, 'acme')):
            Client(serving, key=key).call('echo')
            ended = next(seen)
            assert (ended['tenant'], ended['tool'], ended['result']) == (tenant, 'echo', 'ok'), ended
            assert ended['session'].startswith('client-') and key not in json.dumps(ended), ended


# ---- guards ----


def a_guard_denies(program):
    with begin(program) as serving:
        for version in (OLD, NEW):
            denied = Client(serving, version).call('shut')
            assert denied['isError'] and 'not on a Friday' in text_of(denied), denied
        denials = admin(serving, 'denials')  # one for each call and its phase
        assert len(denials) == 4 and {denial['what'] for denial in denials} == {'shut', 'tool.pre'}, denials


def an_operator_is_asked_and_never_the_client(program):
    with begin(program, '--expose', 'tools', '--ask', 'admin') as serving:
        for version in (OLD, NEW):
            client = Client(serving, version, can=FORMS)
            for verdict, part in (('deny', 'as said'), ('allow', 'allowed')):
                waits = client.begin_call('ask')
                question = decide(serving, verdict)
                assert question['tool'] == 'ask' and question['tenant'] == 'acme', question
                text = waits.getresponse().read().decode()
                assert part in text and 'elicitation' not in text and 'input_required' not in text, text
                waits.close()


def a_call_that_waits_too_long_is_made_again(program):
    with begin(program, '--expose', 'tools', '--ask', 'admin', '--ask-wait', '1') as serving:
        client = Client(serving)
        waits = client.call('ask')
        assert waits['isError'] and 'needs approval' in text_of(waits), waits
        other = Client(serving, key=OTHER).begin_call('ask')  # the question of another client is another question
        until(lambda: len(admin(serving, 'questions')) == 2)
        other.close()
        until(lambda: len(admin(serving, 'questions')) == 1)
        decide(serving, 'allow')
        again = client.call('ask')
        assert text_of(again).startswith('allowed'), again
        with open(os.path.join(serving.place, 'ran'), encoding='utf-8') as file:
            assert len(file.readlines()) == 1


def nobody_is_asked_where_serve_asks_nobody(program):
    with begin(program) as serving:
        denied = Client(serving, can=FORMS).call('ask')
        assert denied['isError'] and 'no channel for questions' in text_of(denied) and not has(serving, 'ran'), denied


def a_client_asks_its_user_where_serve_says_so(program):
    with begin(program, '--expose', 'tools', '--ask', 'client') as serving:
        client = Client(serving, can=FORMS)
        for allow in (False, True):
            asked = client.call('ask', {'n': int(allow)})
            assert asked['resultType'] == 'input_required', asked
            key, = asked['inputRequests']
            answer = {'inputResponses': {key: {'action': 'accept', 'content': {'allow': allow}}},
                      'requestState': asked['requestState']}
            theft = Client(serving, key=OTHER, can=FORMS)
            assert 'error' in theft.ask('tools/call', {'name': 'ask', 'arguments': {'n': int(allow)}, **answer})
            done = client.call('ask', {'n': int(allow)}, **answer)
            assert done.get('isError', False) is not allow and has(serving, 'ran') is allow, done
        plain = Client(serving).call('ask')
        assert plain['isError'] and 'shows no forms' in text_of(plain), plain


# ---- clients that leave ----


def a_client_that_leaves_cancels_its_call(program):
    with begin(program, '--expose', 'tools', '--access-log', 'log') as serving:
        seen = events(serving, 'tool_end')
        assert next(seen)['kind'] == 'begin'
        waits = Client(serving).begin_call('slow')
        until(lambda: has(serving, 'begun'))
        waits.close()
        assert next(seen)['result'] == 'cancelled'
        assert until(serving.lines)[0]['left']


def a_client_of_the_old_era_that_leaves_cancels_by_a_message(program):
    with begin(program) as serving:
        seen = events(serving, 'tool_end')
        assert next(seen)['kind'] == 'begin'
        client = Client(serving, OLD)
        first, second = client.begin_call('slow', 8), client.begin_call('echo', 9)
        assert next(seen)['tool'] == 'echo'
        until(lambda: has(serving, 'begun'))
        first.close()
        second.close()
        assert client.post(message('notifications/cancelled', {'requestId': 8}, None))[0] == 202
        assert next(seen)['result'] == 'cancelled'


def a_stream_that_is_cut_can_be_opened_again(program):
    with begin(program, '--expose', 'tools', '--access-log', 'log') as serving:
        client = Client(serving, OLD)
        first, second = (client.open('GET') for _ in range(2))
        responses = [connection.getresponse() for connection in (first, second)]  # the second one ends the first one
        assert [response.status for response in responses] == [200, 200] and responses[0].read() == b''
        second.close()
        until(lambda: any(line.get('left') for line in serving.lines()))
        third = client.open('GET').getresponse()
        add_tool(serving)
        assert told(third) == 'notifications/tools/list_changed' and 'more' in client.tools()


# ---- reloads, the end ----


def sighup_changes_tools_and_keys_and_leaves_sessions(program):
    with begin(program) as serving:
        client, other = Client(serving, OLD), Client(serving, OLD, key=OTHER)
        response = other.open('GET').getresponse()
        assert response.status == 200
        os.unlink(os.path.join(serving.place, 'hooks/echo.yaml'))
        serving.write('keys', OTHER + ' other\n')  # the only key is now the second one
        add_tool(serving)
        assert told(response) == 'notifications/tools/list_changed'
        assert client.post(message('ping'))[0] == 401
        assert other.tools() == ['ask', 'more', 'shut', 'slow'] and text_of(other.call('more')) == 'more'
        wrong = other.ask('tools/call', {'name': 'echo', 'arguments': {}})['error']
        assert wrong['code'] == -32602, wrong


def a_session_ends_with_its_tenant(program):
    with begin(program) as serving:
        client, other = Client(serving, OLD), Client(serving, OLD, key=OTHER)
        serving.write('keys', f'{KEY} else\n{OTHER} other\n')
        serving.process.send_signal(signal.SIGHUP)
        serving.heard('hooks, agents and keys are read')
        assert client.post(message('ping'))[0] == 404 and other.post(message('ping'))[0] == 200


def a_client_of_chat_cannot_join_the_session_of_calls(program):
    with begin(program) as serving:
        seen = events(serving, 'tool_end')
        assert next(seen)['kind'] == 'begin'
        Client(serving).call('echo')
        status, text = serving.chat('hi', {**bearer(KEY), 'X-Session-Id': next(seen)['session']})
        assert status == 400 and 'belongs to calls at /mcp' in text, text


def a_drain_refuses_calls_and_lets_those_that_run_end(program):
    with begin(program, '--expose', 'tools', '--ask', 'admin') as serving:
        old, new = Client(serving, OLD), Client(serving)
        runs, asks = old.begin_call('slow'), new.begin_call('ask')
        until(lambda: has(serving, 'begun') and admin(serving, 'questions'))
        admin(serving, 'drain', '{}')
        for client in (old, new):
            status, _, text = client.post(message('tools/list'))
            assert status == 503 and json.loads(text)['error']['code'] == -32603, text
        assert serving.ask('GET', '/mcp', None, old.headers)[0] == 503
        assert old.post(message('notifications/progress', {'progressToken': 1, 'progress': 1}, None))[0] == 202
        serving.write('go', '')
        assert 'done' in runs.getresponse().read().decode()
        decide(serving, 'allow')
        assert 'allowed' in asks.getresponse().read().decode()
        assert serving.ask('DELETE', '/mcp', None, old.headers)[0] == 204


def sigterm_waits_for_calls(program):
    with begin(program, '--expose', 'tools', '--ask', 'admin') as serving:
        client = Client(serving)
        runs = client.begin_call('slow')
        until(lambda: has(serving, 'begun'))
        keeps = client.open('POST', message('server/discover'))  # a connection that stays
        keeps.getresponse().read()
        serving.process.send_signal(signal.SIGTERM)

        def refused():
            text, headers = client.shaped(message('server/discover'))
            try:
                keeps.request('POST', '/mcp', text, headers)
                response = keeps.getresponse()
                response.read()
                return response.status == 503
            except (ConnectionError, http.client.HTTPException):
                return True
        until(refused)
        serving.write('go', '')
        assert 'done' in runs.getresponse().read().decode()
        keeps.close()
        assert serving.process.wait(LIMIT_S) == 0


CASES = [it_is_not_there_unless_it_is_asked_for, what_is_wrong_is_named_at_the_start, a_key_of_serve_is_needed,
         a_page_of_another_site_may_not_call, a_path_that_looks_like_it_is_none, both_eras_list_and_call,
         the_access_log_has_its_route_and_tenant, a_session_is_its_keys, only_the_kinds_that_are_named_are_offered,
         the_file_of_agents_may_name_them, a_call_has_the_tenant_of_its_key, a_guard_denies,
         an_operator_is_asked_and_never_the_client, a_call_that_waits_too_long_is_made_again,
         nobody_is_asked_where_serve_asks_nobody, a_client_asks_its_user_where_serve_says_so,
         a_client_that_leaves_cancels_its_call, a_client_of_the_old_era_that_leaves_cancels_by_a_message,
         a_stream_that_is_cut_can_be_opened_again, sighup_changes_tools_and_keys_and_leaves_sessions,
         a_session_ends_with_its_tenant, a_client_of_chat_cannot_join_the_session_of_calls,
         a_drain_refuses_calls_and_lets_those_that_run_end, sigterm_waits_for_calls]


if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
