# SPDX-License-Identifier: Apache-2.0
"""SIGINT, SIGTERM and SIGHUP end run, chat, tool and worker alike: what is under way is cancelled, its program is gone,
the last events and the result are written, and the status is 128 and the number. A second signal ends at once, and one
that was ignored when the command began stays so."""
import json
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing is written next to the sources
import cases  # noqa: E402

COMMAND = os.path.abspath(sys.argv[1])
LIMIT_S = 60
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
# The tool prints where its program is, and does not end by itself.
FILES = {
    'hooks/slow.yaml': 'kind: tool\nname: slow\ndescription: slow\ncommand: [sh, hooks/slow.sh]\n',
    'hooks/slow.sh': 'echo $$ > pid.new && mv pid.new pid; exec sleep 600\n',
    'hooks/quick.yaml': 'kind: tool\nname: quick\ndescription: quick\ncommand: [sh, hooks/quick.sh]\n',
    'hooks/quick.sh': 'exit 0\n',
    'two-model.yaml': 'responses:\n  - tool_calls: [{id: a, name: slow, arguments: {}}, '
                      '{id: b, name: quick, arguments: {}}]\n  - text: never\n',
    'hooks/deaf.yaml': 'kind: tool\nname: deaf\ndescription: deaf\ncommand: [sh, hooks/deaf.sh]\n',
    'hooks/deaf.sh': 'trap "" TERM HUP INT; echo $$ > pid.new && mv pid.new pid; while :; do sleep 1; done\n',
    'model.yaml': 'responses:\n  - tool_calls: [{id: a, name: slow, arguments: {}}]\n  - text: never\n',
    'deaf-model.yaml': 'responses:\n  - tool_calls: [{id: a, name: deaf, arguments: {}}]\n  - text: never\n',
    'plain.yaml': 'responses:\n  - text: hello\n',
    'talk.yaml': json.dumps({'sessions': [{'id': 's', 'turns': [{'id': 't1', 'user': 'go'},
                                                                 {'id': 't2', 'user': '?'}]}]}),
}
HOOKS = ['--hooks', 'hooks', '--no-memory']


def lay_out(directory):
    for name, text in FILES.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text)
    environment = dict(os.environ, XDG_CONFIG_HOME=os.path.join(directory, 'config'))
    subprocess.run([COMMAND, 'hooks', 'trust', 'hooks'], cwd=directory, env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    return environment


def is_alive(number):
    try:
        with open(f'/proc/{number}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] != 'Z'
    except OSError:
        return False


def wait_for(what, process=None):
    until = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < until, 'it did not come'
        assert not process or process.poll() is None, 'the command ended before it was told to'
        time.sleep(0.005)


def begin(root, name, arguments, text=None, before=None):
    """@return the command, its program's number and its directory."""
    directory = os.path.join(root, name)
    os.mkdir(directory)
    environment = lay_out(directory)
    process = subprocess.Popen([COMMAND, *arguments], cwd=directory, env=environment, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=before)
    if text:
        process.stdin.write(text)
        process.stdin.flush()
    pid = os.path.join(directory, 'pid')
    wait_for(lambda: os.path.exists(pid), process)
    with open(pid) as file:
        return process, int(file.read()), directory


def end(process, program, number):
    """@return the lines of standard output, and standard error."""
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number, (process.returncode, err)
    wait_for(lambda: not is_alive(program))
    return out.decode().splitlines(), err.decode()


RUN = ['run', '--script', 'model.yaml', *HOOKS, '--json', 'talk.yaml']
TWO = ['run', '--script', 'two-model.yaml', *HOOKS, '--json', 'talk.yaml']
DEAF = ['run', '--script', 'deaf-model.yaml', *HOOKS, '--json', 'talk.yaml']
CHAT = ['chat', '--script', 'model.yaml', *HOOKS, '--json']
CALL = ['tool', 'call', 'slow', *HOOKS, '--json']


def outcomes(lines):
    events = [json.loads(line) for line in lines]
    return [event['outcome'] for event in events if event['event'] == 'result']


def run_is_ended(root):
    for number in SIGNALS:
        process, program, directory = begin(root, number.name, RUN + ['--data', 'data'])
        lines, err = end(process, program, number)
        names = [json.loads(line)['event'] for line in lines]
        assert 'tool_end' in names and 'turn_end' in names, names
        assert outcomes(lines) == ['cancelled'], lines  # the second turn is not played
        assert 'interrupted' in err, err
        shown = subprocess.run([COMMAND, 'show', 'data', 't1'], cwd=directory, stdout=subprocess.PIPE, check=True)
        assert b'cancelled' in shown.stdout, shown.stdout


def run_that_reads_its_conversation_is_ended(root):
    """Nothing is under way: the signal ends the process as it does by itself."""
    for number in SIGNALS:
        master, terminal = os.openpty()
        process = subprocess.Popen([COMMAND, 'run', '--script', 'model.yaml'], cwd=root, stdin=terminal,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(terminal)
        assert b'reading from the terminal' in process.stderr.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, out, err) == (-number, b'', b''), (process.returncode, out, err)
        os.close(master)


def program_that_hears_no_signal_is_gone(root):
    process, program, _ = begin(root, 'deaf', DEAF)
    lines, _ = end(process, program, signal.SIGTERM)
    assert outcomes(lines) == ['cancelled'], lines


def chat_is_ended(root):
    for number in SIGNALS:
        process, program, _ = begin(root, number.name, CHAT, b'go\n')
        lines, _ = end(process, program, number)
        assert outcomes(lines) == ['cancelled'], lines


def chat_that_waits_for_a_line_is_ended(root):
    for number in SIGNALS:
        directory = os.path.join(root, number.name)
        environment = lay_out(directory)
        process = subprocess.Popen([COMMAND, 'chat', '--script', 'plain.yaml', '--no-memory', '--json'], cwd=directory,
                                   env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdin.write(b'hi\n')
        process.stdin.flush()
        while json.loads(process.stdout.readline())['event'] != 'result':
            pass
        process.send_signal(number)
        process.stdout.read()  # while its input is still open
        process.communicate(timeout=LIMIT_S)
        assert process.returncode == 128 + number, process.returncode


def call_is_ended(root):
    for number in SIGNALS:
        for name, more in (('memory', []), ('data', ['--data', 'data'])):
            process, program, _ = begin(root, number.name + name, CALL + more)
            lines, err = end(process, program, number)
            assert json.loads(lines[-1])['result'] == 'cancelled', lines
            assert 'interrupted' in err, err


def second_one_ends_at_once(root):
    process, program, _ = begin(root, 'twice', RUN)
    os.killpg(program, signal.SIGSTOP)  # the cancelled program does not end before it is killed
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGHUP), process.returncode
    if is_alive(program):
        os.killpg(program, signal.SIGKILL)


def what_was_ignored_stays_so(root):
    process, program, _ = begin(root, 'nohup', CALL, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    lines, _ = end(process, program, signal.SIGTERM)
    assert json.loads(lines[-1])['result'] == 'cancelled', lines


def look(directory, *words):
    done = subprocess.run([COMMAND, *words], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True)
    return done.stdout.decode()


def open_tools(directory):
    lines = [json.loads(line) for line in look(directory, 'runs', 'data', '--json').splitlines()]
    return [step['tool'] for line in lines if 'turn_state' in line for step in line['open'] if 'tool' in step]


def assert_shown(directory, word, doing):
    """The turn in each command that reads it, for people and for programs."""
    runs, show = look(directory, 'runs', 'data'), look(directory, 'show', 'data', 't1')
    explain, plot = look(directory, 'explain', 'data', 't1'), look(directory, 'plot', 'data', 't1', '--format', 'svg')
    assert f'{word} after ' in runs and f'{doing} tool slow, ' in runs, runs
    assert f'turn {word} since ' in show and 'tool slow, ' in show, show
    assert f'turn t1  {word}  after ' in explain and 'tool slow, call 1 of response 1' in explain, explain
    assert 'slow' in plot, plot
    line = json.loads(look(directory, 'runs', 'data', '--json').splitlines()[0])
    assert line['turn_state'] == word and line['ids']['turn'] == 't1', line
    assert [(step['kind'], step['tool']) for step in line['open']] == [('tool', 'slow')], line
    whole = json.loads(look(directory, 'explain', 'data', 't1', '--json'))
    assert whole['turn_state'] == word and whole['outcome'] == 'not_ended', whole
    open_steps = [step for step in whole['steps'] if step['outcome'] == 'open']
    assert [step['tool'] for step in open_steps] == ['slow'] and 'duration_ns' not in open_steps[0], whole
    assert json.loads(look(directory, 'show', 'data', 't1', '--json').splitlines()[0])['turn_state'] == word
    for state, count in (('running', word == 'running'), ('interrupted', word == 'interrupted'), ('failed', 0)):
        lines = look(directory, 'runs', 'data', '--json', '--state', state).splitlines()
        assert len([line for line in lines if 'turn_state' in line]) == count, (state, lines)
    assert 'turn_state' not in look(directory, 'runs', 'data', '--json', '--phase', 'turn.intake')
    assert 'turn_state' not in look(directory, 'runs', 'data', '--json', '--turn', 't2')


def suspects(directory):
    rows = look(directory, 'audit', 'data', '--action', 'crash_suspect', '--json').splitlines()
    return [(row['hook'], row['turn']) for row in map(json.loads, rows)]


def what_runs_and_what_ran_at_a_crash_is_shown(root):
    for durability in ('async', 'sync'):
        process, program, directory = begin(root, durability, TWO + ['--data', 'data', '--durability', durability])
        wait_for(lambda: open_tools(directory) == ['slow'], process)  # quick has ended
        assert_shown(directory, 'running', 'in:')
        process.kill()
        process.communicate()
        wait_for(lambda: not is_alive(program))
        assert_shown(directory, 'interrupted', 'was in:')  # before any process has recovered it
        assert suspects(directory) == []
        plain = ['run', '--script', 'plain.yaml', '--no-memory', '--data', 'data', 'next.jsonl']
        with open(os.path.join(directory, 'next.jsonl'), 'w') as file:
            file.write('{"session": "other", "turn": "t9", "user": "hi"}\n')
        look(directory, *plain)
        assert_shown(directory, 'interrupted', 'was in:')
        assert suspects(directory) == [('slow', 't1')]
        said = 'crash_suspect the tool `slow` was called when its process died'
        assert said in look(directory, 'show', 'data', 't1') and said in look(directory, 'explain', 'data', 't1')
        whole = json.loads(look(directory, 'explain', 'data', 't1', '--json'))
        assert whole['crash_suspects'] == ['the tool `slow` was called when its process died'], whole
        assert 'crash_suspect' not in look(directory, 'show', 'data', 't9')


CASES = [run_is_ended, run_that_reads_its_conversation_is_ended, what_runs_and_what_ran_at_a_crash_is_shown,
         program_that_hears_no_signal_is_gone, chat_is_ended, chat_that_waits_for_a_line_is_ended, call_is_ended,
         second_one_ends_at_once, what_was_ignored_stays_so]
sys.exit(cases.run(CASES, lambda directory: directory))
