#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator of turnphase serve has: the access log, the metrics, and what signals do.

    python3 tests/integration/serve_test.py TURNPHASE

Prints TAP. Nothing waits for time where it can wait for an event.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

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
ASKING_FILES = {'tools.yaml': TOOLS, 'hooks/asks.yaml': json.dumps(GUARD)}
LOOK = {'model': 'any', 'messages': [{'role': 'user', 'content': 'hi'}],
        'tools': [{'type': 'function', 'function': {'name': 'look', 'parameters': {
            'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'],
            'additionalProperties': False}}}]}


class Serving:
    """One process. Its files are in a directory of its own."""

    def __init__(self, program, *options, files=None, env=None, before=None, **popen):
        self.directory = tempfile.TemporaryDirectory()
        self.place = self.directory.name
        for name, text in {'talk.yaml': TALK, 'keys': KEY + ' acme\n', **(files or {})}.items():
            self.write(name, text)
        self.env = {**os.environ, 'HOME': self.place, 'XDG_CONFIG_HOME': self.place + '/config', **(env or {})}
        self.program = program
        if before:
            before(self)
        self.process = subprocess.Popen(
            [program, 'serve', '--http', '127.0.0.1:0', '--no-memory', *options], cwd=self.place, text=True,
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


def trust(serving):
    subprocess.run([serving.program, 'hooks', 'trust', 'hooks'], cwd=serving.place, env=serving.env, check=True,
                   stdout=subprocess.DEVNULL, timeout=LIMIT_S)


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
        assert serving.chat(headers=bearer)[0] == 401  # it is no key of clients


CASES = [a_request_has_a_line_without_what_it_says, a_client_that_leaves_has_a_line,
         the_log_goes_to_standard_output_and_is_opened_again, the_numbers_are_right_in_both_formats,
         metrics_need_the_operators_key_where_clients_need_one]


def main(program):
    failed = 0
    print(f'1..{len(CASES)}', flush=True)
    for number, case in enumerate(CASES, 1):
        try:
            skip = case(program)
            print(f'ok {number} - {case.__name__}' + (f' # SKIP {skip}' if skip else ''), flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f'not ok {number} - {case.__name__}\n# {type(error).__name__}: {error}', flush=True)
    return failed


if __name__ == '__main__':
    sys.exit(1 if main(os.path.abspath(sys.argv[1])) else 0)
