#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two turnphase serve on one history, after a balancer that knows no sessions.

    python3 tests/integration/balanced_test.py TURNPHASE [--long]

Prints TAP. The model is a server of this test that keeps the messages of each request: every turn has all earlier
messages, once and in order, whichever server it comes to, and whichever was killed. With --long 1,000 turns on a SQLite
directory, and on PostgreSQL where that is installed.
"""

import glob
import http.client
import http.server
import itertools
import json
import os
import pwd
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import LIMIT_S, Serving, until  # noqa: E402 pylint: disable=wrong-import-position

LONG = '--long' in sys.argv
TURNS, KILL_EVERY = (1000, 20) if LONG else (45, 11)


class Model(http.server.ThreadingHTTPServer):
    """Answers with the number of the user's messages in the request. An answer to a text that ends with ~ waits for
    `goes_on`."""
    daemon_threads = True

    def __init__(self):
        self.shown, self.asked, self.goes_on = {}, threading.Semaphore(0), threading.Event()
        super().__init__(('127.0.0.1', 0), Answer)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def options(self):
        return '--model', 'openai:m', '--base-url', f'http://127.0.0.1:{self.server_port}/v1'

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.goes_on.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # the server was killed


class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        messages = json.loads(self.rfile.read(int(self.headers['Content-Length'])))['messages']
        said = [m['content'] for m in messages if m['role'] != 'system']
        self.server.shown[said[-1]] = said
        self.server.asked.release()
        if said[-1].endswith('~'):
            self.server.goes_on.wait()
        chunk = {'id': 'x', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm',
                 'choices': [{'index': 0, 'delta': {'role': 'assistant', 'content': answer_of(said[-1])},
                              'finish_reason': 'stop'}]}
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Connection', 'close')
        self.end_headers()
        self.wfile.write(f'data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n'.encode())

    def log_message(self, *_):
        pass


def answer_of(text):
    return f'yes to {text}'


class Balancer(threading.Thread):
    """Passes each connection to the next server that accepts it."""

    def __init__(self, ports):
        super().__init__(daemon=True)
        self.ports, self.turn = ports, itertools.count()
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        for _ in range(2):
            try:
                server = socket.create_connection(('127.0.0.1', self.ports[next(self.turn) % 2]))
                break
            except OSError:
                continue
        else:
            client.close()
            return
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        pump(server, client)


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Pair:
    """Two servers that share the directory or database `data`. A killed one is started again."""

    def __init__(self, program, model, data, *options):
        self.program, self.options = program, (*model.options(), '--data', data, *options)
        self.env = {'OPENAI_API_KEY': 'none'}
        self.servers = [self.start(), self.start()]
        self.balancer = Balancer([server.port for server in self.servers])
        self.retries = 0

    def start(self):
        return Serving(self.program, *self.options, env=self.env)

    def kill(self, which):
        dead = self.servers[which]
        dead.process.kill()
        dead.process.wait(LIMIT_S)
        dead.process.stderr.close()
        dead.directory.cleanup()
        self.servers[which] = self.start()
        self.balancer.ports[which] = self.servers[which].port

    def say(self, text, session='s'):
        """Repeats a request with its key until it is answered, as a client does."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            try:
                status, _, answer = ask(self.balancer.port, text, session)
            except (OSError, http.client.HTTPException):
                status, answer = 0, ''
            if status == 200:
                return json.loads(answer)['choices'][0]['message']['content']
            assert status in (0, 409, 503), f'{status}: {answer}'
            self.retries += 1
            time.sleep(0.01)
        raise AssertionError(f'{text} was never answered: {status} {answer}')

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.balancer.listener.close()
        for server in self.servers:
            server.__exit__(kind)


def ask(port, text, session='s'):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=LIMIT_S)
    connection.request('POST', '/v1/chat/completions',
                       json.dumps({'model': 'any', 'messages': [{'role': 'user', 'content': text}]}),
                       {'X-Session-Id': session, 'Idempotency-Key': text})
    response = connection.getresponse()
    answer = response.read().decode()
    connection.close()
    return response.status, response.headers, answer


# ---- cases ----

def second_server_refuses_with_the_rest_of_the_lease_or_waits(program):
    with tempfile.TemporaryDirectory() as place:
        for busy, status in (('refuse', 409), ('wait:30', 409), ('wait', 200)):
            with Model() as model, Pair(program, model, place + '/' + busy.replace(':', ''), '--busy', busy) as pair:
                answers = []
                first = threading.Thread(target=lambda p=pair: answers.append(ask(p.servers[0].port, 'one~')))
                first.start()
                assert model.asked.acquire(timeout=LIMIT_S)
                if status == 200:
                    second = threading.Thread(target=lambda p=pair: answers.append(ask(p.servers[1].port, 'two')))
                    second.start()
                    model.goes_on.set()
                    second.join(LIMIT_S)
                else:
                    got, headers, answer = ask(pair.servers[1].port, 'two')
                    assert got == status and json.loads(answer)['error']['code'] == 'session_busy', answer
                    assert 1 <= int(headers['Retry-After']) <= 15 and 'x-should-retry' not in headers, headers
                    assert re.search(r'process \d+ has session .s.: its lease ends in', answer), answer
                    model.goes_on.set()
                first.join(LIMIT_S)
                assert all(a[0] == 200 for a in answers) and len(answers) == (2 if status == 200 else 1), answers
                assert ask(pair.servers[1].port, 'two')[0] == 200
                assert model.shown['two'] == ['one~', answer_of('one~'), 'two'], model.shown


def play(program, data, during, *options):
    """@param during  how many of ten kills come while a turn runs, on the server that has it or on the other one."""
    dice = random.Random(37)
    with Model() as model, Pair(program, model, data, *options) as pair:
        wanted = []
        for number in range(1, TURNS + 1):
            text = f'turn {number}'
            kills = number % KILL_EVERY == 0
            if kills and dice.randrange(10) < during:
                killer = threading.Thread(target=kill_soon, args=(pair, dice.randrange(2), dice.random() * 0.02))
                killer.start()
                said = pair.say(text)
                killer.join(LIMIT_S)
            else:
                if kills:
                    pair.kill(dice.randrange(2))
                said = pair.say(text)
            wanted.append(text)
            assert said == answer_of(text), said
            assert model.shown[text] == wanted, f'{text} was shown {model.shown[text][-6:]}, not {wanted[-6:]}'
            wanted.append(answer_of(text))
        again = pair.say('turn 3')  # its key is known, so it is answered from the store
        assert again == answer_of('turn 3') and pair.say('last') == answer_of('last')
        assert model.shown['last'] == [*wanted, 'last']
        print(f'# {TURNS} turns, {TURNS // KILL_EVERY} kills, {pair.retries} requests that were sent again')


def kill_soon(pair, which, after_s):
    time.sleep(after_s)
    pair.kill(which)


def client_sees_one_conversation_of_two_servers_on_one_directory(program):
    with tempfile.TemporaryDirectory() as place:
        play(program, place + '/kept', 7, '--busy', 'wait')


def client_sees_one_conversation_of_two_servers_on_one_database(program):
    bins = sorted(glob.glob('/usr/lib/postgresql/*/bin'))
    user = pwd.getpwnam('postgres') if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(dir='/dev/shm') as place:
        if user:
            os.chown(place, user.pw_uid, user.pw_gid)
        who = {'user': user.pw_uid, 'group': user.pw_gid, 'extra_groups': []} if user else {}
        subprocess.run([bins[-1] + '/initdb', '-D', place + '/data', '-A', 'trust', '-U', 'postgres', '-E', 'UTF8',
                        '--locale=C', '--no-sync'], check=True, stdout=subprocess.DEVNULL, cwd=place, **who)
        server = subprocess.Popen([bins[-1] + '/postgres', '-D', place + '/data', '-c', 'listen_addresses=', '-c',
                                   'unix_socket_directories=' + place], stderr=subprocess.DEVNULL, cwd=place, **who)
        try:
            until(lambda: subprocess.run([bins[-1] + '/pg_isready', '-q', '-h', place], check=False).returncode == 0)
            play(program, f'postgres://postgres@/postgres?host={place}', 1, '--busy', 'wait')
        finally:
            server.send_signal(3)
            server.wait(LIMIT_S)


def main(program):
    cases = [second_server_refuses_with_the_rest_of_the_lease_or_waits,
             client_sees_one_conversation_of_two_servers_on_one_directory]
    if LONG:
        cases.append(client_sees_one_conversation_of_two_servers_on_one_database)
    print(f'1..{len(cases)}')
    failed = False
    for number, case in enumerate(cases, 1):
        skip = ' # SKIP PostgreSQL is not installed' if 'database' in case.__name__ and not (
            glob.glob('/usr/lib/postgresql/*/bin') and shutil.which('psql')) else ''
        try:
            if not skip:
                case(program)
            print(f'ok {number} - {case.__name__}{skip}', flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed = True
            print(f'not ok {number} - {case.__name__}\n# {type(error).__name__}: {error}', flush=True)
    return failed


if __name__ == '__main__':
    sys.exit(main(os.path.abspath(sys.argv[1])))
