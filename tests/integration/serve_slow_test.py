#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of turnphase serve that read more slowly than the model writes: the answer is held back where it comes from.

    python3 tests/integration/serve_slow_test.py TURNPHASE [--long]

Prints TAP. The model is a server here that writes as fast as it is read, and counts. With --long clients read 10 KB/s
each, and more read nothing.

What a slow client costs is the memory of what waits for it. A turn keeps its answer for the history, which grows while
even a slow client reads: so the memory is compared with that of clients that have read all of as long an answer.
"""

import http.server
import json
import os
import re
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import LIMIT_S, Serving, play, until  # noqa: E402 pylint: disable=wrong-import-position

PIECE = 'abcdefgh' * 64
ANSWER_BYTES = 8 << 20  # bytes of text; without holding back, more than 4 MiB would wait, and the turn would be
                        # cancelled
HELD_BYTES_MAX = 256 << 10
LONG = '--long' in sys.argv
READERS = 200 if LONG else 20
SLOW_READERS, SLOW_S, SLOW_BYTES = 20, 20, 1000  # each reads so many bytes ten times a second
BUFFERS_MAX = 4 << 20  # what the kernel takes of a stream from the model; it does not grow with the answer


def event(delta, finish):
    chunk = {'id': 'x', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm',
             'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]}
    return f'data: {json.dumps(chunk)}\n\n'.encode()


EVENT = event({'role': 'assistant', 'content': PIECE}, None)
ESTABLISHED = '01'  # in /proc/net/tcp


class Model(http.server.ThreadingHTTPServer):
    """Writes an endless answer, or one of `size` bytes of text; `written` counts what has left, of all answers."""
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, size=ANSWER_BYTES, stalls=False):
        self.size, self.written, self.broken = size, 0, 0
        self.goes_on = threading.Event()  # sets when an answer that stalls ends
        if not stalls:
            self.goes_on.set()
        super().__init__(('127.0.0.1', 0), Answer)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def options(self):
        return '--model', 'openai:m', '--base-url', f'http://127.0.0.1:{self.server_port}/v1'

    def has_passed(self):
        """Bytes of text that have left and do not wait in the sockets between."""
        with open('/proc/net/tcp', encoding='ascii') as file:
            rows = [line.split() for line in file.readlines()[1:]]
        waits = 0
        for _, ours, theirs, state, queues, *_ in rows:
            sent, received = (int(number, 16) for number in queues.split(':'))
            if state == ESTABLISHED:
                waits += sent * ours.endswith(f':{self.server_port:04X}')
                waits += received * theirs.endswith(f':{self.server_port:04X}')
        return self.written - waits * len(PIECE) // len(EVENT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        self.broken += 1


class Answer(http.server.BaseHTTPRequestHandler):
    def setup(self):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        super().setup()

    def do_POST(self):
        messages = json.loads(self.rfile.read(int(self.headers['Content-Length'])))['messages']
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Connection', 'close')
        self.end_headers()
        said = messages[-1]['content']
        calls = said.isdigit()  # the answer has this many bytes of text, and ends with a call
        for _ in range((int(said) if calls else self.server.size) // len(PIECE) // 16):
            self.wfile.write(EVENT * 16)
            self.server.written += 16 * len(PIECE)
        self.server.goes_on.wait()
        call = {'index': 0, 'id': 'c1', 'type': 'function', 'function': {'name': 'nothing', 'arguments': '{}'}}
        last = event({'tool_calls': [call]} if calls else {}, 'tool_calls' if calls else 'stop')
        self.wfile.write(last + b'data: [DONE]\n\n')

    def log_message(self, *_):
        pass


class Reader:
    """A client that has requested a stream and reads only when the test demands it."""

    def __init__(self, serving, text='hi'):
        self.socket = socket.socket()
        self.socket.settimeout(LIMIT_S)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        self.socket.connect(('127.0.0.1', serving.port))
        body = json.dumps({'model': 'any', 'stream': True, 'messages': [{'role': 'user', 'content': text}]})
        self.socket.sendall(f'POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\n'
                            f'Content-Length: {len(body)}\r\n\r\n{body}'.encode())
        self.text = bytearray()

    def read(self, size=1 << 20):
        got = self.socket.recv(size)
        self.text += got
        return len(got)

    def rest(self):
        while self.read():
            pass
        self.socket.close()
        return self.text


def number_of(serving, name):
    found = re.search(rf'^turnphase_{name} (\S+)$', serving.ask('GET', '/metrics')[2], re.M)
    return float(found.group(1)) if found else 0


def ended(serving, outcome):
    return number_of(serving, f'turns_total{{outcome="{outcome}"}}')


def memory_of(serving):
    with open(f'/proc/{serving.process.pid}/status', encoding='utf-8') as file:
        return int(re.search(r'VmRSS:\s+(\d+) kB', file.read()).group(1)) << 10


def pauses(model):
    """Whether the model sends nothing while /metrics is requested 20 times."""
    before = model.written
    return lambda serving: [number_of(serving, 'ready') for _ in range(20)] and model.written == before


def wait_for_pause(serving, model):
    until(lambda: number_of(serving, 'answers_held_total') > 0)
    until(lambda: pauses(model)(serving))


def a_slow_reader_holds_the_model_back_and_gets_all(program):
    with Model() as model, Serving(program, *model.options()) as serving:
        reader = Reader(serving)
        wait_for_pause(serving, model)
        assert model.written < BUFFERS_MAX, model.written
        held = model.written
        for _ in range(40):
            reader.read()
        until(lambda: model.written > held or reader.read() == 0)  # the answer goes on by itself
        text = reader.rest()
        assert text.count(PIECE.encode()) == ANSWER_BYTES // len(PIECE), text[-200:]
        assert b'"finish_reason":"stop"' in text and text.endswith(b'data: [DONE]\n\n'), text[-200:]
        assert ended(serving, 'completed') == 1


def a_fast_reader_beside_it_is_not_held(program):
    with Model() as model, Serving(program, *model.options()) as serving:
        slow = Reader(serving)
        wait_for_pause(serving, model)
        assert Reader(serving).rest().count(PIECE.encode()) == ANSWER_BYTES // len(PIECE)
        assert number_of(serving, 'http_requests_open') == 1
        slow.socket.close()
        until(lambda: ended(serving, 'cancelled') == 1)


def a_client_that_leaves_ends_what_it_held(program):
    with Model() as model, Serving(program, *model.options()) as serving:
        reader = Reader(serving)
        wait_for_pause(serving, model)
        reader.socket.close()
        until(lambda: ended(serving, 'cancelled') == 1 and model.broken == 1)


def a_turn_that_goes_on_is_not_held_by_who_has_left(program):
    with Model() as model, Serving(program, *model.options(), '--goes-on') as serving:
        reader = Reader(serving)
        wait_for_pause(serving, model)
        reader.socket.close()
        until(lambda: ended(serving, 'completed') == 1)
        assert model.written == ANSWER_BYTES


def each_answer_of_a_turn_is_held(program):
    """The first answers end while some bytes of them wait, with sizes that vary: the second answers are held back,
    too."""
    if not LONG:
        return 'it takes 10 s: --long'
    with Model() as model, Serving(program, *model.options()) as serving:
        readers = [Reader(serving, str(size << 10)) for size in range(200, 680, 2)]
        until(lambda: number_of(serving, 'answers_held_total') >= len(readers))
        until(lambda: pauses(model)(serving))
        assert ended(serving, 'cancelled') == 0
        assert number_of(serving, 'http_requests_open') == len(readers)
        for reader in readers:
            reader.socket.close()
        until(lambda: ended(serving, 'cancelled') == len(readers))
    return None


def the_deadline_of_a_turn_does_not_wait(program):
    with Model() as model, Serving(program, *model.options(), '--max-time', '1') as serving:
        reader = Reader(serving)
        wait_for_pause(serving, model)
        until(lambda: ended(serving, 'timed_out') == 1 and model.broken == 1)
        text = reader.rest()  # the bytes that waited, and the reason why there are no more
        assert b'"code":"timeout"' in text[-1000:], text[-1000:]


def an_end_does_not_wait_for_a_reader(program):
    if not LONG:
        return 'it takes 3 s: --long'
    with Model() as model:
        serving = Serving(program, *model.options(), '--max-time', '1')
        reader = Reader(serving)
        wait_for_pause(serving, model)
        serving.__exit__(None)  # SIGTERM: the turn ends by its limit, and the front within 2 s more
        reader.socket.close()
    return None


def memory_of_each(serving, readers, ready, count=READERS):
    before = memory_of(serving)
    readers.extend(Reader(serving) for _ in range(count))
    until(ready)
    return (memory_of(serving) - before) // count


def memory_of_who_has_read_all(program, written, count=READERS):
    """Of each of so many clients whose models have written so much, and go on."""
    readers, threads = [], []
    with Model(size=written, stalls=True) as model, Serving(program, *model.options()) as serving:
        def all_read():
            if not threads:
                threads.extend(threading.Thread(target=reader.rest) for reader in readers)
                for thread in threads:
                    thread.start()
            return sum(len(reader.text) for reader in readers) >= count * (written - 16 * len(PIECE))
        memory = memory_of_each(serving, readers, all_read, count)
        model.goes_on.set()
        for thread in threads:
            thread.join()
    return memory


def is_sanitized(program):
    """A sanitizer has memory of its own for each block, and keeps what was freed."""
    with open(program, 'rb') as file:
        content = file.read()
    return b'__asan_' in content or b'__tsan_' in content


def what_waits_for_a_reader_is_bounded(program):
    """Measures memory: of many readers that read nothing, and of as many that have read everything, whose models have
    sent as much."""
    if is_sanitized(program):
        return 'the memory of a sanitizer is another'
    readers = []
    with Model() as model, Serving(program, *model.options()) as serving:
        slow = memory_of_each(serving, readers, lambda: number_of(serving, 'answers_held_total') >= READERS and
                              pauses(model)(serving))
        written = model.written // READERS
        for reader in readers:
            reader.socket.close()
        until(lambda: ended(serving, 'cancelled') == READERS)
    fast = memory_of_who_has_read_all(program, written)
    print(f'# {READERS} readers of {written >> 10} KiB of text so far: {slow >> 10} KiB of memory where they read '
          f'nothing, {fast >> 10} KiB where they have read all')
    assert slow - fast <= HELD_BYTES_MAX, (slow, fast)
    return None


def readers_of_10_kb_a_second(program):
    if not LONG:
        return 'it takes 20 s: --long'
    if is_sanitized(program):
        return 'the memory of a sanitizer is another'
    readers, most = [], 0
    with Model(size=1 << 30) as model, Serving(program, *model.options()) as serving:
        begin = memory_of(serving)
        memory_of_each(serving, readers, lambda: number_of(serving, 'answers_held_total') >= SLOW_READERS and
                       pauses(model)(serving), SLOW_READERS)
        end = time.monotonic() + SLOW_S
        while time.monotonic() < end:
            for reader in readers:
                reader.read(SLOW_BYTES)
            most = max(most, (memory_of(serving) - begin) // SLOW_READERS)
            time.sleep(0.1)
        until(lambda: pauses(model)(serving))
        read = sum(reader.text.count(PIECE.encode()) for reader in readers) * len(PIECE) // SLOW_READERS
        inside = model.has_passed() // SLOW_READERS
        for reader in readers:
            reader.socket.close()
        until(lambda: ended(serving, 'cancelled') == SLOW_READERS)
    fast = memory_of_who_has_read_all(program, inside, SLOW_READERS)
    print(f'# {SLOW_READERS} readers of 10 KB/s: {most >> 10} KiB of memory each after {SLOW_S} s, with '
          f'{inside >> 10} KiB of text of which {read >> 10} KiB are read; {fast >> 10} KiB for who has read all of '
          'that')
    assert most - fast <= HELD_BYTES_MAX and inside - read <= HELD_BYTES_MAX, (most, fast, inside, read)
    return None


CASES = [a_slow_reader_holds_the_model_back_and_gets_all, a_fast_reader_beside_it_is_not_held,
         a_client_that_leaves_ends_what_it_held, a_turn_that_goes_on_is_not_held_by_who_has_left,
         each_answer_of_a_turn_is_held, the_deadline_of_a_turn_does_not_wait, an_end_does_not_wait_for_a_reader,
         what_waits_for_a_reader_is_bounded, readers_of_10_kb_a_second]


if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
