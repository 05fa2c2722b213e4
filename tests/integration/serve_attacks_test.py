#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What no honest client sends to turnphase serve: requests that never end, bodies that are too large, bytes that are no
text, paths that look like others, requests with two lengths, pages of other sites. After each the server answers.

    python3 tests/integration/serve_attacks_test.py TURNPHASE

Prints TAP.
"""

import concurrent.futures
import json
import os
import re
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_slow_test import is_sanitized  # noqa: E402 pylint: disable=wrong-import-position
from serve_test import KEY, LIMIT_S, Serving, play, until  # noqa: E402 pylint: disable=wrong-import-position

ADMIN = 'operator-key-0123456789'
OPTIONS = ['--model', 'script:talk.yaml', '--keys', 'keys', '--admin-key', 'admin', '--access-log', 'log']
FILES = {'admin': ADMIN + '\n'}
BEARER = f'Authorization: Bearer {KEY}\r\n'.encode()
OPERATOR = f'Authorization: Bearer {ADMIN}\r\n'.encode()
CHAT = b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n' + BEARER
BODY = json.dumps({'model': 'any', 'messages': [{'role': 'user', 'content': 'hi'}]}).encode()
HALF_SENT = 200
BODY_MAX = 32 << 20
MEMORY_MAX = 3 * BODY_MAX  # the server may hold one whole body, and a copy while its memory grows


def begin(program):
    return Serving(program, *OPTIONS, files=FILES, env={'MALLOC_PERTURB_': '0'})  # this variable would write to unused
                                                                                  # memory


def memory_peak(serving):
    with open(f'/proc/{serving.process.pid}/status', encoding='utf-8') as file:
        return int(re.search(r'^VmHWM:\s+(\d+)', file.read(), re.M).group(1)) << 10


def exchange(serving, data, ends=True):
    """Returns the bytes that come back until the server closes. A client that closes its sending side has left: then no
    turn is answered."""
    with socket.create_connection(('127.0.0.1', serving.port), LIMIT_S) as client:
        said = b''
        try:
            client.sendall(data)
            if ends:
                client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                said += piece
        except (ConnectionResetError, BrokenPipeError):
            pass
    return said


def exchanges(serving, requests, ends=False):
    """Those of each request, many at once: the server looks twice a second whether a client has left."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        return list(pool.map(lambda data: exchange(serving, data, ends), requests))


def statuses(said):
    return [int(number) for number in re.findall(rb'^HTTP/1\.[01] (\d+)', said, re.M)]


def lives(serving):
    status, answer = serving.chat(headers={'Authorization': 'Bearer ' + KEY})
    assert status == 200, answer


def send_until_closed(serving, head, piece, most):
    """@return how many bytes were accepted, and the answer."""
    sent, said = 0, b''
    with socket.create_connection(('127.0.0.1', serving.port), LIMIT_S) as client:
        try:
            client.sendall(head)
            while sent < most:
                client.sendall(piece)
                sent += len(piece)
                client.setblocking(False)
                try:
                    said += client.recv(4096)
                except BlockingIOError:
                    pass
                client.settimeout(LIMIT_S)
        except (ConnectionResetError, BrokenPipeError):
            pass
    return sent, said


def clients_that_send_slowly_hold_nobody_up(program):
    with begin(program) as serving:
        parts = [b'P', CHAT[:30], CHAT, CHAT + b'Content-Length: 99\r\n\r\n{"mod']
        slow = []
        for number in range(HALF_SENT):
            client = socket.create_connection(('127.0.0.1', serving.port), LIMIT_S)
            client.sendall(parts[number % len(parts)])
            slow.append(client)
        began = time.monotonic()
        for _ in range(20):
            lives(serving)
        assert time.monotonic() - began < 20
        for client in slow:
            client.close()
        lives(serving)


def a_head_without_an_end_is_cut_off(program):
    with begin(program) as serving:
        for piece in (b'X-Pad: ' + b'a' * 100 + b'\r\n', b'a' * 512):
            sent, said = send_until_closed(serving, CHAT + b'X: ', piece, 16 << 20)
            assert sent < 8 << 20, sent  # the most that the kernel's socket accepts
            assert not said or statuses(said)[0] in (400, 413, 431), said
            lives(serving)
        sent, _ = send_until_closed(serving, b'GET /', b'a' * 512, 16 << 20)
        assert sent < 8 << 20, sent
        lives(serving)


def a_body_of_a_gigabyte_is_refused_and_not_kept(program):
    with begin(program) as serving:
        said = exchange(serving, CHAT + b'Content-Length: 1073741824\r\n\r\n{')
        assert statuses(said) == [413], said
        lengths = (b'18446744073709551616', b'99999999999999999999999', b'-1', b'0x10', b'1e3', b'')
        heads = [CHAT + b'Content-Length: ' + length + b'\r\n\r\n' + BODY for length in lengths]
        for length, said in zip(lengths, exchanges(serving, heads, ends=True)):
            assert all(400 <= status < 500 for status in statuses(said)), (length, said)
        piece = b'100000\r\n' + b' ' * (1 << 20) + b'\r\n'  # chunked: its length is not known before
        sent, said = send_until_closed(serving, CHAT + b'Transfer-Encoding: chunked\r\n\r\n', piece, 1 << 30)
        assert sent <= 6 * BODY_MAX, sent
        assert is_sanitized(program) or memory_peak(serving) < MEMORY_MAX, memory_peak(serving)
        lives(serving)


def requests_in_one_piece_are_answered_in_order_or_refused(program):
    with begin(program) as serving:
        one = CHAT + b'Content-Length: %d\r\n\r\n' % len(BODY) + BODY
        live = b'GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n'
        end = b'GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
        with socket.create_connection(('127.0.0.1', serving.port), LIMIT_S) as client:
            client.sendall((one + live) * 50 + end)
            said = b''
            while piece := client.recv(1 << 16):
                said += piece
        assert statuses(said) == [200, 200] * 50 + [404], statuses(said)
        bodies = re.findall(rb'"status":"ok"|One two three', said)
        assert bodies == [b'One two three', b'"status":"ok"'] * 50


# A second request that hides in the body of the first.
SMUGGLED = b'GET /v1/models HTTP/1.1\r\nHost: localhost\r\n' + BEARER + b'\r\n'
TWO_LENGTHS = [
    b'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    b'Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n',
    b'Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}',
    b'Content-Length: 0\r\nContent-Length: 2\r\n\r\n{}',
    b'Content-Length: 0, 2\r\n\r\n{}',
    b'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n',
    b'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    b'Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n',
    b'Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n',
    b'Transfer-Encoding: chunked\r\n\r\nz\r\n\r\n',
]


def a_request_with_two_lengths_hides_no_other(program):
    with begin(program) as serving:
        requests = [CHAT + lengths + SMUGGLED for lengths in TWO_LENGTHS]
        for lengths, said in zip(TWO_LENGTHS, exchanges(serving, requests, ends=True)):
            assert b'"list"' not in said, (lengths, said)
            assert all(status >= 400 for status in statuses(said)), (lengths, said)
        lives(serving)


NO_TEXT = [b'\xff\xfe', b'\xc0\xaf', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\xe2\x82', b'\x80',
           b'\xf8\x88\x80\x80\x80']


def bytes_that_are_no_text_are_refused_everywhere(program):
    def sized(head, body):
        return CHAT + head + b'Connection: close\r\nContent-Length: %d\r\n\r\n' % len(body) + body
    with begin(program) as serving:
        for wrong in NO_TEXT:
            bodies = [BODY.replace(word, wrong) for word in (b'hi', b'any', b'role')] + [wrong]
            for said in exchanges(serving, [sized(b'', body) for body in bodies]):
                assert statuses(said) == [400], (wrong, said)
                said.split(b'\r\n\r\n', 1)[1].decode()  # the answer is text
            heads = [name + wrong + b'\r\n' for name in (b'X-Session-Id: ', b'Idempotency-Key: ', b'traceparent: ')]
            for said in exchanges(serving, [sized(head, BODY) for head in heads]):
                assert len(statuses(said)) == 1 and statuses(said)[0] < 500, (wrong, said)
                said.decode()
            said = exchange(serving, b'GET /' + wrong + b' HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
                            ends=False)
            assert statuses(said) in ([404], [400], []), said
        lives(serving)
        until(lambda: serving.lines()[-1]['status'] == 200)  # each line of the log is JSON


PATHS = [
    '/admin/state/', '//admin/state', '/admin//state', '/./admin/state', '/v1/../admin/state', '/admin/../admin/state',
    '/ADMIN/state', '/admin%2fstate', '/%61dmin/state', '/admin/state%00', '/admin/state;x', '/admin;/state',
    '\\admin\\state', '/admin/state%20', '/admin/%2e%2e/admin/state', 'admin/state', '/admin/state%3f',
]


def a_path_that_looks_like_another_is_none(program):
    tail = b' HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n'
    with begin(program) as serving:
        requests = [b'GET ' + path.encode() + tail + key + b'\r\n' for path in PATHS for key in (OPERATOR, b'')]
        for request, said in zip(requests, exchanges(serving, requests)):
            assert statuses(said) in ([404], [400], []), (request, said)
        assert statuses(exchange(serving, b'GET /admin/state' + tail + OPERATOR + b'\r\n', ends=False)) == [200]
        for method in (b'TRACE', b'CONNECT', b'PUT', b'PATCH', b'OPTIONS', b'get', b'GETX', b'POST'):
            said = exchange(serving, method + b' /admin/state' + tail + b'\r\n', ends=False)
            assert statuses(said) and statuses(said)[0] >= 400, (method, said)


FOREIGN = [
    b'Origin: https://evil.example', b'Origin: null', b'Origin: http://localhost.evil.example',
    b'Origin: http://127.0.0.1.evil.example', b'Sec-Fetch-Site: cross-site', b'Sec-Fetch-Site: same-site',
    b'Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost',
]


def a_page_of_another_site_does_nothing_on_admin(program):
    def asking(method, path, lines):
        body = b'{}' if method == 'POST' else b''
        return f'{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n'.encode() + \
            lines + b'\r\n\r\n' + body
    local = b'Host: localhost\r\n'
    with begin(program) as serving:
        routes = (('GET', '/admin/state'), ('POST', '/admin/drain'), ('GET', '/admin/events'),
                  ('POST', '/admin/handlers/trip'))
        requests = [asking(*route, local + OPERATOR + line) for route in routes for line in FOREIGN]
        for request, said in zip(requests, exchanges(serving, requests)):
            assert statuses(said) == [403], (request, said)
            assert b'access-control-allow' not in said.lower(), said
        hosts = ('evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', '')
        requests = [asking('GET', '/admin/state', OPERATOR + b'Host: ' + host.encode()) for host in hosts]
        for host, said in zip(hosts, exchanges(serving, requests)):
            assert statuses(said) and statuses(said)[0] in (400, 403), (host, said)
        keys = ('', ADMIN[:-1], ADMIN + 'x', KEY, ADMIN.upper(), ADMIN + ' x')
        requests = [asking('GET', '/admin/state', local + f'Authorization: Bearer {key}'.encode()) for key in keys]
        for key, said in zip(keys, exchanges(serving, requests)):
            assert not statuses(said) or statuses(said)[0] in (400, 401), (key, said)
        lives(serving)  # its waiting bytes were not read


CASES = [clients_that_send_slowly_hold_nobody_up, a_head_without_an_end_is_cut_off,
         a_body_of_a_gigabyte_is_refused_and_not_kept, requests_in_one_piece_are_answered_in_order_or_refused,
         a_request_with_two_lengths_hides_no_other, bytes_that_are_no_text_are_refused_everywhere,
         a_path_that_looks_like_another_is_none, a_page_of_another_site_does_nothing_on_admin]


if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
