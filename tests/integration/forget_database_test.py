# SPDX-License-Identifier: Apache-2.0
"""The texts of forget_test.py, without memories, in a database: export prints just what forget with the same words
erases, by the choices that a directory has; a dump of the server has none of it after that, and all of the rest, also
of the other tenants."""
import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time

import forget_test
from forget_test import TENANTS, World, check, exported_of, planted_in

forget_test.TURNS = 60
forget_test.PLACES = tuple(p for p in forget_test.PLACES if p not in ('memory', 'fact'))
EVERY = {(t, n, p) for t in TENANTS for n in range(forget_test.TURNS) for p in forget_test.PLACES}
OF_TURN = ('user', 'answer', 'argument', 'result', 'question', 'reason')
BIN = (sorted(glob.glob('/usr/lib/postgresql/*/bin')) or [''])[-1]


class Server:
    """Made by initdb in a directory; it ends with the test."""

    def __init__(self, place):
        self.place = place
        user = pwd.getpwnam('postgres') if os.getuid() == 0 else None
        self.who = {'user': user.pw_uid, 'group': user.pw_gid, 'extra_groups': []} if user else {}
        if user:
            os.chown(place, user.pw_uid, user.pw_gid)
        subprocess.run([BIN + '/initdb', '-D', place + '/data', '-A', 'trust', '-U', 'postgres', '-E', 'UTF8',
                        '--locale=C', '--no-sync'], check=True, stdout=subprocess.DEVNULL, cwd=place, **self.who)
        self.child = subprocess.Popen(
            [BIN + '/postgres', '-D', place + '/data', '-c', 'listen_addresses=', '-c', 'fsync=off', '-c',
             'unix_socket_directories=' + place], stderr=subprocess.DEVNULL, cwd=place, **self.who)
        while subprocess.run([BIN + '/pg_isready', '-q', '-h', place], check=False).returncode != 0:
            check(self.child.poll() is None, 'the server has ended')
            time.sleep(0.02)

    def stop(self):
        self.child.send_signal(3)
        self.child.wait(30)

    def sql(self, text, database='postgres'):
        subprocess.run(['psql', '-qAt', '-v', 'ON_ERROR_STOP=1', '-h', self.place, '-U', 'postgres', database],
                       text=True, input=text, check=True, stdout=subprocess.DEVNULL)

    def uri(self, database):
        return f'postgres://postgres@/{database}?host={self.place}'

    def left_in(self, database):
        out = subprocess.run([BIN + '/pg_dump', '-h', self.place, '-U', 'postgres', '--data-only', database],
                             capture_output=True, check=True).stdout
        out += b'\n'.join(bytes.fromhex(word.decode()) for word in re.findall(rb'\\\\x([0-9a-f]+)', out))
        return planted_in(out.decode('utf-8', 'replace'))


def rows_of(tenant, number):
    """The rows that `data copy` leaves in the database."""
    def b(word):
        return f"convert_to('{word}', 'UTF8')"
    of = f"{b(tenant)}, {b(f's{number % 3}')}"
    text = {p: b(forget_test.text(tenant, number, p)) for p in forget_test.PLACES}
    key = b(f'{tenant}-{number}')
    return (
        "INSERT INTO turnphase.question (call_hash, state, waits, asked_ms, expires_ms, answered_ms, used_ms, batch,"
        " taken, tenant, session, agent, turn, tool, call_id, arguments, hash, subscription, reason, person,"
        f" answer, edited) VALUES (1, 0, false, 1, 1, 0, 0, 0, 0, {of}, '', {b(f't{number}')}, 'look', 'c', '', '', '',"
        f" {text['question']}, '', '', '');\n"
        f"INSERT INTO turnphase.task VALUES ({key}, false, 0, 0, 1, {key}, 'look', '', {text['task']}, {of}, '');\n"
        f"WITH k AS (INSERT INTO turnphase.job_key (hash, batch) VALUES ({key}, 0) RETURNING id) INSERT INTO"
        " turnphase.job_ended OVERRIDING SYSTEM VALUE SELECT id, id, 4, 0, 1, 1, 0, 0, 0, 21, 1, 0, 0, 1, 0, 0, 1, 0,"
        f" 'h', 'h', {key}, 's', '', {text['job']}, {key}, 0, 0, 0, 0, {of} FROM k;\n")


def plant(server, world):
    world.plant()
    server.sql('CREATE DATABASE planted')
    world.run('data', 'copy', 'kept', server.uri('planted'))
    old = ', '.join(f"'t{n}'" for n in range(20))
    server.sql(''.join(rows_of(tenant, number) for tenant in TENANTS for number in range(forget_test.TURNS)) +
               'UPDATE turnphase.message SET appended = to_timestamp('
               f'{forget_test.OLD_MS / 1000}) WHERE turn IN ({old})', 'planted')
    check(server.left_in('planted') == EVERY, f"not all was planted: {sorted(EVERY - server.left_in('planted'))[:5]}")


CHOICES = (
    ('a tenant', [], lambda t, n, p: True),
    ('a session', ['--session', 's2'], lambda t, n, p: n % 3 == 2),
    ('a person', ['--user', 'zoe'], lambda t, n, p: n % 3 == 1),
    ('a date', ['--before', '2021-01-01'], lambda t, n, p: n < 20 or p not in OF_TURN),
    ('a text', ['--matching', 'plant-bob-033-result.'], lambda t, n, p: n == 33 and p in OF_TURN),
    ('a date of a person', ['--user', 'zoe', '--before', '2021-01-01'],
     lambda t, n, p: n % 3 == 1 and (n < 20 or p not in OF_TURN)),
    ('a text that is nowhere', ['--matching', 'plant-bob-044-fact.'], lambda t, n, p: False),
    ('a text of a task', ['--matching', 'plant-bob-055-task.'], lambda t, n, p: n == 55 and p == 'task'),
    ('what is old of every tenant', ['--before', '2021-01-01'], lambda t, n, p: n < 20 or p not in OF_TURN))


def erase_by(server, world, number):
    what, words, gone = CHOICES[number]
    data = server.uri(f'case{number}')
    server.sql(f'CREATE DATABASE case{number} TEMPLATE planted')
    of_all = what.endswith('every tenant')
    wanted = {(t, n, p) for t, n, p in EVERY if (of_all or t == 'bob') and gone(t, n, p)}
    found = planted_in(world.run('export', data, *words)) if of_all else exported_of(world, data, words)
    check(found == wanted, f'{what}: exported and not gone {sorted(found - wanted)[:5]}, not exported '
          f'{sorted(wanted - found)[:5]}')
    out = world.run('forget', data, *([] if of_all else ['--tenant', 'bob']), *words, '--yes')
    counts = re.findall(r'(\d+) sessions \((\d+) rows\)|(\d+) turns of (\d+) sessions \((\d+) rows\)', out)
    check(len(counts) == 2 and counts[0] == counts[1], f'{what}: counted and erased: {out}')
    check('the server has copies' in out, out)
    left = server.left_in(f'case{number}')
    check(left == EVERY - wanted, f'{what}: {sorted(left & wanted)[:5]} are left, '
          f'{sorted(EVERY - wanted - left)[:5]} are gone')
    check(planted_in(world.run('export', data, '--tenant', 'bob')) == {x for x in left if x[0] == 'bob'}, what)
    if what == 'a person':  # the conversations of other persons go on
        out = world.run('sessions', 'show', data, 's0', '--tenant', 'bob')
        check('plant-bob-003-user.' in out, out)


def main():
    if not BIN or not shutil.which('psql'):
        print('1..0 # SKIP PostgreSQL is not installed')
        return
    memory = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as place, tempfile.TemporaryDirectory(dir=memory) as directory:
        server = Server(place)
        try:
            world = World(directory)
            plant(server, world)
            print(f'1..{len(CHOICES)}')
            for number, choice in enumerate(CHOICES):
                erase_by(server, world, number)
                print(f'ok {number + 1} - {choice[0]}', flush=True)
        finally:
            server.stop()


main()
