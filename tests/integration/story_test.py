# SPDX-License-Identifier: Apache-2.0
"""What run prints of a turn, and time, blame, explain and plot of its record, tell one story: each span that time
counts has a line in blame, a retry is named as one, and no line begins before the one that it follows. The turns are
those of the demonstration (jobs, parallel tools, a missed deadline), and of an endpoint that fails first, is replaced
by another model, streams, or is cancelled."""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing is written next to the sources
import cases  # noqa: E402

COMMAND, DEMO, SOURCE = os.path.abspath(sys.argv[1]), sys.argv.pop(2), sys.argv.pop(2)
LIMIT_S = 60


class Endpoint:
    """Answers with the statuses of its list, then streams "one two"; status 0 never answers."""

    def __init__(self, statuses):
        outer, self.statuses, self.asked = self, list(statuses), threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers['Content-Length']))
                status = outer.statuses.pop(0) if outer.statuses else 200
                outer.asked.set()
                if status == 0:
                    time.sleep(LIMIT_S)
                self.send_response(status)
                self.send_header('Content-Type', 'text/event-stream' if status == 200 else 'application/json')
                self.send_header('Connection', 'close')
                self.end_headers()
                if status != 200:
                    self.wfile.write(b'{"error": {"message": "not now"}}')
                    return
                for text, finish in ('one ', None), ('two', None), ('', 'stop'):
                    chunk = {'choices': [{'index': 0, 'delta': {'content': text}, 'finish_reason': finish}]}
                    self.wfile.write(f'data: {json.dumps(chunk)}\n\n'.encode())
                    self.wfile.flush()
                    time.sleep(0.02)
                self.wfile.write(b'data: [DONE]\n\n')

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_port}/v1'
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class World:
    def __init__(self, directory):
        self.directory = directory
        self.data = os.path.join(directory, 'kept')

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, 'w') as file:
            file.write(text)
        return path

    def command(self, *words, status=0, errors=''):
        done = subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == status, (words, done.returncode, done.stderr)
        assert errors in done.stderr, (errors, done.stderr)
        return done.stdout

    def turn(self, what, name):
        return json.loads(self.command(what, self.data, name, '--json'))

    def talk(self, *words, turns=('t1',)):
        talk = self.write('talk.json', '\n'.join(json.dumps({'session': 's', 'turn': turn, 'user': 'hello'})
                                                 for turn in turns))
        return self.command('run', *words, '--data', self.data, talk)


def check_order(out):
    """The times at the left of the lines of each turn never fall."""
    last, count = 0.0, 0
    for line in out.splitlines():
        if re.match(r'  turn |  end of the session|session ', line):
            last = 0.0
        found = re.match(r'\s{0,8}(\d+\.\d\d)  \w', line)
        if found:
            assert float(found[1]) >= last, line
            last, count = float(found[1]), count + 1
    assert count > 0, out


def covered(spans):
    total, end = 0, 0
    for begin, until in sorted(spans):
        total, end = total + max(0, until - max(begin, end)), max(end, until)
    return total


def check_story(world, name):
    total, lines = world.turn('time', name), world.turn('blame', name)['blame']

    def sum_of(what):
        return sum(line['duration_ns'] for line in lines if line['what'] == what)
    assert sum_of('model') == total['model_ns'], (sum_of('model'), total['model_ns'])
    assert sum_of('history') == total['history_ns']
    rest = {line['name']: line['duration_ns'] for line in lines if line['what'] == 'rest'}
    assert rest.get('the runtime itself', 0) == total['rest_ns']
    gates = sum(phase['duration_ns'] for phase in total['phases'] if phase['in_tools'])
    assert sum_of('tool') + gates + rest.get('dispatch of tool calls', 0) >= total['tools_ns']
    told = world.turn('explain', name)
    gates = [row for row in told['phases'] if row['phase'] in ('tool.pre', 'tool.result', 'tool.post')]
    calls = [row for row in told['steps'] if row['kind'] == 'tool']
    in_calls = covered([(row['at_ns'], row['at_ns'] + row.get('duration_ns', 0)) for row in gates + calls])
    assert rest.get('dispatch of tool calls', 0) == max(0, total['tools_ns'] - in_calls), (rest, total, in_calls)
    for phase in total['phases']:
        of_phase = [line for line in lines
                    if line.get('phase') == phase['phase'] and line['what'] in ('handler', 'phase')]
        own = sum(line['duration_ns'] for line in of_phase if line['what'] == 'phase')
        assert own <= phase['duration_ns'] <= sum(line['duration_ns'] for line in of_phase), (phase, of_phase)
        handlers = [line['duration_ns'] for line in of_phase if line['what'] == 'handler']
        if phase['runs'] == 1 and len(handlers) == 1:
            assert own == phase['duration_ns'] - handlers[0], (phase, of_phase)
    rows = [row['at_ns'] for key in ('phases', 'steps') for row in told[key]]
    assert rows and min(rows) >= 0, rows
    shown = [at for at in re.findall(r'  @(\S+ \S+?)(?: \+|$|  )', world.command('explain', world.data, name), re.M)]
    units = {'ns': 1, 'µs': 1e3, 'ms': 1e6, 's': 1e9}
    times = [float(at.split()[0]) * units[at.split()[1]] for at in shown]
    assert times and all(a <= b * 1.01 for a, b in zip(times, times[1:])), shown
    return total, lines


def demonstration_has_one_story(world):
    demo = os.path.join(SOURCE, 'examples/demo')
    out = world.command('run', '--load', DEMO, '--script', f'{demo}/model.yaml', '--data', world.data,
                        f'{demo}/conversation.yaml')
    check_order(out)
    for name in re.findall(r'^  turn (\S+)', out, re.M):
        check_story(world, name)
    _, lines = check_story(world, 'rooms-1')
    commit = [line for line in lines if line['what'] == 'phase' and line['name'] == 'turn.post_turn']
    assert len(commit) == 1 and commit[0]['why'] == 'outside of its handlers: commit of its jobs', commit
    assert commit[0]['duration_ns'] > 0
    assert any(line['name'] == 'trip.events' and line['outcome'] == 'timed_out' for line in lines)
    assert 'commit of jobs' in world.command('plot', world.data, 'rooms-1', '--format', 'svg')


def retries_are_named_and_have_their_pauses(world):
    with Endpoint([503, 503]) as endpoint:
        out = world.talk('--model', 'openai:m', '--base-url', endpoint.url)
    check_order(out)
    assert ', did not answer' in out and ', retry 1 with its pause, did not answer' in out, out
    assert ', retry 2 with its pause, ' in out and 'retry 3' not in out, out
    begin, answer = out.index('model    begins'), out.index('answer   one two')
    assert begin < answer < out.index('retry 2 with its pause'), out
    assert re.search(r'model    shown 1 message, retry 2 with its pause, \S+ ms since \d+\.\d\d\n', out), out
    total, lines = check_story(world, 't1')
    requests = [line for line in lines if line['what'] == 'model']
    assert sorted(line['retry'] for line in requests) == [0, 1, 2], requests
    names = {line['retry']: line['name'] for line in requests}
    assert names[0] == 'model request 1, m' and names[2] == 'model request 1, retry 2 with its pause, m', names
    assert 'retry 1 with its pause' in world.command('explain', world.data, 't1')
    assert 'retry 1 with its pause' in world.command('plot', world.data, 't1')


def another_model_is_no_retry(world):
    with Endpoint([503] * 9) as broken, Endpoint([]) as good:
        out = world.talk('--model', 'openai:first', '--base-url', broken.url, '--model', 'openai:second', '--base-url',
                         good.url)
    check_order(out)
    _, lines = check_story(world, 't1')
    second = [line for line in lines if line['what'] == 'model' and line['name'].endswith('second')]
    assert [line['retry'] for line in second] == [0], lines


def cancelled_turn_has_one_story(world):
    talk = world.write('talk.json', json.dumps({'session': 's', 'turn': 't1', 'user': 'hello'}))
    with Endpoint([0]) as endpoint:
        process = subprocess.Popen([COMMAND, 'run', '--model', 'openai:m', '--base-url', endpoint.url, '--no-memory',
                                    '--data', world.data, talk], stdout=subprocess.PIPE, text=True)
        assert endpoint.asked.wait(LIMIT_S)
        process.send_signal(signal.SIGINT)
        out = process.communicate(timeout=LIMIT_S)[0]
    assert process.returncode == 130 and 'cancelled' in out, out
    check_order(out)
    check_story(world, 't1')


def each_turn_of_one_id_is_reached(world):
    script = world.write('model.yaml', 'repeat: true\nresponses:\n  - text: hello\n')
    for _ in range(3):
        world.talk('--script', script, '--if-exists', 'run', turns=['m1'])
    said = "there are several turns 'm1': this is the newest, m1#3; m1#1 is the oldest"
    for what in 'time', 'blame', 'explain', 'critical-chain':
        world.command(what, world.data, 'm1', errors=said)
        began = [world.turn(what, f'm1#{number}')['started_unix_ms'] for number in (1, 2, 3)]
        assert began == sorted(began) and world.turn(what, 'm1')['started_unix_ms'] == began[2], began
        world.command(what, world.data, 'm1#4', status=1, errors="there are 3 turns 'm1', and no m1#4")
        world.command(what, world.data, 'm1#0', status=1, errors="there is no turn 'm1#0'")
        world.command(what, world.data, 'm2#1', status=1, errors="there is no turn 'm2#1'")
    world.command('plot', world.data, 'm1#1')
    entries = [set(re.findall(r'[0-9a-f]{16}-\d+', world.command('show', world.data, f'm1#{n}'))) for n in (1, 2, 3)]
    assert len(set.union(*entries)) == sum(len(of_turn) for of_turn in entries) > 0, entries
    world.command('show', world.data, 'm1', errors="there are 3 turns 'm1': m1#1 is the oldest, m1#3 the newest")
    world.command('show', world.data, 'm1#4', status=1, errors="there are 3 turns 'm1', and no m1#4")
    world.talk('--script', script, turns=['m1#2'])  # an id that ends like a number is an id
    assert world.turn('time', 'm1#2')['turn'] == 'm1#2'
    for number in 1, 3:
        check_story(world, f'm1#{number}')
    talk = world.write('two.json', ''.join(json.dumps({'session': session, 'turn': 'n1', 'user': 'hello'}) + '\n'
                                           for session in ('r', 'u')))  # in one process
    world.command('run', '--script', script, '--data', world.data, talk)
    entries = [set(re.findall(r'[0-9a-f]{16}-\d+', world.command('show', world.data, f'n1#{n}'))) for n in (1, 2)]
    assert entries[0] and entries[1] and not entries[0] & entries[1], entries


CASES = [demonstration_has_one_story, retries_are_named_and_have_their_pauses, another_model_is_no_retry,
         cancelled_turn_has_one_story, each_turn_of_one_id_is_reached]

if __name__ == '__main__':
    sys.exit(cases.run(CASES, World))
