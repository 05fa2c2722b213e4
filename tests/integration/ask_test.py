# SPDX-License-Identifier: Apache-2.0
"""turnphase run asks on the terminal, or in the data directory: each case plays a conversation in which hook `asks`
asks about every call, under a pseudo-terminal that is the command's controlling one, or without any."""
import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

COMMAND = os.path.abspath(sys.argv[1])
LIMIT_S = 60
FILES = {
    'model.yaml': 'responses:\n  - tool_calls:\n      - {name: memory_search, arguments: {query: tea}}\n'
                  '      - {name: memory_search, arguments: {query: "a\\u202Eb"}}\n  - text: Done.\n',
    'talk.jsonl': '{"session": "s", "user": "hi"}\n',
    'hooks/asks.yaml': 'id: asks\nevent: tool.pre\nhandler: {command: [sh, -c, "cat >/dev/null; echo \''
                       '{\\"hook_signals\\":[{\\"kind\\":\\"ability_guard\\",\\"code\\":\\"REQUIRES_HUMAN\\",'
                       '\\"payload\\":{\\"reason\\":\\"a search\\"}}]}\'"]}\n',
}
ARGUMENTS = [COMMAND, 'run', '--json', '--script', 'model.yaml', '--hooks', 'hooks', 'talk.jsonl']


def environment(directory):
    return {**os.environ, 'HOME': directory, 'XDG_CONFIG_HOME': directory + '/config'}


def scratch(directory):
    os.mkdir(directory + '/hooks')
    for name, text in FILES.items():
        with open(f'{directory}/{name}', 'w') as file:
            file.write(text)
    subprocess.run([COMMAND, 'hooks', 'trust', 'hooks'], cwd=directory, env=environment(directory), check=True,
                   stdout=subprocess.DEVNULL)


def at_terminal(directory, answers, *options):
    """@return the events, and what stood on the terminal. An answer is typed when a question stands there."""
    out_read, out_write = os.pipe()
    child, terminal = pty.fork()
    if child == 0:
        os.dup2(out_write, 1)
        os.chdir(directory)
        os.execve(COMMAND, [*ARGUMENTS, *options], environment(directory))
    os.close(out_write)
    shown, out, open_ends, typed, end = b'', b'', {terminal, out_read}, 0, time.monotonic() + LIMIT_S
    while open_ends:
        ready, _, _ = select.select(list(open_ends), [], [], max(0, end - time.monotonic()))
        if not ready:
            raise AssertionError(f'no end; on the terminal: {shown!r}')
        for fd in ready:
            try:
                data = os.read(fd, 65536)
            except OSError:
                data = b''
            if not data:
                open_ends.discard(fd)
            elif fd == terminal:
                shown += data
            else:
                out += data
        if typed < len(answers) and shown.count(b'or always') > typed:
            os.write(terminal, answers[typed].encode() + b'\n')
            typed += 1
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, (shown, out)
    return out.decode(), shown.decode()


def results(out):
    return [line for line in out.splitlines() if '"tool_end"' in line]


def yes_runs_one_call_and_no_denies_the_other(directory):
    out, shown = at_terminal(directory, ['y', 'n'])
    assert shown.count('hook asks asks: may this call run?') == 2, shown
    assert 'reason: a search' in shown and 'arguments: {"query":"tea"}' in shown, shown
    kinds = sorted('denied' in line for line in results(out))
    assert kinds == [False, True], out
    assert 'a person denied it by terminal' in out, out


def always_is_asked_once(directory):
    out, shown = at_terminal(directory, ['always'])
    assert shown.count('may this call run?') == 1, shown
    assert len(results(out)) == 2 and not any('denied' in line for line in results(out)), out


def edited_arguments_run_and_both_are_recorded(directory):
    data = directory + '/edited'
    out, shown = at_terminal(directory, ['e\n[1]', 'e\n{"query": "milk"}', 'n'], '--data', data)
    assert 'that is no JSON object' in shown, shown
    first, second = sorted(results(out), key=lambda line: '"kind":"denied"' in line)  # the results come in the order of
                                                                                      # their ends
    assert '"kind":"ok"' in first and '{"query":"milk"}' in first, first
    assert '"kind":"denied"' in second, second
    turn = json.loads(first)['ids']['turn']
    explained = subprocess.run([COMMAND, 'explain', data, turn], capture_output=True, text=True, check=True).stdout
    assert 'before: {"query":' in explained and 'after: {"query":"milk"}' in explained, explained
    assert 'allowed by terminal; arguments ' in explained and ', edited to ' in explained, explained
    as_json = json.loads(subprocess.run([COMMAND, 'explain', data, turn, '--json'], capture_output=True, text=True,
                                        check=True).stdout)
    assert [row['action'] for row in as_json['people']].count('edit') == 2, as_json['people']


def another_word_is_asked_again(directory):
    out, shown = at_terminal(directory, ['perhaps', 'y', 'n'])
    assert 'Answer y, n, e or always: ' in shown, shown
    assert 'a person denied it by terminal' in out, out


def what_a_terminal_would_obey_is_shown_as_its_number(directory):
    _, shown = at_terminal(directory, ['y', 'y'])
    assert 'a<U+202E>b' in shown and '\u202e' not in shown, shown


def without_a_terminal_it_is_denied(directory):
    ran = subprocess.run(ARGUMENTS, cwd=directory, env=environment(directory), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=LIMIT_S, start_new_session=True)
    assert ran.returncode == 0, ran
    assert all('there is no channel to ask: a search' in line for line in results(ran.stdout)), ran.stdout
    assert len(results(ran.stdout)) == 2, ran.stdout


def begin_with_data(directory):
    return subprocess.Popen(ARGUMENTS + ['--data', 'kept', '--ask', 'data'], cwd=directory, env=environment(directory),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def ask(directory, *words):
    return subprocess.run([COMMAND, 'ask', *words], cwd=directory, env=environment(directory), capture_output=True,
                          text=True, timeout=LIMIT_S)


def questions(directory, count):
    """Waits until `count` questions are open. @return them."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = [json.loads(line) for line in ask(directory, 'list', 'kept', '--json').stdout.splitlines()]
        if len([one for one in found if one['state'] == 'open']) == count:
            return sorted(found, key=lambda one: one['arguments']['query'], reverse=True)
        time.sleep(0.02)
    raise AssertionError(f'not {count} questions')


def another_process_answers(directory):
    run = begin_with_data(directory)
    first, second = questions(directory, 2)
    assert first['arguments'] == {'query': 'tea'} and first['asked_by'] == 'asks', first
    assert first['reason'] == 'a search', first
    listed = ask(directory, 'list', 'kept').stdout
    assert 'memory_search {"query":"tea"}' in listed, listed
    assert 'a<U+202E>b' in listed and '\u202e' not in listed, listed
    assert ask(directory, 'answer', 'kept', str(first['number']), 'allow', '--by', 'ann').returncode == 0
    again = ask(directory, 'answer', 'kept', str(first['number']), 'deny')
    assert again.returncode == 1 and 'answered before' in again.stderr, again
    denied = ask(directory, 'answer', 'kept', str(second['number']), 'deny', '--by', 'bob', '--reason', 'not today')
    assert denied.returncode == 0, denied
    out, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, out
    assert sorted('denied' in line for line in results(out)) == [False, True], out
    assert 'a person denied it by bob: not today' in out, out
    assert ask(directory, 'list', 'kept').stdout == ''
    kept = [json.loads(line) for line in ask(directory, 'list', 'kept', '--all', '--json').stdout.splitlines()]
    assert sorted((one['state'], one['person']) for one in kept) == [('allowed', 'ann'), ('denied', 'bob')], kept


def another_process_edits_the_arguments(directory):
    run = begin_with_data(directory)
    first, second = questions(directory, 2)
    for name, text in (('milk.json', '{"query": "milk"}'), ('list.json', '["milk"]'), ('broken.json', '{"query"')):
        with open(f'{directory}/{name}', 'w') as file:
            file.write(text)
    number = str(first['number'])
    for name, status in (('list.json', 78), ('broken.json', 78), ('nothing.json', 74)):
        refused = ask(directory, 'answer', 'kept', number, 'allow', '--arguments', name)
        assert refused.returncode == status and refused.stderr, (name, refused)
    refused = ask(directory, 'answer', 'kept', number, 'deny', '--arguments', 'milk.json')
    assert refused.returncode == 2 and 'go with allow' in refused.stderr, refused
    edited = ask(directory, 'answer', 'kept', number, 'allow', '--arguments', 'milk.json', '--by', 'ann')
    assert edited.returncode == 0, edited
    assert ask(directory, 'answer', 'kept', str(second['number']), 'deny').returncode == 0
    out, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, out
    ran = [line for line in results(out) if '"kind":"ok"' in line]
    assert len(ran) == 1 and '{"query":"milk"}' in ran[0], out
    audit = subprocess.run([COMMAND, 'audit', 'kept', '--action', 'edit'], cwd=directory, capture_output=True,
                           text=True, check=True).stdout
    assert 'before: {"query":"tea"}' in audit and 'after: {"query":"milk"}' in audit, audit


def an_answer_survives_a_kill(directory):
    with open(directory + '/talk.jsonl', 'w') as file:
        file.write('{"session": "s", "turn": "t1", "user": "hi"}\n')
    run = begin_with_data(directory)
    asked = questions(directory, 2)
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.stdout.close()
    assert ask(directory, 'answer', 'kept', str(asked[0]['number']), 'allow').returncode == 0
    run = begin_with_data(directory)
    left = questions(directory, 1)
    assert left[0]['number'] == asked[1]['number'], (left, asked)
    assert ask(directory, 'answer', 'kept', str(left[0]['number']), 'deny').returncode == 0
    out, _ = run.communicate(timeout=LIMIT_S)
    assert sorted('denied' in line for line in results(out)) == [False, True], out


def tool_log(directory):
    with open(directory + '/ran') as file:
        return file.read().split()


def a_call_that_ended_is_not_repeated_beside_a_question(directory):
    """One call of a response runs, the other waits for a person; the run dies, and the turn is run again by its id."""
    os.mkdir(directory + '/tools')
    program = 'cat >/dev/null; echo %s >>ran; echo {}'
    for name, text in (('note.yaml', 'kind: tool\nname: note\ndescription: n\ncommand: [sh, -c, "%s"]\n'
                        % (program % 'note')),
                       ('gated.yaml', 'kind: tool\nname: gated\ndescription: g\ncommand: [sh, -c, "%s"]\n'
                        % (program % 'gated')),
                       ('ask.yaml', 'id: ask_gated\nevent: tool.pre\nmatch: {ability_scope: gated}\n'
                        'handler: {kind: approve, question: "May it?"}\n')):
        with open(f'{directory}/tools/{name}', 'w') as file:
            file.write(text)
    with open(directory + '/two.yaml', 'w') as file:
        file.write('responses:\n  - tool_calls: [{id: c1, name: note, arguments: {}}, {id: c2, name: gated, '
                   'arguments: {}}]\n  - text: Done.\n')
    with open(directory + '/talk.jsonl', 'w') as file:
        file.write('{"session": "s", "turn": "t1", "user": "hi"}\n')
    subprocess.run([COMMAND, 'hooks', 'trust', 'tools'], cwd=directory,
                   env=environment(directory), check=True, stdout=subprocess.DEVNULL)
    for durability in ('memory', 'async', 'sync'):
        begin = [COMMAND, 'run', '--json', '--script', 'two.yaml', '--hooks', 'tools', '--no-memory', '--data',
                 durability, '--ask', 'data', '--durability', durability, 'talk.jsonl']
        open(directory + '/ran', 'w').close()
        run = subprocess.Popen(begin, cwd=directory, env=environment(directory), stdout=subprocess.PIPE, text=True)
        number, end = '', time.monotonic() + LIMIT_S
        ended = next(line for line in run.stdout if '"tool_end"' in line)
        assert '"note"' in ended, ended
        while not number and time.monotonic() < end:
            number = ask(directory, 'list', durability).stdout.split(' ')[0].strip()
        assert tool_log(directory) == ['note']
        run.send_signal(signal.SIGKILL)
        run.wait()
        run.stdout.close()
        assert ask(directory, 'answer', durability, number, 'allow').returncode == 0
        again = subprocess.run(begin, cwd=directory, env=environment(directory), capture_output=True, text=True,
                               timeout=LIMIT_S)
        assert again.returncode == 0, again
        assert tool_log(directory) == ['note', 'gated'], (durability, tool_log(directory), again)


def wrong_words_are_refused(directory):
    for words in [('list',), ('answer', 'kept', '1'), ('answer', 'kept', 'x', 'allow'),
                  ('answer', 'kept', '1', 'maybe'), ('forget', 'kept'), ('list', 'kept', '--reason', 'why'),
                  ('answer', 'kept', '1', 'allow', '--all')]:
        assert ask(directory, *words).returncode == 2, words
    assert ask(directory, 'list', 'nowhere').returncode == 74
    for durability in ('async', 'sync'):
        nowhere = subprocess.run(ARGUMENTS + ['--durability', durability], cwd=directory, env=environment(directory),
                                 capture_output=True, text=True)
        assert nowhere.returncode == 2 and 'needs --data DIR' in nowhere.stderr, nowhere
    without_data = subprocess.run(ARGUMENTS + ['--ask', 'data'], cwd=directory, env=environment(directory),
                                  capture_output=True, text=True)
    assert without_data.returncode == 2 and '--data' in without_data.stderr, without_data


CASES = [yes_runs_one_call_and_no_denies_the_other, always_is_asked_once, another_word_is_asked_again,
         edited_arguments_run_and_both_are_recorded, another_process_edits_the_arguments,
         what_a_terminal_would_obey_is_shown_as_its_number, without_a_terminal_it_is_denied,
         another_process_answers, an_answer_survives_a_kill,
         a_call_that_ended_is_not_repeated_beside_a_question, wrong_words_are_refused]


def main():
    print(f'1..{len(CASES)}')
    failed = False
    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as directory:
            scratch(directory)
            try:
                case(directory)
                print(f'ok {number} - {case.__name__}', flush=True)
            except Exception as error:  # every failure is the case's
                failed = True
                print(f'not ok {number} - {case.__name__}: {error!r}', flush=True)
    return failed


if __name__ == '__main__':
    sys.exit(main())
