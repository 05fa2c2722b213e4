#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two turnphase serve behind nginx and behind Caddy, with the blocks that docs/serve.md prints: streams, clients that
leave, headers, large bodies, a server that ends, clients of MCP.

    python3 tests/integration/serve_proxies_test.py TURNPHASE [--long]

Prints TAP; what is not installed is skipped. Of a block the addresses, names and certificates are replaced: a proxy
listens on a socket in a directory here. With --long a stream is silent for longer than the proxy waits.
"""

import http.client
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, 'support')]
import otlp  # noqa: E402 pylint: disable=wrong-import-position
from serve_mcp_test import Client  # noqa: E402 pylint: disable=wrong-import-position
from serve_test import KEY, LIMIT_S, PARENT, Serving, play, until  # noqa: E402 pylint: disable=wrong-import-position

NAME = 'llm.example.org'
BEARER = {'Authorization': 'Bearer ' + KEY}
SILENT_S, NGINX_WAITS_S = 40, 20  # serve sends a comment every 15 s
TALKS, MESSAGES = 6, 8
NGINX = """
daemon off;
worker_processes 1;
pid {place}/nginx.pid;
error_log {place}/nginx.error;
{user}
events {{}}
http {{
  access_log off;
  client_body_temp_path {place}/body;
  proxy_temp_path {place}/proxy;
  fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi;
  scgi_temp_path {place}/scgi;
{block}
}}
"""
CADDY = """
{{
  admin off
  auto_https off
}}
{block}
"""


class Model(http.server.ThreadingHTTPServer):
    """Streams two pieces. If it `waits`, the second one is sent when it `goes_on`."""
    daemon_threads = True

    def __init__(self):
        self.seen, self.waits, self.goes_on = [], False, threading.Event()
        super().__init__(('127.0.0.1', 0), Answer)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.goes_on.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # the client has left


class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.server.seen.append((self.headers, [m['content'] for m in body['messages'] if m['role'] != 'system']))
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Connection', 'close')
        self.end_headers()
        self.put({'role': 'assistant', 'content': 'first'}, None)
        if self.server.waits:
            self.server.goes_on.wait()
        self.put({'content': ' second'}, 'stop')
        self.wfile.write(b'data: [DONE]\n\n')

    def put(self, delta, finish):
        chunk = {'id': 'x', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm',
                 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]}
        self.wfile.write(f'data: {json.dumps(chunk)}\n\n'.encode())

    def log_message(self, *_):
        pass


def block_of(language):
    """Returns the block of the page in this language."""
    with open(os.path.join(HERE, '../../docs/serve.md'), encoding='utf-8') as file:
        found = re.findall(rf'^```{language}\n(.*?)^```$', file.read(), re.M | re.S)
    assert len(found) == 1, language
    return found[0]


def replace(block, *pairs):
    for pattern, text in pairs:
        block, count = re.subn(pattern, text, block)
        assert count > 0, pattern
    return block


def configuration(kind, place, ports, read_timeout):
    ours = [(':8080', f':{ports[0]}'), (':8081', f':{ports[1]}')]
    if kind == 'nginx':
        block = replace(block_of('nginx'), *ours, ('listen 443 ssl;', f'listen unix:{place}/socket;'),
                        (r' *ssl_certificate\w* .*\n', ''))
        if read_timeout:
            block = replace(block, ('proxy_read_timeout 15m', f'proxy_read_timeout {read_timeout}s'))
        return NGINX.format(place=place, block=block, user='user root;' if os.getuid() == 0 else '')
    return CADDY.format(block=replace(block_of('caddyfile'), *ours,
                                      (rf'(?m)^{NAME} {{', f'http://{NAME} {{\n    bind unix/{place}/socket')))


class ToSocket(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__(NAME, timeout=LIMIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Behind:
    """Two servers with one history, and a proxy in front of them."""

    def __init__(self, program, kind, collector=None, read_timeout=None):
        self.home = tempfile.TemporaryDirectory()
        self.place = self.home.name
        self.model = Model()
        os.mkdir(self.place + '/files')
        words = ['--model', 'openai:m', '--base-url', f'http://127.0.0.1:{self.model.server_port}/v1', '--keys', 'keys',
                 '--data', self.place + '/kept', '--busy', 'wait', '--access-log', 'log', '--files',
                 self.place + '/files', '--expose', 'tools', *(['--traces', collector.url] if collector else [])]
        self.servers = [Serving(program, *words, env={'OPENAI_API_KEY': 'none'}) for _ in range(2)]
        try:
            self.start(kind, configuration(kind, self.place, [server.port for server in self.servers], read_timeout))
        except BaseException:
            self.__exit__()
            raise

    def start(self, kind, text):
        path = os.path.join(self.place, 'conf')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        words = ['nginx', '-p', self.place, '-c', path] if kind == 'nginx' else [
            'caddy', 'run', '--config', path, '--adapter', 'caddyfile']
        with open(self.place + '/said', 'w', encoding='utf-8') as said:
            self.proxy = subprocess.Popen(words, stdout=said, stderr=said, env={
                **os.environ, 'HOME': self.place, 'XDG_DATA_HOME': self.place, 'XDG_CONFIG_HOME': self.place})
        until(self.takes)

    def takes(self):
        if self.proxy.poll() is not None:
            with open(self.place + '/said', encoding='utf-8') as said:
                raise AssertionError(said.read())
        try:
            connection = ToSocket(self.place + '/socket')
            connection.connect()
            connection.close()
            return True
        except OSError:
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.model.goes_on.set()
        self.proxy.terminate()
        self.proxy.wait(LIMIT_S)
        for server in self.servers:
            server.__exit__(None)
        self.model.__exit__()
        self.home.cleanup()

    def open(self, method, path, body=None, headers=None):
        connection = ToSocket(self.place + '/socket')
        data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, data, {**BEARER, **(headers or {})})
        return connection

    def ask(self, method, path, body=None, headers=None):
        connection = self.open(method, path, body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, response.headers, text

    def chat(self, text='hi', headers=None, **more):
        return self.ask('POST', '/v1/chat/completions', said(text, **more), headers)

    def stream(self):
        self.model.waits = True
        connection = self.open('POST', '/v1/chat/completions', said('hi', stream=True))
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return connection, response

    def lines(self):
        return [line for server in self.servers if os.path.exists(server.place + '/log') for line in server.lines()]


def said(text, **more):
    return {'model': 'any', 'messages': [{'role': 'user', 'content': text}], **more}


def pieces(response):
    """The contents of a stream as they come, and its comments as None."""
    for line in response:
        if line.startswith(b'data: {'):
            for choice in json.loads(line[6:])['choices']:
                if choice['delta'].get('content'):
                    yield choice['delta']['content']
        elif line.startswith(b':'):
            yield None


def a_stream_arrives_piece_by_piece(behind):
    connection, response = behind.stream()
    assert response.headers['Content-Type'].startswith('text/event-stream')
    coming = pieces(response)
    assert next(coming) == 'first'  # the model has not sent more
    behind.model.goes_on.set()
    assert list(coming) == [' second']
    connection.close()
    behind.model.waits = False
    behind.model.goes_on.clear()


def a_client_that_leaves_cancels_its_turn(behind):
    connection, response = behind.stream()
    assert next(pieces(response)) == 'first'
    response.close()
    connection.close()
    until(lambda: any(line.get('left') for line in behind.lines()))
    behind.model.goes_on.set()
    behind.model.waits = False
    behind.model.goes_on.clear()


def headers_have_the_effect_that_is_said(behind, collector):
    forged = {'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Host': 'evil.example', 'X-Real-IP': '203.0.113.7',
              'Forwarded': 'for=203.0.113.7;host=evil.example', 'traceparent': PARENT}
    before = len(behind.model.seen)
    status, _, text = behind.chat(headers=forged)
    assert status == 200 and json.loads(text)['choices'][0]['message']['content'] == 'first second', text
    assert behind.model.seen[before][0]['traceparent'].split('-')[1] == PARENT[3:35]
    assert '203.0.113' not in json.dumps(behind.lines()) and 'evil' not in json.dumps(behind.lines())
    until(lambda: collector.named('invoke_agent turnphase'))
    assert behind.ask('POST', '/v1/chat/completions', said('hi'), {'Authorization': 'Bearer wrong'})[0] == 401
    for path in ('/metrics', '/admin', '/admin/state', '/v2', '/mcp/'):
        status, _, text = behind.ask('GET', path)
        assert status == 404 or (status == 200 and text == ''), (path, text)
    passed = {line['route'] for line in behind.lines()}
    assert passed <= {'/v1/chat/completions', '/health/ready'}, passed  # Caddy itself requests the second one


def a_large_body_passes_and_one_that_is_too_large_does_not(behind):
    assert behind.chat('x' * (2 << 20))[0] == 200
    try:
        assert behind.chat('x' * (33 << 20))[0] == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # the answer came before the end of the body


def a_session_is_at_both_servers(behind):
    for number in range(1, MESSAGES + 1):
        status, _, text = behind.chat(f'message {number}', {'X-Session-Id': 's'})
        assert status == 200, text
        assert len(behind.model.seen[-1][1]) == 2 * number - 1, behind.model.seen[-1][1]
    assert all(server.lines() for server in behind.servers)


def clients_of_mcp_stay_at_one_server(behind):
    for version in ('2025-11-25', '2026-07-28'):
        client = Client(behind, version)
        for number in range(TALKS):
            assert 'files_read' in client.tools(), number
        assert 'error' not in client.call('files_list')


def talk(behind):
    return [behind.chat(headers={'X-Session-Id': 's'})[0] for _ in range(TALKS)]


def a_server_that_ends_is_found_out(behind, kind):
    first = behind.servers.pop(0)
    first.__exit__(None)
    until_s = time.monotonic() + LIMIT_S
    while kind == 'caddy' and set(statuses := talk(behind)) != {200}:  # it has not checked the server's health yet
        assert set(statuses) <= {200, 502} and time.monotonic() < until_s, statuses
    assert set(talk(behind)) == {200}


def play_proxy(program, kind):
    if not shutil.which(kind, path=os.environ.get('PATH', '') + ':/usr/sbin'):
        return f'{kind} is not installed'
    with otlp.Collector() as collector, Behind(program, kind, collector) as behind:
        a_stream_arrives_piece_by_piece(behind)
        a_client_that_leaves_cancels_its_turn(behind)
        headers_have_the_effect_that_is_said(behind, collector)
        a_large_body_passes_and_one_that_is_too_large_does_not(behind)
        a_session_is_at_both_servers(behind)
        clients_of_mcp_stay_at_one_server(behind)
        a_server_that_ends_is_found_out(behind, kind)
    return None


def play_silence(program, kind):
    if not shutil.which(kind, path=os.environ.get('PATH', '') + ':/usr/sbin'):
        return f'{kind} is not installed'
    with Behind(program, kind, read_timeout=NGINX_WAITS_S) as behind:
        connection, response = behind.stream()
        coming = pieces(response)
        assert next(coming) == 'first'
        threading.Timer(SILENT_S, behind.model.goes_on.set).start()
        began = time.monotonic()
        rest = list(coming)
        assert rest[-1] == ' second' and rest.count(None) >= 2 and time.monotonic() - began > SILENT_S - 1, rest
        connection.close()
    return None


def behind_nginx(program):
    return play_proxy(program, 'nginx')


def behind_caddy(program):
    return play_proxy(program, 'caddy')


def a_silent_stream_outlives_the_limit_of_nginx(program):
    return play_silence(program, 'nginx')


def a_silent_stream_goes_on_behind_caddy(program):
    return play_silence(program, 'caddy')


CASES = [behind_nginx, behind_caddy]
LONG = [a_silent_stream_outlives_the_limit_of_nginx, a_silent_stream_goes_on_behind_caddy]

if __name__ == '__main__':
    os.environ['PATH'] = os.environ.get('PATH', '') + ':/usr/sbin'  # the folder of nginx
    sys.exit(1 if play(LONG if '--long' in sys.argv else CASES, os.path.abspath(sys.argv[1])) else 0)
