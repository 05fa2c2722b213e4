#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""turnphase serve, spoken to by a client that people have, openai for Python, where it is installed; and by urllib for
what no client sends.

    python3 tests/integration/serve_clients_test.py TURNPHASE

Prints TAP. Clients that are not installed are skipped with their reason.
"""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

try:
    import openai
except ImportError:
    openai = None

LIMIT_S = 60
TALK = """
repeat: true
responses:
  - text: One two three.
    usage: {input_tokens: 7, output_tokens: 2}
"""
TOOLS = """
repeat: true
responses:
  - text: Let me look.
    tool_calls: [{name: look, arguments: {n: 7}}]
  - text: '{"steps": 3}'
"""
AGENTS = """
agents:
  - id: talker
    model: script:%s/talk.yaml
  - id: looker
    model: script:%s/tools.yaml
"""
SIGNAL = {'kind': 'ability_guard', 'code': 'REQUIRES_HUMAN', 'payload': {'reason': 'it looks'}}
GUARD = {'id': 'asks', 'event': 'tool.pre',
         'handler': {'command': ['sh', '-c', "cat >/dev/null; echo '%s'" % json.dumps({'hook_signals': [SIGNAL]})]}}
PARAMETERS = {'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'],
              'additionalProperties': False}
HI = [{'role': 'user', 'content': 'hi'}]


class Serving:
    def __init__(self, program, place, *options):
        self.program, self.place = program, place
        for name, text in (('talk', TALK), ('tools', TOOLS), ('agents', AGENTS % (place, place))):
            with open(os.path.join(place, name + '.yaml'), 'w', encoding='utf-8') as file:
                file.write(text)
        self.process = subprocess.Popen(
            [program, 'serve', os.path.join(place, 'agents.yaml'), '--http', '127.0.0.1:0', '--no-memory',
             *options], cwd=place, env={**os.environ, 'HOME': place, 'XDG_CONFIG_HOME': place + '/config'},
            stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        assert 'serving http://' in line, line
        self.url = line.split()[-1]

    def client(self):
        return openai.OpenAI(base_url=self.url, api_key='unused', max_retries=0, timeout=LIMIT_S)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        said = self.process.stderr.read()
        self.process.stderr.close()
        code = self.process.wait(LIMIT_S)
        assert code == 0, f'it ended with {code}: {said}'


def chat_answers_and_streams(serving):
    client = serving.client()
    answer = client.chat.completions.create(model='talker', messages=HI)
    assert answer.choices[0].message.content == 'One two three.' and answer.usage.total_tokens == 9
    with client.chat.completions.stream(model='talker', messages=HI,
                                        stream_options={'include_usage': True}) as stream:
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == 'One two three.' and answer.usage.total_tokens == 9
    assert [model.id for model in client.models.list()] == ['talker', 'looker']


def tools_are_run_by_the_client(serving):
    client = serving.client()
    tools = [{'type': 'function', 'function': {'name': 'look', 'strict': True, 'parameters': PARAMETERS}}]
    messages = list(HI)
    with client.chat.completions.stream(model='looker', messages=messages, tools=tools) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls[0].function.arguments == '{"n":7}'
    messages.append(message.model_dump(exclude_none=True))
    messages.append({'role': 'tool', 'tool_call_id': message.tool_calls[0].id, 'content': 'seen'})
    answer = client.chat.completions.create(model='looker', messages=messages, tools=tools).choices[0]
    assert answer.finish_reason == 'stop' and answer.message.content == '{"steps": 3}'


def responses_are_put_together_from_events_and_continued(serving):
    client = serving.client()
    tools = [{'type': 'function', 'name': 'look', 'strict': True, 'parameters': PARAMETERS}]
    with client.responses.stream(model='looker', input='hi', tools=tools) as stream:
        response = stream.get_final_response()
    assert [item.type for item in response.output] == ['message', 'function_call']
    output = [{'type': 'function_call_output', 'call_id': response.output[-1].call_id, 'output': 'seen'}]
    response = client.responses.create(model='looker', previous_response_id=response.id, input=output, tools=tools)
    assert response.output_text == '{"steps": 3}' and response.status == 'completed'


def errors_are_those_of_the_client(serving):
    client = serving.client()
    for wrong, fields, code in ((openai.NotFoundError, {'model': 'nobody'}, 'model_not_found'),
                                (openai.BadRequestError, {'model': 'talker', 'n': 2}, 'invalid_value'),
                                (openai.BadRequestError, {'model': 'talker', 'extra_body': {'x': 1}},
                                 'unknown_parameter')):
        try:
            client.chat.completions.create(messages=HI, **fields)
        except wrong as error:
            assert error.code == code, error
        else:
            raise AssertionError(f'{fields} was taken')


def what_no_client_sends_is_answered(serving):
    for body in (b'', b'{', b'[' * 100000, b'{"messages":' + b'[' * 40, b'\xff', b'{"a":1,"a":2}'):
        try:
            urllib.request.urlopen(serving.url + '/chat/completions', body, LIMIT_S)
        except urllib.error.HTTPError as error:
            assert error.code == 400 and 'message' in json.loads(error.read())['error']
        else:
            raise AssertionError(f'{body[:20]!r} was taken')


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return json.loads(answer.read())['choices'][0]


def turnphase(serving, *words):
    ran = subprocess.run([serving.program, *words], cwd=serving.place, capture_output=True, text=True, timeout=LIMIT_S,
                         env={**os.environ, 'HOME': serving.place, 'XDG_CONFIG_HOME': serving.place + '/config'})
    assert ran.returncode == 0, ran
    return ran.stdout


def a_call_that_asks_waits_for_a_person(serving):
    os.mkdir(serving.place + '/hooks')
    with open(serving.place + '/hooks/asks.yaml', 'w', encoding='utf-8') as file:
        json.dump(GUARD, file)
    turnphase(serving, 'hooks', 'trust', 'hooks')
    asking = Serving(serving.program, serving.place, '--hooks', 'hooks', '--data', 'kept', '--ask', 'data')
    body = {'model': 'looker', 'messages': HI,
            'tools': [{'type': 'function', 'function': {'name': 'look', 'parameters': PARAMETERS}}]}
    try:
        for decision, finish in (('deny', 'stop'), ('allow', 'tool_calls')):
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answer = pool.submit(post, asking.url + '/chat/completions', body)
                while not (shown := turnphase(serving, 'ask', 'list', 'kept', '--json')).strip():
                    assert not answer.done(), answer.result()
                number = json.loads(shown.splitlines()[0])['number']
                turnphase(serving, 'ask', 'answer', 'kept', str(number), decision, '--by', 'ann')
                assert answer.result()['finish_reason'] == finish, answer.result()
    finally:
        asking.stop()
    assert 'ann' in turnphase(serving, 'audit', 'kept')


CASES = [chat_answers_and_streams, tools_are_run_by_the_client, responses_are_put_together_from_events_and_continued,
         errors_are_those_of_the_client, what_no_client_sends_is_answered,
         a_call_that_asks_waits_for_a_person]


def main(program):
    failed = 0
    print(f'1..{len(CASES) + 1}', flush=True)
    with tempfile.TemporaryDirectory() as place:
        serving = Serving(program, place)
        for number, case in enumerate(CASES, 1):
            needs = None if openai or case in CASES[-2:] else 'openai for Python is not installed'
            failed += not report(number, case, serving, needs)
        failed += not report(len(CASES) + 1, Serving.stop, serving, None)
    return failed


def report(number, case, serving, skip):
    if skip:
        print(f'ok {number} - {case.__name__} # SKIP {skip}', flush=True)
        return True
    try:
        case(serving)
    except Exception as error:  # pylint: disable=broad-except
        print(f'not ok {number} - {case.__name__}\n# {type(error).__name__}: {error}', flush=True)
        return False
    print(f'ok {number} - {case.__name__}', flush=True)
    return True


if __name__ == '__main__':
    sys.exit(1 if main(os.path.abspath(sys.argv[1])) else 0)
