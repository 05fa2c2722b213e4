# SPDX-License-Identifier: Apache-2.0
"""Secrets planted wherever the command takes text. A file of patterns (kind: redact) stands among the hooks; no record,
audit row, log line, safe event or memory has a part of a secret. HISTORY_TABLES and CONTENT_EVENTS say where content is
at home."""
import glob
import http.server
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing is written next to the sources
import cases  # noqa: E402

COMMAND = os.path.abspath(sys.argv[1])
LIMIT_S = 120

# Each secret is identified by its number.
NAMES = ['user', 'arguments', 'result', 'assistant', 'deny', 'long_deny', 'log', 'failed_stderr', 'malformed',
         'environment', 'model_error', 'url', 'key', 'tool_name', 'task', 'tool_stderr', 'remember', 'reminder',
         'signal', 'session_end', 'worker_error', 'question', 'asked', 'asked_why', 'edited', 'header', 'query']
SECRETS = {name: f'sk-plant-{index:02d}-QwErTyUiOp' for index, name in enumerate(NAMES)}
PART = re.compile(rb'sk-pla|plant-\d\d|-QwErT|TyUiOp', re.I)  # no part of a secret leaves, either

# Tables and events in which content is at home: the history, what the turn itself shows, and questions to people, who
# have to see what they decide. Of jobs the payload is content while they are open; none is open at the end.
HISTORY_TABLES = {'message', 'tool_call', 'question'}
CONTENT_EVENTS = {'turn_begin', 'model_delta', 'model_end', 'tool_begin', 'tool_end', 'context', 'reminder', 'question'}

HOOKS = {
    'secrets.yaml': "kind: redact\nredact:\n  - {name: plant, pattern: 'sk-plant-\\d{2}-[a-z]+', ignore_case: true}\n",
    'deny.yaml': 'id: deny\nevent: PreToolUse\nprotocol: claude-code\nmatch: {matcher: denied}\n'
                 'handler: {command: [sh, hooks/deny.sh]}\n',
    'deny.sh': 'cat > /dev/null; echo "no: {deny}" >&2; exit 2\n',
    'long_deny.yaml': 'id: long_deny\nevent: tool.pre\nmatch: {ability_scope: long_denied}\n'
                      'handler: {command: [sh, hooks/long_deny.sh]}\n',
    'long_deny.sh': 'cat > /dev/null; for i in $(seq 99); do printf "word " >&2; done; '
                    'echo "the key {long_deny} {long_deny}" >&2; exit 1\n',
    'log.yaml': 'id: log\nevent: turn.intake\nenv: {KEY: {environment}}\n'
                'handler: {command: [sh, hooks/log.sh]}\n',
    'log.sh': 'cat > /dev/null; '
              'printf \'{"logs": ["saw {log} and %s"], "additionalContext": "note {reminder}"}\' "$KEY"\n',
    'failing.yaml': 'id: failing\nevent: PreToolUse\nprotocol: claude-code\nkeep_stderr: true\n'
                    'handler: {command: [sh, hooks/failing.sh]}\n',
    'failing.sh': 'cat > /dev/null; echo "cannot log in with {failed_stderr}" >&2; exit 1\n',
    'malformed.yaml': 'id: malformed\nevent: tool.pre\nfailure: best_effort\n'
                      'handler: {command: [sh, hooks/malformed.sh]}\n',
    'malformed.sh': 'cat > /dev/null; echo "no JSON: \\"continue\\": false, {malformed}"\n',
    'signal.yaml': 'id: signal\nevent: tool.pre\nmatch: {ability_scope: signalled}\n'
                   'handler: {command: [sh, hooks/signal.sh]}\n',
    'signal.sh': 'cat > /dev/null; printf \'{"hook_signals": [{"kind": "ability_guard", "code": "DENIED", '
                 '"payload": {"reason": "found {signal}"}}]}\'\n',
    'end.yaml': 'id: end\nevent: session.end\nkeep_stderr: true\n'
                'handler: {command: [sh, hooks/end.sh]}\n',
    'end.sh': 'cat > /dev/null; echo "the end of {session_end}" >&2; exit 3\n',
    'background.yaml': 'id: background\nevent: turn.post_turn\nkeep_stderr: true\n'
                       'handler: {command: [sh, hooks/background.sh]}\n',
    'background.sh': 'cat > /dev/null; echo "worker says {worker_error}" >&2; exit 9\n',
    'answers.yaml': 'kind: tool\nname: answers\ndescription: A tool.\ncommand: [sh, hooks/answers.sh]\n',
    'answers.sh': 'cat > /dev/null; echo "result {result}"\n',
    'fails.yaml': 'kind: tool\nname: fails\ndescription: A tool.\ncommand: [sh, hooks/fails.sh]\n',
    'fails.sh': 'cat > /dev/null; echo "tool says {tool_stderr}" >&2; exit 4\n',
}
for name in ('denied', 'long_denied', 'signalled'):
    HOOKS[name + '.yaml'] = f'kind: tool\nname: {name}\ndescription: A tool.\ncommand: [sh, hooks/answers.sh]\n'


def planted(text):
    for name, secret in SECRETS.items():
        text = text.replace('{' + name + '}', secret)
    return text


class Model:
    """An endpoint that answers in order, and then refuses with a secret in its reason."""

    def __init__(self, *answers):
        left = list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers['content-length']))
                body, status = {'error': {'message': planted('the key {model_error} is not known'), 'code': 'bad'}}, 400
                if left:
                    answer, status = left.pop(0), 200
                    message = {'role': 'assistant', 'content': answer if isinstance(answer, str) else None}
                    if not isinstance(answer, str):
                        message['tool_calls'] = [
                            {'id': f'c{len(left)}_{i}', 'type': 'function',
                             'function': {'name': name, 'arguments': json.dumps(arguments)}}
                            for i, (name, arguments) in enumerate(answer)]
                    body = {'id': 'x', 'model': 'm', 'choices': [{
                        'index': 0, 'message': message, 'finish_reason': 'stop'}],
                        'usage': {'prompt_tokens': 1, 'completion_tokens': 1, 'total_tokens': 2}}
                body = json.dumps(body).encode()
                self.send_response(status)
                self.send_header('content-type', 'application/json')
                self.send_header('content-length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def options(self):
        url = f'http://127.0.0.1:{self.server.server_port}/v1'
        return ['--model', 'openai:m', '--base-url', url, '--key-env', 'PLANTED_KEY']

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class World:
    def __init__(self, directory):
        self.directory = directory
        self.environment = {**os.environ, 'HOME': directory, 'XDG_CONFIG_HOME': directory + '/config',
                            'PLANTED_KEY': SECRETS['key']}
        os.mkdir(directory + '/hooks')
        for name, text in HOOKS.items():
            with open(f'{directory}/hooks/{name}', 'w') as file:
                file.write(planted(text))
        ran = self.command('hooks', 'trust', 'hooks')
        assert ran.returncode == 0, ran

    def command(self, *words, text=''):
        return subprocess.run([COMMAND, *words], cwd=self.directory, env=self.environment, input=text,
                              capture_output=True, text=True, timeout=LIMIT_S)

    def talk(self, how, *options):
        """Turns with everything planted; the last one fails at the model."""
        calls = [('answers', {'a': SECRETS['arguments']}), ('denied', {}), ('long_denied', {}), ('signalled', {}),
                 ('fails', {}), (SECRETS['tool_name'], {}), ('memory_remember', {'text': planted('keep {remember}')})]
        model = Model(calls, planted('answer {assistant}'))
        said = [planted('say {user}'), planted('again {question}')]
        common = ['--hooks', 'hooks', '--data', 'data', '-v', *model.options(), *options]
        if how == 'chat':
            ran = self.command('chat', '--session', 's', *common, text='\n'.join([*said, '']))
        else:
            with open(self.directory + '/talk.jsonl', 'w') as file:
                file.writelines(json.dumps({'session': 's', 'user': text}) + '\n' for text in said)
            ran = self.command('run', *common, 'talk.jsonl')
        model.close()
        return ran


def show(found, text):
    return text[max(0, found.start() - 60):found.end() + 60]


def expect_none(text, where):
    found = PART.search(text)
    assert not found, f'{where}: {show(found, text)!r}'


def check_database(path):
    """Every column of every table but the history's. @return how many rows were looked at."""
    connection, count, redacted = sqlite3.connect(f'file:{path}?mode=ro', uri=True), 0, 0
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        if table in HISTORY_TABLES or 'fts' in table and table.endswith(('config', 'data', 'idx', 'docsize')):
            continue
        for row in connection.execute(f'SELECT * FROM "{table}"'):
            count += 1
            for cell in row:
                raw = cell if isinstance(cell, bytes) else str(cell).encode()
                redacted += raw.count(b'[redacted:plant]')
                expect_none(raw, f'{os.path.basename(path)}, table {table}')
    connection.close()
    return count, redacted


def check_kept(world):
    counts = {}
    for path in glob.glob(world.directory + '/data/*.db'):
        counts[os.path.basename(path)] = check_database(path)
    with open(world.directory + '/data/memory.db', 'rb') as file:
        expect_none(file.read(), 'the bytes of the memory')
    assert counts['turnphase.db'][1] >= 8 and counts['memory.db'][1] >= 2, counts


def check_commands(world):
    turns = json.loads('[' + ','.join(world.command('runs', 'data', '--json').stdout.split('\n')).strip(',') + ']')
    assert turns
    runs = [['audit', 'data'], ['audit', 'data', '--json'], ['runs', 'data'], ['runs', 'data', '--json'],
            ['hooks', 'stats', 'data'], ['hooks', 'stats', 'data', '--json'], ['jobs', 'data', '--state', 'all'],
            ['plot', 'data', '--session', 's'], ['memory', 'list', 'data/memory.db']]
    for turn in {line.get('turn') for line in turns if line.get('turn')}:
        runs += [[command, 'data', turn] for command in ('show', 'explain', 'trace')]
        runs.append(['explain', 'data', turn, '--json'])
    shown = ''
    for words in runs:
        ran = world.command(*words)
        shown += ran.stdout
        expect_none((ran.stdout + ran.stderr).encode(), ' '.join(words))
    assert '[redacted:plant]' in shown


# ---- the cases ----

def run_keeps_no_part_of_a_secret(world):
    ran = world.talk('run', '--json')
    expect_none(ran.stderr.encode(), 'the log of run')
    for line in ran.stdout.splitlines():
        event = json.loads(line)
        if event['event'] == 'result':
            event.pop('text')  # the answer
        if event['event'] not in CONTENT_EVENTS:
            expect_none(json.dumps(event).encode(), 'an event of run --json')
    assert '[redacted:plant]' in ran.stdout
    check_kept(world)
    check_commands(world)


def chat_keeps_no_part_of_a_secret(world):
    world.talk('chat')
    check_kept(world)
    check_commands(world)


def tool_call_keeps_no_part_of_a_secret(world):
    for tool, status in (('answers', 0), ('denied', 77), ('long_denied', 77), ('signalled', 77), ('fails', 1)):
        ran = world.command('tool', 'call', tool, '--hooks', 'hooks', '--data', 'data', '-a', '-',
                            text=json.dumps({'a': SECRETS['task']}))
        assert ran.returncode == status, ran
        expect_none(ran.stderr.encode(), 'the log of tool call')  # standard output has the result
    counts = [check_database(path) for path in glob.glob(world.directory + '/data/*.db')]
    assert sum(redacted for _, redacted in counts) >= 8, counts
    for words in (['audit', 'data'], ['audit', 'data', '--json']):
        ran = world.command(*words)
        assert '[redacted:plant]' in ran.stdout, ran
        expect_none((ran.stdout + ran.stderr).encode(), ' '.join(words))


def questions(world, count):
    """Waits until `count` questions are open. @return them."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = [json.loads(line) for line in world.command('ask', 'list', 'data', '--json').stdout.splitlines()]
        if len(found) == count:
            return found
        time.sleep(0.02)
    raise AssertionError(f'not {count} questions')


def a_question_has_its_text_and_nothing_else_has(world):
    """The person who is asked sees arguments and reason; the records of the answer and of edited arguments do not have
    them."""
    for name, text in (('asked', 'kind: tool\nname: asked\ndescription: A tool.\ncommand: [sh, hooks/answers.sh]\n'),
                       ('asks', 'id: asks\nevent: tool.pre\nmatch: {ability_scope: asked}\n'
                                'handler: {kind: ask, reason: "sure of {asked_why}"}\n')):
        with open(f'{world.directory}/hooks/{name}.yaml', 'w') as file:
            file.write(planted(text))
    ran = world.command('hooks', 'trust', 'hooks')
    assert ran.returncode == 0, ran
    with open(world.directory + '/edited.json', 'w') as file:
        json.dump({'a': SECRETS['edited']}, file)
    with open(world.directory + '/talk.jsonl', 'w') as file:
        file.write(json.dumps({'session': 's', 'user': 'go'}) + '\n')
    model = Model([('asked', {'a': SECRETS['asked']})], 'done')
    run = subprocess.Popen([COMMAND, 'run', '--json', '--hooks', 'hooks', '--data', 'data', '--ask', 'data', '-v',
                            *model.options(), 'talk.jsonl'], cwd=world.directory, env=world.environment,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    asked, = questions(world, 1)
    assert asked['arguments'] == {'a': SECRETS['asked']} and SECRETS['asked_why'] in asked['reason'], asked
    check_database(world.directory + '/data/turnphase.db')
    ran = world.command('ask', 'answer', 'data', str(asked['number']), 'allow', '--arguments', 'edited.json')
    assert ran.returncode == 0, ran
    out, error = run.communicate(timeout=LIMIT_S)
    model.close()
    assert run.returncode == 0, (out, error)
    expect_none(error.encode(), 'the log of a run that asks')
    rows, redacted = check_database(world.directory + '/data/turnphase.db')
    assert rows and redacted >= 2, (rows, redacted)
    check_commands(world)


def headers_and_urls_of_endpoints_are_in_no_record(world):
    """For an endpoint that cannot be reached, no message has the header or the query."""
    with open(world.directory + '/hooks/policy.yaml', 'w') as file:
        file.write(planted('id: policy\nevent: tool.pre\nfailure: best_effort\nhandler:\n  kind: webhook\n'
                           '  url: "http://127.0.0.1:9/v1?token={query}"\n'
                           '  headers: {Authorization: "Bearer ${PLANTED_KEY}", X-Team: "{header}"}\n'))
    ran = world.command('hooks', 'trust', 'hooks', '--webhook', '127.0.0.1:9')
    assert ran.returncode == 0, ran
    check = world.command('hooks', 'check', 'hooks', '--webhook', '127.0.0.1:9')
    if 'turnphase-webhook' in check.stderr:
        return  # this library was not built
    ran = world.talk('run', '--json', '--webhook', '127.0.0.1:9')
    expect_none(ran.stderr.encode(), 'the log of run with a webhook')
    audit = world.command('audit', 'data')
    assert 'the endpoint gave no answer' in audit.stdout, audit
    check_kept(world)
    check_commands(world)


CASES = [run_keeps_no_part_of_a_secret, chat_keeps_no_part_of_a_secret, tool_call_keeps_no_part_of_a_secret,
         a_question_has_its_text_and_nothing_else_has, headers_and_urls_of_endpoints_are_in_no_record]

if __name__ == '__main__':
    sys.exit(cases.run(CASES, World))
