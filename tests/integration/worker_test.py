# SPDX-License-Identifier: Apache-2.0
"""turnphase worker runs the background jobs of a data directory. The last case kills and stops two workers and a host
that work on one directory, at random: TURNPHASE_ROUNDS times three seconds; TURNPHASE_SEED replays the choices."""
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

COMMAND, DOMAIN = (os.path.abspath(path) for path in sys.argv[1:3])
LIMIT_S = 60
LEASE_S = 1
CHAOS_S = 3 * int(os.environ.get('TURNPHASE_ROUNDS', '1'))


class World:
    """A scratch directory, and the processes in it."""

    def __init__(self, directory):
        self.directory, self.children = directory, []
        self.write('model.yaml', 'responses:\n' + '  - text: Hello.\n' * 1000)

    def write(self, name, text):
        with open(f'{self.directory}/{name}', 'w') as file:
            file.write(text)

    def begin(self, *words, kind='ledger', work_ms=0, out=None, with_memory=False):
        environment = {**os.environ, 'TURNPHASE_TEST_DOMAIN': kind, 'TURNPHASE_LEDGER': f'{self.directory}/ledger',
                       'TURNPHASE_LEDGER_MS': str(work_ms)}
        is_bare = with_memory or words[0] in ('jobs', 'store', 'memory')
        loaded = [] if is_bare else ['--no-memory', '--load', DOMAIN]
        child = subprocess.Popen([COMMAND, *words, *loaded], cwd=self.directory, env=environment,
                                 stdin=subprocess.DEVNULL, stdout=out or subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        self.children.append(child)
        return child

    def ran(self, *words, exit_status=0, **options):
        """@return its standard output and error."""
        child = self.begin(*words, **options)
        out, error = child.communicate(timeout=LIMIT_S)
        assert child.returncode == exit_status, (words, child.returncode, out, error)
        return out, error

    def jobs(self):
        out, _ = self.ran('jobs', 'list', 'kept', '--state', 'all', '--limit', '0', '--json')
        return [json.loads(line) for line in out.splitlines()]

    def ledger(self):
        try:
            with open(f'{self.directory}/ledger') as file:
                return [tuple(int(word) for word in line.split()) for line in file]
        except FileNotFoundError:
            return []

    def wait_for(self, condition, what):
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < end, f'{what} did not come'
            time.sleep(0.01)

    def end(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.communicate()


def leave_dead_job(world):
    world.write('talk.jsonl', '{"session": "s", "user": "hi"}\n')
    world.ran('run', '--data', 'kept', '--script', 'model.yaml', 'talk.jsonl', kind='ledger_fails', exit_status=73)
    assert [job['state'] for job in world.jobs()] == ['dead']


def leave_open_job(world):
    leave_dead_job(world)
    world.ran('jobs', 'redrive', 'kept', '1')


def wrong_command_lines_say_what_is_wrong(world):
    world.write('file', '')
    for words, status, said in ((['worker'], 2, 'which data directory'), (['worker', 'file'], 74, 'Not a directory'),
                                (['worker', 'typo'], 74, 'No such file or directory; give the directory that'),
                                (['worker', 'kept', '--lease', '0'], 2, '--lease'),
                                (['worker', 'kept', '--jobs', '2000'], 2, '--jobs')):
        _, error = world.ran(*words, exit_status=status)
        assert said in error, error
    assert not os.path.exists(os.path.join(world.directory, 'typo'))


def directory_without_jobs_is_left_at_once(world):
    os.mkdir(os.path.join(world.directory, 'kept'))
    out, error = world.ran('worker', 'kept', '--until-empty')
    assert out == '' and '0 attempts of jobs were run' in error, (out, error)
    assert world.jobs() == []


def open_job_is_run_and_shown(world):
    leave_open_job(world)
    out, _ = world.ran('worker', 'kept', '--until-empty', '--json')
    shown = [json.loads(line) for line in out.splitlines()]
    assert [(job['state'], job['handler'], job['attempt']) for job in shown] == [('succeeded', 't.ledger', 1)], shown
    assert [job['state'] for job in world.jobs()] == ['succeeded']
    assert world.ledger() == [(1, 1)]


def job_that_fails_for_good_gives_73(world):
    leave_open_job(world)
    out, error = world.ran('worker', 'kept', '--until-empty', kind='ledger_fails', exit_status=73)
    assert 'dead' in out and '1 jobs failed for good' in error, (out, error)


def signal_ends_it_between_jobs(world):
    os.mkdir(os.path.join(world.directory, 'kept'))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child = world.begin('worker', 'kept')
        assert 'running the jobs of kept' in child.stderr.readline()
        child.send_signal(number)
        child.communicate(timeout=LIMIT_S)
        assert child.returncode == 128 + number, child.returncode


def job_that_runs_at_a_signal_ends_and_its_end_is_stored(world):
    leave_open_job(world)
    child = world.begin('worker', 'kept', work_ms=300)
    world.wait_for(world.ledger, 'the job')
    child.send_signal(signal.SIGTERM)
    out, error = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 128 + signal.SIGTERM and 'succeeded' in out, (child.returncode, out, error)
    assert [job['state'] for job in world.jobs()] == ['succeeded']


def job_of_another_process_is_seen_while_it_waits(world):
    leave_dead_job(world)
    worker = world.begin('worker', 'kept', '--json')
    assert 'running the jobs of kept' in worker.stderr.readline()
    world.ran('jobs', 'redrive', 'kept', '1')
    assert json.loads(worker.stdout.readline())['state'] == 'succeeded'
    assert [job['state'] for job in world.jobs()] == ['succeeded']
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=LIMIT_S)


def facts_wait_for_a_worker_with_a_model(world):
    """The job is made by a process with a model, which fails; a worker without a model then leaves it to one that has a
    model."""
    fact = {'facts': [{'subject': 'the user', 'statement': 'The user lives in Munich.', 'quote': 'live in Munich'}]}
    world.write('talk.jsonl', '{"session": "s", "user": "I live in Munich."}\n')
    world.write('none.yaml', 'responses: []\n')
    world.write('facts.yaml', json.dumps({'responses': [{'text': json.dumps(fact)}]}))
    world.ran('run', '--data', 'kept', '--script', 'model.yaml', '--facts', 'script:none.yaml', 'talk.jsonl',
              with_memory=True, exit_status=73)
    world.ran('jobs', 'redrive', 'kept', '1')
    without = world.begin('worker', 'kept', with_memory=True)
    world.wait_for(lambda: world.jobs()[0]['reason'] == 'postponed', 'the postponed job')
    without.send_signal(signal.SIGTERM)
    without.communicate(timeout=LIMIT_S)
    job = world.jobs()[0]
    assert job['state'] == 'queued' and job['attempt'] == 0 and '--facts MODEL' in job['message'], job
    world.ran('worker', 'kept', '--until-empty', '--facts', 'script:facts.yaml', with_memory=True)
    assert [job['state'] for job in world.jobs()] == ['succeeded']
    out, _ = world.ran('memory', 'list', 'kept')
    assert out.count('The user lives in Munich.') == 1 and out.count('I live in Munich.') == 1, out


class Chaos:
    """Two workers and a host on one directory: killed ones are started again, and stopped ones are continued."""

    def __init__(self, world, random_numbers):
        self.world, self.random, self.out = world, random_numbers, []
        self.turns = self.kills = self.stops = 0
        self.places = [self.worker, self.worker, self.host]
        self.running = [self.begin(place) for place in range(3)]

    def begin(self, place):
        out = tempfile.TemporaryFile('w+')
        self.out.append(out)
        return self.places[place](out)

    def worker(self, out):
        return self.world.begin('worker', 'kept', '--json', '--lease', str(LEASE_S), '--jobs', '4', work_ms=5, out=out)

    def host(self, out):
        name = f'talk{self.turns}.jsonl'
        self.world.write(name, ''.join(f'{{"session": "s{self.turns}-{i // 20}", "user": "hi"}}\n' for i in range(400)))
        self.turns += 400
        return self.world.begin('run', '--data', 'kept', '--json', '--script', 'model.yaml', name, work_ms=5, out=out)

    def disturb(self):
        place = self.random.randrange(3)
        time.sleep(self.random.uniform(0.02, 0.3))
        child = self.running[place]
        if self.random.random() < 0.3:
            child.send_signal(signal.SIGSTOP)
            time.sleep(LEASE_S * self.random.uniform(0.2, 1.5))
            child.send_signal(signal.SIGCONT)
            self.stops += 1
        else:
            child.kill()
            self.kills += 1
            child.wait()
        for i, each in enumerate(self.running):
            if each.poll() is not None:
                self.running[i] = self.begin(i)

    def printed(self):
        """@return of each job how often a worker printed that it succeeded; how many jobs the hosts saw."""
        ends, acknowledged = collections.Counter(), 0
        for out in self.out:
            out.seek(0)
            for line in out:
                try:
                    event = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the last line of a killed worker
                if 'job' in event:
                    ends[event['job']] += event['state'] == 'succeeded'
                acknowledged += event.get('event') == 'run' and event['run']['state'] == 'backgrounded'
        return ends, acknowledged


def every_job_ends_once_whatever_is_killed_or_stopped(world):
    seed = int(os.environ.get('TURNPHASE_SEED', time.time_ns()))
    print(f'# seed {seed}', flush=True)
    chaos = Chaos(world, random.Random(seed))
    end = time.monotonic() + CHAOS_S
    while time.monotonic() < end:
        chaos.disturb()
    for child in chaos.running:
        child.kill()
        child.wait()
    world.ran('worker', 'kept', '--until-empty', '--jobs', '16')
    jobs, runs = world.jobs(), collections.Counter(job for job, _ in world.ledger())
    ends, acknowledged = chaos.printed()
    print(f'# {chaos.kills} kills, {chaos.stops} stops: {len(jobs)} jobs, {acknowledged} acknowledged, '
          f'{sum(runs.values())} runs, {sum(1 for n in runs.values() if n > 1)} jobs ran more than once', flush=True)
    assert all(job['state'] == 'succeeded' for job in jobs), [job for job in jobs if job['state'] != 'succeeded']
    assert 0 < acknowledged <= len(jobs), (acknowledged, len(jobs))
    assert all(runs[job['job']] > 0 for job in jobs)
    assert all(count <= 1 for count in ends.values()), ends.most_common(3)
    world.ran('store', 'verify', 'kept')


CASES = [wrong_command_lines_say_what_is_wrong, directory_without_jobs_is_left_at_once,
         open_job_is_run_and_shown, job_that_fails_for_good_gives_73, signal_ends_it_between_jobs,
         job_that_runs_at_a_signal_ends_and_its_end_is_stored, job_of_another_process_is_seen_while_it_waits,
         facts_wait_for_a_worker_with_a_model, every_job_ends_once_whatever_is_killed_or_stopped]


def main():
    print(f'1..{len(CASES)}')
    failed = False
    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as directory:
            world = World(directory)
            try:
                case(world)
                print(f'ok {number} - {case.__name__}', flush=True)
            except Exception as error:  # every failure is the case's
                failed = True
                print(f'not ok {number} - {case.__name__}: {error!r}', flush=True)
            finally:
                world.end()
    return failed


if __name__ == '__main__':
    sys.exit(main())
