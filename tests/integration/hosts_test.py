# SPDX-License-Identifier: Apache-2.0
"""Settings of other hosts, in the form of their documents, imported and played by the command: what becomes of each
entry, and what its program reads and decides in a conversation. Each case has a project of its own."""
import json
import os
import subprocess
import sys
import tempfile

COMMAND = os.path.abspath(sys.argv[1])
LIMIT_S = 120

NOTE = 'kind: tool\nname: note\ndescription: Notes a text.\ncommand: [sh, -c, "cat > /dev/null; echo noted"]\n'
MODEL = {'repeat': True, 'responses': [
    {'tool_calls': [{'id': 'toolu_1', 'name': 'note', 'arguments': {'t': 'git push origin'}}]},
    {'text': 'All done. Left: tests.'}]}


def hooks(event, *commands, matcher=None):
    """The settings of one group."""
    group = {'hooks': [{'type': 'command', 'command': command} for command in commands]}
    return {'hooks': {event: [{**group, 'matcher': matcher} if matcher else group]}}


class Project:
    def __init__(self, directory):
        self.directory = directory
        self.environment = {**os.environ, 'HOME': directory, 'XDG_CONFIG_HOME': directory + '/config'}
        self.write('model.yaml', json.dumps(MODEL))

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

    def command(self, *words, text='', **environment):
        return subprocess.run([COMMAND, *words], cwd=self.directory, env={**self.environment, **environment},
                              input=text, capture_output=True, text=True, timeout=LIMIT_S)

    def import_file(self, name, *options, status=0, **environment):
        """@return the entries of its report."""
        ran = self.command('hooks', 'import', name, '--write', 'hd', '--tool', 'note=Bash:t=command', '--json',
                           *options, **environment)
        assert ran.returncode == status, ran
        return json.loads(ran.stdout)['entries']

    def import_hooks(self, settings, *options, name='settings.json', status=0, **environment):
        self.write(name, settings if isinstance(settings, str) else json.dumps(settings))
        return self.import_file(name, *options, status=status, **environment)

    def trust(self, **environment):
        self.write('hd/note.yaml', NOTE)
        ran = self.command('hooks', 'trust', 'hd', **environment)
        assert ran.returncode == 0, ran

    def run(self, *options, turns=1, session='s', **environment):
        """@return the events of a conversation in which the model calls the tool once in each turn."""
        self.trust(**environment)
        self.write('talk.yaml', json.dumps({'sessions': [
            {'id': session, 'turns': [{'id': f't{i}_{session}', 'user': 'go'} for i in range(turns)]}]}))
        ran = self.command('run', '--script', 'model.yaml', '--hooks', 'hd', '--no-memory', '--json', *options,
                           'talk.yaml', **environment)
        assert ran.returncode == 0, ran
        return [json.loads(line) for line in ran.stdout.splitlines()]


def results(events):
    return [event['tool_result'] for event in events if event['event'] == 'tool_end']


def lines(project, name):
    return [json.loads(line) for line in project.read(name).splitlines()]


def ids_of_calls(project):
    project.import_hooks({'hooks': {event: [{'matcher': '*', 'hooks': [
        {'type': 'command', 'command': f'cat >> {event}.log'}]}] for event in ('PreToolUse', 'PostToolUse')}})
    project.run()
    for event in 'PreToolUse', 'PostToolUse':
        assert [line['tool_use_id'] for line in lines(project, f'{event}.log')] == ['toolu_1'], event


def ids_of_rewritten_calls(project):
    project.import_hooks({'hooks': {event: [{'matcher': '*', 'hooks': [
        {'type': 'command', 'command': f'cat >> {event}.log'}]}] for event in ('PreToolUse', 'PostToolUse')}},
        '--rewrite')
    project.run()
    for event in 'PreToolUse', 'PostToolUse':
        assert [line['tool_use_id'] for line in lines(project, f'{event}.log')] == ['toolu_1'], event


def a_session_that_goes_on(project):
    """SessionStart has the source resume when the data directory has messages of the session, and its matcher fits."""
    project.import_hooks({'hooks': {'SessionStart': [
        {'matcher': 'startup', 'hooks': [{'type': 'command', 'command': 'cat >> startup.log'}]},
        {'matcher': 'resume', 'hooks': [{'type': 'command', 'command': 'cat >> resume.log; echo It goes on.'}]},
        {'hooks': [{'type': 'command', 'command': 'cat >> any.log'}]}]}})
    for session in 's', 's', 'other', 's':
        project.run('--data', 'data', session=session)
    assert [line['source'] for line in lines(project, 'any.log')] == ['startup', 'resume', 'startup', 'resume']
    assert [line['session_id'] for line in lines(project, 'startup.log')] == ['s', 'other']
    assert [line['session_id'] for line in lines(project, 'resume.log')] == ['s', 's']


CASES = [ids_of_calls, ids_of_rewritten_calls, a_session_that_goes_on]


def main():
    print(f'1..{len(CASES)}')
    failed = False
    wanted = sys.argv[2:]
    for number, case in enumerate(CASES, 1):
        if wanted and case.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                case(Project(directory))
                print(f'ok {number} - {case.__name__}', flush=True)
            except Exception as error:  # also what a child or a file says
                failed = True
                print(f'not ok {number} - {case.__name__}', flush=True)
                line = error.__traceback__.tb_next.tb_lineno
                print(f'# {type(error).__name__}: {error} (line {line})'.replace('\n', '\n# '), flush=True)
    return failed


if __name__ == '__main__':
    sys.exit(main())
