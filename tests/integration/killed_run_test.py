# SPDX-License-Identifier: Apache-2.0
"""turnphase run is killed at random moments of turns with calls, tasks, questions and jobs, and each turn is submitted
again by its id until it ends. Then it is in the history once, no call ran twice, what it says was booked was, and it
has one job, which has ended. 100 moments; TURNPHASE_ROUNDS times as many. TURNPHASE_SEED replays them."""
import collections
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time

COMMAND, DOMAIN = (os.path.abspath(path) for path in sys.argv[1:3])
LIMIT_S = 60
POINTS = 100 * int(os.environ.get('TURNPHASE_ROUNDS', '1'))
SEED = int(os.environ.get('TURNPHASE_SEED', '0')) or random.randrange(1, 1 << 30)
ASKS_EVERY = 10  # one turn of this many has a question, which needs two more commands
TURNS_A_STORE = 50  # so that commands have little to load and to search


def call(number, tool, **arguments):
    return {'id': f'c{number}', 'name': tool, 'arguments': arguments}


def responses(name, asks):
    """Two calls at once, one of them a task; the task's run; what a person is asked; the end."""
    yield {'tool_calls': [call(1, 'book', line=f'{name} call'),
                          call(2, 'task_create', ability_id='book', arguments={'line': f'{name} task'}, task_key=name)]}
    yield {'tool_calls': [call(3, 'task_run', task_key=name)]}
    if asks:
        yield {'tool_calls': [call(4, 'files_write', path=f'{name}.txt', text=name)]}
    yield {'text': f'Done {name}.'}


class World:
    def __init__(self, directory):
        self.directory = directory
        self.durations = []
        os.mkdir(f'{directory}/files')

    def path(self, name):
        return f'{self.directory}/{name}'

    def command(self, *words):
        environment = {**os.environ, 'TURNPHASE_TEST_DOMAIN': 'ledger', 'TURNPHASE_LEDGER': self.path('ledger'),
                       'TURNPHASE_BOOK': self.path('book')}
        return subprocess.Popen([COMMAND, *words], cwd=self.directory, env=environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def lay_out(self, name, asks):
        with open(self.path('model.json'), 'w') as file:
            json.dump({'responses': list(responses(name, asks))}, file)
        with open(self.path('talk.jsonl'), 'w') as file:
            file.write(json.dumps({'session': name, 'turn': name, 'user': f'Do {name}.'}) + '\n')

    def run(self, asks):
        files = ['--files', 'files', '--files-writes', 'ask'] if asks else []
        return self.command('run', '--script', 'model.json', '--data', 'kept', '--ask', 'data', '--no-memory', '--load',
                            DOMAIN, '--tasks', 'tools', *files, 'talk.jsonl')

    def rows(self, sql, *values):
        database = sqlite3.connect(f"file:{self.path('kept/turnphase.db')}?mode=ro", uri=True, timeout=LIMIT_S)
        try:
            return database.execute(sql, values).fetchall()
        finally:
            database.close()

    def answer(self, name):
        """@return whether a question of the turn waited."""
        try:
            open_ones = self.rows('SELECT number FROM question WHERE turn = ? AND answered_ms = 0 AND waits = 1', name)
        except sqlite3.OperationalError:  # the file is not there yet
            return False
        for number, in open_ones:
            child = self.command('ask', 'answer', 'kept', str(number), 'allow')
            child.communicate(timeout=LIMIT_S)
        return bool(open_ones)

    def end_turn(self, name, asks):
        begun, child = time.monotonic(), self.run(asks)
        while asks and child.poll() is None:
            self.answer(name)
            time.sleep(0.005)
        out, _ = child.communicate(timeout=LIMIT_S)
        assert child.returncode == 0, (name, child.returncode, out)
        if not asks:
            self.durations.append(time.monotonic() - begun)

    def kill_turn(self, name, asks, chooser):
        """Kills a command at a random moment between its start and shortly after its usual end."""
        usual = sorted(self.durations)[len(self.durations) // 2]
        child = self.run(asks)
        try:
            child.wait(timeout=usual * chooser.uniform(0.1, 1.1))
        except subprocess.TimeoutExpired:
            child.kill()
        child.communicate()


def assert_once(world, names, asked):
    """After the last turn, and the last job."""
    child = world.command('worker', 'kept', '--until-empty', '--no-memory', '--load', DOMAIN)
    out, _ = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0, out
    with open(world.path('book')) as file:
        booked = collections.Counter(file.read().splitlines())
    twice = [line for line, count in booked.items() if count > 1]
    assert not twice, f'booked twice: {twice}'
    messages = collections.defaultdict(list)
    for turn, role, call_id, name, is_error, text in world.rows(
            'SELECT turn, role, call_id, name, is_error, text FROM message ORDER BY id'):
        messages[turn].append((role, call_id, name, is_error, text))
    assert set(messages) == set(names), set(messages) ^ set(names)
    for turn, kept in messages.items():
        assert [role for role, *_ in kept].count(1) == 1, f'{turn} is in the history more than once: {kept}'
        assert kept[-1][0] == 2 and kept[-1][4] == f'Done {turn}.', kept[-1]
        results = {call_id: (is_error, text) for role, call_id, _, is_error, text in kept if role == 3}
        assert set(results) == {f'c{i}' for i in range(1, 5 if turn in asked else 4)}, (turn, results)
        for line, call_id in ((f'{turn} call', 'c1'), (f'{turn} task', 'c3')):
            assert results[call_id][0] or booked[line] == 1, (line, results[call_id], 'but it was not booked')
        if turn in asked and not results['c4'][0]:
            assert os.path.exists(world.path(f'files/{turn}.txt')), f'{turn} has written no file'
    jobs = collections.Counter(world.rows('SELECT session, state FROM job'))
    assert jobs == {(name, 3): 1 for name in names}, \
        f'jobs: {set(jobs.items()) ^ {((name, 3), 1) for name in names}}'
    assert world.rows("SELECT count(*) FROM running WHERE state = 2") == [(0,)]
    assert world.rows('PRAGMA integrity_check') == [('ok',)]


def play(points, chooser, first):
    names, asked = [], set()
    with tempfile.TemporaryDirectory() as directory:
        world = World(directory)
        world.lay_out('warm', False)
        world.end_turn('warm', False)
        names.append('warm')
        for point in range(first, first + points):
            name, asks = f't{point}', point % ASKS_EVERY == 0
            names.append(name)
            asked.update([name] if asks else [])
            world.lay_out(name, asks)
            world.kill_turn(name, asks, chooser)
            if asks:
                world.answer(name)
            world.end_turn(name, asks)
        assert_once(world, names, asked)


def main():
    chooser, done = random.Random(SEED), 0
    try:
        while done < POINTS:
            count = min(TURNS_A_STORE, POINTS - done)
            play(count, chooser, done)
            done += count
    except Exception:
        print(f'# after {done} points: TURNPHASE_SEED={SEED}', file=sys.stderr)
        raise
    print(f'{done} moments, seed {SEED}')


main()
