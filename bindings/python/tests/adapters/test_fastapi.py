# SPDX-License-Identifier: Apache-2.0
"""examples/python/server.py with FastAPI, uvicorn and httpx."""

import asyncio
import json
import logging
import pathlib
import socket
import sys
import unittest

import httpx
import uvicorn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / 'examples/python'))
import server  # noqa: E402


async def events(response):
    kind = ''
    async for line in response.aiter_lines():
        if line.startswith('event: '):
            kind = line[7:]
        elif line.startswith('data: '):
            yield kind, json.loads(line[6:])


logging.getLogger('asyncio').setLevel(logging.CRITICAL)


class Server(unittest.IsolatedAsyncioTestCase):
    async def test_the_example(self):
        """One server, since a runtime is entered once: its requests follow each other."""
        outcomes = asyncio.Queue()
        server.runtime.hook('turn.post_turn', id='see')(lambda call: outcomes.put_nowait(call['outcome']))
        listening = socket.create_server(('127.0.0.1', 0))
        served = uvicorn.Server(uvicorn.Config(server.app, log_level='warning'))
        serving = asyncio.create_task(served.serve([listening]))
        base = 'http://127.0.0.1:%d' % listening.getsockname()[1]
        try:
            async with httpx.AsyncClient(base_url=base, timeout=60) as client:
                await self.streams(client, outcomes)
                await self.asks(client, outcomes)
                await self.leaves(client, outcomes)
        finally:
            served.should_exit = True
            await serving
        self.assertEqual((server.streams, server.questions, server.turns), ({}, {}, set()))

    def turn(self, client, text, session='s'):
        return client.stream('POST', '/turns', json={'session': session, 'text': text})

    async def streams(self, client, outcomes):
        async with self.turn(client, 'one two') as response:
            self.assertEqual(response.headers['content-type'].split(';')[0], 'text/event-stream')
            rows = [row async for row in events(response)]
        self.assertEqual(''.join(data['text'] for kind, data in rows if kind == 'delta'), 'one two ')
        self.assertEqual(rows[-1], ('end', {'outcome': 'completed', 'text': 'one two ', 'reason': ''}))
        self.assertEqual(await outcomes.get(), 'completed')

    async def asks(self, client, outcomes):
        for allow, words in ((True, 'sent to bob'), (False, 'not now')):
            async with self.turn(client, 'mail bob') as response:
                rows = events(response)
                kind, question = await anext(rows)
                asked = (kind, question['tool'], question['arguments'])
                self.assertEqual(asked, ('question', 'send_mail', {'to': 'bob'}))
                self.assertEqual((await client.post('/turns', json={'session': 's', 'text': 'x'})).status_code, 409)
                path = '/questions/' + question['id']
                answer = {'allow': allow, 'reason': 'not now'}
                self.assertEqual((await client.post(path, json=answer)).status_code, 200)
                rest = [row async for row in rows]
            self.assertIn(words, rest[-1][1]['text'])
            self.assertEqual((await client.post(path, json=answer)).status_code, 404)
            self.assertEqual(await outcomes.get(), 'completed')

    async def leaves(self, client, outcomes):
        async with self.turn(client, 'word ' * 2000) as response:
            self.assertEqual((await anext(events(response)))[0], 'delta')
        self.assertEqual(await asyncio.wait_for(outcomes.get(), 60), 'cancelled')
        async with self.turn(client, 'mail bob') as response:  # the client leaves while its question is open
            self.assertEqual((await anext(events(response)))[0], 'question')
        self.assertEqual(await asyncio.wait_for(outcomes.get(), 60), 'cancelled')
        while server.turns or server.questions:
            await asyncio.sleep(0)
        async with self.turn(client, 'again') as response:
            self.assertEqual([row async for row in events(response)][-1][1]['outcome'], 'completed')


if __name__ == '__main__':
    unittest.main()
