# SPDX-License-Identifier: Apache-2.0
"""A data directory gets 1,000 texts of each of three tenants (what users and assistants say, arguments and results of
calls, memories, questions, jobs that wait, reasons), and turnphase forget erases one tenant, a person, a date, a text:
no byte of what was erased is in any file of the directory, and all of the rest is there. Then forget and
sessions delete are killed at random moments of their work (20; TURNPHASE_ROUNDS times as many): after the next start
nothing is half erased, and what was begun is finished by name. TURNPHASE_SEED replays them."""
import base64
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

COMMAND = os.path.abspath(sys.argv[1])
LIMIT_S = 120
TURNS = 100  # turns of a tenant; each plants ten texts
PLACES = ('user', 'answer', 'argument', 'result', 'question', 'job', 'memory', 'fact', 'reason', 'task')
TENANTS = ('ann', 'bob', 'cid')
POINTS = 20 * int(os.environ.get('TURNPHASE_ROUNDS', '1'))
SEED = int(os.environ.get('TURNPHASE_SEED', '0')) or random.randrange(1, 1 << 30)
OLD_MS = 1_600_000_000_000


def text(tenant, number, place):
    """So long that rows move between pages."""
    return f'plant-{tenant}-{number:03}-{place}.' + ' filler' * (number * 37 % 90)


def check(is_so, words):
    if not is_so:
        raise SystemExit(f'{words} (TURNPHASE_SEED={SEED})')


def bytes_of(directory):
    found = b''
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), 'rb') as file:
            found += file.read() + b'\0'
    return found


def left_of(directory):
    """@return which texts of each tenant stand somewhere in the directory."""
    found = {tenant: set() for tenant in TENANTS}
    for tenant, number, place in re.findall(rb'plant-(\w+)-(\d+)-(\w+)\.', bytes_of(directory)):
        found[tenant.decode()].add((int(number), place.decode()))
    return found


class World:
    def __init__(self, directory):
        self.directory = directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, *words):
        return subprocess.Popen([COMMAND, *words], cwd=self.directory, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *words, status=0):
        child = self.start(*words)
        out = child.communicate(timeout=LIMIT_S)[0]
        check(child.returncode == status, f'{words}: status {child.returncode}, not {status}: {out}')
        return out

    def plant(self):
        """The talk is the command's; what only a crash or a person leaves is put into its tables."""
        os.mkdir(self.path('files'))
        with open(self.path('talk.jsonl'), 'w') as talk:
            for number in range(TURNS):
                for tenant in TENANTS:
                    talk.write(json.dumps({
                        'session': f's{number % 3}', 'turn': f't{number}', 'tenant': tenant,
                        'workspace': 'zoe' if number % 3 == 1 else 'yan',
                        'said': '2020-09-13T12:26:40Z' if number < 20 else '2026-11-27T00:00:00Z',
                        'user': text(tenant, number, 'user')}) + '\n')
        with open(self.path('model.json'), 'w') as model:
            json.dump({'repeat': True, 'responses': [{'text': 'Noted.'}]}, model)
        self.run('run', '--script', 'model.json', '--data', 'kept', 'talk.jsonl')
        self.plant_rows()

    def plant_rows(self):
        db = sqlite3.connect(self.path('kept/turnphase.db'))
        db.execute('PRAGMA secure_delete = ON')
        for number in random.Random(1).sample(range(TURNS), TURNS):
            for tenant in TENANTS:
                of = {'tenant': tenant, 'session': f's{number % 3}', 'turn': f't{number}'}
                of |= {p: text(tenant, number, p) for p in PLACES}
                of['key'] = f'{tenant}-{number}'
                of['answer'] += ' ' + of['user']
                where = ('WHERE turn = :turn AND session ='
                         ' (SELECT id FROM session WHERE tenant = :tenant AND name = :session)')
                db.execute(f'UPDATE message SET text = :answer {where} AND role = 2', of)
                db.execute(f"UPDATE message SET value = CAST(:result AS BLOB), parts = x'' {where} AND role = 1", of)
                db.execute(f"INSERT INTO tool_call SELECT id, 0, 'c', 'look', 0, CAST(:argument AS BLOB) FROM message "
                           f'{where} AND role = 2', of)
                db.execute("INSERT INTO question (turn, call_id, session, tenant, tool, hash, agent, subscription,"
                           " reason, arguments, expires_ms, asked_ms, state, waits, answered_ms, used_ms, person,"
                           " answer, edited) VALUES (:turn, 'c', :session, :tenant, 'look', '', '', '', :question,"
                           " x'', 1, 1, 0, 0, 0, 0, '', '', x'')", of)
                db.execute("INSERT INTO task VALUES (:key, 0, 1, 'look', '', CAST(:task AS BLOB), x'', :tenant,"
                           " :session)", of)
                db.execute("UPDATE turn SET reason = :reason WHERE tenant = :tenant AND session = :session"
                           " AND turn = :turn", of)
                db.execute("INSERT INTO job SELECT 0, 0, 0, 0, :tenant, :session, NULL, 0, 4, 1, 1, 0, 0, 0, 21, 1, 0,"
                           " 0, 1, 0, 0, 1, 'h', 'h', :key, :session, '', CAST(:job AS BLOB), 0", of)
        old = 'turn IN (' + ', '.join(f"'t{n}'" for n in range(20)) + ')'
        for table, column in (('message', 'unix_ms'), ('turn', 'ended_unix_ms'), ('turn', 'started_unix_ms'),
                              ('entry', 'started_unix_ms'), ('audit', 'unix_ms')):
            db.execute(f'UPDATE {table} SET {column} = {OLD_MS} WHERE {old}')
        db.commit()
        db.close()

    def plant_memories(self):
        with open(self.path('memories.jsonl'), 'w') as file:
            for number in range(TURNS):
                for tenant in TENANTS:
                    of = {'tenant': tenant, 'scope': 'workspace', 'name': 'zoe' if number % 3 == 1 else 'yan',
                          'session': f's{number % 3}', 'turn': f't{number}',
                          'said_unix_ms': OLD_MS if number < 20 else 1_790_000_000_000}
                    file.write(json.dumps({**of, 'part': 'assistant', 'text': text(tenant, number, 'memory')}) + '\n')
                    file.write(json.dumps({**of, 'part': 'fact-1', 'subject': 'plant',
                                           'text': text(tenant, number, 'fact')}) + '\n')
        self.run('memory', 'import', 'kept', 'memories.jsonl')

    def restore(self):
        shutil.rmtree(self.path('kept'))
        shutil.copytree(self.path('whole'), self.path('kept'))

    def expect(self, gone, what):
        """@param gone  of bob: a function of the number and the place. All of the others is there."""
        left = left_of(self.path('kept'))
        for tenant in TENANTS:
            wanted = {(n, p) for n in range(TURNS) for p in PLACES if tenant != 'bob' or not gone(n, p)}
            found = left[tenant]
            check(not found - wanted, f'{what}: {tenant}: {sorted(found - wanted)[:5]} are left')
            check(not wanted - found, f'{what}: {tenant}: {sorted(wanted - found)[:5]} are gone')
        self.run('store', 'verify', 'kept')


def planted_in(out):
    out += ''.join(base64.b64decode(word).decode('utf-8', 'replace')  # what the test planted as bytes
                   for word in re.findall(r'"((?:[A-Za-z0-9+/]{4}){4,}[A-Za-z0-9+/=]*)"', out))
    return {(tenant, int(number), place) for tenant, number, place in re.findall(r'plant-(\w+)-(\d+)-(\w+)\.', out)}


def exported_of(world, data, words):
    """@return the exported texts of bob, and all texts that were said; each line is one map."""
    out = world.run('export', data, '--tenant', 'bob', *words)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith('{')]
    found = set()
    for line in lines:
        is_memory = line['kind'] == 'memory'
        check(set(line) == ({'kind', 'row'} if is_memory else {'kind', 'tenant', 'session', 'row'}), line)
        check((line['row'] if is_memory else line)['tenant'] == 'bob', line)
        found |= planted_in(json.dumps(line))
    check('were exported' in out, out)
    return found


def export(world, words, what, gone):
    """The exported texts are those that are missing after forget with the same words; the export erases nothing."""
    found = exported_of(world, 'kept', words)
    wanted = {('bob', n, p) for n in range(TURNS) for p in PLACES if gone(n, p)}
    twice = {'a text': 33, 'a text of a memory': 44}  # the text is erased from the history or from the memory, and the
                                                      # other one still has it
    wanted |= {('bob', number, 'user') for text_of, number in twice.items() if text_of == what}
    check(found == wanted, f'{what}: exported and not gone {sorted(found - wanted)[:5]}, not exported '
          f'{sorted(wanted - found)[:5]}')


def erase_every_tenant(world):
    words = ('kept', '--before', '2021-01-01')
    wanted = {(t, n, p) for t in TENANTS for n in range(TURNS) for p in PLACES if n < 20 or p in ('job', 'task')}
    world.restore()
    check(planted_in(world.run('export', *words)) == wanted, 'export of what is old of every tenant')
    world.run('forget', *words, '--yes')
    for tenant, left in left_of(world.path('kept')).items():
        gone = {(n, p) for t, n, p in wanted if t == tenant}
        check(not left & gone and len(left) == TURNS * len(PLACES) - len(gone), f'what is old of {tenant}')
    for words in (('kept',), ('kept', '--user', 'zoe'), ('kept', '--before', '2021-01-01', '--matching', 'plant')):
        for verb in ('forget', 'export'):
            check(f'{verb} takes a data directory' in world.run(verb, *words, status=2), (verb, words))


def erase_once(world):
    rest = ('job', 'task')  # they have no turn: they are erased with a session, or when they fit by themselves
    rows = (
        ('a tenant', [], lambda n, p: True),
        ('a session', ['--session', 's2'], lambda n, p: n % 3 == 2),
        ('a person', ['--user', 'zoe'], lambda n, p: n % 3 == 1),
        ('a date', ['--before', '2021-01-01'], lambda n, p: n < 20 or p in rest),
        ('a text', ['--matching', 'plant-bob-033-result.'],
         lambda n, p: n == 33 and p in ('answer', 'argument', 'result', 'question', 'reason')),
        ('a date of a person', ['--user', 'zoe', '--before', '2021-01-01'],
         lambda n, p: n % 3 == 1 and (n < 20 or p in rest)),
        ('a text of a memory', ['--matching', 'plant-bob-044-fact.'], lambda n, p: n == 44 and p in ('memory', 'fact')),
        ('a text of a task', ['--matching', 'plant-bob-055-task.'], lambda n, p: n == 55 and p == 'task'))
    for what, words, gone in rows:
        world.restore()
        export(world, words, what, gone)
        out = world.run('forget', 'kept', '--tenant', 'bob', *words, '--yes')
        check('still has the text' not in out, f'{what}: {out}')
        world.expect(gone, what)
    check(b'bob' in bytes_of(world.path('kept')), 'the last one left the tenant')
    erase_every_tenant(world)
    world.restore()
    world.run('forget', 'kept', '--tenant', 'bob', '--yes')
    check(b'bob' not in bytes_of(world.path('kept')), 'the name of the tenant is left')
    print(f'# {len(rows)} erasures of {TURNS * len(PLACES)} texts of each of {len(TENANTS)} tenants')


def cpu_ns_of(child):
    """The processor time of all threads of a process, also of those that have ended; the id of the clock is made as in
    clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~child.pid << 3 | 2)


def kill_after(world, words, cpu_ns):
    """Lets the command run in slices, and kills it, while it is stopped, after so much CPU: neither its waits for the
    disk count, nor what others do on the machine. @return its CPU when it had begun to erase, and when it ended."""
    def has_begun():
        wal = world.path('kept/turnphase.db-wal')
        return os.path.exists(world.path('kept/forget.pending')) or os.path.exists(wal) and os.path.getsize(wal) > 0

    world.restore()
    child = world.start(*words)
    begun, used = 0, 0
    while used < cpu_ns and not os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        os.kill(child.pid, signal.SIGCONT)
        time.sleep(0.003)
        os.kill(child.pid, signal.SIGSTOP)
        used = cpu_ns_of(child)
        begun = begun or (used if has_begun() else 0)
    child.kill()
    child.communicate()
    return begun, used


def kill_one(world, words, span, state):
    """Kills one erasure, and counts what the next start found."""
    kill_after(world, words, random.randint(*span))
    is_left, is_finished = os.path.exists(world.path('kept/forget.pending')), False
    if is_left:
        check('finishes it' in world.run('sessions', 'list', 'kept'), 'sessions list says nothing of an erasure')
        out = world.run('run', '--script', 'model.json', '--data', 'kept', 'after.jsonl')  # the next start
        is_finished = 'is finished now' in out
        check(not os.path.exists(world.path('kept/forget.pending')), 'the next start leaves the file of the erasure')
    left = left_of(world.path('kept'))['bob']
    stays = {(n, p) for n in range(TURNS) for p in ('user', 'memory', 'fact')} if words[0] == 'sessions' else set()
    if left == stays:
        state['finished by the next start' if is_finished else 'over'] += 1
    else:
        is_whole = len(left) == TURNS * len(PLACES)
        is_named = words[0] == 'sessions' and 'copies of deleted rows are left' in world.run('sessions', 'list', 'kept')
        check(is_named or is_whole and not is_finished, f'{len(left)} texts are left, and not named')
        state['copies are named' if is_named else 'not begun'] += 1
    world.run(*words)
    check(not os.path.exists(world.path('kept/forget.pending')), 'the file of the erasure is left')
    world.expect(lambda n, p: (n, p) not in stays, 'after the next call')


def kill_many(world):
    with open(world.path('after.jsonl'), 'w') as talk:
        talk.write(json.dumps({'session': 'after', 'turn': 'after', 'tenant': 'ann', 'user': 'Hello.'}) + '\n')
    who = ('kept', '--tenant', 'bob', '--yes')
    for words in (('forget', *who), ('sessions', 'delete', *who)):
        span = kill_after(world, words, 1 << 62)
        check(0 < span[0] < span[1], f'{words}: CPU {span}')
        state = dict.fromkeys(('not begun', 'copies are named', 'finished by the next start', 'over'), 0)
        for _ in range(POINTS // 2):
            kill_one(world, words, span, state)
        print(f'# {" ".join(words[:2])}: {POINTS // 2} kills: {state}')


def main():
    random.seed(SEED)
    with tempfile.TemporaryDirectory() as directory:
        world = World(directory)
        world.plant()
        world.plant_memories()
        for tenant in TENANTS:
            check(len(left_of(world.path('kept'))[tenant]) == TURNS * len(PLACES), f'{tenant}: not all was planted')
        shutil.copytree(world.path('kept'), world.path('whole'))
        erase_once(world)
        kill_many(world)


if __name__ == '__main__':
    main()
