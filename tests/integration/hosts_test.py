# SPDX-License-Identifier: Apache-2.0
"""Settings of other hosts, in the form of their documents, imported and played by the command: what becomes of each
entry, and what its program reads and decides in a conversation. Each case has a project of its own."""
import http.server
import json
import os
import pty
import random
import select
import shutil
import subprocess
import sys
import threading

sys.dont_write_bytecode = True  # nothing is written next to the sources
import cases  # noqa: E402
from shapes import violation  # noqa: E402

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
        self.tool = NOTE
        self.runs = 0
        self.write('model.yaml', json.dumps(MODEL))

    def write(self, name, text):
        path = f'{self.directory}/{name}'
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as file:
            file.write(text)

    def read(self, name):
        with open(f'{self.directory}/{name}') as file:
            return file.read()

    def remove(self, name):
        shutil.rmtree(f'{self.directory}/{name}', ignore_errors=True)

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
        self.write('hd/note.yaml', self.tool)
        ran = self.command('hooks', 'trust', 'hd', **environment)
        assert ran.returncode == 0, ran

    def run(self, *options, turns=1, session='s', **environment):
        """@return the events of a conversation in which the model calls the tool once in each turn."""
        self.trust(**environment)
        self.runs += 1
        self.write('talk.yaml', json.dumps({'sessions': [
            {'id': session, 'turns': [{'id': f't{self.runs}_{i}', 'user': 'go'} for i in range(turns)]}]}))
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


GUARD = 'if [ "$GUARD_MODE" = strict ]; then echo strict >&2; exit 2; fi'


def variables_of_settings(project):
    """env of the settings reaches every program, and what of it has no place is named."""
    settings = hooks('PreToolUse', GUARD, matcher='Bash')
    for env, denied, notes in (
            ({'GUARD_MODE': 'strict'}, True, 0), ({'GUARD_MODE': 'lax'}, False, 0), ({}, False, 0),
            ({'GUARD_MODE': 'strict', 'N': 7, 'B': True}, True, 0),
            ({'GUARD_MODE': 'strict', 'PATH': '/x', 'LD_PRELOAD': '/y'}, True, 2),
            ({'GUARD_MODE': 'strict', 'NO-NAME': 'x'}, True, 1), ({'GUARD_MODE': ['strict']}, False, 1),
            ('strict', False, 1)):
        project.remove('hd')
        project.write('settings.json', json.dumps({'env': env, **settings}))
        ran = project.command('hooks', 'import', 'settings.json', '--write', 'hd', '--json',
                              '--tool', 'note=Bash:t=command')
        report = json.loads(ran.stdout)
        assert len(report['notes']) == notes, report
        assert [result['kind'] for result in results(project.run())] == ['denied' if denied else 'ok'], env


def variables_of_a_handler(project):
    """A variable of the handler counts before one of the file."""
    for own, denied in (({'GUARD_MODE': 'strict'}, True), ({'GUARD_MODE': 'lax'}, False), (None, False)):
        settings = hooks('PreToolUse', GUARD, matcher='Bash')
        settings['env'] = {'GUARD_MODE': 'other'}
        if own:
            settings['hooks']['PreToolUse'][0]['hooks'][0]['env'] = own
        project.remove('hd')
        project.import_hooks(settings)
        assert [result['kind'] for result in results(project.run())] == ['denied' if denied else 'ok'], own


def variables_of_the_host(project):
    """A variable of the host reaches a program only if the import was called with it."""
    settings = hooks('PreToolUse', GUARD, matcher='Bash')
    for options, denied in (((), False), (('--pass-env', 'GUARD_MODE'), True), (('--pass-env', 'GUARD_*'), True),
                            (('--pass-env', 'OTHER', '--pass-env', 'GUARD_MODE'), True)):
        project.remove('hd')
        project.import_hooks(settings, *options)
        events = project.run(GUARD_MODE='strict')
        assert [result['kind'] for result in results(events)] == ['denied' if denied else 'ok'], options


COMMENTED = """\
// the hooks of this project
{
  "hooks": { /* of tools
                alone */
    "PreToolUse": [
      {"matcher": "Bash",  // not Read
       "hooks": [{"type": "command", "command": "echo '// no, /* no */' >&2; exit 2",},]},
    ],
  },
}
"""


def comments_and_last_commas(project):
    """Some hosts accept comments and trailing commas. Those in a text stay, and malformed JSON is refused with its
    place."""
    project.import_hooks(COMMENTED)
    events = project.run()
    assert '// no, /* no */' in results(events)[0]['text'], events
    one = json.dumps(hooks('PreToolUse', 'true'))
    for text in (one.replace('"}', '",}'), one.replace(']', ',]'), one + '// end', '/**/' + one,
                 one.replace('[', '[//x\n'), one.replace(':', '/**/:/**/'), one.replace('true', 'a // b'),
                 one.replace('true', 'a /* b'), one.replace('true', 'a,]'), one.replace('true', r'\\\",}'),
                 one.replace('}', '/*,*/}'), one.replace('"}', '" , // x\n }'), '\n\n' + one + '\n\n'):
        project.remove('hd')
        assert len(project.import_hooks(text)) == 1, text
    for text, place in (('[,]', '1:2'), ('{,}', '1:2'), (one + ',', ''), ('/* ' + one, '1:1'), ('{"hooks":,}', ''),
                        ('{"hooks": {}},', ''), ('\n\n {"a" 1}', '3:7'), ('# x\n' + one, '1:1'), (one + '/', ''),
                        ('{"hooks": [1,,]}', '1:14')):
        project.write('bad.json', text)
        ran = project.command('hooks', 'import', 'bad.json')
        assert ran.returncode == 78 and f'bad.json:{place}' in ran.stderr, (text, ran)


TOML = """\
model = "gpt-5"
notify = ["python3", "n.py"]
[features]
hooks = true
[mcp_servers."my server"]
env = {"A" = "b"}
[[hooks.PreToolUse]]
matcher = "Bash"
[[hooks.PreToolUse.hooks]]
type = "command"
command = '''echo "not from here" >&2; exit 2'''
timeout = 10
[[hooks.PreToolUse]]
matcher = "^Write$"
hooks = [{type = "command", command = "true"}, {type = "command", command = "exit 0"}]
[hooks.state."a:b"]
enabled = true
trusted_hash = "sha256:1"
"""
# Places of the three hooks, and of none.
STATES = (
    ('{home}/config.toml:pre_tool_use:0:0', [0]), ('{home}/config.toml:pre_tool_use:1:0', [1]),
    ('{home}/config.toml:pre_tool_use:1:1', [2]), ('{home}/./config.toml:pre_tool_use:1:1', [2]),
    ('/elsewhere/{folder}/config.toml:pre_tool_use:0:0', [0]), ('~/{folder}/config.toml:pre_tool_use:0:0', [0]),
    ('config.toml:pre_tool_use:0:0', [0]), ('{home}/config.toml:pre_tool_use:0:1', []),
    ('{home}/config.toml:pre_tool_use:2:0', []), ('{home}/config.toml:post_tool_use:0:0', []),
    ('{home}/config.toml:pre_tool:0:0', []), ('{home}/config.toml:pre_tool_use:00:0', []),
    ('{home}/hooks.json:pre_tool_use:0:0', []), ('/elsewhere/other/config.toml:pre_tool_use:0:0', []),
    ('xconfig.toml:pre_tool_use:0:0', []), ('pre_tool_use:0:0', []), ('{home}/config.toml', []), (':0:0', []), ('', []))


def state_of_a_config_toml_switches_single_hooks_off(project):
    home = os.path.realpath(project.directory)
    names = ['hd/001-pre-tool-use-1.yaml', 'hd/002-pre-tool-use-2.yaml', 'hd/003-pre-tool-use-3.yaml']
    for key, off in STATES:
        key = key.format(home=home, folder=os.path.basename(home))
        project.remove('hd')
        project.import_hooks(f"{TOML}[hooks.state.'{key}']\nenabled = false\n", name='config.toml')
        found = [i for i, name in enumerate(names) if 'enabled: false' in project.read(name)]
        assert found == off, (key, found)
        ran = project.command('hooks', 'import', 'config.toml')
        assert ('is no hook of the files' in ran.stdout) == (not off), (key, ran)
        assert ('switched off: it is written' in ran.stdout) == bool(off), (key, ran)
    # The state is in the file of the user, the hooks in a file of their own.
    project.write('config.toml', f"[hooks.state.'{home}/hooks.json:pre_tool_use:0:0']\nenabled = false\n")
    project.write('hooks.json', '{"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}}')
    project.remove('hd')
    ran = project.command('hooks', 'import', 'hooks.json', 'config.toml', '--write', 'hd')
    assert ran.returncode == 0, ran
    assert 'enabled: false' in project.read('hd/001-pre-tool-use-1.yaml')


def hooks_of_a_config_toml(project):
    entries = project.import_hooks(TOML, name='config.toml')
    assert [(entry['event'], entry['matcher'], entry['phase']) for entry in entries] == [
        ('PreToolUse', 'Bash', 'tool.pre')] + [('PreToolUse', '^Write$', 'tool.pre')] * 2, entries
    assert 'timeout_ms: 10000' in project.read('hd/001-pre-tool-use-1.yaml')
    events = project.run()
    assert 'not from here' in results(events)[0]['text'], events
    ran = project.command('hooks', 'import', 'config.toml')
    assert 'trusted_hash of hooks.state) is not trusted here' in ran.stdout, ran
    for switch in 'hooks = false', 'codex_hooks = false':
        project.remove('hd')
        project.import_hooks(TOML.replace('hooks = true', switch), name='config.toml')
        assert 'enabled: false' in project.read('hd/001-pre-tool-use-1.yaml'), switch
    for text, place in (('a = 1', ''), ('a = [', ':1:'), ('[[hooks.PreToolUse]\n', ':1:'), ('\n\nhooks = x', ':3:9')):
        project.write('bad.toml', text)
        ran = project.command('hooks', 'import', 'bad.toml')
        assert ran.returncode == 78 and f'bad.toml{place}' in ran.stderr, ran


LAST = """\
import json, os, stat, sys
given = json.load(sys.stdin)
last = ""
for line in open(given["transcript_path"]):
    entry = json.loads(line)
    if entry["type"] == "assistant":
        for block in entry["message"]["content"]:
            if block["type"] == "text":
                last = block["text"]
with open("seen.log", "a") as log:
    mode = stat.S_IMODE(os.stat(given["transcript_path"]).st_mode)
    log.write(json.dumps([given["hook_event_name"], given["transcript_path"], oct(mode), last]) + "\\n")
if "Left" in last and not given["stop_hook_active"]:
    print(json.dumps({"decision": "block", "reason": "something is left"}))
"""


def transcript_of_the_session(project):
    """A Stop hook reads the model's last text in the file whose path it gets; no other user can read the file, and it
    is deleted afterwards."""
    project.write('stop.py', LAST)
    project.import_hooks(hooks('Stop', 'python3 stop.py'))
    events = project.run()
    seen = lines(project, 'seen.log')
    assert [entry[0] for entry in seen] == ['Stop', 'Stop'], seen
    assert all(entry[2:] == ['0o600', 'All done. Left: tests.'] for entry in seen), seen
    assert 'something is left' in json.dumps(events), events
    path = seen[0][1]
    assert os.path.basename(path) == 's.jsonl' and not os.path.exists(os.path.dirname(path)), path


def transcript_of_each_event(project):
    """The content of the file at each event; in a session that goes on it has the earlier turns."""
    project.import_hooks({'hooks': {event: [{'hooks': [
        {'type': 'command', 'command': f'python3 copy.py {event}'}]}]
        for event in ('UserPromptSubmit', 'PreToolUse', 'PostToolUse', 'Stop', 'SessionEnd')}})
    project.write('copy.py', 'import json, sys\ngiven = json.load(sys.stdin)\npath = given["transcript_path"]\n'
                             'open(sys.argv[1] + ".copy", "w").write(open(path).read() if path else "")\n')
    project.run('--data', 'data')
    copies = {event: lines(project, f'{event}.copy')
              for event in ('UserPromptSubmit', 'PreToolUse', 'PostToolUse', 'Stop', 'SessionEnd')}
    assert copies['UserPromptSubmit'] == [], copies
    assert [entry['type'] for entry in copies['PreToolUse']] == ['user', 'assistant'], copies
    assert copies['PreToolUse'][0]['message'] == {'role': 'user', 'content': 'go'}, copies
    assert copies['PreToolUse'][1]['message']['content'] == [
        {'type': 'tool_use', 'id': 'toolu_1', 'name': 'Bash', 'input': {'command': 'git push origin'}}], copies
    assert copies['Stop'][2]['message']['content'] == [
        {'type': 'tool_result', 'tool_use_id': 'toolu_1', 'content': 'noted', 'is_error': False}], copies
    assert len(copies['Stop']) == len(copies['SessionEnd']) == 4, copies
    assert all(entry['sessionId'] == 's' for entry in copies['Stop']), copies
    project.run('--data', 'data')
    assert len(lines(project, 'UserPromptSubmit.copy')) == 4 and len(lines(project, 'Stop.copy')) == 8


ASKS = 'id: asks\nevent_type: PreAbilityCall\nhandler: {kind: ask, reason: it looks odd}\n'


def request(**decision):
    return "echo '" + json.dumps({'hookSpecificOutput': {'hookEventName': 'PermissionRequest',
                                                         'decision': decision}}) + "'"


def permission_requests(project):
    """A hook answers a question in a person's place; where it does not, and no person can be asked, it is denied."""
    for command, options, kind, text in (
            (request(behavior='allow'), (), 'ok', 'noted'),
            (request(behavior='deny', message='not today'), (), 'denied', 'not today'),
            (request(behavior='deny'), (), 'denied', 'permission-request-1'),
            (request(behavior='allow', updatedInput={'command': 'ls'}), ('--rewrite',), 'ok', 'ls'),
            (request(behavior='allow', updatedInput={'command': 'ls'}), (), 'denied', 'grant'),
            (request(behavior='maybe'), (), 'denied', 'no channel'), (request(), (), 'denied', 'no channel'),
            (request(behavior='allow', updatedInput=7), (), 'denied', 'no channel'),
            (request(behavior='allow') + '; exit 1', (), 'ok', 'noted'),
            ('echo no >&2; exit 2', (), 'denied', 'no channel'), ('exit 1', (), 'denied', 'no channel'),
            ('true', (), 'denied', 'no channel'), ('echo "{}"', (), 'denied', 'no channel'),
            ('echo \'{"continue": false, "stopReason": "halt"}\'', (), 'denied', 'halt')):
        project.remove('hd')
        project.import_hooks(hooks('PermissionRequest', 'cat > request.json; ' + command, matcher='Bash'), *options)
        project.write('hd/asks.yaml', ASKS)
        project.tool = NOTE.replace('cat > /dev/null; echo noted', 'cat; echo noted')
        result = results(project.run())[0]
        assert result['kind'] == kind and text in result['text'], (command, result)
        given = json.loads(project.read('request.json'))
        assert given['tool_name'] == 'Bash' and 'tool_use_id' not in given, given
        assert given['tool_input'] == {'command': 'git push origin'}, given


def denials_and_notifications(project):
    """What was denied, and that a person is asked, reaches the hooks that watch it."""
    project.import_hooks({'hooks': {
        'PermissionDenied': [{'matcher': 'Bash', 'hooks': [{'type': 'command', 'command': 'cat >> denied.log'}]},
                             {'matcher': 'Read', 'hooks': [{'type': 'command', 'command': 'cat >> other.log'}]}],
        'Notification': [{'matcher': 'permission_prompt', 'hooks': [
            {'type': 'command', 'command': 'cat >> notice.log'}]},
            {'matcher': 'idle_prompt', 'hooks': [{'type': 'command', 'command': 'cat >> other.log'}]}]}})
    project.write('hd/asks.yaml', ASKS)
    project.run()
    denied, = lines(project, 'denied.log')
    assert denied['tool_use_id'] == 'toolu_1' and 'no channel' in denied['reason'], denied
    notice, = lines(project, 'notice.log')
    assert notice['notification_type'] == 'permission_prompt' and 'Bash' in notice['message'], notice
    assert not project.exists('other.log')


def background_hooks_that_wake(project):
    """asyncRewake: exit code 2 reaches the model; where it would mean something else it is named."""
    settings = hooks('PostToolUse', 'echo look again >&2; exit 2')
    settings['hooks']['PostToolUse'][0]['hooks'][0].update({'async': True, 'asyncRewake': True, 'rewakeMessage': 'x'})
    entry, = project.import_hooks(settings)
    assert len(entry['notes']) == 2 and 'asyncRewake' in ' '.join(entry['notes']), entry
    assert 'look again' in json.dumps([e for e in project.run() if e['event'] == 'reminder'])
    project.remove('hd')
    for event in 'PreToolUse', 'UserPromptSubmit', 'SessionStart':
        settings = hooks(event, 'true')
        settings['hooks'][event][0]['hooks'][0]['asyncRewake'] = True
        entry, = project.import_hooks(settings, status=1)
        assert 'asyncRewake has no place' in entry['left_out'], entry


def events_without_a_place_yet(project):
    for event, word in (('BeforeToolSelection', '--rewrite takes it'), ('TaskCreated', 'task lists'),
                        ('TeammateIdle', 'teammates'), ('FileChanged', 'event of its host'),
                        ('NoSuchEvent', 'no such event'), ('beforeShellExecution', 'other fields')):
        entry, = project.import_hooks(hooks(event, 'true'), status=1)
        assert word in entry['left_out'], entry


# ---- Gemini CLI: requests to a model, and its answers ----

def shape(kind='object', required=(), **properties):
    rule = {'type': kind}
    if kind == 'array':
        rule['items'] = properties['items']
    elif properties:
        rule.update(properties=properties, required=list(required), additionalProperties=False)
    return rule


TEXT, NUMBER = shape('string'), shape('number')
NAMES = shape('array', items=TEXT)
CHOICE = {'mode': {'enum': ['AUTO', 'ANY', 'NONE']}, 'allowedFunctionNames': NAMES}
LLM_REQUEST = shape(
    required=['model', 'messages', 'config'], model=TEXT,
    messages=shape('array', items=shape(required=['role', 'content'], role={'enum': ['user', 'model', 'system']},
                                        content=TEXT)),
    config=shape(temperature=NUMBER, maxOutputTokens=NUMBER, topP=NUMBER, topK=NUMBER, stopSequences=NAMES,
                 presencePenalty=NUMBER, frequencyPenalty=NUMBER, seed=NUMBER),
    toolConfig=shape(functionCallingConfig=shape(**CHOICE), **CHOICE))
LLM_RESPONSE = shape(
    required=['candidates', 'usageMetadata'], text=TEXT,
    candidates=shape('array', items=shape(
        required=['content', 'finishReason'],
        content=shape(required=['role', 'parts'], role={'const': 'model'}, parts=NAMES),
        finishReason={'enum': ['STOP', 'MAX_TOKENS', 'SAFETY', 'RECITATION', 'OTHER']}, index=NUMBER)),
    usageMetadata=shape(required=['totalTokenCount'], promptTokenCount=NUMBER, candidatesTokenCount=NUMBER,
                        totalTokenCount=NUMBER))


def gemini_input(event):
    """The documented input of an event."""
    own = {'llm_request': LLM_REQUEST, **({'llm_response': LLM_RESPONSE} if event == 'AfterModel' else {})}
    base = {'session_id': TEXT, 'transcript_path': TEXT, 'cwd': TEXT, 'hook_event_name': {'const': event},
            'timestamp': TEXT}
    return shape(required=[*base, *own], **base, **own)


def gemini(project, event, name, text, *options, command=None):
    """A script in the form of that host's guide, imported and played. @return the events of a conversation."""
    project.remove('hd')
    project.write(f'.gemini/hooks/{name}', text)
    os.chmod(f'{project.directory}/.gemini/hooks/{name}', 0o755)
    settings = {'hooks': {event: [{'matcher': '*', 'hooks': [
        {'name': 'one', 'type': 'command', 'command': command or f'$GEMINI_PROJECT_DIR/.gemini/hooks/{name}'}]}]}}
    project.import_hooks(settings, '--rewrite', *options, name='.gemini/settings.json')
    return project.run()


def answer_of(events):
    return [event['text'] for event in events if event['event'] == 'answer'] or events


def requests_and_answers_have_their_documented_shape(project):
    for event in 'BeforeModel', 'BeforeToolSelection', 'AfterModel':
        gemini(project, event, 'log.sh', f'#!/usr/bin/env bash\ncat >> {event}.log\necho "{{}}"\n')
        seen = lines(project, f'{event}.log')
        assert len(seen) == 2, (event, seen)
        for line in seen:
            assert violation(line, gemini_input(event)) is None, (violation(line, gemini_input(event)), line)
        assert seen[0]['llm_request']['messages'][-1] == {'role': 'user', 'content': 'go'}, seen
    assert seen[1]['llm_response']['candidates'][0]['content']['parts'] == ['All done. Left: tests.'], seen
    request, = lines(project, 'BeforeToolSelection.log')[:1]
    assert request['llm_request']['toolConfig']['allowedFunctionNames'] == ['Bash'], request


MOCK = '''#!/usr/bin/env python3
"""Answers a known question without the model."""
import json
import sys


def main():
    data = json.load(sys.stdin)
    prompt = data["llm_request"]["messages"][-1]["content"]
    if "go" not in prompt:
        print(json.dumps({}))
        return
    print(json.dumps({
        "hookSpecificOutput": {
            "hookEventName": "BeforeModel",
            "llm_response": {
                "candidates": [
                    {"content": {"role": "model", "parts": ["A mocked answer."]}, "finishReason": "STOP"}
                ]
            }
        },
        "systemMessage": "mocked"
    }))


main()
'''

REDACT = '''#!/usr/bin/env node
const SECRETS = [/Left: \\w+/g, /AKIA[0-9A-Z]{16}/g];

async function main() {
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const { llm_response } = JSON.parse(Buffer.concat(chunks).toString());
  const candidates = (llm_response.candidates || []).map((candidate) => ({
    ...candidate,
    content: {
      ...candidate.content,
      parts: candidate.content.parts.map((part) =>
        SECRETS.reduce((text, secret) => text.replace(secret, '[REDACTED]'), part),
      ),
    },
  }));
  console.log(JSON.stringify({
    hookSpecificOutput: { hookEventName: 'AfterModel', llm_response: { ...llm_response, candidates } },
  }));
}

main().catch((error) => {
  console.error(error.message);
  process.exit(2);
});
'''

FILTER = '''#!/usr/bin/env python3
import json, sys

request = json.load(sys.stdin)["llm_request"]
tools = (request.get("toolConfig") or {}).get("functionCallingConfig", {}).get("allowedFunctionNames", [])
keep = [name for name in tools if name.startswith("read_")]
print(json.dumps({
    "hookSpecificOutput": {
        "hookEventName": "BeforeToolSelection",
        "toolConfig": {"mode": "AUTO", "allowedFunctionNames": keep or ["nothing"]},
    }
}))
'''


def scripts_for_models_run_unchanged(project):
    events = gemini(project, 'BeforeModel', 'mock.py', MOCK)
    assert [e['text'] for e in events if e['event'] == 'model_delta' or e['event'] == 'model_end'][-1] == \
        'A mocked answer.', events
    assert not results(events), events
    if shutil.which('node'):
        events = gemini(project, 'AfterModel', 'redact.js', REDACT)
        assert 'All done. [REDACTED].' in json.dumps(events) and 'Left: tests' not in json.dumps(events), events
    events = gemini(project, 'BeforeToolSelection', 'filter.py', FILTER)
    assert all('noted' not in json.dumps(result) for result in results(events)), events
    events = gemini(project, 'BeforeToolSelection', 'filter.py', FILTER.replace('read_', 'Ba'))
    assert 'noted' in json.dumps(results(events)), events


REMOVES = '''import json, re, sys
response = json.load(sys.stdin)["llm_response"]
parts = [re.sub(r"AKIA\\w+", "[REDACTED]", part) for part in response["candidates"][0]["content"]["parts"]]
print(json.dumps({"hookSpecificOutput": {"hookEventName": "AfterModel", "llm_response": {
    "candidates": [{"content": {"role": "model", "parts": parts}}]}}}))
'''
REMOVED, PIECES = 'AKIA7PLANTED7TEXT', ('The key is AKIA7PLA', 'NTED7', 'TEXT, keep it.')


class Streams(http.server.BaseHTTPRequestHandler):
    """A model whose answer streams the text that is to be removed, in pieces."""
    bodies = []

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers['Content-Length'])).decode())
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.end_headers()
        for delta in [{'role': 'assistant'}, *({'content': piece} for piece in PIECES), None]:
            choice = {'index': 0, 'delta': delta or {}, 'finish_reason': None if delta else 'stop'}
            self.wfile.write(f'data: {json.dumps({"choices": [choice]})}\n\n'.encode())
        self.wfile.write(b'data: [DONE]\n\n')

    def log_message(self, *words):
        pass


def at_terminal(project, words, said, answer, **environment):
    """@return the text on the terminal of a chat with one message."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(project.directory)
        os.execve(COMMAND, [COMMAND, *words], {**project.environment, 'TERM': 'dumb', **environment})
    shown, sent = b'', []
    for wanted, line in (b'> ', said), (answer, '/quit'), (None, None):
        while wanted is None or wanted not in shown:
            ready, _, _ = select.select([terminal], [], [], LIMIT_S)
            assert ready, (wanted, shown)
            try:
                data = os.read(terminal, 65536)
            except OSError:
                data = b''
            if not data:
                break
            shown += data
        if line:
            os.write(terminal, line.encode() + b'\r')
            sent.append(line)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    return shown.decode()


def removed_text_is_nowhere(project):
    """Text that AfterModel removes from a streamed answer is on no screen, and in no event, file, record or request."""
    project.write('.gemini/hooks/remove.py', REMOVES)
    project.import_hooks({'hooks': {'AfterModel': [{'hooks': [
        {'type': 'command', 'command': 'python3 $GEMINI_PROJECT_DIR/.gemini/hooks/remove.py'}]}]}}, '--rewrite',
        name='.gemini/settings.json')
    project.trust()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Streams)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    options = ['--model', 'openai:m', '--base-url', f'http://127.0.0.1:{server.server_port}/v1', '--hooks', 'hd',
               '--data', 'data']
    key = {'OPENAI_API_KEY': 'k'}
    shown = []
    for i, form in enumerate(([], ['--json'])):
        project.write('talk.yaml', json.dumps({'sessions': [{'id': 's', 'turns': [
            {'id': f't{i}{n}', 'user': 'go'} for n in range(2)]}]}))
        ran = project.command('run', *form, *options, 'talk.yaml', **key)
        assert ran.returncode == 0, ran
        shown.append(ran.stdout + ran.stderr)
    ran = project.command('chat', *options, text='go\n', **key)
    assert ran.returncode == 0, ran
    shown.append(ran.stdout + ran.stderr)
    shown.append(at_terminal(project, ['chat', '--verbose', *options], 'go', b'[REDACTED], keep it.', **key))
    server.shutdown()
    assert len(Streams.bodies) == 6 and '[REDACTED]' in Streams.bodies[1], Streams.bodies
    assert all('[REDACTED], keep it.' in text for text in shown), shown
    for words in (['explain', 'data', 't00', '--json'], ['runs', 'data', '--json'],
                  ['plot', 'data', 't00', '--out', 'p.html'], ['audit', 'data', '--json'],
                  ['sessions', 'show', 'data', 's'], ['sessions', 'export', 'data', 's']):
        ran = project.command(*words)
        assert ran.returncode == 0, (words, ran)
        shown.append(ran.stdout + ran.stderr)
    for text in shown + Streams.bodies:
        assert REMOVED not in text and 'NTED7' not in text and 'AKIA7' not in text, text
    for folder, _, names in os.walk(project.directory):
        for name in names:
            with open(f'{folder}/{name}', 'rb') as file:
                assert b'NTED7' not in file.read(), name


def what_a_model_hook_may_not_change_is_denied(project):
    """Without --rewrite such hooks are denied; import, trust and check name what each of them would change."""
    project.write('mock.py', MOCK)
    entry, = project.import_hooks(hooks('BeforeModel', 'python3 mock.py'))
    assert entry['phase'] == 'model.request' and entry['guard'] and entry['fails_open'], entry
    project.trust()
    project.write('talk.yaml', json.dumps({'sessions': [{'id': 's', 'turns': [{'id': 't', 'user': 'go'}]}]}))
    ran = project.command('run', '--script', 'model.yaml', '--hooks', 'hd', '--no-memory', 'talk.yaml')
    assert 'needs rewrite: true' in ran.stdout + ran.stderr, ran
    assert 'reads what is sent to the model' in project.command('hooks', 'trust', 'hd').stdout
    project.remove('hd')
    project.import_hooks(hooks('BeforeModel', 'python3 mock.py'), '--rewrite')
    project.trust()
    assert 'changes requests to the model' in project.command('hooks', 'trust', 'hd').stdout
    project.write('two.json', json.dumps({'hooks': {
        'AfterModel': [{'hooks': [{'type': 'command', 'command': 'true'}]}],
        'BeforeToolSelection': [{'hooks': [{'type': 'command', 'command': 'true'}] * 2}]}}))
    ran = project.command('hooks', 'import', 'two.json', '--rewrite')
    for words in ('not for each chunk', 'several filters of tools'):
        assert words in ran.stdout, ran


# The input of programs at each event, as the references of their hosts describe it. A field with ? may be missing.
OBJECT, FLAG = shape(), shape('boolean')
GEMINI_OWN = {
    'SessionStart': {'source': {'enum': ['startup', 'resume', 'clear']}, 'model?': TEXT},
    'SessionEnd': {'reason': {'enum': ['exit', 'clear', 'logout', 'prompt_input_exit', 'other']}},
    'BeforeAgent': {'prompt': {'const': 'go'}},
    'AfterAgent': {'prompt': {'const': 'go'}, 'prompt_response': TEXT, 'stop_hook_active': FLAG},
    'BeforeTool': {'tool_name': {'const': 'Bash'}, 'tool_input': OBJECT, 'mcp_context?': OBJECT},
    'AfterTool': {'tool_name': {'const': 'Bash'}, 'tool_input': OBJECT,
                  'tool_response': shape(required=['llmContent', 'returnDisplay'], llmContent=TEXT, returnDisplay=TEXT,
                                         error=OBJECT), 'mcp_context?': OBJECT, 'duration_ms?': NUMBER},
    'Notification': {'notification_type': {'const': 'ToolPermission'}, 'message': TEXT, 'details': OBJECT},
    'BeforeModel': {'llm_request': LLM_REQUEST}, 'BeforeToolSelection': {'llm_request': LLM_REQUEST},
    'AfterModel': {'llm_request': LLM_REQUEST, 'llm_response': LLM_RESPONSE},
}
TOOL = {'tool_name': {'const': 'Bash'}, 'tool_input': OBJECT}
CALLED = {**TOOL, 'tool_use_id': {'const': 'toolu_1'}, 'permission_mode': TEXT}
CLAUDE_OWN = {
    'SessionStart': {'source': {'enum': ['startup', 'resume', 'clear', 'compact', 'fork']}, 'model?': TEXT},
    'SessionEnd': {'reason': {'enum': ['clear', 'resume', 'logout', 'prompt_input_exit', 'other']}, 'prompt_id': TEXT},
    'UserPromptSubmit': {'prompt': {'const': 'go'}, 'permission_mode': TEXT, 'prompt_id': TEXT},
    'PreToolUse': {**CALLED, 'prompt_id': TEXT},
    'PostToolUse': {**CALLED, 'prompt_id': TEXT, 'tool_response': OBJECT, 'duration_ms?': NUMBER},
    'PostToolBatch': {'permission_mode': TEXT, 'prompt_id': TEXT, 'tool_calls': shape('array', items=shape(
        required=['tool_name', 'tool_input', 'tool_use_id', 'tool_response'], tool_name=TEXT, tool_input=OBJECT,
        tool_use_id=TEXT, tool_response=TEXT))},
    'PermissionRequest': {**TOOL, 'permission_mode': TEXT, 'prompt_id': TEXT, 'permission_suggestions?': OBJECT},
    'Notification': {'message': TEXT, 'notification_type': {'const': 'permission_prompt'}, 'title?': TEXT,
                     'prompt_id': TEXT},
    'Stop': {'stop_hook_active': FLAG, 'last_assistant_message': TEXT, 'permission_mode': TEXT, 'prompt_id': TEXT},
}


def documented(event, own, **base):
    base.update(session_id={'const': 's'}, transcript_path=TEXT, cwd=TEXT, hook_event_name={'const': event})
    required = [*base, *(name for name in own if not name.endswith('?'))]
    return shape(required=required, **base, **{name.rstrip('?'): rule for name, rule in own.items()})


def each_event_has_its_documented_input(project):
    """All events of a conversation with a call that a hook allows; those of Codex are those of Claude Code."""
    for path, table, base, answer in (
            ('.gemini/settings.json', GEMINI_OWN, {'timestamp': TEXT}, '{}'),
            ('settings.json', CLAUDE_OWN, {}, request(behavior='allow')),
            ('.codex/hooks.json', CLAUDE_OWN, {}, request(behavior='allow'))):
        project.remove('hd')
        project.import_hooks({'hooks': {event: [group(command(
            f'cat >> {event}.log; ' + (answer if event == 'PermissionRequest' else 'true')))] for event in table}},
            '--rewrite', name=path)
        project.write('hd/asks.yaml', ASKS)
        if path.startswith('.gemini'):  # this host has no event that answers the question
            os.remove(project.directory + '/hd/asks.yaml')
            events = project.run()
            assert results(events)[0]['kind'] == 'ok', events
            project.write('hd/asks.yaml', ASKS)
        project.run()
        for event, own in table.items():
            seen = lines(project, f'{event}.log')
            for line in seen:
                wrong = violation(line, documented(event, own, **base))
                assert wrong is None, (path, event, wrong, line)
            os.remove(f'{project.directory}/{event}.log')


def specific(event, **fields):
    return {'hookSpecificOutput': {'hookEventName': event, **fields}}


# The answer for each event, as its reference describes it, and the event of the conversation that shows its effect.
CONTEXT = 'the marked words'
NO = {'decision': 'block', 'reason': CONTEXT}
ANSWERS = [
    ('claude', 'SessionStart', specific('SessionStart', additionalContext=CONTEXT), 'reminder'),
    ('claude', 'UserPromptSubmit', specific('UserPromptSubmit', additionalContext=CONTEXT), 'reminder'),
    ('claude', 'UserPromptSubmit', NO, 'result'),
    ('claude', 'UserPromptSubmit', {'continue': False, 'stopReason': CONTEXT}, 'result'),
    ('claude', 'PreToolUse', specific('PreToolUse', permissionDecision='deny', permissionDecisionReason=CONTEXT),
     'tool_end'),
    ('claude', 'PreToolUse', specific('PreToolUse', additionalContext=CONTEXT), 'reminder'),
    ('claude', 'PostToolUse', specific('PostToolUse', additionalContext=CONTEXT), 'reminder'),
    ('claude', 'PostToolUse', NO, 'reminder'),
    ('claude', 'PostToolUse', specific('PostToolUse', updatedToolOutput=CONTEXT), 'tool_end'),
    ('claude', 'PostToolBatch', NO, 'diagnostic'),
    ('claude', 'PostToolBatch', specific('PostToolBatch', additionalContext=CONTEXT), 'reminder'),
    ('claude', 'Stop', NO, 'diagnostic'),
    ('claude', 'PermissionDenied', specific('PermissionDenied', additionalContext=CONTEXT), 'reminder'),
    ('claude', 'SessionEnd', {'systemMessage': CONTEXT}, 'diagnostic'),
    ('claude', 'Notification', {'systemMessage': CONTEXT}, None),
    ('gemini', 'SessionStart', specific('SessionStart', additionalContext=CONTEXT), 'reminder'),
    ('gemini', 'BeforeAgent', {'decision': 'deny', 'reason': CONTEXT}, 'result'),
    ('gemini', 'BeforeAgent', {'hookSpecificOutput': {'additionalContext': CONTEXT}}, 'reminder'),
    ('gemini', 'BeforeTool', {'decision': 'deny', 'reason': CONTEXT}, 'tool_end'),
    ('gemini', 'AfterTool', {'hookSpecificOutput': {'additionalContext': CONTEXT}}, 'reminder'),
    ('gemini', 'AfterTool', {'hookSpecificOutput': {'tool_output': CONTEXT}}, 'tool_end'),
    ('gemini', 'AfterTool', {'decision': 'deny', 'reason': CONTEXT}, 'tool_end'),
    ('gemini', 'AfterAgent', {'decision': 'deny', 'reason': CONTEXT}, 'diagnostic'),
    ('gemini', 'SessionEnd', {'systemMessage': CONTEXT}, 'diagnostic'),
    ('gemini', 'Notification', {'systemMessage': CONTEXT}, None),
]


def each_event_acts_on_its_documented_answer(project):
    project.write('talk.yaml', json.dumps({'sessions': [{'id': 's', 'turns': [{'id': 't', 'user': 'go'}]}]}))
    for host, event, answer, shown in ANSWERS:
        project.remove('hd')
        project.write('answer.json', json.dumps(answer))
        project.import_hooks(hooks(event, 'cat > given.json; cat answer.json'), '--rewrite',
                             name='.gemini/settings.json' if host == 'gemini' else 'settings.json')
        if event in ('PermissionDenied', 'Notification'):
            project.write('hd/asks.yaml', ASKS)
        project.trust()
        ran = project.command('run', '--script', 'model.yaml', '--hooks', 'hd', '--no-memory', '--json', 'talk.yaml')
        events = [json.loads(line) for line in ran.stdout.splitlines()]
        assert json.loads(project.read('given.json'))['hook_event_name'] == event, (host, event)
        os.remove(project.directory + '/given.json')
        places = {one['event'] for one in events if CONTEXT in json.dumps(one)}
        assert (shown in places) if shown else True, (host, event, answer, places)


def command(text='true', **more):
    return {'type': 'command', 'command': text, **more}


def group(*handlers, **more):
    return {'hooks': list(handlers), **more}


# Files in the forms that people publish, and what of each the report has to name.
PUBLISHED = [
    ({'PreToolUse': [group(command(), matcher='Bash', enabled=False)]}, 'enabled of its group is left out'),
    ({'PreToolUse': [group(command(), **{'if': 'Bash(rm *)'})]}, 'if belongs to a handler'),
    ({'PostToolUse': [group(command(), matcher='Write', timeout=5)]}, 'timeout of its group'),
    ({'PreToolUse': [group(command(), matcher='*', blocking=True)]}, 'blocking of its group'),
    ({'PreToolUse': [group(command(), matcher={'tools': ['BashTool']})]}, 'matcher is not a text'),
    ({'PreToolUse': [group(command(), matcher=['Write', 'Edit'])]}, 'matcher is not a text'),
    ({'PostToolUse': {'matcher': 'Write', 'hooks': [command()]}}, 'an event has a list of groups'),
    ({'Stop': [{'hooks': ['say done']}]}, 'a handler is an object'),
    ({'PreToolUse': './guard.sh'}, 'an event has a list of groups'),
    ({'PreToolUse': [group(command(timeout='30'))]}, 'timeout is not a number'),
    ({'SessionStart': {'command': '/h/x.sh', 'blocking': True}, 'BeforeModel': {'command': '/h/y.sh'}},
     'an event has a list of groups'),
    ({'my-hook': {'type': 'command', 'command': 'true', 'on': 'BeforeTool'}}, 'no such event is known'),
    ({'PreToolUse': [group(command(disabled=True))]}, 'the unknown field disabled'),
    ({'Notification': [group(command(), matcher='idle_prompt')]}, 'never fits'),
    ({'PreCompact': [group(command(), matcher='manual')]}, 'never fits'),
    ({'AfterTool': [group(command(), matcher='write_file', sequential='yes')]}, 'sequential is not true or false'),
    ({'BeforeTool': [group(command('true $GEMINI_SESSION_ID'))]}, 'GEMINI_SESSION_ID, which nothing sets'),
    ({'beforeShellExecution': [{'command': './a.sh', 'failClosed': True}]}, 'reads other fields'),
    ({'preToolUse': [{'type': 'command', 'bash': 'x', 'cwd': 'scripts'}]}, 'reads other fields'),
    ({'UserPromptSubmit': [group(command(), matcher='deploy')]}, 'the event has none'),
    ({'Setup': [group(command())], 'Elicitation': [group(command())]}, 'event of its host'),
    ({'AfterModel': [group(command(), matcher='*')]}, 'not for each chunk'),
]
BESIDE = [('statusLine', {'type': 'command', 'command': 'x'}, 'no hook'), ('allowManagedHooksOnly', True, 'managed'),
          ('allowedHttpHookUrls', ['https://x/*'], '--webhook'), ('apiKeyHelper', 'x', 'no hook'),
          ('allowManagedHooksOnly', False, None)]


def files_as_they_are_published(project):
    for settings, words in PUBLISHED:
        project.write('settings.json', json.dumps({'hooks': settings}))
        ran = project.command('hooks', 'import', 'settings.json', '--json')
        assert ran.returncode in (0, 1), (settings, ran)
        report = json.loads(ran.stdout)
        said = [note for entry in report['entries'] for note in [*entry['notes'], entry.get('left_out', '')]]
        assert any(words in text for text in said), (settings, said)
        assert len(report['entries']) >= 1, report
    for key, value, words in BESIDE:
        project.write('settings.json', json.dumps({key: value, **hooks('Stop', 'true')}))
        notes = json.loads(project.command('hooks', 'import', 'settings.json', '--json').stdout)['notes']
        assert [words in note and key in note for note in notes] == [True] if words else notes == [], (key, notes)
    project.remove('hd')
    project.import_hooks({'hooks': {'AfterTool': [group(command('sleep 0.1'), command('true'), sequential=True)]}})
    assert 'sequential: true' in project.read('hd/001-after-tool-1.yaml'), os.listdir(project.directory + '/hd')


EVENTS = ['PreToolUse', 'PostToolUse', 'UserPromptSubmit', 'Stop', 'SubagentStop', 'SessionStart', 'SessionEnd',
          'PreCompact', 'Notification', 'PermissionRequest', 'WorktreeCreate', 'PreToolUsee', 'BeforeTool',
          'AfterModel', 'BeforeAgent', 'beforeShellExecution']
MATCHERS = [None, '', '*', 'Bash', 'Edit|Write', 'mcp__.*', 'Read(*)', '^note$', '[', 7]
HANDLERS = [{'type': 'command', 'command': 'true'}, {'type': 'command', 'command': 'python3 gone.py'},
            {'type': 'command', 'command': ''}, {'type': 'command'}, {'command': 'true'},
            {'type': 'prompt', 'prompt': 'Is it?'},
            {'type': 'agent', 'prompt': 'Look.'}, {'type': 'http', 'url': 'https://a.example/h'}, {'type': 'mcp_tool'},
            {'type': 'future', 'x': 1}, 'true', None, 5]
OF_HANDLER = [('timeout', 5), ('timeout', -1), ('timeout', 'soon'), ('async', True), ('asyncRewake', True),
              ('once', True), ('statusMessage', 'Hm'), ('shell', 'powershell'), ('if', 'Bash(git push*)'),
              ('if', 3), ('notAKey', 1)]
OF_FILE = [('disableAllHooks', True), ('env', {'A': 'b'}), ('permissions', {'deny': ['Bash']}), ('model', 'x'),
           ('allowManagedHooksOnly', True), ('theme', 'dark')]  # model and theme are about no hook


def hundred_files_have_no_silent_entry(project):
    """Each handler of a file is taken or left out with a reason, and each key without effect is named."""
    draw = random.Random(20261127)
    for number in range(100):
        settings, count, odd = {'hooks': {}}, 0, []
        for event in draw.sample(EVENTS, draw.randint(1, 4)):
            groups = settings['hooks'][event] = []
            for _ in range(draw.randint(1, 2)):
                handlers = []
                for _ in range(draw.randint(1, 3)):
                    handler = draw.choice(HANDLERS)
                    if isinstance(handler, dict):
                        handler = {**handler, **dict(draw.sample(OF_HANDLER, draw.choice([0, 0, 1])))}
                    handlers.append(handler)
                matcher = draw.choice(MATCHERS)
                groups.append({'hooks': handlers, **({} if matcher is None else {'matcher': matcher})})
                count += len(handlers)
        settings.update(draw.sample(OF_FILE, draw.choice([0, 0, 1])))
        project.write('settings.json', json.dumps(settings))
        ran = project.command('hooks', 'import', 'settings.json', '--json')
        assert ran.returncode in (0, 1), (settings, ran)
        report = json.loads(ran.stdout)
        assert len(report['entries']) == count, (number, settings, report)
        for entry in report['entries']:
            assert entry['phase'] if entry['has_place'] else entry['left_out'], (settings, entry)
        for key in ('notAKey', 'permissions', 'allowManagedHooksOnly'):
            whole = json.dumps([report['notes'], [[e['notes'], e.get('left_out')] for e in report['entries']]])
            left = all(not e['has_place'] for e in report['entries'])
            assert f'"{key}"' not in json.dumps(settings) or key in whole or left, (key, settings, report)


CASES = [ids_of_calls, ids_of_rewritten_calls, a_session_that_goes_on, variables_of_settings,
         variables_of_a_handler, variables_of_the_host, comments_and_last_commas, hooks_of_a_config_toml,
         state_of_a_config_toml_switches_single_hooks_off, transcript_of_the_session,
         transcript_of_each_event, permission_requests, denials_and_notifications, background_hooks_that_wake,
         events_without_a_place_yet, requests_and_answers_have_their_documented_shape,
         scripts_for_models_run_unchanged, each_event_has_its_documented_input,
         each_event_acts_on_its_documented_answer, files_as_they_are_published,
         what_a_model_hook_may_not_change_is_denied, removed_text_is_nowhere,
         hundred_files_have_no_silent_entry]

if __name__ == '__main__':
    sys.exit(cases.run(CASES, Project))
