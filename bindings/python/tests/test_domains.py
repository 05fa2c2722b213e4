# SPDX-License-Identifier: Apache-2.0
"""The libraries over the core, as options."""

import json
import logging
import os
import pathlib
import sys
import tempfile
import textwrap

from support import AsyncTest, Runtime, calls, one_turn, says_hello, turnphase
from turnphase import DeclaredHooks, Files, Mcp, Memory, OpenAI, Skills, Sqlite

logging.getLogger('turnphase').setLevel(logging.CRITICAL)


class Domains(AsyncTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    async def test_a_history_in_a_file_is_there_again(self):
        seen = []

        async def model(request):
            seen.append([message.text for message in request.messages])
            return 'a'

        for text in ('one', 'two'):
            async with Runtime(database=Sqlite(self.folder / 'a.db')) as runtime:
                async with runtime.session('s', model=model) as session:
                    self.assertEqual((await session.turn(text)).outcome, 'completed')
        self.assertEqual(seen, [['one'], ['one', 'a', 'two']])

    async def test_files(self):
        (self.folder / 'a.txt').write_text('rain')
        async with Runtime(Files(self.folder, writes='never')) as runtime:
            self.assertIn('rain', (await one_turn(runtime, calls(('files_read', {'path': 'a.txt'})))).text)
            self.assertNotIn('root:', (await one_turn(runtime, calls(('files_read', {'path': '/etc/passwd'})))).text)

    async def test_memory(self):
        seen = []

        async def model(request):
            seen.append(request.system + ' '.join(message.text for message in request.messages))
            return 'ok'

        async with Runtime(Memory(self.folder / 'm.db')) as runtime:
            async with runtime.session('s', model=model, workspace='w') as session:
                await session.turn('My cat is called Bertha.')
            self.assertTrue(await runtime.wait_for_jobs())
            async with runtime.session('t', model=model, workspace='w') as session:
                await session.turn('What is my cat called?')
        self.assertIn('Bertha', seen[-1])

    async def test_skills(self):
        (self.folder / 'review.md').write_text('Reviews.\n\nRead every line.\n')
        seen = []

        async def model(request):
            seen.append(request.messages[-1].text)
            return 'a'

        async with Runtime(Skills(self.folder)) as runtime:
            await one_turn(runtime, model, '/review it')
            self.assertEqual((await one_turn(runtime, model, '/nothing')).outcome, 'denied')
        self.assertIn('Read every line.', seen[0])

    async def test_declared_hooks(self):
        (self.folder / 'no.yaml').write_text(
            'id: no\nevent_type: tool.pre\nhandler: {kind: script, command: [/bin/false]}\n'
        )
        with self.assertRaises(turnphase.UsageError):
            Runtime(DeclaredHooks(self.folder, trusted='0' * 64))
        async with Runtime(DeclaredHooks(self.folder, trusted='any')) as runtime:
            ran = []
            runtime.tool(name='act')(lambda: ran.append(1) or 'x')
            await one_turn(runtime, calls('act'))
        self.assertEqual(ran, [])

    async def test_mcp(self):
        server = self.folder / 'server.py'
        server.write_text(
            textwrap.dedent('''\
            import json, sys
            for line in sys.stdin:
                asked = json.loads(line)
                if 'id' not in asked: continue
                method = asked['method']
                if method == 'initialize':
                    result = {'protocolVersion': asked['params']['protocolVersion'], 'capabilities': {'tools': {}},
                              'serverInfo': {'name': 's', 'version': '1'}}
                elif method == 'tools/list':
                    result = {'tools': [{'name': 'add', 'inputSchema': {'type': 'object'}}]}
                elif method == 'tools/call':
                    result = {'content': [{'type': 'text', 'text': str(sum(asked['params']['arguments'].values()))}]}
                else:
                    result = {}
                print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)
            ''')
        )
        tools = []

        async def model(request):
            tools.extend(tool.name for tool in request.tools)
            return await calls((tools[0], {'a': 2, 'b': 3}))(request)

        async with Runtime(Mcp('sums', [sys.executable, str(server)])) as runtime:
            self.assertIn('5', (await one_turn(runtime, model)).text)
        self.assertIn('add', tools[0])

    async def test_a_model_behind_an_endpoint(self):
        import asyncio

        bodies = []

        async def serve(reader, writer):
            head = await reader.readuntil(b'\r\n\r\n')
            size = int(
                [line for line in head.split(b'\r\n') if line.lower().startswith(b'content-length')][0].split(b':')[1]
            )
            bodies.append(json.loads(await reader.readexactly(size)))
            body = json.dumps(
                {
                    'choices': [{'message': {'role': 'assistant', 'content': 'from afar'}, 'finish_reason': 'stop'}],
                    'usage': {'prompt_tokens': 3, 'completion_tokens': 2},
                }
            ).encode()
            writer.write(
                b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
                b'Content-Length: %d\r\nConnection: close\r\n\r\n%s' % (len(body), body)
            )
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, '127.0.0.1', 0)
        port = server.sockets[0].getsockname()[1]
        os.environ['TURNPHASE_TEST_KEY'] = 'k'
        async with Runtime() as runtime:
            model = OpenAI(
                'm-1',
                base_url=f'http://127.0.0.1:{port}/v1',
                key_env='TURNPHASE_TEST_KEY',
                no_stream=True,
                prices=[{'input_micros': 1000000, 'output_micros': 2000000}],
            )
            result = await one_turn(runtime, model, 'hi')
            with self.assertRaises((turnphase.Error, TypeError)):
                runtime.session(model=OpenAI('m', colour='red'))
        server.close()
        self.assertEqual((result.text, result.input_tokens, result.cost_micros), ('from afar', 3, 7))
        self.assertEqual(bodies[0]['model'], 'm-1')

    async def test_what_is_wrong_with_an_option_is_named(self):
        for part, words in (
            (lambda: Runtime(Files('/nonexistent')), '/nonexistent'),
            (lambda: Runtime(Files(self.folder, writes='sometimes')), 'never'),
            (lambda: Runtime(Memory(scope='planet')), 'planet'),
            (lambda: Runtime(Mcp('a b', ['x'])), 'a b'),
            (lambda: Runtime(database=Sqlite('/nonexistent/x.db')), '/nonexistent'),
            (lambda: Runtime(database=Sqlite('x', colour=1)), 'colour'),
        ):
            with self.assertRaises((turnphase.Error, ValueError, TypeError)) as raised:
                part()
            self.assertIn(words, str(raised.exception))
        self.assertEqual((await self.still_works()).outcome, 'completed')

    async def still_works(self):
        async with Runtime() as runtime:
            return await one_turn(runtime, says_hello)
