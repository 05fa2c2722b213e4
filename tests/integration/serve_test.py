#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of turnphase serve for operators: access log, metrics, /admin and its page, and signals.

    python3 tests/integration/serve_test.py TURNPHASE

Prints TAP. Nothing waits for time where it can wait for an event.
"""

import base64
import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'support'))
import otlp  # noqa: E402 pylint: disable=wrong-import-position

LIMIT_S = 60
KEY = 'client-key-0123456789'
TALK = """
repeat: true
responses:
  - text: One two three.
    usage: {input_tokens: 7, output_tokens: 2}
"""
SECRET = 'my secret words'

# A turn that waits for a person: its model calls a tool of the client, and a hook asks about it.
SIGNAL = {'kind': 'ability_guard', 'code': 'REQUIRES_HUMAN', 'payload': {'reason': 'it looks'}}
GUARD = {'id': 'asks', 'event': 'tool.pre',
         'handler': {'command': ['sh', '-c', "cat >/dev/null; echo '%s'" % json.dumps({'hook_signals': [SIGNAL]})]}}
TOOLS = """
repeat: true
responses:
  - text: Let me look.
    tool_calls: [{name: look, arguments: {n: 7}}]
  - text: Done.
"""
ASKING = ['--model', 'script:tools.yaml', '--hooks', 'hooks', '--data', 'kept', '--ask', 'data']
WITHOUT_DATA = ['--model', 'script:tools.yaml', '--hooks', 'hooks', '--ask', 'admin']
ASKING_FILES = {'tools.yaml': TOOLS, 'hooks/asks.yaml': json.dumps(GUARD)}
LOOK = {'model': 'any', 'messages': [{'role': 'user', 'content': 'hi'}],
        'tools': [{'type': 'function', 'function': {'name': 'look', 'parameters': {
            'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'],
            'additionalProperties': False}}}]}


class Serving:
    """One server process, with its files in a directory of its own."""

    def __init__(self, program, *options, files=None, env=None, before=None, http='127.0.0.1:0', memory=False,
                 **popen):
        self.directory = tempfile.TemporaryDirectory()
        self.place = self.directory.name
        for name, text in {'talk.yaml': TALK, 'keys': KEY + ' acme\n', **(files or {})}.items():
            self.write(name, text)
        self.env = {**os.environ, 'HOME': self.place, 'XDG_CONFIG_HOME': self.place + '/config', **(env or {})}
        self.program = program
        if before:
            before(self)
        self.process = subprocess.Popen(
            [program, 'serve', *(['--http', http] if http else []), *([] if memory else ['--no-memory']),
             *options], cwd=self.place, text=True,
            env=self.env, stderr=subprocess.PIPE, **popen)
        self.port = int(re.search(r'serving http://\S+:(\d+)/v1', self.heard('serving http://')).group(1))

    def write(self, name, text):
        os.makedirs(os.path.dirname(os.path.join(self.place, name)), exist_ok=True)
        with open(os.path.join(self.place, name), 'w', encoding='utf-8') as file:
            file.write(text)

    def heard(self, part):
        """The next line of standard error that has the part."""
        said = ''
        while part not in (line := self.process.stderr.readline()):
            said += line
            assert line, f'it ended: {said}'
        return line

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=LIMIT_S)
        data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, data, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, response.headers, text

    def chat(self, text='hi', headers=None, **more):
        status, _, answer = self.ask('POST', '/v1/chat/completions',
                                     {'model': 'any', 'messages': [{'role': 'user', 'content': text}], **more}, headers)
        return status, answer

    def lines(self, name='log'):
        with open(os.path.join(self.place, name), encoding='utf-8') as file:
            return [json.loads(line) for line in file]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGTERM)
        said = self.process.stderr.read()
        self.process.stderr.close()
        code = self.process.wait(LIMIT_S)
        self.directory.cleanup()
        assert kind or code == 0, f'it ended with {code}: {said}'


def trust(serving, program=None):
    subprocess.run([program or serving.program, 'hooks', 'trust', 'hooks'], cwd=serving.place, env=serving.env,
                   check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)


def until(ready):
    end = time.monotonic() + LIMIT_S
    while not (seen := ready()):
        assert time.monotonic() < end, 'it never came'
        time.sleep(0.002)
    return seen


def a_request_has_a_line_without_what_it_says(program):
    bearer = {'Authorization': 'Bearer ' + KEY}
    with Serving(program, '--model', 'script:talk.yaml', '--keys', 'keys', '--access-log', 'log') as serving:
        status, answer = serving.chat(SECRET, {**bearer, 'X-Session-Id': 's1'})
        assert status == 200, answer
        chat = json.loads(answer)
        assert serving.chat(SECRET, bearer, stream=True)[0] == 200
        assert serving.ask('GET', '/v1/models?' + SECRET.replace(' ', '+'), headers=bearer)[0] == 200
        assert serving.ask('GET', '/' + SECRET.replace(' ', '/'))[0] == 404
        assert serving.chat(SECRET)[0] == 401
        assert serving.ask('POST', '/v1/chat/completions', '{' + SECRET, bearer)[0] == 400
        head = f'POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 30}\r\n\r\n'
        with socket.create_connection(('127.0.0.1', serving.port)) as large:
            large.sendall(head.encode())
            assert b' 413 ' in large.recv(4096)
        lines = until(lambda: len(serving.lines()) == 7 and serving.lines())
        place = os.path.join(serving.place, 'log')
        with open(place, encoding='utf-8') as file:
            text = file.read()
    for word in (*SECRET.split(), 'One two', KEY):
        assert word not in text, text
    assert [(line['route'], line['status'], line.get('tenant')) for line in lines] == [
        ('/v1/chat/completions', 200, 'acme'), ('/v1/chat/completions', 200, 'acme'), ('/v1/models', 200, 'acme'),
        (None, 404, None), ('/v1/chat/completions', 401, None), ('/v1/chat/completions', 400, 'acme'),
        (None, 413, None)], lines
    first, second = lines[:2]
    assert first['id'] == chat['id'] and first['bytes_out'] == len(answer) and first['session'] == 's1', first
    assert not first['stream'] and second['stream'] and 'turn' not in lines[2], lines
    for line in (first, second):
        assert (line['input_tokens'], line['output_tokens'], line['model']) == (7, 2, 'any'), line
        assert 0 < line['answered_s'] <= line['duration_s'] and line['bytes_in'] > len(SECRET), line
        assert line['agent'] == 'turnphase' and re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', line['time'])


def a_client_that_leaves_has_a_line(program):
    with Serving(program, *ASKING, '--access-log', 'log', files=ASKING_FILES, before=trust) as serving:
        body = json.dumps(LOOK)
        with socket.create_connection(('127.0.0.1', serving.port)) as client:
            client.sendall(f'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}'
                           f'\r\n\r\n{body}'.encode())
        line = until(serving.lines)[0]
        assert line['left'] and line['status'] != 200 and line['turn'], line
        assert (line['status'] == 0) == ('answered_s' not in line), line


def the_log_goes_to_standard_output_and_is_opened_again(program):
    with Serving(program, '--model', 'script:talk.yaml', '--access-log', '-', stdout=subprocess.PIPE) as serving:
        assert serving.chat()[0] == 200
        assert json.loads(serving.process.stdout.readline())['status'] == 200
        serving.process.stdout.close()
    with Serving(program, '--model', 'script:talk.yaml', '--access-log', 'log') as serving:
        assert serving.chat()[0] == 200
        until(serving.lines)
        os.rename(serving.place + '/log', serving.place + '/log.1')
        serving.process.send_signal(signal.SIGHUP)
        until(lambda: os.path.exists(serving.place + '/log'))
        assert serving.chat()[0] == 200
        until(serving.lines)
        assert len(serving.lines('log.1')) == 1


# ---- the exposition formats, read strictly ----

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
SAMPLE = re.compile(r'(' + NAME + r')(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
NUMBER = re.compile(r'[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]Inf|NaN')
SUFFIXES = {'histogram': ('_bucket', '_sum', '_count'), 'counter': ('_total',), 'gauge': ('',)}


def exposed(text, is_open):
    """Reads the text format 0.0.4, or OpenMetrics 1.0.0. Returns {(name, labels): value}."""
    assert text.endswith('\n') and '\r' not in text
    lines = text[:-1].split('\n')
    if is_open:
        assert lines.pop() == '# EOF' and '# EOF' not in lines
    samples, kinds, helps, family = {}, {}, set(), None
    for line in lines:
        assert line, 'an empty line'
        if line.startswith('#'):
            match = re.fullmatch(r'# (HELP|TYPE) (' + NAME + r') (.+)', line)
            assert match, line
            what, name, rest = match.groups()
            if what == 'HELP':
                assert name not in helps and name not in kinds, line
                helps.add(name)
                continue
            assert name not in kinds and rest in SUFFIXES, line
            assert not (is_open and rest == 'counter' and name.endswith('_total')), line
            kinds[name], family = rest, name
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        kind = kinds[family]
        suffixes = ('',) if kind == 'counter' and not is_open else SUFFIXES[kind]
        assert name in [family + suffix for suffix in suffixes], f'{line} is none of {family}'
        pairs = LABEL.findall(labels or '')
        assert ','.join(f'{key}="{text}"' for key, text in pairs) == (labels or ''), line
        assert len({key for key, _ in pairs}) == len(pairs) and NUMBER.fullmatch(value), line
        assert (name, tuple(pairs)) not in samples, line
        assert kind == 'gauge' or float(value) >= 0, line
        if is_open and name.endswith('_bucket'):
            bound = dict(pairs)['le']
            assert bound == '+Inf' or bound == repr(float(bound)), line
        samples[name, tuple(pairs)] = float(value)
    assert all(name in helps for name in kinds)
    check_histograms(samples, kinds)
    return samples


def check_histograms(samples, kinds):
    for name in (name for name, kind in kinds.items() if kind == 'histogram'):
        series = {}
        for (sample, labels), value in samples.items():
            if sample == name + '_bucket':
                assert labels[-1][0] == 'le', labels
                series.setdefault(labels[:-1], []).append((float(labels[-1][1].replace('+Inf', 'inf')), value))
        assert series, name
        for labels, buckets in series.items():
            assert buckets == sorted(buckets) and buckets[-1][0] == float('inf'), (name, buckets)
            assert [count for _, count in buckets] == sorted(count for _, count in buckets), (name, buckets)
            count, total = samples[name + '_count', labels], samples[name + '_sum', labels]
            assert buckets[-1][1] == count, (name, labels)
            least = sum((after - before) * bound for (bound, _), (_, before), (_, after) in
                        zip(buckets, buckets, buckets[1:]) if after > before)
            most = sum((after - before) * bound for (_, before), (bound, after) in
                       zip([(0, 0), *buckets], buckets) if after > before)
            assert least * 0.999 <= total <= most, (name, labels, least, total, most)


# As Prometheus sends it.
PREFERS_OPEN = 'application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2'


def the_numbers_are_right_in_both_formats(program):
    with Serving(program, '--model', 'script:talk.yaml', '--access-log', 'log') as serving:
        for _ in range(3):
            assert serving.chat()[0] == 200
        assert serving.chat(model=7)[0] == 400
        assert serving.ask('GET', '/no/such/path')[0] == 404
        until(lambda: len(serving.lines()) == 5)
        until(lambda: '\nturnphase_sessions_open 0\n' in serving.ask('GET', '/metrics')[2])
        bytes_out = sum(line['bytes_out'] for line in serving.lines()[:4])
        for accept, kind in (('', 'text/plain; version=0.0.4'), ('text/plain', 'text/plain; version=0.0.4'),
                             (PREFERS_OPEN, 'application/openmetrics-text; version=1.0.0')):
            status, headers, text = serving.ask('GET', '/metrics', headers={'Accept': accept})
            assert status == 200 and headers['Content-Type'] == kind + '; charset=utf-8', headers
            seen = exposed(text, 'openmetrics' in kind)
            chat = ('route', '/v1/chat/completions')
            for name, labels, value in (
                    ('turns_total', [('outcome', 'completed')], 3), ('turns_total', [('outcome', 'failed')], 0),
                    ('turn_duration_seconds_count', [], 3), ('turns_open', [], 0), ('ready', [], 1),
                    ('model_requests_total', [('model', 'script'), ('result', 'ok')], 3),
                    ('model_tokens_total', [('model', 'script'), ('direction', 'input')], 21),
                    ('model_tokens_total', [('model', 'script'), ('direction', 'output')], 6),
                    ('http_requests_total', [chat, ('status', '200')], 3),
                    ('http_requests_total', [chat, ('status', '400')], 1),
                    ('http_requests_total', [('route', '_other'), ('status', '404')], 1),
                    ('http_request_duration_seconds_count', [chat], 4),
                    ('http_body_bytes_total', [chat, ('direction', 'out')], bytes_out),
                    ('handler_runs_total', [('handler', 'server.tools'), ('state', 'succeeded')], 3)):
                assert seen['turnphase_' + name, tuple(labels)] == value, (name, labels)


def promtool(*words, **more):
    ran = subprocess.run(['promtool', *words], capture_output=True, text=True, timeout=LIMIT_S, check=False, **more)
    return ran.returncode, ran.stdout + ran.stderr


def prometheus_reads_both_formats(program):
    """check metrics reads the text format only. The reader of OpenMetrics is that of create-blocks-from, which wants
    a time at each sample."""
    if not shutil.which('promtool'):
        return 'promtool is not installed (Debian package prometheus)'
    with Serving(program, '--model', 'script:talk.yaml', '--data', 'kept', memory=True) as serving:
        assert serving.chat()[0] == 200 and serving.chat(model=7)[0] == 400
        until(lambda: '\nturnphase_sessions_open 0\n' in serving.ask('GET', '/metrics')[2])
        text, opened = (serving.ask('GET', '/metrics', headers={'Accept': accept})[2]
                        for accept in ('text/plain', PREFERS_OPEN))
        assert promtool('check', 'metrics', input=text) == (0, ''), promtool('check', 'metrics', input=text)
        timed = re.sub(r'(?m)^(?!#)(.* \S+)$', r'\1 1700000000', opened)
        count = len(exposed(opened, True))
        serving.write('open', timed)
        status, said = promtool('tsdb', 'create-blocks-from', 'openmetrics', 'open', 'blocks', cwd=serving.place)
        assert status == 0 and said.splitlines()[-1].split()[4] == str(count), (status, said, count)
        serving.write('wrong', timed.replace('# EOF\n', ''))
        status, said = promtool('tsdb', 'create-blocks-from', 'openmetrics', 'wrong', 'none', cwd=serving.place)
        assert status and 'EOF' in said, (status, said)
    return None


def metrics_need_the_operators_key_where_clients_need_one(program):
    admin = 'admin-key-0123456789'
    with Serving(program, '--model', 'script:talk.yaml', '--keys', 'keys') as serving:
        for headers in ({}, {'Authorization': 'Bearer ' + KEY}):
            assert serving.ask('GET', '/metrics', headers=headers)[0] == 403
    with Serving(program, '--model', 'script:talk.yaml', '--keys', 'keys', '--admin-key', 'admin',
                 files={'admin': admin + '\n'}) as serving:
        for key, status in ((KEY, 401), (admin, 200), (admin + 'x', 401), (admin[:-1], 401), ('', 401)):
            assert serving.ask('GET', '/metrics', headers={'Authorization': 'Bearer ' + key})[0] == status, key
        bearer = {'Authorization': 'Bearer ' + admin}
        for header, value, status in (('Host', 'evil.example', 403), ('Origin', 'http://evil.example', 403),
                                      ('Sec-Fetch-Site', 'cross-site', 403), ('Sec-Fetch-Site', 'same-site', 403),
                                      ('Sec-Fetch-Site', 'none', 200), ('Sec-Fetch-Site', 'same-origin', 200),
                                      ('Origin', 'null', 403),
                                      ('Origin', f'http://127.0.0.1:{serving.port}', 200)):
            assert serving.ask('GET', '/metrics', headers={**bearer, header: value})[0] == status, (header, value)
        assert serving.chat(headers=bearer)[0] == 401  # the operators' key is not a key of clients


# ---- /admin ----

ADMIN = 'admin-key-0123456789'
BEARER = {'Authorization': 'Bearer ' + ADMIN}
HOSTILE = '<img src=x onerror="document.title=1">"\'&</script>\u202e'


class Operating(Serving):
    def __init__(self, program, *options, files=None, **more):
        super().__init__(program, '--admin-key', 'admin', *options, files={'admin': ADMIN + '\n', **(files or {})},
                         **more)

    def admin(self, path, body=None, expect=200):
        status, headers, text = self.ask('POST' if body is not None else 'GET', '/admin/' + path, body, BEARER)
        assert status == expect, (path, status, text)
        assert headers['Cache-Control'] == 'no-store' or status != 200, headers
        return json.loads(text)

    def begin(self, body, headers=None):
        """A request whose answer is read later."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=LIMIT_S)
        connection.request('POST', '/v1/chat/completions', json.dumps(body), headers or {})
        return connection

    def events(self, query=''):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=LIMIT_S)
        connection.request('GET', '/admin/events' + query, headers=BEARER)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return events_of(response)


def events_of(response):
    name = None
    for line in response:
        line = line.decode().rstrip('\n')
        if line.startswith('event: '):
            name = line[len('event: '):]
        elif line.startswith('data: '):
            event = json.loads(line[len('data: '):])
            assert event['kind'] == name, (name, event)
            yield event


def admin_is_not_there_without_a_key_and_only_for_its_key(program):
    with Serving(program, '--model', 'script:talk.yaml') as serving:
        for path in ('', '/state', '/turns', '/events', '/drain'):
            assert serving.ask('GET', '/admin' + path, headers=BEARER)[0] == 404, path
    with Operating(program, '--model', 'script:talk.yaml', '--keys', 'keys') as serving:
        for path in ('state', 'turns', 'questions', 'denials', 'handlers', 'jobs', 'plan', 'events'):
            for key in ('', KEY, ADMIN[:-1], ADMIN + 'x', ADMIN.upper()):
                assert serving.ask('GET', '/admin/' + path, headers={'Authorization': 'Bearer ' + key})[0] == 401, path
            for name, value in (('Sec-Fetch-Site', 'cross-site'), ('Origin', 'https://evil.example'), ('Host', 'evil')):
                assert serving.ask('GET', '/admin/' + path, headers={**BEARER, name: value})[0] == 403, (path, name)
            assert serving.ask('POST', '/admin/' + path, '{}', BEARER)[0] == 405, path
        assert serving.ask('POST', '/admin/drain', '{}', {'Origin': 'https://evil.example', **BEARER})[0] == 403
        assert serving.admin('state')['ready'] is True


def a_question_is_seen_and_answered(program):
    with Operating(program, *ASKING, '--access-log', 'log', files=ASKING_FILES, before=trust) as serving:
        events = serving.events('?kinds=turn_begin,question,tool_end,turn_end')
        assert next(events)['kind'] == 'begin'
        for verdict, reason, finish in (('deny', 'not today', 'stop'), ('allow', '', 'tool_calls')):
            client = serving.begin(LOOK)
            assert next(events)['kind'] == 'turn_begin'
            asked = next(events)
            assert asked['kind'] == 'question' and asked['tool'] == 'look', asked
            question, = serving.admin('questions')
            assert question['key'] == asked['key'] and question['arguments'] == {'n': 7}, question
            assert question['tool'] == 'look' and question['subscription'] == 'asks', question
            turn, = serving.admin('turns')
            assert turn['doing'] == 'question' and turn['what'] == 'look' and turn['turn'] == question['turn'], turn
            answer = {'key': question['key'], 'verdict': verdict, 'arguments_hash': question['arguments_hash']}
            for wrong, status in (({'key': 'x'}, 404), ({'verdict': 'maybe'}, 400), ({'verdict': None}, 400),
                                  ({'arguments_hash': ''}, 400), ({'more': 1}, 400), ({'reason': 7}, 400)):
                serving.admin('questions/answer', {**answer, **wrong}, expect=status)
            serving.admin('questions/answer', {**answer, 'reason': reason, 'person': 'ann'})
            assert serving.admin('questions') == []
            serving.admin('questions/answer', answer, expect=404)
            assert json.loads(client.getresponse().read())['choices'][0]['finish_reason'] == finish
            client.close()
            if verdict == 'deny':
                ended = next(events)
                assert ended['kind'] == 'tool_end' and ended['result'] == 'denied', ended
                assert next(events)['kind'] == 'turn_end'
                assert [(d['what'], d['turn']) for d in serving.admin('denials')] == [('look', question['turn'])]
        turn, = serving.admin('turns')  # the turn waits for its client
        for wrong in ({'turn': 'other'}, {'session': 'other'}, {'tenant': 'other'}):
            serving.admin('turns/cancel', {**{key: turn[key] for key in ('tenant', 'session', 'turn')}, **wrong},
                          expect=404)
        serving.admin('turns/cancel', {'session': turn['session'], 'turn': turn['turn'], 'tenant': turn['tenant']})
        assert until(lambda: next(events)['kind'] == 'turn_end')
        assert serving.admin('turns') == []
        seen = exposed(serving.ask('GET', '/metrics', headers=BEARER)[2], False)
        assert seen['turnphase_questions_total', ()] == 2
        assert seen['turnphase_tool_calls_total', (('tool', '_client'), ('result', 'denied'))] == 1
        assert not any('look' in str(labels) for _, labels in seen), seen


def operators_answer_where_nothing_is_kept(program):
    def ask_and_answer(serving, verdict, finish):
        client = serving.begin(LOOK)
        question, = until(lambda: serving.admin('questions'))
        serving.admin('questions/answer', {'key': question['key'], 'verdict': verdict,
                                           'arguments_hash': question['arguments_hash']})
        answer = json.loads(client.getresponse().read())
        assert answer['choices'][0]['finish_reason'] == finish, answer
        client.close()

    with Operating(program, *WITHOUT_DATA, files=ASKING_FILES, before=trust) as serving:
        ask_and_answer(serving, 'deny', 'stop')
        client = serving.begin(LOOK)  # the client leaves this turn
        question, = until(lambda: serving.admin('questions'))
        client.close()
        until(lambda: serving.admin('questions') == [])
        serving.admin('questions/answer', {'key': question['key'], 'verdict': 'allow',
                                           'arguments_hash': question['arguments_hash']}, expect=404)
        assert serving.chat()[0] == 200  # this turn gets the script's second answer
        ask_and_answer(serving, 'allow', 'tool_calls')
        assert not os.path.exists(serving.place + '/kept')
    with tempfile.TemporaryDirectory() as place:
        for words, part in ((['serve'], '--admin-key FILE'), (['run'], 'is for turnphase serve'),
                            (['mcp', 'serve'], 'is for turnphase serve')):
            model = [] if words[0] == 'mcp' else ['--model', 'script:x']
            ran = subprocess.run([program, *words, '--ask', 'admin', *model], cwd=place, capture_output=True, text=True,
                                 stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
            assert ran.returncode == 2 and part in ran.stderr, (words, ran)


def a_question_that_is_answered_elsewhere_is_over_here(program):
    two = TOOLS.replace('[{name: look, arguments: {n: 7}}]',
                        '[{name: look, arguments: {n: 1}}, {name: look, arguments: {n: 2}}]')
    with Operating(program, *ASKING, files={**ASKING_FILES, 'tools.yaml': two}, before=trust) as serving:
        client = serving.begin(LOOK)
        until(lambda: len(serving.admin('questions')) == 2)
        ask = [program, 'ask']
        shown = until(lambda: subprocess.run([*ask, 'list', 'kept', '--json'], cwd=serving.place, env=serving.env,
                                             capture_output=True, check=True, text=True, timeout=LIMIT_S).stdout)
        subprocess.run([*ask, 'answer', 'kept', str(json.loads(shown.splitlines()[0])['number']), 'deny'],
                       cwd=serving.place, env=serving.env, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
        question, = until(lambda: len(serving.admin('questions')) == 1 and serving.admin('questions'))
        serving.admin('questions/answer', {'key': question['key'], 'verdict': 'deny',
                                           'arguments_hash': question['arguments_hash']})
        assert client.getresponse().status == 200
        client.close()


def a_tool_that_is_none_is_counted_without_its_name(program):
    with Operating(program, '--model', 'script:tools.yaml', files=ASKING_FILES) as serving:
        assert serving.chat()[0] == 200
        seen = exposed(serving.ask('GET', '/metrics', headers=BEARER)[2], False)
        assert seen['turnphase_tool_calls_total', (('tool', '_unknown'), ('result', 'unknown_tool'))] == 1


def another_hash_denies_and_a_cancel_ends_the_question(program):
    with Operating(program, *ASKING, files=ASKING_FILES, before=trust) as serving:
        client = serving.begin(LOOK)
        question = until(lambda: serving.admin('questions'))[0]
        serving.admin('questions/answer', {'key': question['key'], 'verdict': 'allow', 'arguments_hash': 'f' * 64})
        assert json.loads(client.getresponse().read())['choices'][0]['finish_reason'] == 'stop'  # the call was not
                                                                                                 # allowed
        client = serving.begin(LOOK)
        question = until(lambda: serving.admin('questions'))[0]
        turn = until(lambda: serving.admin('turns'))[0]
        serving.admin('turns/cancel', {key: turn[key] for key in ('tenant', 'session', 'turn')})
        assert client.getresponse().status >= 400
        until(lambda: serving.admin('questions') == [])


def events_are_filtered_and_a_wrong_filter_is_named(program):
    with Operating(program, '--model', 'script:talk.yaml', '--tenant', 'acme') as serving:
        every, mine, other = serving.events(), serving.events('?session=s%31&tenant=acme'), serving.events('?tenant=x')
        for session in ('s2', 's1'):
            assert serving.chat(SECRET, {'X-Session-Id': session})[0] == 200
        seen = []
        while not seen or seen[-1]['kind'] != 'turn_end' or seen[-1]['session'] != 's1':
            seen.append(next(every))
        assert seen[0]['kind'] == 'begin' and {e.get('session') for e in seen[1:]} == {'s1', 's2'}
        assert {'turn_begin', 'phase_begin', 'phase_end', 'run', 'model_end'} <= {e['kind'] for e in seen}
        for word in (*SECRET.split(), 'One two'):
            assert word not in json.dumps(seen)
        model = next(e for e in seen if e['kind'] == 'model_end')
        assert (model['model'], model['input_tokens'], model['output_tokens']) == ('script', 7, 2), model
        assert next(mine)['kind'] == 'begin' and next(mine)['session'] == 's1'
        assert next(other)['kind'] == 'begin'
        for query in ('?kinds=model_delta', '?kinds=', '?kinds=run,,job', '?what=1', '?turn=%00', '?turn=%4',
                      '?turn=%zz', '?session=a&session=b', '?turn=' + 'x' * 200):
            assert serving.ask('GET', '/admin/events' + query, headers=BEARER)[0] == 400, query


def a_reader_that_is_too_slow_loses_events_and_is_told_how_many(program):
    with Operating(program, '--model', 'script:talk.yaml') as serving:
        every, slow = serving.events(), socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(('127.0.0.1', serving.port))
        head = 'GET /admin/events HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer '
        slow.sendall(f'{head}{ADMIN}\r\n\r\n'.encode())
        slow_file = slow.makefile('rb')
        while slow_file.readline() != b'\r\n':
            pass
        late = events_of(slow_file)
        assert next(late)['kind'] == 'begin'
        counted, turns, size = 0, 0, 0
        while size < 1 << 20:  # more than what waits for a reader, here and in the system
            assert serving.chat()[0] == 200
            turns += 1
            for event in every:
                counted += event['kind'] != 'begin'
                size += len(json.dumps(event))
                if event['kind'] == 'turn_end':
                    break
        heard = dropped = 0
        while heard + dropped < counted:
            event = next(late)
            if event['kind'] == 'dropped':
                dropped += event['count']
            else:
                heard += 1
        assert dropped > 0 and heard > 0 and heard + dropped == counted, (heard, dropped, counted)
        slow_file.close()
        slow.close()


def the_rest_of_admin_answers(program):
    with Operating(program, '--model', 'script:talk.yaml', '--data', 'kept', '--hooks', 'hooks', files={
            'hooks/quiet.yaml': json.dumps({'id': 'quiet', 'event': 'turn.intake',
                                            'handler': {'command': ['sh', '-c', 'cat >/dev/null']}})},
            before=trust) as serving:
        assert serving.chat()[0] == 200
        until(lambda: serving.admin('state')['turns_open'] == 0)
        state = serving.admin('state')
        assert state['turns_completed'] == 1 and state['started_ms'] <= state['now_ms'], state
        handler = next(h for h in serving.admin('handlers') if h['handler'] == 'quiet')
        assert handler['count'] == 1 and 0 < handler['mean_us'] <= handler['max_us'] <= handler['total_us'] + 1, handler
        plan = serving.admin('plan')
        assert 'quiet' in json.dumps(plan) and plan['phases'], plan
        assert serving.admin('jobs') == []
        serving.admin('jobs/redrive', {'id': 7}, expect=404)
        serving.admin('jobs/discard', {'id': 7}, expect=404)
        for body in ({}, {'id': 0}, {'id': -1}, {'id': '7'}, {'id': 1.5}, [], 'x', {'id': 7, 'x': 1}):
            serving.admin('jobs/redrive', body, expect=400)
        serving.admin('handlers/trip', {'subscription': 'none', 'tripped': True}, expect=404)
        for tripped in (True, False):
            serving.admin('handlers/trip', {'subscription': 'quiet', 'tripped': tripped})
            assert [b['tripped'] for b in serving.admin('breakers') if b['subscription'] == 'quiet'] == [tripped]
        serving.admin('drain', {'x': 1}, expect=400)
        serving.admin('drain', {})
        assert serving.chat()[0] == 503 and serving.ask('GET', '/health/ready')[0] == 503
        assert serving.admin('state')['ready'] is False
        def noted():
            audit = subprocess.run([program, 'audit', 'kept'], cwd=serving.place, env=serving.env, text=True,
                                   check=True, capture_output=True, timeout=LIMIT_S).stdout
            return all(re.search(word, audit) for word in (
                r'redrive +operator\b', r'discard +operator\b', r'trip +operator\b.*quiet',
                r'untrip +operator\b.*quiet', r'drain +operator\b'))
        until(noted)


def the_page_may_run_its_own_script_only(program):
    with Operating(program, '--model', 'script:talk.yaml') as serving:
        status, headers, text = serving.ask('GET', '/admin')
        assert status == 200 and headers['Content-Type'] == 'text/html; charset=utf-8'
        policy = dict(part.strip().split(' ', 1) for part in headers['Content-Security-Policy'].split(';'))
        assert policy['default-src'] == "'none'" and policy['frame-ancestors'] == "'none'", policy
        for tag, rule in (('script', 'script-src'), ('style', 'style-src')):
            inner = re.findall(rf'<{tag}>(.*?)</{tag}>', text, re.S)
            assert len(inner) == 1 and len(re.findall(rf'<{tag}\b', text)) == 1, tag
            digest = base64.b64encode(hashlib.sha256(inner[0].encode()).digest()).decode()
            assert policy[rule] == f"'sha256-{digest}'", policy
        assert not re.search(r'\son\w+\s*=\s*["\']|https?://|\bstyle="|innerHTML|document\.write|eval\(', text)
        assert serving.ask('GET', '/admin', headers={'Host': 'evil.example'})[0] == 403


# ---- as a service ----

class Manager:
    """The parts of a service manager: a socket that listens, and a socket for notifications."""

    def __init__(self, place, family=socket.AF_INET, address=('127.0.0.1', 0), listens=True):
        self.listening = socket.socket(family)
        self.listening.bind(address)
        if listens:
            self.listening.listen()
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(os.path.join(place, 'notify'))
        self.notified.settimeout(LIMIT_S)
        self.env = {'NOTIFY_SOCKET': os.path.join(place, 'notify')}

    def popen(self, count=1):
        listening = self.listening.fileno()

        def hand_over():
            os.dup2(listening, 3)
        return {'preexec_fn': hand_over, 'pass_fds': (3,), 'env': {**self.env, 'LISTEN_FDS': str(count)}}

    def heard(self):
        return self.notified.recv(4096).decode()

    def close(self):
        self.listening.close()
        self.notified.close()


def shell_for(program, place):
    """A program that sets LISTEN_PID to its own number, and becomes the command."""
    path = os.path.join(place, 'begin')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'#!/bin/sh\nLISTEN_PID=$$ exec "{program}" "$@"\n')
    os.chmod(path, 0o700)
    return path


def a_socket_of_a_manager_is_listened_on_and_it_is_notified(program):
    with tempfile.TemporaryDirectory() as place:
        manager = Manager(place)
        port = manager.listening.getsockname()[1]
        begin = shell_for(program, place)
        spied = {'hooks/spy.yaml': json.dumps({'id': 'spy', 'event': 'turn.intake', 'handler': {'command': [
            'sh', '-c', 'cat >/dev/null; env > ' + place + '/env; ls -l /proc/self/fd > ' + place + '/fds']}})}
        with Serving(begin, '--model', 'script:talk.yaml', '--hooks', 'hooks', '--access-log', 'log', files=spied,
                     http=None, before=lambda s: trust(s, program), **manager.popen()) as serving:
            assert serving.port == port
            assert manager.heard().startswith('READY=1\n')
            assert serving.chat()[0] == 200
            with open(place + '/env', encoding='utf-8') as file:
                assert not re.search('LISTEN_|NOTIFY_', file.read())
            with open(place + '/fds', encoding='utf-8') as file:
                assert 'socket:' not in file.read()
            serving.process.send_signal(signal.SIGHUP)
            assert re.fullmatch(r'RELOADING=1\nMONOTONIC_USEC=\d+', manager.heard())
            assert manager.heard() == 'READY=1'
        assert manager.heard().startswith('STOPPING=1\n')
        early = socket.create_connection(('127.0.0.1', port))  # the manager still listens: it waits for the next one
        with Serving(begin, '--model', 'script:talk.yaml', http=None, **manager.popen()) as serving:
            early.sendall(b'GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n')
            assert b' 200 ' in early.recv(4096)
            early.close()
        manager.close()


def what_a_manager_passes_wrongly_is_named(program):
    with tempfile.TemporaryDirectory() as place:
        begin = shell_for(program, place)
        for count, http, family, address, words in (
                (2, None, socket.AF_INET, ('127.0.0.1', 0), 'listens on one'),
                (1, '127.0.0.1:0', socket.AF_INET, ('127.0.0.1', 0), 'leave --http out'),
                (1, None, socket.AF_INET, ('0.0.0.0', 0), 'set --keys'),
                (1, None, socket.AF_INET, ('127.0.0.1', 0), 'that listens'),
                (1, None, socket.AF_UNIX, place + '/unix', 'no TCP socket')):
            if os.path.exists(place + '/notify'):
                os.unlink(place + '/notify')
            manager = Manager(place, family, address, words != 'that listens')
            try:
                Serving(begin, '--model', 'script:talk.yaml', http=http, **manager.popen(count))
                raise RuntimeError('it began')
            except AssertionError as error:
                assert words in str(error), error
            manager.close()


def sigquit_prints_the_state(program):
    with Serving(program, '--model', 'script:talk.yaml') as serving:
        assert serving.chat()[0] == 200
        serving.process.send_signal(signal.SIGQUIT)
        state = json.loads(serving.heard('state: ').split('state: ', 1)[1])
        assert state['turns_completed'] == 1 and state['ready'] is True, state
        assert serving.chat()[0] == 200


PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'


def spans_go_to_a_collector_under_the_trace_of_the_client(program):
    env = {'OTEL_EXPORTER_OTLP_HEADERS': 'x-scope=a%20b, authorization=Bearer%20k=', 'OTEL_SERVICE_NAME': 'shop'}
    with otlp.Collector() as collector:
        with Serving(program, '--model', 'script:talk.yaml', '--traces', collector.url, '--traces-all',
                     env=env) as serving:
            assert serving.chat(SECRET, {'traceparent': PARENT})[0] == 200
            assert serving.chat(SECRET, {'traceparent': PARENT[:-1] + '0'})[0] == 200  # the client traces none of it
            assert serving.chat(SECRET, {'X-Session-Id': 's1'})[0] == 200
        root, own = collector.named('invoke_agent turnphase')
        assert root['traceId'] == PARENT[3:35] and root['parentSpanId'] == PARENT[36:52], root
        assert own['traceId'] != root['traceId'] and 'parentSpanId' not in own, own
        assert own['attributes']['gen_ai.conversation.id'] == 's1', own
        asked = [span for span in collector.spans if span['name'].startswith('chat')]
        assert [span['parentSpanId'] for span in asked] == [root['spanId'], own['spanId']], asked
        assert asked[0]['attributes']['gen_ai.usage.input_tokens'] == 7, asked
        assert collector.named('turnphase.phase model.post') and not collector.wrong, collector.wrong
        assert collector.resources[0]['service.name'] == 'shop', collector.resources
        assert collector.headers[0]['x-scope'] == 'a b' and collector.headers[0]['authorization'] == 'Bearer k='
        assert not any(word in body for body in collector.bodies for word in (SECRET.encode(), b'One two'))


class Model(http.server.BaseHTTPRequestHandler):
    """Gives one answer, and keeps the headers of each request."""
    seen = []

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        Model.seen.append(self.headers)
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


def a_request_to_a_model_has_the_trace_and_its_own_span(program):
    models = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Model)
    threading.Thread(target=models.serve_forever, args=(0.01,), daemon=True).start()
    with otlp.Collector() as collector:
        with Serving(program, '--model', 'openai:m', '--base-url', f'http://127.0.0.1:{models.server_port}/v1',
                     '--traces', collector.url) as serving:
            assert serving.chat('hi', {'traceparent': PARENT})[0] == 200
            assert serving.chat('hi', {'traceparent': PARENT[:-1] + '0'})[0] == 200
        (asked,) = collector.named('chat m')
        first, second = Model.seen
        assert first['traceparent'] == f'00-{PARENT[3:35]}-{asked["spanId"]}-01', (first['traceparent'], asked)
        assert second['traceparent'] is None, second['traceparent']  # the client traces none of it
    models.shutdown()
    models.server_close()


def a_collector_that_is_not_there_stops_nobody(program):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        url = f'http://127.0.0.1:{listener.getsockname()[1]}/v1/traces'
    serving = Serving(program, '--model', 'script:talk.yaml', '--traces', url)
    assert serving.chat()[0] == 200
    assert 'spans wait' in serving.heard('traces: ')
    serving.process.send_signal(signal.SIGTERM)
    assert '2 spans were dropped' in serving.heard(' were dropped')
    assert serving.process.wait(LIMIT_S) == 0
    serving.process.stderr.close()
    serving.directory.cleanup()


def options_of_traces_that_are_wrong_are_named(program):
    for words, env, part in (
            (['--traces', 'collector:4318'], {}, 'url is where a collector takes'),
            (['--traces-all'], {}, '--traces-all needs --traces URL'),
            (['--traces-sample', '10'], {}, '--traces-sample needs --traces URL'),
            (['--traces', 'http://127.0.0.1:1', '--traces-sample', '0'], {}, '1 to 1000'),
            (['--traces', 'http://127.0.0.1:1'], {'OTEL_EXPORTER_OTLP_HEADERS': 'secret'}, 'is name=value'),
            (['--traces', 'http://127.0.0.1:1'], {'OTEL_EXPORTER_OTLP_HEADERS': 'a=%0Asecret'}, 'is name=value')):
        with tempfile.TemporaryDirectory() as place:
            with open(place + '/talk.yaml', 'w', encoding='utf-8') as file:
                file.write(TALK)
            ran = subprocess.run([program, 'serve', '--model', 'script:talk.yaml', '--http', '127.0.0.1:0', *words],
                                 cwd=place, env={**os.environ, 'HOME': place, **env}, capture_output=True, text=True,
                                 timeout=LIMIT_S, check=False)
            assert ran.returncode in (2, 78) and part in ran.stderr and 'secret' not in ran.stderr, (words, ran)


CASES = [a_request_has_a_line_without_what_it_says, a_client_that_leaves_has_a_line,
         the_log_goes_to_standard_output_and_is_opened_again, the_numbers_are_right_in_both_formats,
         prometheus_reads_both_formats, metrics_need_the_operators_key_where_clients_need_one,
         admin_is_not_there_without_a_key_and_only_for_its_key, a_question_is_seen_and_answered,
         operators_answer_where_nothing_is_kept,
         a_question_that_is_answered_elsewhere_is_over_here, a_tool_that_is_none_is_counted_without_its_name,
         another_hash_denies_and_a_cancel_ends_the_question, events_are_filtered_and_a_wrong_filter_is_named,
         a_reader_that_is_too_slow_loses_events_and_is_told_how_many, the_rest_of_admin_answers,
         the_page_may_run_its_own_script_only,
         a_socket_of_a_manager_is_listened_on_and_it_is_notified, what_a_manager_passes_wrongly_is_named,
         sigquit_prints_the_state, spans_go_to_a_collector_under_the_trace_of_the_client,
         a_request_to_a_model_has_the_trace_and_its_own_span, a_collector_that_is_not_there_stops_nobody,
         options_of_traces_that_are_wrong_are_named]


def play(cases, program):
    """Prints TAP; a case returns why it is left out, or nothing.  @return how many failed."""
    failed = 0
    print(f'1..{len(cases)}', flush=True)
    for number, case in enumerate(cases, 1):
        try:
            skip = case(program)
            print(f'ok {number} - {case.__name__}' + (f' # SKIP {skip}' if skip else ''), flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            line = error.__traceback__.tb_next.tb_lineno
            why = str(error)[:600]
            print(f'not ok {number} - {case.__name__}\n# line {line}: {type(error).__name__}: {why}', flush=True)
    return failed


if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
