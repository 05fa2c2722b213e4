# SPDX-License-Identifier: Apache-2.0
"""What a person sees at 60, 80 and 120 columns, compared with the files of tests/screens/: records have times that this
test sets, and where a command measures its own, each time is '#'. No row is wider than the terminal, and no time is
broken. TURNPHASE_SCREENS=write writes the files anew."""
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unicodedata

sys.dont_write_bytecode = True  # nothing is written next to the sources
import cases  # noqa: E402

COMMAND = os.path.abspath(sys.argv[1])
SCREENS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'screens')
TIME = re.compile(r'( *)-?\d[\d.]* (?:ns|µs|us|ms|s)\b')
STAMP = re.compile(r'\d{4}-\d\d-\d\dT[\d:.]+Z')
FILES = {
    'model.yaml': 'responses:\n  - tool_calls: [{id: a, name: files_list, arguments: {path: .}}]\n'
                  '  - text: A note and a letter from Kyōto are there, as you said, and nothing else that I '
                  'could see.\n',
    'talk.yaml': 'sessions: [{id: monday, turns: [{id: monday-1, user: "京都からの手紙 is what I look for: is it '
                 'there, and what else is in the folder? Do tell me."}]}]\n',
    'folder/letter.txt': 'x\n',
    'hooks/guard.yaml': 'id: a_guard_with_a_long_name\nevent: tool.pre\nmatch: {ability_scope: [shell, files_write]}\n'
                        'handler: {kind: deny, reason: no}\n',
    'hooks/hours.yaml': 'id: hours\nevent: turn.intake\nhandler: {kind: deny, reason: not now}\n',
}
COMMANDS = {
    'run': None,  # play()
    'explain': ['explain', 'kept', 'monday-1'],
    'runs': ['runs', 'kept', '--session', 'monday'],
    'blame': ['blame', 'kept', 'monday-1'],
    'plan': ['plan', '--files', 'folder'],
    'phases': ['phases'],
    'hooks-list': ['hooks', 'list', 'hooks'],
    'hooks-list-long': ['hooks', 'list', 'hooks', '-v'],
}
OF_RECORD = {'blame', 'explain', 'runs'}  # their times are those that set_times() sets
STARTED_UNIX_MS = 1767323045678  # 2026-01-02T03:04:05.678Z
# When what was recorded began and ended, in microseconds from the begin of the turn: no two lines of blame are equally
# slow. In order: the entries; their runs (queued, started, ended); the steps.
ENTRIES = [(3000, 6000), (7000, 12000), (13000, 14800), (16000, 16400), (60000, 60000), (85000, 95000),
           (110000, 114000)]
RUNS = [(3000, 3000, 6000), (7000, 7500, 9000), (9000, 9250, 11500), (13000, 13000, 14000), (14000, 14000, 14800),
        (16000, 16000, 16400), (60000, None, None), (85000, 85000, 85000), (110000, 111000, 113500)]
STEPS = [(500, 2700), (17000, 47000), (61000, 67000), (68000, 77000), (79000, 84000)]
TURN = {'started_ns': 0, 'ended_ns': 99000, 'load_ns': 2200, 'model_ns': 39000, 'tools_ns': 8600, 'append_ns': 5000}


def call(directory, arguments, **environment):
    names = {'PATH': os.environ['PATH'], 'HOME': directory, 'LC_ALL': 'C.UTF-8', **environment}
    names.update({name: os.environ[name] for name in ('LD_LIBRARY_PATH', 'ASAN_OPTIONS', 'TSAN_OPTIONS')
                  if name in os.environ})
    done = subprocess.run([COMMAND, *arguments], cwd=directory, env=names, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f'{arguments}: {done.returncode}, {done.stderr}'
    return done.stdout


def set_times(directory):
    """The lines of blame, and their order, depend on nothing else."""
    def set_all(table, key, order, columns, times):
        rows = store.execute(f'SELECT {key} FROM {table} ORDER BY {order}').fetchall()
        assert len(rows) == len(times), f'{table}: {len(rows)} rows, {len(times)} times'
        change = ', '.join(f'{column} = ?' for column in columns)
        where = ' AND '.join(f'{part} = ?' for part in key.split(', '))
        for row, of_row in zip(rows, times):
            store.execute(f'UPDATE {table} SET {change} WHERE {where}',
                          [0 if time is None else begin_ns + 1000 * time for time in of_row] + list(row))

    store, begin_ns = sqlite3.connect(os.path.join(directory, 'kept/turnphase.db')), 10**15
    # A job may be written before the last entries of its turn: the order is that in which they began.
    numbers, above = [number for number, in store.execute('SELECT number FROM entry ORDER BY id')], 10**6
    for table, column in (('entry', 'number'), ('run', 'entry')):
        store.execute(f'UPDATE {table} SET {column} = {column} + {above}')
        for place, number in enumerate(numbers, 1):
            store.execute(f'UPDATE {table} SET {column} = {place} WHERE {column} = {number + above}')
    set_all('entry', 'number', 'number', ['started_ns', 'ended_ns'], ENTRIES)
    set_all('run', 'entry, position', 'entry, position', ['queued_ns', 'started_ns', 'ended_ns'], RUNS)
    set_all('step', 'turn, position', 'position', ['started_ns', 'ended_ns'], STEPS)
    moments = {name: (begin_ns if name in ('started_ns', 'ended_ns') else 0) + 1000 * us for name, us in TURN.items()}
    store.execute('UPDATE turn SET ' + ', '.join(f'{name} = {ns}' for name, ns in moments.items()))
    for table, column, ms in (('turn', 'started', 0), ('turn', 'ended', 99), ('entry', 'started', 3)):
        store.execute(f'UPDATE {table} SET {column}_unix_ms = {STARTED_UNIX_MS + ms}')
    store.commit()
    store.close()


def play(directory, data, **environment):
    """memory.active_recall has 200 ms: where a loaded machine does not give it so much, the conversation is played
    again, since its outcome is then another."""
    arguments = ['run', '--script', 'model.yaml', '--files', 'folder', '--data', data, '--verbose', 'talk.yaml']
    for _ in range(20):
        shutil.rmtree(os.path.join(directory, data), ignore_errors=True)
        text = call(directory, arguments, **environment)
        if 'timed_out' not in text:
            break
    return text


def make(_):
    """Each case only reads the data of the first one, or plays a conversation of its own."""
    directory = MADE_IN
    if os.path.exists(os.path.join(directory, 'kept')):
        return directory
    for name, text in FILES.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
    call(directory, ['hooks', 'trust', 'hooks'])
    play(directory, 'kept')
    set_times(directory)
    return directory


def columns_of(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in 'WF' else 1 for c in line)


def masked(text):
    """Times have many widths: what is compared is in which line they stand; check() looks at the rest."""
    text = STAMP.sub('TIME', text)
    text = re.sub(r'\b[0-9a-f]{16}\b(-\d+)?', 'HASH', text)
    text = re.sub(r'^ *\d+\.\d\d(?=  )', '     0.00', text, flags=re.M)
    text = TIME.sub(lambda m: min(len(m[1]), 2) * ' ' + '#', text)
    return re.sub(r'@ ?# \+#', '@# +#', text)


def check(name, width, text):
    for line in text.split('\n'):
        assert columns_of(line) <= width, f'{name} at {width}: {columns_of(line)} columns: {line}'
    assert not re.search(r'\d[\d.]*\n *(?:ns|µs|ms)\b', text), f'{name} at {width}: a time is broken'
    assert not re.search(r'[a-z_]{3}(?:succeeded|backgrounded|skipped)\b', text), f'{name} at {width}: cells touch'


def shown(name, text):
    if name in OF_RECORD:
        return re.sub(r'\b[0-9a-f]{16}\b(-\d+)?', 'HASH', text)
    text = masked(text)
    if name != 'run':
        return text
    text = re.sub(r'queued #(, |\n *(?=in ))', '', text)
    text = re.sub(r'^ +-(?=  )', '', re.sub(r' *#(?= |$)', '', text, flags=re.M), flags=re.M)
    lines = [line for line in text.split('\n') if line.strip()]
    # It is random which phases show a duration of 0, and where a line with a time ends.
    return '\n'.join(line for line in lines if line.startswith(18 * ' ') or ' user ' in line) + '\n'


def screen(name):
    def case(directory):
        for width in (60, 80, 120):
            columns = {'COLUMNS': str(width)}
            text = play(directory, 'again', **columns) if name == 'run' else call(directory, COMMANDS[name], **columns)
            check(name, width, text)
            path = os.path.join(SCREENS, f'{name}-{width}.txt')
            text = re.sub(r' +$', '', shown(name, text), flags=re.M)
            if os.environ.get('TURNPHASE_SCREENS') == 'write':
                with open(path, 'w', encoding='utf-8') as file:
                    file.write(text)
            with open(path, encoding='utf-8') as file:
                wanted = file.read()
            assert text == wanted, f'{name} at {width}:\n{text}\nwanted:\n{wanted}'
    case.__name__ = f'screen_of_{name}'.replace('-', '_')
    return case


def marks_are_ascii_without_utf8(directory):
    for locale in ('C', 'POSIX', 'de_DE.ISO-8859-1'):
        for command in ('explain', 'time', 'critical-chain'):
            text = call(directory, [command, 'kept', 'monday-1'], LC_ALL=locale, COLUMNS='80')
            assert text.isascii(), f'{locale}: {text}'
    assert not call(directory, ['time', 'kept', 'monday-1'], LC_ALL='').isascii()


def a_pipe_without_columns_gets_whole_rows(directory):
    text = call(directory, ['explain', 'kept', 'monday-1'])
    assert max(columns_of(line) for line in text.split('\n')) > 120
    assert re.search(r'ran after +merged\n', text)


with tempfile.TemporaryDirectory() as MADE_IN:
    failed = cases.run([screen(name) for name in COMMANDS] +
                       [marks_are_ascii_without_utf8, a_pipe_without_columns_gets_whole_rows], make)
sys.exit(failed)
