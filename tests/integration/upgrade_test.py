#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A data directory that an earlier turnphase made goes on: its rows are there, and turns, jobs and reports work.

    python3 upgrade_test.py TURNPHASE [--long] [CASE…]

The files in schemas/ are the tables of earlier versions, as those made them: numbered.sql has versions 1 to 12, and
one-*.sql forms of version 1 that followed; --long tries each. The rows are written here."""
import glob
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import cases

LONG = '--long' in sys.argv and not sys.argv.remove('--long')
COMMAND = os.path.abspath(sys.argv[1])
SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'schemas')
LIMIT_S = 60
APPLICATION_ID = 0x54704869
SAID = ['My bicycle is green.', 'Noted: green.', 'And it has a bell.', 'Noted: a bell.']
NEWEST = (13, 'f3f2b7d257fd7504')  # the version, and what its tables are
VALUES = {'TEXT': '', 'BLOB': b'', 'INTEGER': 0}


def stages():
    """(name, version, statements) of each earlier form of a file."""
    with open(f'{SCHEMAS}/numbered.sql', encoding='utf-8') as file:
        parts = file.read().split('-- version ')[1:]
    for number in (1, 3, 6, 9, 12) if not LONG else range(1, len(parts) + 1):
        yield f'version {number}', number, ''.join(part.split('\n', 1)[1] for part in parts[:number])
    for path in sorted(glob.glob(f'{SCHEMAS}/one-*.sql')):
        with open(path, encoding='utf-8') as file:
            yield os.path.basename(path), 1, file.read()


def insert(db, table, **values):
    """Writes a row, with 0 or nothing in each column that is not named; if the file has no such table, nothing."""
    columns = [row[1:] for row in db.execute(f'PRAGMA table_info({table})')]
    row = {name: VALUES[kind] for name, kind, not_null, _, key in columns if not_null and not key}
    row.update({name: value for name, value in values.items() if name in [column[0] for column in columns]})
    if columns:
        db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))


def fill(db):
    """Two sessions whose messages alternate, a record with a run and an attempt, a turn with a step, and a dead job."""
    for number, name in enumerate(('s', 'other'), 1):
        insert(db, 'session', id=number, name=name, next=len(SAID), epoch=1)
    for place, text in enumerate(SAID):
        for session in (1, 2):
            insert(db, 'message', session=session, role=place % 2 + 1, turn=f'turn{place // 2}',
                   text=text if session == 1 else 'Other words.', position=place, unix_ms=1700000000000)
    insert(db, 'process', id=7, process_id=1, process_started=1, opened_unix_ms=1700000000000, boot_id='x')
    insert(db, 'entry', number=1, process=7, id=1, started_ns=1, ended_ns=2, phase=2, session='s', turn='turn0')
    insert(db, 'run', entry=1, position=0, subscription='guard', handler='guard', owner='host', state=3)
    insert(db, 'attempt', process=7, entry=1, position=0, number=1)
    insert(db, 'turn', row=1, process=7, number=1, started_ns=1, ended_ns=2, outcome=1, session='s', turn='turn0',
           started_unix_ms=1700000000000, ended_unix_ms=1700000000001)
    insert(db, 'step', turn=1, position=0, kind=1, name='one')
    insert(db, 'job', id=5, state=4, handler='late', subscription='late', idempotency_key='k', message='no luck',
           inserted_ms=1700000000000, ended_ms=1700000000000, contract_version=1, attempt=3, attempts_max=3,
           payload=b'\x80')
    insert(db, 'audit', unix_ms=1700000000000, owner='host', action='register', detail='a handler')
    insert(db, 'question', number=1, state=1, tool='t', asked_ms=1, expires_ms=4000000000000, hash='h',
           arguments=b'\x80', reason='why', turn='turn0', call_id='c')


class Directory:
    def __init__(self, path):
        self.path = path

    def make(self, version, statements):
        self.data = f'{self.path}/data'
        shutil.rmtree(self.data, ignore_errors=True)
        os.mkdir(self.data, 0o700)
        db = self.connect()
        db.execute('PRAGMA journal_mode = WAL')
        db.executescript(statements)
        fill(db)
        db.execute(f'PRAGMA application_id = {APPLICATION_ID}')
        db.execute(f'PRAGMA user_version = {version}')
        db.commit()
        db.close()

    def connect(self):
        return sqlite3.connect(f'{self.data}/turnphase.db')

    def rows(self, sql):
        db = self.connect()
        found = db.execute(sql).fetchall()
        db.close()
        return found

    def command(self, *words, status=0):
        ran = subprocess.run([COMMAND, *words], cwd=self.path, capture_output=True, text=True, timeout=LIMIT_S)
        assert ran.returncode == status, (words, ran)
        return ran.stdout + ran.stderr

    def say(self, text):
        with open(f'{self.path}/model.yaml', 'w', encoding='utf-8') as file:
            file.write('responses: [{text: Noted again.}]\n')
        with open(f'{self.path}/talk.jsonl', 'w', encoding='utf-8') as file:
            json.dump({'session': 's', 'turn': 'new', 'user': text}, file)
        return self.command('run', '--data', self.data, '--no-memory', '--script', 'model.yaml', 'talk.jsonl')

    def said(self, session):
        lines = map(json.loads, self.command('sessions', 'export', self.data, session).splitlines())
        return [line['row']['text'] for line in lines if line['kind'] == 'message']


def shape(db):
    """The compared parts: each table's columns without their order, and all other objects."""
    objects = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
    columns = {name: sorted((row[1], row[2], row[3], row[5]) for row in db.execute(f'PRAGMA table_info({name})'))
               for kind, name, _ in objects if kind == 'table'}
    words = {name: ('AUTOINCREMENT' in sql, 'WITHOUT ROWID' in sql) for kind, name, sql in objects if kind == 'table'}
    return columns, words, sorted(row for row in objects if row[0] != 'table')


def new_shape(directory):
    """The shape of a file that this turnphase makes."""
    directory.data = f'{directory.path}/new'
    directory.say('Hello.')
    db = directory.connect()
    made, version = shape(db), db.execute('PRAGMA user_version').fetchone()[0]
    db.close()
    return made, version


def every_earlier_file_goes_on(directory):
    made, newest = new_shape(directory)
    for name, version, statements in stages():
        directory.make(version, statements)
        tables = [name for name, in directory.rows('SELECT name FROM sqlite_schema')]
        directory.say('It is fast, too.')
        assert directory.said('s') == SAID + ['It is fast, too.', 'Noted again.'], (name, directory.said('s'))
        assert directory.said('other') == ['Other words.'] * len(SAID), name
        db = directory.connect()
        upgraded = shape(db)
        db.close()
        assert upgraded == made, (name, [pair for pair in zip(upgraded, made) if pair[0] != pair[1]])
        assert directory.rows('PRAGMA user_version') == [(newest,)], name
        assert directory.rows('PRAGMA integrity_check') == [('ok',)], name
        assert directory.rows('SELECT position FROM message WHERE session = 1 ORDER BY id') == [
            (place,) for place in range(len(SAID) + 2)], name
        if 'job' in tables:
            assert 'no luck' in directory.command('jobs', 'list', directory.data), name
            assert directory.rows('SELECT value FROM counter WHERE id = 4') == [(1,)], name
            assert directory.rows('SELECT tenant, postponed_ms FROM job') == [('', 0)], name
            directory.command('jobs', 'redrive', directory.data, '5')
        directory.command('runs', directory.data)
        if 'turn' in tables:
            assert 'guard' in directory.command('show', directory.data, 'turn0'), name
        directory.command('audit', directory.data)
        directory.command('store', 'verify', directory.data)
        directory.command('sessions', 'list', directory.data)
        directory.command('ask', 'list', directory.data)


def columns_are_added_in_place(directory):
    """A large table is not copied for a column: only what ALTER TABLE has added has a default."""
    copied = {'session', 'died'}  # AUTOINCREMENT; a column that is not declared any more
    for name, version, statements in [stage for stage in stages() if stage[0] in ('one-a.sql', 'one-d.sql')]:
        directory.make(version, statements)
        db = directory.connect()
        before = shape(db)[0]
        db.close()
        directory.say('Go on.')
        db = directory.connect()
        after = shape(db)[0]
        in_place = {table for table, in db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%DEFAULT%'")}
        db.close()
        grown = {table for table in before if before[table] != after[table]}
        assert len(grown) > 2 and in_place == grown - copied, (name, in_place, grown)


def ids_that_were_given_are_not_given_again(directory):
    """When a table is made anew, the number of its last id is kept."""
    for name, version, statements in stages():
        directory.make(version, statements)
        db = directory.connect()
        if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'job'").fetchone():
            db.close()
            continue
        insert(db, 'job', id=90, state=3, idempotency_key='l')
        db.execute('DELETE FROM job WHERE id = 90')
        db.execute('ALTER TABLE job ADD COLUMN of_a_host')  # a column that is not declared: it is made anew
        db.commit()
        db.close()
        directory.say('Go on.')
        assert directory.rows("SELECT seq FROM sqlite_sequence WHERE name = 'job'") == [(90,)], name
        assert directory.rows("SELECT count(*) FROM pragma_table_info('job') WHERE name = 'of_a_host'") == [(0,)], name
        assert directory.rows('SELECT message FROM job WHERE id = 5') == [('no luck',)], name


def a_file_that_cannot_be_upgraded_is_left_as_it_was(directory):
    """Two messages at one place: the file has what no earlier turnphase wrote."""
    name, version, statements = [stage for stage in stages() if stage[0] == 'one-e.sql'][0]
    directory.make(version, statements)
    db = directory.connect()
    db.execute('DROP INDEX message_position')
    db.execute('UPDATE message SET position = 0')
    db.commit()
    db.close()
    before = directory.rows('SELECT * FROM sqlite_schema ORDER BY name')
    printed = subprocess.run([COMMAND, 'worker', directory.data, '--until-empty'], capture_output=True, text=True,
                             timeout=LIMIT_S)
    assert printed.returncode != 0 and 'upgrade its tables: UNIQUE' in printed.stderr, printed
    assert directory.rows('SELECT * FROM sqlite_schema ORDER BY name') == before
    assert directory.rows('PRAGMA user_version') == [(version,)]


def what_is_read_only_says_what_upgrades_it(directory):
    name, version, statements = list(stages())[-1]
    directory.make(version, statements)
    os.chmod(directory.path, 0o755)
    os.chmod(f'{directory.data}/turnphase.db', 0o444)
    os.chmod(directory.data, 0o555)
    nobody = {'user': 65534} if os.geteuid() == 0 else {}
    ran = subprocess.run([COMMAND, 'runs', directory.data], capture_output=True, text=True, timeout=LIMIT_S,
                         **nobody)
    os.chmod(directory.data, 0o700)
    assert ran.returncode != 0 and 'open it once where it can be written' in ran.stderr, (name, ran)


def a_change_of_the_tables_has_a_version_of_its_own(directory):
    """When this fails: raise the version in stores/sqlite/schema.c, keep the form of before in schemas/, and write the
    new pair here."""
    made, version = new_shape(directory)
    digest = hashlib.sha256(repr(made).encode()).hexdigest()[:16]
    assert (version, digest) == NEWEST, (version, digest)


def two_that_open_at_once_both_go_on(directory):
    for name, version, statements in list(stages())[-6:]:
        directory.make(version, statements)
        both = [subprocess.Popen([COMMAND, 'jobs', 'list', directory.data], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True) for _ in range(4)]
        printed = [child.communicate(timeout=LIMIT_S)[0] for child in both]
        assert all(child.returncode == 0 for child in both), (name, printed)
        assert all('no luck' in text for text in printed), (name, printed)


def a_kill_in_the_upgrade_leaves_one_of_both(directory):
    """Killed at several moments, the file has either form, and goes on."""
    name, version, statements = [stage for stage in stages() if stage[0] == 'one-a.sql'][0]
    killed = 0
    for moment in range(8):
        directory.make(version, statements)
        db = directory.connect()
        db.executemany("INSERT INTO message (session, role, is_error, turn, text, call_id, name, parts)"
                       " VALUES (2, 2, 0, '', ?, '', '', x'')", [('x' * 100,)] * 20000)
        db.commit()
        db.close()
        child = subprocess.Popen([COMMAND, 'jobs', 'list', directory.data], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            child.wait(0.02 * moment)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            killed += 1
        directory.say('Go on.')
        assert directory.said('s') == SAID + ['Go on.', 'Noted again.']
        assert directory.rows('SELECT count(*), max(position) FROM message WHERE session = 2') == [(20004, 20003)]
    assert killed > 0


CASES = [a_change_of_the_tables_has_a_version_of_its_own, every_earlier_file_goes_on,
         columns_are_added_in_place, ids_that_were_given_are_not_given_again,
         a_file_that_cannot_be_upgraded_is_left_as_it_was,
         what_is_read_only_says_what_upgrades_it, two_that_open_at_once_both_go_on,
         a_kill_in_the_upgrade_leaves_one_of_both]

if __name__ == '__main__':
    sys.exit(cases.run(CASES, Directory))
