# SPDX-License-Identifier: Apache-2.0
"""Secrets of the operator, each planted where the command takes one: keys, headers, URLs, proxies, variables of hooks.
Each is looked for wherever it does not belong: arguments and environments of children, output, what is listed, files,
and what failing endpoints make the command say. What people say in a conversation is planted_test.py's."""
import glob
import http.server
import json
import os
import re
import resource
import stat
import subprocess
import sys
import threading

sys.dont_write_bytecode = True  # nothing is written next to the sources
import cases  # noqa: E402

COMMAND = os.path.abspath(sys.argv[1])
LIMIT_S = 120

NAMES = ['model_key', 'facts_key', 'embedder_key', 'hook_model_key', 'header', 'agent_header', 'model_query',
         'facts_query', 'http_proxy', 'https_proxy', 'all_proxy', 'webhook_header', 'webhook_variable', 'webhook_path',
         'webhook_query', 'hook_variable', 'hook_passed', 'tool_variable', 'tool_passed', 'host_variable', 'openai_key',
         'redirect_query', 'redirect_password', 'settings_header', 'settings_query']
SECRETS = {name: f'sq-plant-{index:02d}-ZxCvBnMq' for index, name in enumerate(NAMES)}
PART = re.compile(rb'sq-pla|plant-\d\d|-ZxCvBnMq|CvBnMq', re.I)  # no part of a secret leaves, either

# The secrets that may be in the environment of a child.
AT_HOME = {'hook': {'hook_variable', 'hook_passed'}, 'tool': {'tool_variable', 'tool_passed'}, 'sandboxed': set(),
           'webhook': {'webhook_header', 'webhook_variable', 'webhook_path', 'webhook_query'}}

REPORT = 'cat > /dev/null; cat /proc/$$/cmdline > seen/NAME.arguments; env > seen/NAME.environment; '
FILES = {
    'hook.yaml': 'id: hook\nevent: tool.pre\nenv: {A: "{hook_variable}"}\npass_env: [HOOK_PASSED]\n'
                 'handler: {command: [sh, hooks/hook.sh]}\n',
    'hook.sh': REPORT.replace('NAME', 'hook'),
    'sandboxed.yaml': 'id: sandboxed\nevent: tool.pre\nfailure: best_effort\n'
                      'handler: {command: [sh, hooks/sandboxed.sh], sandbox: true}\n',
    'sandboxed.sh': 'cat > /dev/null; if env | grep -q plant || grep -q plant /proc/$$/cmdline; then exit 2; fi\n',
    'tool.yaml': 'kind: tool\nname: tool\ndescription: A tool.\nenv: {A: "{tool_variable}"}\npass_env: [TOOL_PASSED]\n'
                 'command: [sh, hooks/tool.sh]\n',
    'tool.sh': REPORT.replace('NAME', 'tool') + 'echo done\n',
    'asked.yaml': 'id: asked\nevent: tool.pre\nfailure: best_effort\n'
                  'handler: {kind: prompt, prompt: "Is $ARGUMENTS fine?"}\n',
}
WEBHOOK = ('id: webhook\nevent: tool.pre\nfailure: best_effort\nhandler:\n  kind: webhook\n'
           '  url: "http://127.0.0.1:PORT/{webhook_path}?key={webhook_query}"\n'
           '  headers: {Authorization: "Bearer ${WEBHOOK_KEY}", X-Team: "{webhook_header}"}\n')
VARIABLES = {'MODEL_KEY': 'model_key', 'FACTS_KEY': 'facts_key', 'EMBEDDER_KEY': 'embedder_key',
             'HOOK_MODEL_KEY': 'hook_model_key', 'HEADER': 'header', 'AGENT_HEADER': 'agent_header',
             'HOOK_PASSED': 'hook_passed', 'TOOL_PASSED': 'tool_passed', 'WEBHOOK_KEY': 'webhook_variable',
             'HOST_VARIABLE': 'host_variable', 'OPENAI_API_KEY': 'openai_key'}


def planted(text):
    for name, secret in SECRETS.items():
        text = text.replace('{' + name + '}', secret)
    return text


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def expect_none(text, where, *allowed):
    for name in allowed:
        text = text.replace(SECRETS[name].encode(), b'')
    found = PART.search(text)
    assert not found, f'{where}: {text[max(0, found.start() - 90):found.end() + 60]!r}'


def children_of(number):
    for name in glob.glob(f'/proc/{number}/task/*/children'):
        for child in read(name).split():
            yield int(child)
            yield from children_of(int(child))


class Endpoint:
    """A model that calls the tool once, facts, vectors, and a webhook; looks at the process that asks. refuse: a
    function that returns another answer for a request."""

    def __init__(self):
        self.process, self.refuse, self.requests, self.limits = None, None, [], set()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['content-length'])).decode()
                endpoint.requests.append(f'{self.path}\n{self.headers}')
                endpoint.look()
                status, headers, answer = (endpoint.refuse or endpoint.answer)(self, body)
                answer = answer.encode()
                self.send_response(status)
                own = {'content-length': str(len(answer)), 'content-type': 'application/json'}
                for name, value in {**own, **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.children, self.faults = [], []
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def look(self):
        """While it waits for the answer the process, and the helper that asks for a webhook, are there."""
        try:
            self.limits |= set(re.findall(rb'Max core file size +(\S+)', read(f'/proc/{self.process}/limits')))
            self.children += [(read(f'/proc/{child}/cmdline'), read(f'/proc/{child}/environ'))
                              for child in children_of(self.process)]
        except (OSError, TypeError) as error:
            self.faults.append(error)

    def answer(self, request, body):
        if 'embeddings' in request.path:
            rows = [{'index': i, 'embedding': [0.5, 0.5, 0.5, 0.5]} for i in range(len(json.loads(body)['input']))]
            return 200, {}, json.dumps({'data': rows, 'model': 'e'})
        if 'chat/completions' not in request.path:
            return 200, {}, '{"continue": true}'
        asked = json.loads(body)
        message = {'role': 'assistant', 'content': '{"ok": true}' if asked['model'] == 'h' else '{"facts": []}'}
        if asked['model'] == 'm':
            message['content'] = 'So it is.'
            if asked['messages'][-1]['role'] == 'user':
                function = {'name': 'tool', 'arguments': '{}'}
                message['tool_calls'] = [{'id': 'c1', 'type': 'function', 'function': function}]
        return 200, {}, json.dumps({'id': 'x', 'model': 'm', 'choices': [
            {'index': 0, 'message': message, 'finish_reason': 'stop'}]})

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class World:
    def __init__(self, directory):
        self.directory, self.endpoint = directory, Endpoint()
        os.chmod(directory, 0o700)
        self.environment = {**os.environ, 'HOME': directory, 'XDG_CONFIG_HOME': directory + '/config',
                            'TMPDIR': directory + '/tmp', 'no_proxy': '127.0.0.1',
                            **{name: SECRETS[of] for name, of in VARIABLES.items()}}
        for name in ('http_proxy', 'https_proxy', 'all_proxy'):
            self.environment[name] = f'http://me:{SECRETS[name]}@127.0.0.1:1'
        for name in ('hooks', 'seen', 'tmp'):
            os.mkdir(f'{directory}/{name}', 0o700)
        for name, text in {**FILES, 'webhook.yaml': WEBHOOK.replace('PORT', str(self.endpoint.port))}.items():
            with open(f'{directory}/hooks/{name}', 'w') as file:
                file.write(planted(text))
        with open(directory + '/talk.jsonl', 'w') as file:
            file.write(json.dumps({'session': 's', 'user': 'My cat is called Tom.'}) + '\n')

    def command(self, *words, umask=0o022, hard=None):
        def prepare():
            os.umask(umask)
            if hard is not None:
                resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        process = subprocess.Popen([COMMAND, *words], cwd=self.directory, env=self.environment, preexec_fn=prepare,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.endpoint.process = process.pid
        out, error = process.communicate(timeout=LIMIT_S)
        return subprocess.CompletedProcess(words, process.returncode, out, error)

    def hooks(self):
        return ['--hooks', 'hooks', '--webhook', f'127.0.0.1:{self.endpoint.port}']

    def models(self, base=None, all_of_them=True):
        base = base or f'http://127.0.0.1:{self.endpoint.port}'
        model = ['--model', 'openai:m', '--base-url', planted(base + '/v1?api-version=1&sig={model_query}'),
                 '--key-env', 'MODEL_KEY', '--header', 'X-Gateway: Token ${HEADER}']
        if not all_of_them:
            return model
        return model + ['--facts', 'openai:f', '--base-url', planted(base + '/f?sig={facts_query}'), '--key-env',
                        'FACTS_KEY', '--embedder', 'openai:e', '--base-url', base + '/e', '--key-env', 'EMBEDDER_KEY',
                        '--dimensions', '4', '--hook-model', 'openai:h', '--base-url', base + '/h', '--key-env',
                        'HOOK_MODEL_KEY']

    def run(self, *words, all_of_them=True, **options):
        ran = self.command('hooks', 'trust', *self.hooks()[1:], **options)
        assert ran.returncode == 0, ran
        expect_none(ran.stdout + ran.stderr, 'hooks trust')
        return self.command('run', *self.hooks(), '--data', 'data', '-v', *self.models(None, all_of_them), *words,
                            'talk.jsonl', **options)


def check_files(world, under):
    """@return how many files and directories were looked at. Only the owner may use them, and none has a secret."""
    count = 0
    for folder in under:
        for path, folders, files in os.walk(f'{world.directory}/{folder}'):
            for name in ['', *files]:
                mode = stat.S_IMODE(os.lstat(os.path.join(path, name)).st_mode)
                assert mode & 0o077 == 0, (os.path.join(path, name), oct(mode))
                count += 1
            for name in files:
                expect_none(read(os.path.join(path, name)), name)
    return count


# ---- the cases ----

def children_get_what_is_theirs_and_nothing_else(world):
    ran = world.run('--json')
    assert ran.returncode == 0, ran
    for name in ('hook', 'tool'):
        expect_none(read(f'{world.directory}/seen/{name}.arguments'), f'the arguments of {name}')
        environment = read(f'{world.directory}/seen/{name}.environment')
        expect_none(environment, f'the environment of {name}', *AT_HOME[name])
        for own in AT_HOME[name]:
            assert SECRETS[own].encode() in environment, (name, own)
    helpers = 0
    for arguments, environment in world.endpoint.children:
        helpers += b'turnphase-webhook' in arguments
        expect_none(arguments, 'the arguments of a child')
        expect_none(environment, 'the environment of a child',
                    *(AT_HOME['webhook'] if b'turnphase-webhook' in arguments else set()))
    sent = '\n'.join(world.endpoint.requests)
    assert helpers > 0 or 'webhook' not in sent, world.endpoint.children
    for name in ('model_key', 'facts_key', 'embedder_key', 'hook_model_key', 'header', 'model_query', 'facts_query'):
        assert SECRETS[name] in sent, (name, ran.stderr)
    assert world.endpoint.limits <= {b'0', b'1'} and world.endpoint.limits, world.endpoint.limits
    assert b'"outcome":"completed"' in ran.stdout and not world.endpoint.faults, (ran, world.endpoint.faults)


def nothing_that_is_printed_listed_or_kept_has_a_secret(world):
    ran = world.run('--json')
    assert ran.returncode == 0, ran
    expect_none(ran.stdout + ran.stderr, 'run --json')
    turn = re.search(rb'"turn":"([^"]+)"', ran.stdout).group(1).decode()
    for words in (['hooks', 'list', *world.hooks()[1:]], ['hooks', 'list', *world.hooks()[1:], '-v'],
                  ['hooks', 'list', *world.hooks()[1:], '--json'], ['hooks', 'check', *world.hooks()[1:]],
                  ['hooks', 'check', *world.hooks()[1:], '--json'], ['hooks', 'stats', 'data'],
                  ['plan', *world.hooks()], ['plan', *world.hooks(), '-v'], ['plan', *world.hooks(), '--json'],
                  ['plan', *world.hooks(), '--dot'], ['runs', 'data', '--json'], ['show', 'data', turn],
                  ['explain', 'data', turn], ['explain', 'data', turn, '--json'],
                  ['plot', 'data', turn], ['audit', 'data'], ['audit', 'data', '--json'],
                  ['jobs', 'data', '--state', 'all'], ['sessions', 'list', 'data'],
                  ['sessions', 'export', 'data', 's'], ['memory', 'list', 'data/memory.db', '--json'],
                  ['tool', 'list', *world.hooks()]):
        ran = world.command(*words)
        expect_none(ran.stdout + ran.stderr, ' '.join(words))
        assert ran.stdout or words[0] in ('jobs', 'memory'), ran
    assert check_files(world, ['data', 'config', 'tmp']) > 5


def failing_endpoints_reveal_nothing(world):
    """Each endpoint repeats everything that it received, or cannot be reached."""
    def echo(status):
        return lambda request, body: (status, {'x-request-id': SECRETS['model_key']}, json.dumps(
            {'error': {'message': f'no {request.path} {request.headers}', 'code': SECRETS['header']}}))

    def page(request, body):
        return 403, {'content-type': 'text/html'}, f'<html><body>{request.path} {request.headers}</body></html>'

    def stray(request, body):
        return 200, {}, f'{request.path} {request.headers}'

    def lead(request, body):
        return 302, {'location': planted('http://me:{redirect_password}@h/{model_query}?x={redirect_query}')}, ''

    answers = [echo(401), echo(400), page, stray, lead]
    for answer in answers:
        world.endpoint.refuse = answer
        ran = world.run('--json', all_of_them=answer == page)
        assert ran.returncode in (1, 73), ran
        expect_none(ran.stdout + ran.stderr, f'answer {answers.index(answer)}')
    for base, proxy in ((f'https://127.0.0.1:{world.endpoint.port}', None),
                        ('http://h.invalid', 'me:{http_proxy}@127.0.0.1:99999'),
                        ('http://me:{model_key}@127.0.0.1:1', None), ('{model_key}', None),
                        ('http://h /{model_key}', None)):
        world.environment['no_proxy'] = '' if proxy else '*'
        world.environment['http_proxy'] = planted(proxy or 'http://127.0.0.1:1')
        ran = world.command('run', '--data', 'data', '--json', *world.models(planted(base), False), 'talk.jsonl')
        assert ran.returncode not in (0, 2), ran
        expect_none(ran.stdout + ran.stderr, f'{base} {proxy}')
    for words in (['audit', 'data', '--json'], ['runs', 'data', '--json'], ['sessions', 'export', 'data', 's']):
        ran = world.command(*words)
        expect_none(ran.stdout + ran.stderr, ' '.join(words))
    assert check_files(world, ['data', 'tmp']) > 3


def files_are_their_owners_whatever_the_umask_is(world):
    for umask in (0o000, 0o077, 0o022):
        ran = world.run('--json', '--ask', 'data', umask=umask)
        assert ran.returncode == 0, ran
        assert check_files(world, ['data', 'config', 'tmp']) > 5
    with open(world.directory + '/settings.json', 'w') as file:
        json.dump({'hooks': {'PreToolUse': [{'hooks': [
            {'type': 'http', 'url': planted('https://g.example/?key={settings_query}'),
             'headers': {'X-Key': SECRETS['settings_header']}}]}]}}, file)
    os.chmod(world.directory + '/settings.json', 0o600)
    ran = world.command('hooks', 'import', 'settings.json', '--write', 'imported', umask=0)
    expect_none(ran.stdout + ran.stderr, 'hooks import')
    written = glob.glob(world.directory + '/imported/*.yaml')
    assert written and all(stat.S_IMODE(os.stat(name).st_mode) == 0o600 for name in written), (ran, written)


def a_core_file_is_allowed_by_a_variable_only(world):
    for name in ('ASAN_OPTIONS', 'TSAN_OPTIONS'):  # sanitizers set the limit themselves, unless they are told not to
        world.environment[name] = world.environment.get(name, '') + ':disable_coredump=0'
    world.run()
    world.endpoint.limits.clear()
    world.environment['TURNPHASE_CORE_FILES'] = '1'
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    limit = 4096 if hard == resource.RLIM_INFINITY or hard >= 4096 else hard
    ran = world.command('run', *world.models(), '--data', 'data', *world.hooks(), 'talk.jsonl', hard=limit)
    assert ran.returncode == 0 and world.endpoint.limits == {b'%d' % limit}, (ran, world.endpoint.limits)
    world.endpoint.limits.clear()
    world.environment['TURNPHASE_CORE_FILES'] = 'yes'
    ran = world.command('run', *world.models(), '--data', 'data', *world.hooks(), 'talk.jsonl', hard=limit)
    assert ran.returncode == 0 and world.endpoint.limits <= {b'0', b'1'}, (ran, world.endpoint.limits)


CASES = [children_get_what_is_theirs_and_nothing_else, nothing_that_is_printed_listed_or_kept_has_a_secret,
         failing_endpoints_reveal_nothing, files_are_their_owners_whatever_the_umask_is,
         a_core_file_is_allowed_by_a_variable_only]

if __name__ == '__main__':
    sys.exit(cases.run(CASES, World))
