# SPDX-License-Identifier: Apache-2.0
"""The examples of the seed documents (tests/seeds/, each as its document has it), played by the command: turnphase chat
and run with a model that is an endpoint of this process, and turnphase tool. Each case has a copy of the recipes as a
repository of its own. Every context that a hook gets is checked against the TypeScript interface of its event."""
import glob
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading

sys.dont_write_bytecode = True  # nothing is written next to the sources
import cases  # noqa: E402
from shapes import violation  # noqa: E402

COMMAND = os.path.abspath(sys.argv[1])
SEEDS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'seeds')
LIMIT_S = 120


# ---- the interfaces ----

def schema(name):
    with open(f'{SEEDS}/s4/interfaces/{name}.schema.json') as file:
        return json.load(file)


def uncommented(text):
    """A .jsonc of the document as a value."""
    return json.loads(re.sub(r'^\s*//.*$', '', text, flags=re.M))


# ---- a model ----

class Model:
    """An endpoint of Chat Completions that gives the answers in their order and keeps what it was asked."""

    def __init__(self, *answers):
        self.requests = []
        model, left = self, list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                model.requests.append(json.loads(self.rfile.read(int(self.headers['content-length']))))
                answer = left.pop(0) if left else 'Nothing more.'
                message = {'role': 'assistant', 'content': answer if isinstance(answer, str) else None}
                if not isinstance(answer, str):
                    message['tool_calls'] = [
                        {'id': f'c{len(left)}_{i}', 'type': 'function',
                         'function': {'name': name, 'arguments': json.dumps(arguments)}}
                        for i, (name, arguments) in enumerate(answer)]
                body = json.dumps({'id': 'x', 'model': 'm', 'choices': [{
                    'index': 0, 'message': message,
                    'finish_reason': 'stop' if isinstance(answer, str) else 'tool_calls'}],
                    'usage': {'prompt_tokens': 1, 'completion_tokens': 1, 'total_tokens': 2}}).encode()
                self.send_response(200)
                self.send_header('content-type', 'application/json')
                self.send_header('content-length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def options(self):
        return ['--model', 'openai:m', '--base-url', f'http://127.0.0.1:{self.server.server_port}/v1']

    def results(self):
        """The results of calls that the model was shown, in all requests."""
        return [message['content'] for message in self.requests[-1]['messages'] if message['role'] == 'tool']

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def text_of(content):
    return content if isinstance(content, str) else ''.join(part.get('text', '') for part in content)


# ---- a repository ----

class Repository:
    def __init__(self, directory):
        self.directory = directory
        shutil.copytree(f'{SEEDS}/s4/recipes', directory, dirs_exist_ok=True)
        for path in glob.glob(f'{SEEDS}/s4/tools/*.yaml'):
            shutil.copy(path, f'{directory}/.system/hooks')
        shutil.copy(f'{SEEDS}/s4/tools/edit_file.py', f'{directory}/scripts')
        os.makedirs(f'{directory}/contexts')
        self.environment = {**os.environ, 'HOME': directory, 'XDG_CONFIG_HOME': directory + '/config',
                            'OPENAI_API_KEY': 'sk-test'}
        self.environment.pop('TURNPHASE_ENVIRONMENT', None)
        self.trust()

    def trust(self):
        ran = self.command('hooks', 'trust', '.system/hooks')
        assert ran.returncode == 0, ran

    def command(self, *words, text='', **environment):
        return subprocess.run([COMMAND, *words], cwd=self.directory, env={**self.environment, **environment},
                              input=text, capture_output=True, text=True, timeout=LIMIT_S)

    def write(self, name, text):
        path = f'{self.directory}/{name}'
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text)

    def read(self, name):
        with open(f'{self.directory}/{name}') as file:
            return file.read()

    def exists(self, name):
        return os.path.exists(f'{self.directory}/{name}')

    def contexts(self, event):
        return [json.loads(line) for line in self.read(f'contexts/{event}.jsonl').splitlines()]

    def converse(self, how, model, said, *options, more=(), **environment):
        """Every context that hooks got fits the document's interface. @return how many there were."""
        common = ['--no-memory', '--hooks', '.system/hooks', *model.options(), *options]
        if how == 'chat':
            ran = self.command('chat', '--session', 's', *common, text='\n'.join([said, *more, '']), **environment)
        else:
            lines = [json.dumps({'session': 's', 'user': text}) + '\n' for text in (said, *more)]
            self.write('talk.jsonl', ''.join(lines))
            ran = self.command('run', *common, 'talk.jsonl', **environment)
        assert ran.returncode == 0, ran
        return ran.stdout + ran.stderr

    def call(self, tool, arguments, *options, **environment):
        return self.command('tool', 'call', tool, '--no-memory', '--hooks', '.system/hooks', '-a', '-', *options,
                            text=json.dumps(arguments), **environment)

    def check_contexts(self, at_least):
        """Every context that hooks were given is what the document's interface says. @return how many."""
        count = 0
        for event in ('PromptSubmit', 'PreAbilityCreate', 'PreAbilityCall', 'PostAbilityCall', 'SessionStop'):
            rule = schema(event + 'Context')
            if not self.exists(f'contexts/{event}.jsonl'):
                continue
            for context in self.contexts(event):
                found = violation(context, rule)
                assert not found, f'{event}: {found}: {context}'
                count += 1
        assert count >= at_least, count
        return count


PROD, DEV = {'path': 'config/prod.yaml', 'text': 'x'}, {'path': 'config/dev.yaml', 'text': 'x'}
CONVERSATIONS = ('chat', 'run')


# ---- the recipes ----

def prod_config_guard(repository):
    """Denies edits of files in prod by an AI, and nothing else; a person at the command line may edit them."""
    for how in CONVERSATIONS:
        model = Model([('edit_file', PROD), ('edit_file', DEV)], 'Done.')
        repository.converse(how, model, 'Edit both.')
        denied, edited = model.results()
        assert 'Editing prod config files is not allowed from ai_session.' in denied, denied
        assert 'edited config/dev.yaml' in edited, edited
        assert not repository.exists('config/prod.yaml'), how
        os.unlink(f'{repository.directory}/config/dev.yaml')
        model.close()
    context = next(one for one in repository.contexts('PreAbilityCall') if 'prod' in one['args_summary'])
    assert context['args_summary'] == '{"path":"config/prod.yaml","text":"x"}', context
    assert context['caller']['source'] == 'ai_session', context
    assert context['ability_id'] == 'edit_file' and context['session_id'] == 's', context
    ran = repository.call('edit_file', PROD)
    assert ran.returncode == 0 and repository.exists('config/prod.yaml'), ran
    assert repository.contexts('PreAbilityCall')[-1]['caller'] == {'source': 'manual_cli'}
    repository.check_contexts(5)


def summary_of_long_arguments(repository):
    """A long argument in front of the others hides none of them from the guard."""
    model = Model([('edit_file', {'aa': 'x' * 100000, 'text': 'y' * 5000, **PROD})], 'Done.')
    repository.converse('run', model, 'Edit it.')
    assert 'not allowed from ai_session' in model.results()[0], model.results()
    assert len(repository.contexts('PreAbilityCall')[0]['args_summary']) < 4096
    model.close()


def nonprod_availability_check(repository):
    """Refuses an operation in prod by the environment of the session, of the call and of the variable."""
    row = ('db.write.user_row', {'id': 7})
    for how in CONVERSATIONS:
        for option, variables, refused in ((['--environment', 'prod'], {}, True),
                                           ([], {'TURNPHASE_ENVIRONMENT': 'prod'}, True),
                                           (['--environment', 'dev'], {'TURNPHASE_ENVIRONMENT': 'prod'}, False),
                                           ([], {}, False)):
            model = Model([row], 'Done.')
            repository.converse(how, model, 'Write the row.', *option, **variables)
            result = model.results()[0]
            assert ('Operation is not enabled in prod environments.' in result) == refused, (how, option, result)
            assert ('written' in result) != refused, (how, option, result)
            model.close()
    ran = repository.call(*row, '--environment', 'prod')
    assert ran.returncode == 77 and 'not enabled in prod' in ran.stdout, ran
    ran = repository.call(*row, '--environment', 'prod', '--caller', 'ci', '--job-id', '4711', '--triggered-by',
                          'nightly')
    context = repository.contexts('PreAbilityCreate')[-1]
    assert context['caller'] == {'source': 'ci_pipeline', 'job_id': '4711', 'triggered_by': 'nightly'}, context
    assert context['ability_ref'] == {'kind': 'operation_key', 'value': 'db.write.user_row'}, context
    assert context['environment'] == 'prod' and context['input_summary'] == '{"id":7}', context
    ran = repository.call('edit_file', DEV, '--environment', 'prod')
    assert ran.returncode == 0, ran
    context = repository.contexts('PreAbilityCreate')[-1]
    assert context['ability_ref'] == {'kind': 'ability_id', 'value': 'edit_file'}, context
    repository.check_contexts(12)


def prompt_router(repository):
    """Its signals are in the model's first request, with the document's names for event and hook."""
    with open(f'{SEEDS}/s4/signals/routing_hint.jsonc') as file:
        example = uncommented(file.read())
    for how in CONVERSATIONS:
        model = Model('Done.')
        repository.converse(how, model, 'Run the signup regression.')
        said = text_of(model.requests[0]['messages'][-1]['content'])
        found = re.search(r'<hook-signals>\n(.*)\n</hook-signals>', said)
        signals = json.loads(found.group(1))
        assert all(not violation(signal, schema('HookSignal')) for signal in signals), signals
        assert [signal['kind'] for signal in signals] == ['normalized_intent', 'routing_hint'], signals
        assert {**example, 'severity': 'info'} == signals[1], signals
        model.close()
    repository.check_contexts(2)


def ability_usage_tracker(repository):
    """Counts every call of every caller; its context has summaries, and neither signals nor the whole texts."""
    for how in CONVERSATIONS:
        model = Model([('edit_file', DEV)], [('edit_file', {'path': '/proc/none/x'})], 'Done.')
        repository.converse(how, model, 'Edit.')
        model.close()
    repository.call('edit_file', DEV)
    usage = json.loads(repository.read('.system/cache/ability_usage.json'))
    assert usage == {'edit_file': {'calls': 5, 'failures': 2}}, usage
    contexts = repository.contexts('PostAbilityCall')
    assert [context['status'] for context in contexts].count('failure') == 2, contexts
    for context in contexts:
        assert 'hook-signals' not in context.get('output_summary', ''), context
        assert ('error_message' in context) == (context['status'] == 'failure'), context
    assert contexts[-1]['output_summary'] == 'edited config/dev.yaml', contexts[-1]
    repository.check_contexts(5)


def usage_of_parallel_calls(repository):
    """The tracker reads and writes its whole file: with one run at a time it counts 64 of 64 parallel calls."""
    for other in ('nonprod_availability_check', 'prod_config_guard'):  # 64 programs of theirs at once need their time
        os.unlink(f'{repository.directory}/.system/hooks/{other}.yaml')
    with open(f'{repository.directory}/.system/hooks/ability_usage_tracker.yaml', 'a') as file:
        file.write('max_concurrent: 1\n')
    repository.trust()
    model = Model([('edit_file', {'path': f'files/{i}', 'text': 'x'}) for i in range(64)], 'Done.')
    repository.converse('run', model, 'Edit them.')
    model.close()
    usage = json.loads(repository.read('.system/cache/ability_usage.json'))
    assert usage == {'edit_file': {'calls': 64, 'failures': 0}}, usage


def signals_of_the_document(repository):
    """Each example of a signal in the document has the effect that the document describes."""
    hooks = f'{repository.directory}/.system/hooks'
    for name in os.listdir(hooks):
        if not name.startswith(('edit_file', 'db_write')):
            os.unlink(f'{hooks}/{name}')
    events = {'routing_hint': 'PromptSubmit', 'ability_preflight': 'PreAbilityCreate',
              'ability_guard': 'PreAbilityCall'}
    for name, event in events.items():
        shutil.copy(f'{SEEDS}/s4/signals/{name}.jsonc', repository.directory)
        scope = {'PreAbilityCreate': 'db.*', 'PreAbilityCall': 'edit_file'}.get(event)
        line = f"echo '{{\"hook_signals\": ['; cat {name}.jsonc; echo ']}}'"
        repository.write(f'.system/hooks/{name}.yaml', f'id: {name}\nevent_type: {event}\n' +
                         (f"match: {{ability_scope: '{scope}'}}\n" if scope else '') +
                         'handler:\n  command: [sh, -c, ' + json.dumps(line) + ']\n')
    repository.trust()
    model = Model([('db.write.user_row', {}), ('edit_file', DEV)], 'Done.')
    repository.converse('run', model, 'Go on.')
    assert '"suggested_documents":[{"path":"integration/ROUTING.md"' in text_of(
        model.requests[0]['messages'][-1]['content']).replace(' ', ''), model.requests[0]
    unavailable, denied = model.results()
    assert 'Operation is not enabled in prod environments.' in unavailable, unavailable
    assert 'Editing prod config files is not allowed from ai_session.' in denied, denied
    model.close()


def declaration(repository):
    """The file of the document's section 2, with every key."""
    shutil.copy(f'{SEEDS}/s4/declaration/.system/hooks/ability_usage_tracker.yaml',
                f'{repository.directory}/.system/hooks')
    repository.trust()
    assert repository.call('edit_file', DEV).returncode == 0
    assert json.loads(repository.read('.system/cache/ability_usage.json'))['edit_file']['calls'] == 1


def guards_without_a_program(repository):
    """match.arguments with kind deny, and the lists of a profile, in chat, run, tool and plan."""
    hooks = f'{repository.directory}/.system/hooks'
    for name in os.listdir(hooks):
        if not name.startswith(('edit_file', 'db_write')):
            os.unlink(f'{hooks}/{name}')
    repository.write('.system/hooks/no_prod.yaml',
                     "id: no_prod\nevent_type: PreAbilityCall\n"
                     "match: {ability_scope: edit_file, arguments: {path: '**/prod*'}}\n"
                     "handler: {kind: deny, reason: prod is edited by people}\n")
    repository.write('.system/hooks/floor.yaml', "kind: permissions\nid: floor\nnever: 'db.*'\nauto: edit_file\n")
    repository.trust()
    for how in CONVERSATIONS:
        model = Model([('edit_file', PROD), ('edit_file', DEV), ('db.write.user_row', {})], 'Done.')
        repository.converse(how, model, 'Go on.')
        denied, edited, never = model.results()
        assert 'prod is edited by people' in denied and 'edited' in edited, (denied, edited)
        assert 'floor never lets run the tool db.write.user_row' in never, never
        model.close()
    ran = repository.call('edit_file', {'path': './config/../config/prod.yaml'})
    assert ran.returncode == 77 and 'prod is edited by people' in ran.stdout, ran
    assert repository.call('db.write.user_row', {}).returncode == 77
    plan = repository.command('plan', '--no-memory', '--hooks', '.system/hooks', 'tool.pre').stdout
    assert plan.index('floor') < plan.index('no_prod'), plan


def session_stop_build_check(repository):
    """Runs when services or apps were changed, by a tool that declares its files or by the domain files."""
    for how, call, options, found in (
            ('chat', ('edit_file', {'path': './services/a/x.c', 'text': 'fine'}), [], 'services/a/x.c'),
            ('run', ('edit_file', {'path': 'services/b.c', 'text': 'SYNTAX_ERROR'}), [], 'services/b.c'),
            ('run', ('files_write', {'path': 'apps/c.c', 'text': 'x'}), ['--files', '.', '--files-writes', 'allow'],
             'apps/c.c'),
            ('chat', ('edit_file', {'path': 'docs/d.md', 'text': 'x'}), [], None)):
        before = repository.read('.system/logs/build_check.log') if repository.exists(
            '.system/logs/build_check.log') else ''
        model = Model([call], 'Done.')
        repository.converse(how, model, 'Edit.', *options)
        model.close()
        log = repository.read('.system/logs/build_check.log')
        assert (log != before) == (found is not None), (how, call, log)
        if found:
            context = json.loads(repository.read('.system/logs/session_stop.json'))
            assert context['changed_files'] == [found], context
            assert context['abilities_used'] == [call[0]], context
            assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', context['started_at']), context
    assert repository.read('.system/logs/build_check.log').split('\n')[:2] == ['build passed', 'build broken']
    repository.check_contexts(8)


def tasks_of_the_ai(repository):
    """LIST_ABILITIES, CREATE_TASK and RUN_TASK are actions of the AI: one turn creates, a later one runs."""
    for how, names in (('chat', ('LIST_ABILITIES', 'CREATE_TASK', 'RUN_TASK')),
                       ('run', ('abilities_list', 'task_create', 'task_run'))):
        listing, create, run = names
        which = 'actions' if create.isupper() else 'tools'
        edit = {'ability_id': 'edit_file', 'arguments': DEV, 'task_key': 'edit-1'}
        model = Model([(listing, {})], [(create, edit)], 'Created.', [(run, {'task_key': 'edit-1'})], 'Done.')
        repository.converse(how, model, 'Plan it.', '--tasks', which, more=['Now do it.'])
        abilities, created, ran = model.results()
        listed = [one['ability_id'] for one in json.loads(abilities.split('\n')[0])]
        assert listed == ['db.write.user_row', 'edit_file'], abilities
        first, rest = created.split('\n', 1)
        assert json.loads(first) == {'task_key': 'edit-1', 'ability_id': 'edit_file'}, created
        assert 'ABILITY_AVAILABLE' in rest, created  # the signal of the preflight
        assert 'edited config/dev.yaml' in ran, ran
        model.close()
        create_context = next(one for one in repository.contexts('PreAbilityCreate')
                              if one['ability_ref']['value'] == 'edit_file')
        assert create_context['session_id'] == 's' and create_context['caller']['source'] == 'ai_session'
        for event in ('PreAbilityCall', 'PostAbilityCall'):
            context = [one for one in repository.contexts(event) if one['ability_id'] == 'edit_file'][-1]
            assert context['task_key'] == 'edit-1' and context['session_id'] == 's', context
        stop = repository.contexts('SessionStop')[-1]
        assert stop['tasks_summary'] == [
            {'task_key': 'edit-1', 'ability_id': 'edit_file', 'status': 'success'}], stop
        assert 'edit_file' in stop['abilities_used'] and stop['changed_files'] == ['config/dev.yaml'], stop
        repository.check_contexts(8)
        shutil.rmtree(f'{repository.directory}/contexts')
        os.makedirs(f'{repository.directory}/contexts')


def tasks_that_the_gates_refuse(repository):
    """PreAbilityCreate refuses in prod, so that no task is kept; PreAbilityCall refuses a run, so that it stays."""
    model = Model([('task_create', {'ability_id': 'db.write.user_row', 'arguments': {'id': 7}, 'task_key': 'row'})],
                  [('task_run', {'task_key': 'row'})],
                  [('task_create', {'ability_id': 'edit_file', 'arguments': PROD, 'task_key': 'prod'})],
                  [('task_run', {'task_key': 'prod'})], 'Done.')
    repository.converse('run', model, 'Go.', '--tasks', 'tools', '--data', 'd', '--environment', 'prod')
    unavailable, missing, created, denied = model.results()
    assert 'Operation is not enabled in prod environments.' in unavailable, unavailable
    assert 'ABILITY_UNAVAILABLE' in unavailable and 'there is no task' in missing, (unavailable, missing)
    assert json.loads(created.split('\n')[0])['task_key'] == 'prod', created
    assert 'Editing prod config files is not allowed from ai_session.' in denied, denied
    assert not repository.exists('config/prod.yaml')
    stop = repository.contexts('SessionStop')[-1]
    assert stop['tasks_summary'] == [{'task_key': 'prod', 'ability_id': 'edit_file', 'status': 'failure'}], stop
    ran = repository.command('tool', 'run', 'prod', '--no-memory', '--hooks', '.system/hooks', '--data', 'd')
    assert ran.returncode == 0 and repository.exists('config/prod.yaml'), ran  # a person may run it
    model.close()
    repository.check_contexts(8)


def tasks_after_kill_9(repository):
    """A task that a process created, which was killed in its next call, is run by another one, once."""
    model = Model([('task_create', {'ability_id': 'edit_file', 'arguments': DEV, 'task_key': 'later'})],
                  [('edit_file', {'path': 'kill', 'text': 'x'})])
    repository.write('scripts/kill.sh', 'case $(cat) in *\'"path":"kill"\'*) kill -9 $PPID;; esac\n')
    repository.write('.system/hooks/kill.yaml', 'id: kill\nevent_type: PreAbilityCall\n'
                     'match: {ability_scope: edit_file}\nhandler: {kind: script, command: [sh, scripts/kill.sh]}\n')
    repository.trust()
    options = ['--no-memory', '--hooks', '.system/hooks', '--tasks', 'tools', '--data', 'd']
    died = repository.command('chat', '--session', 's', *options, *model.options(), text='Go.\n')
    assert died.returncode == -9, died
    model.close()
    model = Model([('task_run', {'task_key': 'later'})], [('task_run', {'task_key': 'later'})], 'Done.')
    repository.converse('chat', model, 'Go on.', *options[3:])
    first, second = model.results()[-2:]
    assert 'edited config/dev.yaml' in first and 'there is no task' in second, (first, second)
    model.close()


def seed(name):
    with open(f'{SEEDS}/{name}') as file:
        return file.read()


def results_of_handlers(repository):
    """The output of each handler of the recipes is a HookResult, and its signals are valid; any other output fails."""
    model = Model([('edit_file', DEV), ('db.write.user_row', {'id': 7})], 'Done.')
    repository.converse('run', model, 'Run the signup regression.')
    model.close()
    rule, printed = schema('HookResult'), 0
    names = set(re.findall(r'^  (\w+)\?:', seed('s4/interfaces/HookResult.ts'), re.M))
    assert names == set(rule['properties']), names
    for program, event in (('prompt_router', 'PromptSubmit'), ('nonprod_availability_check', 'PreAbilityCreate'),
                           ('prod_config_guard', 'PreAbilityCall'), ('ability_usage_tracker', 'PostAbilityCall')):
        for context in repository.contexts(event):
            ran = subprocess.run([f'{repository.directory}/scripts/hooks/{program}.py'], cwd=repository.directory,
                                 input=json.dumps(context), capture_output=True, text=True, timeout=LIMIT_S)
            result = json.loads(ran.stdout)
            assert set(result) <= names and not violation(result, rule), result
            for signal in result.get('hook_signals', []):
                assert not violation(signal, schema('HookSignal')), signal
            printed += 1
    assert printed >= 6, printed
    repository.write('.system/hooks/prod_config_guard.yaml',
                     'id: prod_config_guard\nevent_type: PreAbilityCall\nhandler: {command: [cat, answer.json]}\n')
    repository.write('answer.json', '{}')
    repository.trust()
    for answer, allowed in (('{"logs": ["fine"], "usage_recorded": true}', True), ('{"hook_signals": []}', True),
                            ('{"error": {"code": "no_registry", "message": "the registry is gone"}}', False),
                            ('{"error": "the registry is gone"}', False), ('{"logs": "no array"}', False),
                            ('{"hook_signals": {}}', False)):
        repository.write('answer.json', answer)
        repository.trust()
        ran = repository.call('edit_file', DEV)
        assert (ran.returncode == 0) == allowed, (answer, ran)


def match_of_the_document(repository):
    """Each key of the match block decides whether the hook runs, at the events that the document names for it; the
    handler block is that of the document, too."""
    block, handler = seed('s4/match.yaml'), seed('s4/handler.yaml')
    lines = block.splitlines(keepends=True)
    scope, slow, paths = lines[1], lines[2], ''.join(lines[3:])
    assert 'ability_scope' in scope and 'min_duration_ms' in slow and 'only_if_changed_paths' in paths, lines
    hooks = f'{repository.directory}/.system/hooks'
    for name in os.listdir(hooks):
        if not name.startswith(('edit_file', 'db_write', '0_record')):
            os.unlink(f'{hooks}/{name}')
    repository.write('scripts/hooks/session_stop_build_check.sh', '#!/bin/sh\ncat >>ran.jsonl\n')
    os.chmod(f'{repository.directory}/scripts/hooks/session_stop_build_check.sh', 0o755)
    for event, keys, seen in (('PreAbilityCall', scope, ['edit_file', 'edit_file']), ('PostAbilityCall', slow, None),
                              ('PostAbilityCall', slow.replace('100', '100000'), []),
                              ('PostAbilityCall', slow.replace('100', '0'), ['edit_file', 'edit_file']),
                              ('SessionStop', paths, [['docs/b.md', 'services/a.c']])):
        repository.write('.system/hooks/m.yaml', f'id: m\nevent_type: {event}\nmatch:\n{keys}{handler}')
        repository.write('ran.jsonl', '')
        repository.trust()
        model = Model([('edit_file', {'path': 'services/a.c'}), ('edit_file', {'path': 'docs/b.md'})], 'Done.')
        repository.converse('run', model, 'Edit.')
        model.close()
        ran = [json.loads(line) for line in repository.read('ran.jsonl').splitlines()]
        found = [context.get('ability_id') or sorted(context['changed_files']) for context in ran]
        if seen is None:  # the machine decides how long the tool ran
            seen = [one['ability_id'] for one in repository.contexts(event)[-2:] if one['duration_ms'] >= 100]
        assert found == seen, (event, keys, found)
    # the whole block is of three events: what one of them cannot be asked is named
    for event, key in (('PostAbilityCall', 'only_if_changed_paths'), ('SessionStop', 'ability_scope')):
        repository.write('.system/hooks/m.yaml', f'id: m\nevent_type: {event}\n{block}{handler}')
        ran = repository.command('hooks', 'check', '.system/hooks')
        assert ran.returncode == 78 and f'{key} cannot be asked of' in ran.stderr, ran


def command_of_a_lifecycle_hook(repository):
    """The registration of the document as a file of ours, and each line of its contract."""
    code = seed('s1/command.ts')
    fields = dict(re.findall(r"(name|command): '([^']*)'", code))
    limit = int(re.search(r'timeoutMs: ([\d_]+)', code).group(1).replace('_', ''))
    event = re.search(r"register\('([\w.]+)'", code).group(1)
    for name in ('nonprod_availability_check', 'prod_config_guard', 'ability_usage_tracker', 'prompt_router'):
        os.unlink(f'{repository.directory}/.system/hooks/{name}.yaml')

    def write(limit_ms):
        repository.write('.system/hooks/policy.yaml', f"id: {fields['name']}\nevent_type: {event}\n"
                         f"match: {{ability_scope: edit_file}}\nhandler: {{"
                         f"command: {fields['command']}, timeout_ms: {limit_ms}}}\n")
        repository.trust()

    def play(script):
        repository.write('hooks/check.sh', '#!/bin/sh\ncat >context.json\n' + script)
        os.chmod(f'{repository.directory}/hooks/check.sh', 0o755)
        write(300 if 'sleep' in script else limit)
        model = Model([('edit_file', DEV)], 'Done.')
        repository.converse('run', model, 'Edit.')
        model.close()
        request = [text_of(message['content'] or '') for message in model.requests[-1]['messages']]
        return model.results()[0], '\n'.join(request)

    for script, allowed, words, reminder in (
            ('exit 0', True, 'edited', None), ('echo no prod >&2; exit 1', False, 'no prod', 'blocked the action'),
            ('echo no prod >&2; exit 7', False, 'no prod', 'blocked the action'),
            ('echo \'{"continue": false, "reason": "not on Friday"}\'', False, 'not on Friday', 'not on Friday'),
            ('echo \'{"output": "three files were checked"}\'', True, 'edited', 'three files were checked'),
            ('echo \'{"additionalContext": "the tree is frozen"}\'', True, 'edited', 'the tree is frozen'),
            ('echo this is no JSON', True, 'edited', None), ('sleep 60', False, 'policy-check', 'policy-check')):
        result, request = play(script)
        assert ('edited' in result) == allowed and words in result, (script, result)
        assert reminder is None or re.search(f'<system-reminder>\n.*{reminder}', request), (script, request)
    context = json.loads(repository.read('context.json'))
    assert context['phase'] == event and context['payload']['arguments'] == DEV, context


def list_of_the_document(repository):
    """The document's command, with a one-line script of ours, prints each hook as the document shows it."""
    command, shown = seed('s4/list.sh').strip(), seed('s4/list.txt').splitlines()
    repository.write('.system/hooks/skill_activation_prompt.yaml', 'id: skill_activation_prompt\n'
                     'event_type: PromptSubmit\nenabled: true\nblocking: true\n'
                     'handler: {kind: script, command: ./scripts/hooks/prompt_router.py}\n')
    repository.write('scripts/hooks/list', f'#!/bin/sh\nexec {COMMAND} hooks list .system/hooks\n')
    os.chmod(f'{repository.directory}/scripts/hooks/list', 0o755)
    ran = subprocess.run(['sh', '-c', command], cwd=repository.directory, env=repository.environment,
                         capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran
    rows = [line.split(maxsplit=4) for line in ran.stdout.splitlines()]
    assert all(row[4] == row[4].strip() for row in rows) and len(shown) == 6, (shown, ran.stdout)
    for line in shown[:1] + shown[2:]:
        assert line.strip().split(maxsplit=4) in rows, (line, ran.stdout)
    events = [row[1] for row in rows[2:] if row[1] != 'tool']
    order = ['PromptSubmit', 'PreAbilityCreate', 'PreAbilityCall', 'PostAbilityCall', 'SessionStop']
    assert events == sorted(events, key=order.index) and set(events) == set(order), ran.stdout
    positions = [[row[0] for row in rows].index(line.split()[0]) for line in shown[2:]]
    assert positions == sorted(positions), ran.stdout


def tree_of_the_card(repository):
    """The library is C with POSIX threads, built by meson and tested with cmocka, in the seven entries of the card."""
    root = os.path.dirname(os.path.dirname(SEEDS))
    entries = ('include', 'runtime', 'phases', 'domains', 'bench', 'tests', 'meson.build')
    assert all(os.path.exists(f'{root}/{entry}') for entry in entries), os.listdir(root)
    sources = [name for folder in ('runtime', 'phases', 'domains')
               for _, _, names in os.walk(f'{root}/{folder}') for name in names]
    assert sources and not [name for name in sources if re.search(r'\.(cc|cpp|cxx|rs|go)$', name)], sources
    with open(f'{root}/meson.build') as file:
        build = file.read()
    assert "dependency('threads')" in build and "dependency('cmocka'" in build, build


def files_that_git_lists(repository):
    """--changed-from git: what any program has changed, whatever the tools say of it; without git what these say."""
    def git(*words):
        done = subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *words], cwd=repository.directory,
                              capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done

    def stop(how, *options):
        model = Model([('edit_file', {'path': 'services/a.c', 'text': 'x'})], 'Done.')
        printed = repository.converse(how, model, 'Edit.', *options)
        model.close()
        return repository.contexts('SessionStop')[-1]['changed_files'], printed

    changed, printed = stop('run', '--changed-from', 'git')
    assert changed == ['services/a.c'] and 'git status' in printed, (changed, printed)  # there is no repository
    repository.write('.gitignore', 'contexts/\n.system/\nconfig/\ntalk.jsonl\n')
    repository.write('apps/with a blank.c', 'x')
    git('init', '-q')
    git('add', '-A')
    git('commit', '-qm', 'all')
    assert stop('chat', '--changed-from', 'git')[0] == []  # it writes the files that are there
    repository.write('apps/with a blank.c', 'y')
    repository.write('apps/ä.c', 'new')
    os.unlink(f'{repository.directory}/services/a.c')
    git('commit', '-qam', 'gone')
    repository.write('apps/with a blank.c', 'z')
    for how in CONVERSATIONS:
        changed, printed = stop(how, '--changed-from', 'git')
        assert changed == ['apps/with a blank.c', 'apps/ä.c', 'services/a.c'], changed
        assert 'warning' not in printed, printed
    assert stop('run')[0] == ['services/a.c']
    repository.check_contexts(8)


CASES = [prod_config_guard, summary_of_long_arguments, nonprod_availability_check, prompt_router, ability_usage_tracker,
         usage_of_parallel_calls, signals_of_the_document, declaration, guards_without_a_program,
         session_stop_build_check, tasks_of_the_ai, tasks_that_the_gates_refuse, tasks_after_kill_9,
         results_of_handlers, match_of_the_document, command_of_a_lifecycle_hook,
         list_of_the_document, tree_of_the_card,
         files_that_git_lists]

if __name__ == '__main__':
    sys.exit(cases.run(CASES, Repository))
