#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of turnphase serve under load, with a data directory and --durability sync: what a client was told is kept,
and a request that is repeated with its key is answered from the store.

    python3 tests/integration/serve_kill_test.py TURNPHASE

Prints TAP. Each server after a kill has a model that says something else: an answer in its words was made anew.
"""

import http.client
import json
import os
import signal
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import LIMIT_S, Serving, play, until  # noqa: E402 pylint: disable=wrong-import-position

CLIENTS, KILLS, ANSWERS = 8, 3, 40  # answers before each kill


def model_of(generation):
    return f'repeat: true\nresponses:\n  - text: I am generation {generation}.\n'


class Restarted(Serving):
    """A server on a data directory that outlives it."""

    def __init__(self, program, data, generation):
        super().__init__(program, '--model', 'script:talk.yaml', '--data', data, '--durability', 'sync',
                         '--busy', 'wait', files={'talk.yaml': model_of(generation)})

    def say(self, client, number):
        headers = {'X-Session-Id': f's{client}', 'Idempotency-Key': f'k{client}-{number}'}
        return self.chat(f'I am {client}, and this is {number}.', headers)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT_S)
        self.process.stderr.close()
        self.directory.cleanup()


def text_of(answer):
    return json.loads(answer)['choices'][0]['message']['content']


def talk(serving, client, first, known):
    """Sends turns until the server is gone. `known` gets the acknowledged answers: {(client, number): text}."""
    number = first
    while True:
        try:
            status, answer = serving.say(client, number)
        except (OSError, ValueError, http.client.HTTPException):
            return
        assert status == 200, answer
        known[client, number] = text_of(answer)
        number += 1


def run_and_kill(program, data, generation, known):
    serving = Restarted(program, data, generation)
    begun = {client: max((number for who, number in known if who == client), default=-1) + 1
             for client in range(CLIENTS)}
    before = len(known)
    threads = [threading.Thread(target=talk, args=(serving, client, begun[client], known))
               for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    until(lambda: len(known) >= before + ANSWERS)
    serving.kill()  # turns run
    for thread in threads:
        thread.join(LIMIT_S)


def what_was_acknowledged_is_answered_from_the_store_after_kills(program):
    known = {}
    with tempfile.TemporaryDirectory() as data:
        for generation in range(KILLS):
            run_and_kill(program, data + '/kept', generation, known)
        assert len(known) >= KILLS * ANSWERS and len(set(known.values())) == KILLS, len(known)
        with Restarted(program, data + '/kept', KILLS) as serving:
            for (client, number), text in known.items():
                status, answer = serving.say(client, number)
                assert status == 200 and text_of(answer) == text, (client, number, text, answer)
            lost = max(number for _, number in known) + 5
            status, answer = serving.say(0, lost)  # a request that was never sent becomes a turn
            assert status == 200 and text_of(answer) == f'I am generation {KILLS}.', answer
            headers = {'X-Session-Id': 's0', 'Idempotency-Key': 'k0-0'}
            assert serving.chat('another text', headers)[0] == 409


CASES = [what_was_acknowledged_is_answered_from_the_store_after_kills]


if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
