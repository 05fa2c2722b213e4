#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example server, driven by a plain HTTP client.

    python3 tests/integration/server_test.py SERVER

Prints TAP. Nothing waits for time where it can wait for an event: counters are read until they say so.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_S = 60
SCRIPT = """
repeat: true
responses:
  - text: One.
    usage: {input_tokens: 7, output_tokens: 2}
  - text: Two.
"""


class Server:
    def __init__(self, program, *arguments):
        self.process = subprocess.Popen([program, '0', *arguments], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(line.rsplit(':', 1)[1])

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=LIMIT_S)
        connection.request(method, path, json.dumps(body) if body is not None else None, headers or {})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, response.getheader('Content-Type'), text

    def chat(self, *messages, session=None, admin=False, **more):
        headers = {}
        if session:
            headers['X-Session-Id'] = session
        if admin:
            headers['X-Role'] = 'admin'
        listed = [m if isinstance(m, dict) else {'role': 'user', 'content': m} for m in messages]
        status, _, text = self.ask('POST', '/v1/chat/completions', {'messages': listed, **more}, headers)
        return status, json.loads(text)

    def stats(self):
        return json.loads(self.ask('GET', '/stats')[2])

    def until(self, **wanted):
        end = time.monotonic() + LIMIT_S
        while True:
            seen = self.stats()
            if all(seen[name] == count for name, count in wanted.items()):
                return seen
            assert time.monotonic() < end, f'{wanted} never came: {seen}'
            time.sleep(0.005)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(LIMIT_S)
        self.process.stdout.close()
        assert code == 0, f'the server ended with {code}'


def content(answer):
    return answer['choices'][0]['message']['content']


def events(text):
    return [line[len('data: '):] for line in text.split('\n\n') if line.startswith('data: ')]


def completion_has_text_model_and_usage(server):
    status, answer = server.chat('hello', model='gpt-x', temperature=0.5, max_tokens=10)
    assert status == 200, answer
    assert answer['object'] == 'chat.completion'
    assert content(answer) == 'gpt-x read 1 messages from the user with 2 parameters: hello', content(answer)
    assert answer['usage']['prompt_tokens'] == len('hello')
    assert answer['usage']['total_tokens'] == len('hello') + answer['usage']['completion_tokens']
    assert answer['model'] == 'gpt-x' and answer['id'].startswith('chatcmpl-') and answer['created'] > 0, answer
    assert content(server.chat('hello')[1]).startswith('echo read')  # the agent's model


def session_of_a_header_keeps_its_history(server):
    assert 'read 1 messages' in content(server.chat('one', session='s1')[1])
    assert 'read 3 messages' in content(server.chat('two', session='s1')[1])
    assert 'read 1 messages' in content(server.chat('other', session='s2')[1])
    assert 'read 1 messages' in content(server.chat('nobody')[1])
    server.until(sessions_open=2)
    assert server.ask('DELETE', '/v1/sessions/s1')[0] == 200
    server.until(sessions_open=1)
    assert 'read 1 messages' in content(server.chat('again', session='s1')[1])  # a new one
    assert server.ask('DELETE', '/v1/sessions/nobody')[0] == 404
    for name in ('s1', 's2'):
        assert server.ask('DELETE', '/v1/sessions/' + name)[0] == 200
    server.until(sessions_open=0)


def request_with_its_own_history_uses_that(server):
    own = [{'role': 'system', 'content': 'be brief'},
           {'role': 'user', 'content': 'look'},
           {'role': 'assistant', 'content': None,
            'tool_calls': [{'id': 'c1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{"a": 1}'}}]},
           {'role': 'tool', 'tool_call_id': 'c1', 'content': 'seen'}]
    status, answer = server.chat(*own, 'now')
    assert status == 200, answer
    assert 'read 5 messages from the system' in content(answer), content(answer)
    server.chat('before', session='s3')
    assert 'read 5 messages from the system' in content(server.chat(*own, 'now', session='s3')[1])
    assert 'read 5 messages from the user' in content(server.chat('after', session='s3')[1])  # two exchanges before
    status, answer = server.chat(*own[:3], 'now')
    assert status == 400 and 'has no result' in answer['error']['message'], answer
    assert server.ask('DELETE', '/v1/sessions/s3')[0] == 200


def stream_comes_in_chunks_and_is_the_same_text(server):
    status, kind, text = server.ask('POST', '/v1/chat/completions',
                                    {'messages': [{'role': 'user', 'content': 'flow'}], 'stream': True})
    assert status == 200 and kind == 'text/event-stream', (status, kind)
    lines = events(text)
    assert lines[-1] == '[DONE]'
    chunks = [json.loads(line)['choices'][0] for line in lines[:-1]]
    assert ''.join(c['delta'].get('content', '') for c in chunks).endswith('parameters: flow')
    assert chunks[-1]['finish_reason'] == 'stop' and chunks[0]['finish_reason'] is None
    assert [c['delta'].get('role') for c in chunks] == ['assistant'] + [None] * (len(chunks) - 1)
    whole = [json.loads(line) for line in lines[:-1]]
    assert len({(c['id'], c['created'], c['model'], c['object']) for c in whole}) == 1, whole
    assert all('usage' not in c for c in whole)


def usage_comes_in_a_last_chunk_where_it_is_asked_for(server):
    text = server.ask('POST', '/v1/chat/completions',
                      {'messages': [{'role': 'user', 'content': 'flow'}], 'stream': True,
                       'stream_options': {'include_usage': True}})[2]
    chunks = [json.loads(line) for line in events(text)[:-1]]
    assert chunks[-1]['choices'] == [] and chunks[-2]['choices'][0]['finish_reason'] == 'stop', chunks
    usage = chunks[-1]['usage']
    assert usage['prompt_tokens'] == len('flow'), usage
    assert usage['total_tokens'] == usage['prompt_tokens'] + usage['completion_tokens'], usage
    assert all('usage' not in c for c in chunks[:-1])


def models_are_listed(server):
    status, kind, text = server.ask('GET', '/v1/models')
    answer = json.loads(text)
    assert (status, kind, answer['object']) == (200, 'application/json', 'list'), text
    assert [(m['id'], m['object']) for m in answer['data']] == [('echo', 'model')], text


def content_may_be_a_list_of_parts_and_what_is_not_taken_is_named(server):
    parts = [{'type': 'text', 'text': 'one '}, {'type': 'text', 'text': 'two'}]
    assert content(server.chat({'role': 'user', 'content': parts})[1]).endswith(': one two')
    answer = server.chat({'role': 'developer', 'content': 'be brief'}, 'hi')[1]
    assert 'read 2 messages from the system' in content(answer), answer
    image = {'role': 'user', 'content': [{'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,AA=='}}]}
    tool = {'type': 'function', 'function': {'name': 'f', 'parameters': {}}}
    for words, message, more in (('no text', image, {}), ('n must be 1', 'x', {'n': 2}),
                                 ('logprobs', 'x', {'logprobs': True}), ('tools', 'x', {'tools': [tool]}),
                                 ('a string or a list', {'role': 'user', 'content': 7}, {})):
        status, answer = server.chat(message, **more)
        assert status == 400 and words in answer['error']['message'], answer
    assert server.chat('x', n=1, logprobs=False, tools=[])[0] == 200


CLIENT = '''
import sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key='k', max_retries=0)
assert [m.id for m in client.models.list()] == ['echo']
ask = dict(model='m', messages=[{'role': 'user', 'content': [{'type': 'text', 'text': 'flow'}]}])
whole = client.chat.completions.create(**ask)
text = whole.choices[0].message.content
assert whole.choices[0].finish_reason == 'stop' and whole.usage.total_tokens > 0 and text.endswith(': flow'), whole
pieces = list(client.chat.completions.create(stream=True, stream_options={'include_usage': True}, **ask))
assert ''.join(p.choices[0].delta.content or '' for p in pieces if p.choices) == text, pieces
assert pieces[-1].usage.total_tokens == whole.usage.total_tokens, pieces
with client.chat.completions.stream(**ask) as stream:
    assert stream.until_done().get_final_completion().choices[0].message.content == text
try:
    client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'forbidden'}])
    assert False, 'the guard denied nothing'
except openai.PermissionDeniedError as error:
    assert 'not allowed here' in str(error), error
'''


def official_client_reads_answers_streams_and_errors(server):
    python = os.environ.get('TURNPHASE_ORACLE_PYTHON', sys.executable)
    if subprocess.run([python, '-c', 'import openai'], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return 'the package openai is not installed (pip install openai)'
    url = f'http://127.0.0.1:{server.port}/v1'
    ran = subprocess.run([python, '-c', CLIENT, url], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ran.returncode == 0, ran.stderr.replace('\n', '\n# ')
    return None


def guard_that_denies_is_403_and_one_that_failed_503(server):
    for stream in (False, True):
        before = server.stats()
        status, answer = server.chat('a forbidden word', stream=stream)
        assert status == 403, answer
        error = answer['error']
        assert error == {'message': 'that word is not allowed here', 'type': 'denied', 'hook': 'guard',
                         'phase': 'turn.intake'}, error
        status, answer = server.chat('break the guard', stream=stream)
        assert status == 503, answer
        assert answer['error']['type'] == 'error' and answer['error']['hook'] == 'guard', answer
        assert answer['error']['message'] == 'the policy service does not answer', answer
        server.until(denials=before['denials'] + 1, failures=before['failures'] + 1)
    assert server.chat('a forbidden word', admin=True)[0] == 200  # the guard finds the client of its turn


def client_that_leaves_cancels_its_turn(server):
    before = server.stats()
    body = json.dumps({'messages': [{'role': 'user', 'content': 'search for it'}]}).encode()
    with socket.create_connection(('127.0.0.1', server.port), LIMIT_S) as client:
        client.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Session-Id: left\r\n'
                       b'Content-Length: %d\r\n\r\n%s' % (len(body), body))
        server.until(turns_open=1)
    server.until(turns_open=0, turns_cancelled=before['turns_cancelled'] + 1)
    assert server.chat('next', session='left')[0] == 200
    assert server.ask('DELETE', '/v1/sessions/left')[0] == 200


def turns_of_one_session_wait_and_those_of_others_do_not(server):
    before = server.stats()
    answers = []
    body = json.dumps({'messages': [{'role': 'user', 'content': 'search for it'}]}).encode()
    with socket.create_connection(('127.0.0.1', server.port), LIMIT_S) as client:
        client.sendall(b'POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Session-Id: busy\r\n'
                       b'Content-Length: %d\r\n\r\n%s' % (len(body), body))
        server.until(turns_open=1)
        waiting = threading.Thread(target=lambda: answers.append(server.chat('next', session='busy')))
        waiting.start()
        server.until(turns_queued=1)
        assert server.chat('other')[0] == 200
        assert not answers
    waiting.join(LIMIT_S)
    assert answers[0][0] == 200, answers
    server.until(turns_queued=0, turns_cancelled=before['turns_cancelled'] + 1)
    assert server.ask('DELETE', '/v1/sessions/busy')[0] == 200


def nonsense_is_refused(server):
    assert server.ask('POST', '/v1/chat/completions', 'text')[0] == 400
    assert server.chat({'role': 'assistant', 'content': 'last'})[0] == 400
    assert server.chat('x', model='m' * 200)[0] == 400
    assert server.chat('x', session='s' * 300)[0] == 400
    assert server.chat('x', session='no spaces')[0] == 400
    assert server.ask('GET', '/nothing')[0] == 404
    with socket.create_connection(('127.0.0.1', server.port), LIMIT_S) as client:
        client.sendall(b'half a request')
    assert server.chat('still there')[0] == 200


def many_clients_at_once_all_get_their_own_answer(server):
    wrong = []

    def one(number):
        status, answer = server.chat(f'number {number}', session=f'm{number % 4}')
        if status != 200 or not content(answer).endswith(f': number {number}'):
            wrong.append((number, status, answer))

    threads = [threading.Thread(target=one, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not wrong, wrong[:2]
    server.until(sessions_open=4, turns_open=0)


CASES = [completion_has_text_model_and_usage, session_of_a_header_keeps_its_history,
         request_with_its_own_history_uses_that, stream_comes_in_chunks_and_is_the_same_text,
         usage_comes_in_a_last_chunk_where_it_is_asked_for, models_are_listed,
         content_may_be_a_list_of_parts_and_what_is_not_taken_is_named,
         official_client_reads_answers_streams_and_errors,
         guard_that_denies_is_403_and_one_that_failed_503, client_that_leaves_cancels_its_turn,
         turns_of_one_session_wait_and_those_of_others_do_not, nonsense_is_refused,
         many_clients_at_once_all_get_their_own_answer]


def check_script(server):
    status, answer = server.chat('x')
    assert (status, content(answer)) == (200, 'One.'), answer
    assert answer['usage'] == {'prompt_tokens': 7, 'completion_tokens': 2, 'total_tokens': 9}, answer
    text = server.ask('POST', '/v1/chat/completions',
                      {'messages': [{'role': 'user', 'content': 'x'}], 'stream': True})[2]
    assert json.loads(events(text)[0])['choices'][0]['delta'] == {'role': 'assistant', 'content': 'Two.'}, text


def script_is_played_and_a_stop_lets_turns_end(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'script.yaml')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(SCRIPT)
        server = Server(program, path)
        try:
            check_script(server)
        finally:
            server.stop()


def main(program):
    failed = 0
    print(f'1..{len(CASES) + 1}', flush=True)
    server = Server(program)
    for number, case in enumerate(CASES, 1):
        failed += not report(number, case, server)
    failed += not report(len(CASES) + 1, script_is_played_and_a_stop_lets_turns_end, program)
    server.stop()
    return failed


def report(number, case, argument):
    try:
        skipped = case(argument)
    except Exception as error:  # pylint: disable=broad-except
        print(f'not ok {number} - {case.__name__}\n# {type(error).__name__}: {error}', flush=True)
        return False
    print(f'ok {number} - {case.__name__}' + (f' # SKIP {skipped}' if skipped else ''), flush=True)
    return True


if __name__ == '__main__':
    sys.exit(1 if main(sys.argv[1]) else 0)
