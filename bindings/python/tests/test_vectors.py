# SPDX-License-Identifier: Apache-2.0
"""Plays tests/vectors/turns.json, which every language plays."""

import asyncio
import json
import logging
import pathlib

from support import AsyncTest, Runtime
from turnphase import Allow, Answer, Ask, Deny, Failed, ModelError, Response, ToolCall

logging.getLogger('turnphase').setLevel(logging.CRITICAL)
FILE = pathlib.Path(__file__).resolve().parents[3] / 'tests/vectors/turns.json'
KINDS = ['turn_begin', 'model_begin', 'model_delta', 'model_end', 'tool_begin', 'tool_end', 'message', 'turn_end']
VERDICTS = {'done': lambda reason: None, 'allow': lambda reason: Allow(), 'deny': Deny, 'ask': Ask, 'failed': Failed}


def hook_of(row):
    left = [row.get('times', -1)]

    async def hook(call):
        for contribution in row.get('emit', ()):
            call.emit(**contribution)
        if 'replace' in row:
            call.replace(**row['replace'])
        if row['answer'] == 'raise':
            raise ValueError('raised')
        if row['answer'] == 'hang':
            await asyncio.Event().wait()
        if row['answer'] == 'nonsense':
            return 'allow'
        left[0] -= 1
        return VERDICTS['done' if left[0] == -1 and 'times' in row else row['answer']](row.get('reason', ''))

    return hook


def tool_of(row, ran):
    async def tool(n: int = 0):
        ran.append(row['name'])
        if row.get('raise'):
            raise ValueError('raised')
        if row.get('hang'):
            await asyncio.Event().wait()
        return Answer(row.get('text', ''), row.get('value'), is_error=row.get('is_error', False))

    return tool


def model_of(rows, requests):
    async def model(request):
        row = rows[min(len(requests), len(rows) - 1)]
        requests.append(request)
        if row.get('hang'):
            await asyncio.Event().wait()
        if 'fail' in row:
            raise ModelError(row['fail'], retryable=row.get('retryable', False))
        for piece in row.get('deltas', ()):
            yield piece
        calls = [ToolCall(call['name'], call.get('arguments')) for call in row.get('calls', ())]
        yield Response(row.get('text', ''), calls)

    return model


async def play(vector):
    """What came of a vector, by the names of `expect`."""
    ran, requests = [], []
    async with Runtime() as runtime:
        for row in vector.get('hooks', ()):
            options = {name: row[name] for name in ('id', 'failure', 'limit_ms', 'tools') if name in row}
            grants = 'privileged_hooks' if row.get('privileged') else None
            runtime.hook(row['phase'], grants=grants, **options)(hook_of(row))
        for row in vector.get('tools', ()):
            options = {name: row[name] for name in ('name', 'limit_ms') if name in row}
            runtime.tool(**options)(tool_of(row, ran))
        async with runtime.session('s', model=model_of(vector['model'], requests)) as session:
            turn = session.turn(vector['text'], events=KINDS, **vector.get('request', {}))
            events = [event async for event in turn]
            result = await turn
    kinds = [event.kind for event in events]
    ends = sorted((event for event in events if event.kind == 'tool_end'), key=lambda event: event.call_index)
    return {
        **{
            name: getattr(result, name)
            for name in ('outcome', 'iterations', 'tool_calls', 'subscription', 'value', 'text')
        },
        'reason': result.reason,
        'results': [
            [end.tool_result['name'], end.tool_result['kind'], end.tool_result.get('text', '')] for end in ends
        ],
        'ran': sorted(ran),
        'requests': len(requests),
        'seen': requests[-1].messages[-1].text if requests else '',
        'events': [kind for at, kind in enumerate(kinds) if at == 0 or kind != 'model_delta' or kinds[at - 1] != kind],
    }


def differs(expected, got):
    """The first member that is not as expected, or None."""
    for name, wanted in expected.items():
        holds = got[name] == wanted
        if name in ('text', 'reason', 'seen'):
            holds = wanted in got[name]
        if name == 'results':
            holds = len(got[name]) == len(wanted) and all(
                row[:2] == want[:2] and want[2] in row[2] for row, want in zip(got[name], wanted)
            )
        if not holds:
            return f'{name} is {got[name]!r}, not {wanted!r}'
    return None


class Vectors(AsyncTest):
    async def test_each_turn_is_as_the_file_has_it(self):
        vectors = json.loads(FILE.read_text(encoding='utf-8'))['vectors']
        self.assertGreater(len(vectors), 30)
        for vector in vectors:
            with self.subTest(vector['name']):
                wrong = differs(vector['expect'], await play(vector))
                self.assertIsNone(wrong)
