#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official clients as oracles of the stream reader: openai_oracle.py READER [COUNT [SEED]].

Generates COUNT (500) well-formed streams of each API, with pieces, calls and characters of many kinds, gives the same
bytes to the Python clients `openai` and `anthropic` and to READER (support/openai_reader.c), and compares what they
make of them: text, calls, how it ended, tokens, thinking. Where a package is missing the test is skipped with the
reason; in an environment of their own the packages are found by TURNPHASE_ORACLE_PYTHON, the path of its python."""

import json
import os
import random
import subprocess
import sys

if os.environ.get('TURNPHASE_ORACLE_PYTHON') and not os.environ.get('TURNPHASE_ORACLE_INSIDE'):
    os.environ['TURNPHASE_ORACLE_INSIDE'] = '1'
    python = os.environ['TURNPHASE_ORACLE_PYTHON']
    os.execv(python, [python] + sys.argv)
try:
    import anthropic
    import openai

    try:
        import httpx2 as httpx  # newer clients use this module
    except ImportError:
        import httpx
except ImportError as missing:
    print('skipped: the official clients are not installed (pip install openai anthropic): %s' % missing)
    sys.exit(77)

ALPHABET = [
    'a',
    'b',
    ' ',
    '\n',
    '"',
    '\\',
    '{',
    '}',
    ',',
    ':',
    '/',
    '\t',
    'ö',
    'ß',
    '€',
    '漢',
    '😀',
    '👩‍🔧',
    '\u2028',
    '<',
    '&',
    '0',
]


def words(rng, most=12):
    return ''.join(rng.choice(ALPHABET) for _ in range(rng.randint(1, most)))


def pieces(rng, text, most=6):
    """The text, cut between characters."""
    out = []
    while text:
        n = rng.randint(1, max(1, len(text) // rng.randint(1, most)))
        out.append(text[:n])
        text = text[n:]
    return out


def arguments(rng):
    def value(depth):
        kind = rng.randint(0, 6 if depth < 3 else 4)
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randint(0, 3))]
        if kind == 6:
            return {words(rng, 4) + str(i): value(depth + 1) for i in range(rng.randint(0, 3))}
        return (rng.randint(-(10**9), 10**9), words(rng), True, None, rng.randint(0, 99) / 4)[kind]

    return {words(rng, 4) + str(i): value(0) for i in range(rng.randint(0, 4))}


def dump(rng, value):
    return json.dumps(value, ensure_ascii=rng.random() < 0.5)


def frame(rng, events):
    end = rng.choice(['\n', '\r\n'])
    out = []
    for name, data in events:
        if rng.random() < 0.1:
            out.append(': keep-alive' + end + end)
        if name and (name != 'ping' or rng.random() < 0.9):
            out.append('event: ' + name + end)
        out.append('data: ' + data + end + end)
    return ''.join(out).encode()


# ---- chat completions ----


def chat(rng):
    def chunk(delta=None, finish=None, **more):
        choices = [] if delta is None else [{'index': 0, 'delta': delta, 'finish_reason': finish, 'logprobs': None}]
        return dict(
            {'id': 'c1', 'object': 'chat.completion.chunk', 'created': 1, 'model': 'm', 'choices': choices}, **more
        )

    out = [chunk({'role': 'assistant', 'content': '' if rng.random() < 0.7 else None})]
    calls = [
        {
            'id': 'call_%d' % i,
            'name': 'f' + words(rng, 1).strip().encode('ascii', 'ignore').decode().strip('"\\{},:/<&') + str(i),
            'arguments': arguments(rng),
        }
        for i in range(rng.choice([0, 0, 1, 2, 3]))
    ]
    if rng.random() < 0.8 or not calls:
        for p in pieces(rng, words(rng, 60)):
            out.append(chunk({'content': p}))
    lanes = []
    for i, c in enumerate(calls):
        lane = [{'index': i, 'id': c['id'], 'type': 'function', 'function': {'name': c['name'], 'arguments': ''}}]
        for p in pieces(rng, json.dumps(c['arguments'], ensure_ascii=rng.random() < 0.5)):
            lane.append({'index': i, 'function': {'arguments': p}})
        lanes.append(lane)
    if rng.random() < 0.3:  # interleaved, each call begun before
        first = [lane.pop(0) for lane in lanes]
        out += [chunk({'tool_calls': [d]}) for d in first]
        while any(lanes):
            out.append(chunk({'tool_calls': [rng.choice([lane for lane in lanes if lane]).pop(0)]}))
    else:
        out += [chunk({'tool_calls': [d]}) for lane in lanes for d in lane]
    out.append(chunk({}, 'tool_calls' if calls else 'stop'))
    if rng.random() < 0.7:
        out.append(
            chunk(
                usage={
                    'prompt_tokens': rng.randint(0, 99),
                    'completion_tokens': rng.randint(0, 99),
                    'total_tokens': 1,
                }
            )
        )
    return frame(rng, [('', dump(rng, c)) for c in out] + [('', '[DONE]')])


def ask_chat(client):
    with client.chat.completions.stream(model='m', messages=[{'role': 'user', 'content': 'x'}]) as stream:
        final = stream.get_final_completion()
    message, usage = final.choices[0].message, final.usage
    return {
        'text': message.content or '',
        'finish': final.choices[0].finish_reason,
        'thinking': '',
        'input_tokens': usage.prompt_tokens if usage else 0,
        'output_tokens': usage.completion_tokens if usage else 0,
        'calls': [
            {'id': c.id, 'name': c.function.name, 'arguments': json.loads(c.function.arguments)}
            for c in message.tool_calls or []
        ],
    }


# ---- messages ----


def messages(rng):
    blocks = []
    for i in range(rng.randint(0, 4)):
        kind = rng.choice(['text', 'text', 'tool_use', 'thinking'])
        blocks.append((kind, words(rng, 40), arguments(rng), 'toolu_%d' % i))
    out = [
        {
            'type': 'message_start',
            'message': {
                'id': 'm1',
                'type': 'message',
                'role': 'assistant',
                'model': 'm',
                'content': [],
                'stop_reason': None,
                'stop_sequence': None,
                'usage': {'input_tokens': rng.randint(0, 99), 'output_tokens': 1},
            },
        }
    ]
    for i, (kind, text, args, id_) in enumerate(blocks):
        start = {
            'text': {'type': 'text', 'text': ''},
            'thinking': {'type': 'thinking', 'thinking': '', 'signature': ''},
            'tool_use': {'type': 'tool_use', 'id': id_, 'name': 'f%d' % i, 'input': {}},
        }[kind]
        out.append({'type': 'content_block_start', 'index': i, 'content_block': start})
        if rng.random() < 0.2:
            out.append({'type': 'ping'})
        if kind == 'tool_use':
            if args and rng.random() < 0.5:
                out.append(
                    {
                        'type': 'content_block_delta',
                        'index': i,
                        'delta': {'type': 'input_json_delta', 'partial_json': ''},
                    }
                )
            deltas = [
                {'type': 'input_json_delta', 'partial_json': p}
                for p in (pieces(rng, json.dumps(args)) if args else [])
            ]
        elif kind == 'text':
            deltas = [{'type': 'text_delta', 'text': p} for p in pieces(rng, text)]
        else:
            deltas = [{'type': 'thinking_delta', 'thinking': p} for p in pieces(rng, text)] + [
                {'type': 'signature_delta', 'signature': 'sig'}
            ]
        out += [{'type': 'content_block_delta', 'index': i, 'delta': d} for d in deltas]
        out.append({'type': 'content_block_stop', 'index': i})
    uses = any(b[0] == 'tool_use' for b in blocks)
    out.append(
        {
            'type': 'message_delta',
            'delta': {
                'stop_reason': (
                    'tool_use' if uses else rng.choice(['end_turn', 'max_tokens', 'refusal', 'pause_turn'])
                ),
                'stop_sequence': None,
            },
            'usage': {'output_tokens': rng.randint(0, 99)},
        }
    )
    out.append({'type': 'message_stop'})
    return frame(rng, [(e['type'], dump(rng, e)) for e in out])


def ask_messages(client):
    with client.messages.stream(model='m', max_tokens=9, messages=[{'role': 'user', 'content': 'x'}]) as stream:
        final = stream.get_final_message()
    return {
        'text': ''.join(b.text for b in final.content if b.type == 'text'),
        'thinking': ''.join(b.thinking for b in final.content if b.type == 'thinking'),
        'finish': {
            'end_turn': 'stop',
            'max_tokens': 'length',
            'refusal': 'refusal',
            'pause_turn': 'pause',
            'tool_use': 'tool_calls',
        }[final.stop_reason],
        'input_tokens': final.usage.input_tokens,
        'output_tokens': final.usage.output_tokens,
        'calls': [{'id': b.id, 'name': b.name, 'arguments': b.input} for b in final.content if b.type == 'tool_use'],
    }


# ---- responses ----


def responses(rng):
    out, items = [], []

    def response(status, **more):
        return dict(
            {
                'id': 'r1',
                'object': 'response',
                'created_at': 1,
                'model': 'm',
                'status': status,
                'output': [],
                'tools': [],
                'parallel_tool_calls': True,
                'tool_choice': 'auto',
                'error': None,
                'incomplete_details': None,
                'usage': None,
            },
            **more
        )

    def emit(type_, **more):
        out.append(dict({'type': type_, 'sequence_number': len(out)}, **more))

    emit('response.created', response=response('in_progress'))
    for i in range(rng.randint(0, 4)):
        if rng.random() < 0.5:
            texts = [words(rng, 40) for _ in range(rng.randint(1, 2))]
            emit(
                'response.output_item.added',
                output_index=i,
                item={
                    'id': 'i%d' % i,
                    'type': 'message',
                    'role': 'assistant',
                    'status': 'in_progress',
                    'content': [],
                },
            )
            for j, text in enumerate(texts):
                emit(
                    'response.content_part.added',
                    output_index=i,
                    content_index=j,
                    item_id='i%d' % i,
                    part={'type': 'output_text', 'text': '', 'annotations': []},
                )
                for p in pieces(rng, text):
                    emit(
                        'response.output_text.delta',
                        output_index=i,
                        content_index=j,
                        item_id='i%d' % i,
                        delta=p,
                        logprobs=[],
                    )
                emit(
                    'response.output_text.done',
                    output_index=i,
                    content_index=j,
                    item_id='i%d' % i,
                    text=text,
                    logprobs=[],
                )
                emit(
                    'response.content_part.done',
                    output_index=i,
                    content_index=j,
                    item_id='i%d' % i,
                    part={'type': 'output_text', 'text': text, 'annotations': []},
                )
            item = {
                'id': 'i%d' % i,
                'type': 'message',
                'role': 'assistant',
                'status': 'completed',
                'content': [{'type': 'output_text', 'text': t, 'annotations': []} for t in texts],
            }
        else:
            args = json.dumps(arguments(rng))
            item = {
                'id': 'i%d' % i,
                'type': 'function_call',
                'call_id': 'call_%d' % i,
                'name': 'f%d' % i,
                'arguments': args,
                'status': 'completed',
            }
            emit('response.output_item.added', output_index=i, item=dict(item, arguments='', status='in_progress'))
            for p in pieces(rng, args):
                emit('response.function_call_arguments.delta', output_index=i, item_id='i%d' % i, delta=p)
            emit(
                'response.function_call_arguments.done',
                output_index=i,
                item_id='i%d' % i,
                name='f%d' % i,
                arguments=args,
            )
        emit('response.output_item.done', output_index=i, item=item)
        items.append(item)
    usage = {
        'input_tokens': rng.randint(0, 99),
        'output_tokens': rng.randint(0, 99),
        'total_tokens': 1,
        'input_tokens_details': {'cached_tokens': 0},
        'output_tokens_details': {'reasoning_tokens': 0},
    }
    emit('response.completed', response=response('completed', output=items, usage=usage))
    return frame(rng, [(e['type'], dump(rng, e)) for e in out])


def ask_responses(client):
    with client.responses.stream(model='m', input='x') as stream:
        final = stream.get_final_response()
    calls = [
        {'id': i.call_id, 'name': i.name, 'arguments': json.loads(i.arguments)}
        for i in final.output
        if i.type == 'function_call'
    ]
    return {
        'text': final.output_text,
        'thinking': '',
        'finish': 'tool_calls' if calls else 'stop',
        'calls': calls,
        'input_tokens': final.usage.input_tokens,
        'output_tokens': final.usage.output_tokens,
    }


FORMS = {'chat': (chat, ask_chat), 'messages': (messages, ask_messages), 'responses': (responses, ask_responses)}


def main():
    reader, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    body = {}
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, headers={'content-type': 'text/event-stream'}, content=body['bytes'])
    )
    clients = {
        'chat': openai.OpenAI(api_key='k', http_client=httpx.Client(transport=transport)),
        'messages': anthropic.Anthropic(api_key='k', http_client=httpx.Client(transport=transport)),
    }
    clients['responses'] = clients['chat']
    wrong = 0
    for name, (make, ask) in FORMS.items():
        streams, theirs = [], []
        for i in range(count):
            body['bytes'] = make(random.Random(seed * 1000003 + i))
            streams.append(body['bytes'])
            theirs.append(ask(clients[name]))
        given = b''.join(b'%s %d\n%s\n' % (name.encode(), len(s), s) for s in streams)
        ours = subprocess.run([reader], input=given, stdout=subprocess.PIPE, check=True).stdout.decode().split('\n')
        for i in range(count):
            mine = json.loads(ours[i])
            if mine != theirs[i]:
                wrong += 1
                if wrong <= 3:
                    print(
                        '%s, stream %d:\n%s\n  ours   %s\n  theirs %s'
                        % (name, i, streams[i].decode(), mine, theirs[i])
                    )
        print('%s: %d streams, openai %s, anthropic %s' % (name, count, openai.__version__, anthropic.__version__))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
