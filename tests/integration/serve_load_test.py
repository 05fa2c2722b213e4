#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many clients of turnphase serve: clients that leave at random, streams that stay open, and an end under load.

    python3 tests/integration/serve_load_test.py TURNPHASE [--long]

Prints TAP. With --long 100,000 clients leave and 10,000 streams are open; without, 2,000 and 300.
"""

import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import LIMIT_S, Serving, play, until  # noqa: E402 pylint: disable=wrong-import-position

LONG = '--long' in sys.argv
CLIENTS = 100000 if LONG else 2000
AT_ONCE = 200
STREAMS = 10000 if LONG else 300
STREAM_BYTES_MAX = 48 << 10  # with the memory of libcurl for the request to the model
SESSIONS = 40000 if LONG else 600
TURNS = 1000 if LONG else 100
RESET = struct.pack('ii', 1, 0)
SEED = int(os.environ.get('TURNPHASE_SEED', random.randrange(1 << 32)))

CHUNK = {'id': 'x', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm',
         'choices': [{'index': 0, 'delta': {'role': 'assistant', 'content': 'word '}, 'finish_reason': None}]}
EVENT = f'data: {json.dumps(CHUNK)}\n\n'.encode()
HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n'


# ---- the model: a process of its own, whose answers begin and never end ----

async def answer(reader, writer):
    try:
        head = await reader.readuntil(b'\r\n\r\n')
        await reader.readexactly(int(re.search(rb'(?i)content-length: (\d+)', head).group(1)))
        writer.write(HEAD + EVENT)
        while True:  # reads until the other side leaves
            try:
                await asyncio.wait_for(reader.read(1), 20)
                break
            except asyncio.TimeoutError:
                writer.write(EVENT)
    except (OSError, asyncio.IncompleteReadError):
        pass
    writer.close()


async def serve_model():
    server = await asyncio.start_server(answer, '127.0.0.1', 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Model:
    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), '--model'], stdout=subprocess.PIPE,
                                        text=True)
        self.options = ['--model', 'openai:m', '--base-url',
                        f'http://127.0.0.1:{int(self.process.stdout.readline())}/v1']
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


# ---- what is asked of the server ----

def numbers(serving):
    return {name: float(value) for name, value in
            re.findall(r'^turnphase_(\S+) (\S+)$', serving.ask('GET', '/metrics')[2], re.M)}


def status_of(serving, word):
    with open(f'/proc/{serving.process.pid}/status', encoding='utf-8') as file:
        return int(re.search(rf'^{word}:\s+(\d+)', file.read(), re.M).group(1)) << 10


def descriptors_of(serving):
    return len(os.listdir(f'/proc/{serving.process.pid}/fd'))


def nothing_is_open(serving, sessions=0):
    seen = numbers(serving)
    names = ('http_requests_open', 'turns_open', 'turns_waiting', 'turns_queued', 'tokens_open', 'calls_waiting')
    return all(seen.get(name, 0) == 0 for name in names) and seen['sessions_open'] == sessions and seen


def request_of(session=None, stream=True):
    body = json.dumps({'model': 'any', 'stream': stream, 'messages': [{'role': 'user', 'content': 'hi'}]})
    named = f'X-Session-Id: {session}\r\n' if session else ''
    return (f'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{named}'
            f'Content-Length: {len(body)}\r\n\r\n{body}').encode()


# ---- clients that leave ----

async def leave_somewhere(port, dice, counts):
    """A client that ends, in one of five ways, anywhere in its request or its answer."""
    reader, writer = await asyncio.open_connection('127.0.0.1', port)
    request, way = request_of(stream=dice.random() < 0.7), dice.randrange(5)
    counts[way] += 1
    try:
        if way == 0:  # within the request
            request = request[:dice.randrange(len(request))]
        writer.write(request)
        await writer.drain()
        if way >= 2:
            await asyncio.sleep(dice.random() * 0.01)
        if way >= 3:  # within the answer
            await asyncio.wait_for(reader.read(1 + dice.randrange(400)), 0.05 if way == 3 else 5)
        if way == 4 and dice.random() < 0.5:  # sends one more request in the same connection, and does not read its
                                              # answer
            writer.write(request_of())
    except (OSError, asyncio.TimeoutError):
        pass
    if dice.random() < 0.5:  # leaves without sending an end
        writer.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def many_leave(port, count, seed):
    dice, counts, left = random.Random(seed), [0] * 5, iter(range(count))

    async def some():
        for _ in left:
            await leave_somewhere(port, dice, counts)
    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return counts


def clients_that_leave_at_random_leave_nothing_open(program):
    print(f'# TURNPHASE_SEED={SEED}')
    for options, count in ((['--model', 'script:talk.yaml'], CLIENTS), (None, CLIENTS // 20)):
        with Model() as model, Serving(program, *(options or model.options)) as serving:
            asyncio.run(many_leave(serving.port, AT_ONCE, SEED))
            until(lambda: nothing_is_open(serving))
            memory, descriptors, began = status_of(serving, 'VmRSS'), descriptors_of(serving), time.monotonic()
            counts = asyncio.run(many_leave(serving.port, count, SEED + 1))
            duration_s = time.monotonic() - began
            seen = until(lambda: nothing_is_open(serving))
            until(lambda: descriptors_of(serving) <= descriptors + 64)  # connections to the model that are kept
            turns = {name: int(number) for name, number in seen.items() if name.startswith('turns_total')}
            grown = status_of(serving, 'VmRSS') - memory
            print(f'# {count} clients left {counts} in {duration_s:.1f} s: {turns}; {grown >> 10} KiB more')
            assert sum(counts) == count and grown < 32 << 20, grown


# ---- streams that stay open ----

async def open_streams(port, count, each):
    async def one():
        reader, writer = await asyncio.open_connection('127.0.0.1', port)
        writer.write(request_of())
        await reader.readuntil(b'word ')
        return writer
    writers = []
    while len(writers) < count:
        writers += await asyncio.gather(*(one() for _ in range(min(100, count - len(writers)))))
    each()
    for writer in writers:
        writer.close()


def streams_that_fit():
    """Each stream needs two descriptors of the server: that of its client, and that of the request to the model."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return STREAMS if hard == resource.RLIM_INFINITY else min(STREAMS, hard // 2 - 200)


def open_streams_cost_little(program):
    count = streams_that_fit()
    with Model() as model, Serving(program, *model.options) as serving:
        asyncio.run(open_streams(serving.port, 20, lambda: None))
        until(lambda: nothing_is_open(serving))
        before, seen = status_of(serving, 'VmRSS'), {}

        def look():
            seen.update(bytes=status_of(serving, 'VmRSS') - before, open=numbers(serving)['http_requests_open'])
        asyncio.run(open_streams(serving.port, count, look))
        until(lambda: nothing_is_open(serving))
        each = seen['bytes'] // count
        print(f'# {count} open streams, with their turns and requests to a model: {each} bytes each')
        assert seen['open'] == count, seen
        assert each <= STREAM_BYTES_MAX or not LONG, each


# ---- the end ----

def read_answer(file):
    head = b''
    while not head.endswith(b'\r\n\r\n'):
        line = file.readline()
        assert line, head
        head += line
    assert head.startswith(b'HTTP/1.1 200'), head
    file.read(int(re.search(rb'(?i)content-length: (\d+)', head).group(1)))


def an_end_under_load_comes_within_its_limit(program):
    with Model() as model:
        agents = {'agents': [{'id': 'any', 'model': 'script:talk.yaml'},
                             {'id': 'endless', 'model': 'openai:m', 'base_url': model.options[-1]}]}
        serving = Serving(program, 'agents.yaml', '--sessions-max', str(SESSIONS + TURNS),
                          files={'agents.yaml': json.dumps(agents)})
        connection = socket.create_connection(('127.0.0.1', serving.port), LIMIT_S)
        file = connection.makefile('rb')
        for first in range(0, SESSIONS, AT_ONCE):
            connection.sendall(b''.join(request_of(f's{first + number}', stream=False) for number in range(AT_ONCE)))
            for _ in range(AT_ONCE):
                read_answer(file)
        connection.close()
        assert numbers(serving)['sessions_open'] == SESSIONS
        print(f'# {SESSIONS} idle sessions: {status_of(serving, "VmRSS") // SESSIONS} bytes each, at most')
        body = json.dumps({'model': 'endless', 'stream': True, 'messages': [{'role': 'user', 'content': 'hi'}]})
        request = f'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}'
        clients = [socket.create_connection(('127.0.0.1', serving.port), LIMIT_S) for _ in range(TURNS)]
        for client in clients:
            client.sendall(request.encode())
        until(lambda: numbers(serving)['turns_open'] == TURNS)
        began = time.monotonic()
        serving.process.send_signal(signal.SIGTERM)
        assert serving.process.wait(LIMIT_S) == 0
        duration_s = time.monotonic() - began
        print(f'# {SESSIONS} idle sessions and {TURNS} turns that never end: it ended after {duration_s:.2f} s')
        assert 30 <= duration_s < 40, duration_s
        ends = [client.recv(1 << 20) for client in clients]
        assert all(b'error' in text or b'word' in text for text in ends)
        for client in clients:
            client.close()
        serving.process.stderr.close()
        serving.directory.cleanup()


CASES = [clients_that_leave_at_random_leave_nothing_open, open_streams_cost_little] + \
    ([an_end_under_load_comes_within_its_limit] if LONG else [])


if __name__ == '__main__':
    if '--model' in sys.argv:
        streams_that_fit()
        asyncio.run(serve_model())
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
