#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGHUP to turnphase serve: hooks, agents and keys change together, or stay as they were.

    python3 tests/integration/serve_reload_test.py TURNPHASE

Prints TAP.
"""

import json
import os
import re
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve_test import KEY, LOOK, TALK, TOOLS, Serving, play, trust  # noqa: E402 pylint: disable=wrong-import-position

ADMIN = 'operator-key-0123456789'
NEW_KEY = 'another-key-0123456789'
OTHER_TALK = 'repeat: true\nresponses:\n  - text: Four five.\n'
LOOKS = 'repeat: true\nresponses:\n  - tool_calls: [{name: look, arguments: {n: 7}}]\n'
OTHER_TOOLS = 'repeat: true\nresponses:\n  - text: Other.\n'
AGENTS = {'agents': [{'id': 'talker', 'model': 'script:talk.yaml'}, {'id': 'looker', 'model': 'script:tools.yaml'}]}
DENIED = {'kind': 'ability_guard', 'code': 'DENIED', 'payload': {'reason': 'not today'}}
SEEN = {'id': 'seen', 'event': 'turn.intake', 'handler': {'command': ['true']}}
GUARD = {'id': 'guard', 'event': 'tool.pre',
         'handler': {'command': ['sh', '-c', "cat >/dev/null; echo '%s'" % json.dumps({'hook_signals': [DENIED]})]}}
STRICT = {'id': 'strict', 'event': 'agent.register', 'handler': {'command': ['false']}}
FILES = {'talk.yaml': TALK, 'tools.yaml': TOOLS, 'agents.yaml': json.dumps(AGENTS), 'admin': ADMIN + '\n',
         'keys': KEY + ' acme\n', 'hooks/seen.yaml': json.dumps(SEEN)}
OPTIONS = ['agents.yaml', '--keys', 'keys', '--admin-key', 'admin', '--hooks', 'hooks']


def bearer(key):
    return {'Authorization': 'Bearer ' + key}


def begin(program, **files):
    return Serving(program, *OPTIONS, files={**FILES, **files}, before=trust)


def reload(serving, outcome):
    serving.process.send_signal(signal.SIGHUP)
    serving.heard(outcome)


def state(serving):
    status, _, text = serving.ask('GET', '/admin/state', headers=bearer(ADMIN))
    assert status == 200, text
    return json.loads(text)


def answer(serving, body, headers):
    status, _, text = serving.ask('POST', '/v1/chat/completions', body, headers)
    assert status == 200, text
    return json.loads(text)['choices'][0]


def say(serving, model='talker', key=KEY, session=None):
    headers = {**bearer(key), **({'X-Session-Id': session} if session else {})}
    body = {'model': model, 'messages': [{'role': 'user', 'content': 'hi'}]}
    return answer(serving, body, headers)['message']['content']


def look(serving, key=KEY):
    return answer(serving, {**LOOK, 'model': 'looker'}, bearer(key))


def models(serving, key=KEY):
    return [model['id'] for model in json.loads(serving.ask('GET', '/v1/models', headers=bearer(key))[2])['data']]


def hooks_agents_and_keys_change_together(program):
    with begin(program) as serving:
        assert say(serving, session='s1') == 'One two three.' and models(serving) == ['talker', 'looker']
        assert 'revised_ms' not in state(serving)
        waits = look(serving)  # its turn waits for a result of its client
        assert waits['finish_reason'] == 'tool_calls'
        agents = {'agents': [{'id': 'writer', 'model': 'script:other.yaml'}, AGENTS['agents'][1],
                             {'id': 'talker', 'model': 'script:other.yaml'}]}
        serving.write('other.yaml', OTHER_TALK)
        serving.write('agents.yaml', json.dumps(agents))
        serving.write('keys', NEW_KEY + ' acme\n')
        serving.write('hooks/guard.yaml', json.dumps(GUARD))
        trust(serving)
        reload(serving, 'hooks, agents and keys are read')
        assert state(serving)['revised_ms'] > 0 and 'revision_refused' not in state(serving)
        assert serving.ask('GET', '/v1/models', headers=bearer(KEY))[0] == 401
        assert models(serving, NEW_KEY) == ['talker', 'looker', 'writer']
        assert say(serving, session='s1', key=NEW_KEY) == 'Four five.'  # in the session that is open
        assert say(serving, 'writer', NEW_KEY) == 'Four five.'
        assert look(serving, NEW_KEY)['finish_reason'] == 'stop'  # the new guard denies
        results = [{'role': 'user', 'content': 'hi'}, waits['message'],
                   {'role': 'tool', 'tool_call_id': waits['message']['tool_calls'][0]['id'], 'content': 'seen'}]
        serving.write('tools.yaml', OTHER_TOOLS)
        reload(serving, 'hooks, agents and keys are read')
        went_on = answer(serving, {**LOOK, 'model': 'looker', 'messages': results}, bearer(NEW_KEY))
        assert went_on['message']['content'] == 'Done.', went_on  # the agent with which the turn began answers
        assert look(serving, NEW_KEY)['message']['content'] == 'Other.'
        serving.write('agents.yaml', json.dumps({'agents': AGENTS['agents'][:1]}))
        reload(serving, 'hooks, agents and keys are read')
        assert models(serving, NEW_KEY) == ['talker']
        assert say(serving, 'looker', NEW_KEY) == 'One two three.'  # the only agent answers for any name


def agent(**more):
    return json.dumps({'agents': [{'id': 'talker', 'model': 'script:talk.yaml', **more}]})


# The files that are written, and the expected message.
WRONG = [
    ({'agents.yaml': 'agents: ['}, 'agents.yaml'),
    ({'agents.yaml': json.dumps({'agents': []})}, 'agents.yaml'),
    ({'agents.yaml': agent(colour='red')}, 'colour'),
    ({'agents.yaml': agent(limits={'max_time': '5s'})}, 'max_time is no limit'),
    ({'agents.yaml': agent(limits={'requests': 0})}, 'requests must be a whole number above 0'),
    ({'agents.yaml': agent(model='script:absent.yaml')}, 'absent.yaml'),
    ({'agents.yaml': agent(model='nobody:x')}, 'nobody'),
    ({'agents.yaml': json.dumps({**AGENTS, 'mcp': {'x': {'command': 'true'}}})}, 'mcp has changed'),
    ({'talk.yaml': 'responses: 7'}, 'talk.yaml'),
    ({'agents.yaml': None}, 'agents.yaml'),
    ({'keys': ''}, 'keys has no key'),
    ({'keys': 'short acme\n'}, 'at least 16'),
    ({'keys': NEW_KEY + ' a b\n'}, 'tenant'),
    ({'admin': ADMIN + '\n' + NEW_KEY + '\n'}, 'operators have one'),
    ({'hooks/guard.yaml': json.dumps(GUARD), 'untrusted': ''}, 'not trusted'),
    ({'hooks/guard.yaml': '{"id": "guard"}'}, 'guard.yaml'),
    ({'hooks/guard.yaml': json.dumps(GUARD), 'hooks/strict.yaml': json.dumps(STRICT)}, 'strict'),
]


def what_is_wrong_is_named_and_leaves_everything_as_it_was(program):
    with begin(program, **{'tools.yaml': LOOKS}) as serving:
        for files, part in WRONG:
            for name, text in {'keys': NEW_KEY + ' acme\n', **files}.items():
                if text is None:
                    os.unlink(os.path.join(serving.place, name))
                else:
                    serving.write(name, text)
            if 'hooks/strict.yaml' in files:
                trust(serving)
            reload(serving, 'keys stay as they were')
            refused = state(serving)['revision_refused']
            assert part in refused, (part, refused)
            assert models(serving) == ['talker', 'looker'], files
            assert say(serving) == 'One two three.', files
            assert look(serving)['finish_reason'] == 'tool_calls', files
            for name in files:
                if name not in FILES:
                    os.unlink(os.path.join(serving.place, name))
            for name, text in {**FILES, 'tools.yaml': LOOKS}.items():
                serving.write(name, text)
            trust(serving)
        reload(serving, 'hooks, agents and keys are read')
        assert 'revision_refused' not in state(serving)


def hooks_that_are_trusted_wait_for_the_signal(program):
    """Changes of their files are not noticed."""
    def status():
        return serving.chat(headers=bearer(KEY), model='talker')[0]
    with begin(program) as serving:
        descriptors = f'/proc/{serving.process.pid}/fd'
        names = [os.readlink(os.path.join(descriptors, name)) for name in os.listdir(descriptors)]
        assert names and not [name for name in names if 'inotify' in name], names
        serving.write('hooks/guard.yaml', json.dumps({**GUARD, 'event': 'turn.intake'}))
        trust(serving)
        assert status() == 200
        serving.write('agents.yaml', 'agents: [')
        reload(serving, 'keys stay as they were')
        assert status() == 200
        serving.write('agents.yaml', json.dumps({'agents': AGENTS['agents'][:1]}))
        reload(serving, 'hooks, agents and keys are read')
        assert status() == 403
        os.unlink(serving.place + '/hooks/guard.yaml')
        trust(serving)
        assert status() == 403
        reload(serving, 'hooks, agents and keys are read')
        assert status() == 200


def requests_during_reloads_have_one_of_both(program):
    """Each generation has a word of its own, which its agent answers and which its key contains."""
    with begin(program) as serving:
        ends, wrong, seen = threading.Event(), [], set()

        def ask():
            while not ends.is_set():
                for number in range(2):
                    status, _, text = serving.ask(
                        'POST', '/v1/chat/completions',
                        {'model': 'talker', 'messages': [{'role': 'user', 'content': 'hi'}]},
                        bearer(f'key-of-generation-{number}'))
                    word = re.search('generation [01]', text)
                    seen.add(status)
                    if status != 401 and (status != 200 or word.group(0) != f'generation {number}'):
                        wrong.append(text)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for number in (0, 1) * 10:
            serving.write('talk.yaml', f'repeat: true\nresponses:\n  - text: I am generation {number}.\n')
            serving.write('keys', f'key-of-generation-{number} acme\n')
            reload(serving, 'hooks, agents and keys are read')
            if not threads[0].is_alive():
                for thread in threads:
                    thread.start()
        ends.set()
        for thread in threads:
            thread.join()
        assert not wrong and seen == {200, 401}, (wrong[:1], seen)


CASES = [hooks_agents_and_keys_change_together, what_is_wrong_is_named_and_leaves_everything_as_it_was,
         hooks_that_are_trusted_wait_for_the_signal,         requests_during_reloads_have_one_of_both]


if __name__ == '__main__':
    sys.exit(1 if play(CASES, os.path.abspath(sys.argv[1])) else 0)
