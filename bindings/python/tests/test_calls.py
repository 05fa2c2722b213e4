# SPDX-License-Identifier: Apache-2.0
"""Tool calls that something else than a turn of the library's makes: Session.call_tools()."""

import asyncio
import unittest

import turnphase
from support import AsyncTest, Runtime
from turnphase import Deny, ToolCall


class Calls(AsyncTest):
    async def asyncSetUp(self):
        self.runtime = Runtime()
        await self.runtime.__aenter__()
        self.session = self.runtime.session('s')
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

        @self.runtime.tool
        async def double(number: int) -> int:
            return 2 * number

        @self.runtime.tool
        async def hang() -> str:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()

    async def asyncTearDown(self):
        await self.runtime.close(0)

    async def kinds(self, *calls, **options):
        return [(result.kind, result.text) for result in await self.session.call_tools(calls, **options)]

    async def test_each_goes_through_its_gates(self):
        seen = []
        self.runtime.guard(id='small')(lambda call: Deny('too large') if call.arguments['number'] > 9 else None)

        @self.runtime.hook('tool.post')
        async def post(call):
            seen.append((call.session_id, call.turn_id, call['call_id'], call['status']))

        calls = [ToolCall('double', {'number': number}, 'c%d' % number) for number in (1, 50, 3)]
        self.assertEqual(
            await self.kinds(*calls, ToolCall('none'), ToolCall('double', {'number': 'x'}), id='t'),
            [
                ('ok', '2'),
                ('denied', 'hook small blocked the action: too large'),
                ('ok', '6'),
                ('unknown_tool', 'there is no tool of that name'),
                ('invalid_arguments', 'arguments.number: expected integer, got string'),
            ],
        )
        self.assertEqual(sorted(seen), [('s', 't', 'c1', 'success'), ('s', 't', 'c3', 'success')])
        self.assertEqual(await self.kinds(), [])

    async def test_several_at_once_in_a_session(self):
        rows = await asyncio.gather(*(self.kinds(ToolCall('double', {'number': number})) for number in range(20)))
        self.assertEqual(rows, [[('ok', str(2 * number))] for number in range(20)])

    async def test_no_other_phase_runs_and_no_history_is_made(self):
        ran = []
        for phase in ('turn.intake', 'model.pre', 'turn.stop', 'turn.post_turn', 'turn.pre_tool_materialization'):
            self.runtime.hook(phase, id=phase)(lambda call: ran.append(call.phase))
        await self.kinds(ToolCall('double', {'number': 1}))
        self.assertEqual(ran, ['turn.pre_tool_materialization'])

    async def test_tools_that_cannot_be_had(self):
        async def broken(call):
            raise ZeroDivisionError

        self.runtime.hook('turn.pre_tool_materialization', id='broken', failure='required')(broken)
        with self.assertRaises(turnphase.HookError):
            await self.kinds(ToolCall('double', {'number': 1}))
        self.runtime.remove_hook('broken')
        for options in ({'id': 'a b'}, {'system': 'x'}, {'unknown': 1}):
            with self.assertRaises((turnphase.Error, TypeError)):
                await self.kinds(ToolCall('double', {'number': 1}), **options)
        with self.assertRaises((TypeError, ValueError)):
            await self.kinds(ToolCall('double', object()))
        with self.assertRaises(AttributeError):
            await self.kinds('double')
        self.assertEqual([thing for thing in self.runtime._kept.values() if hasattr(thing, 'calls')], [])
        self.assertEqual(await self.kinds(ToolCall('double', {'number': 1})), [('ok', '2')])

    async def test_cancelled(self):
        task = asyncio.ensure_future(self.kinds(ToolCall('hang')))
        await self.begun.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.ended.wait()
        early = asyncio.ensure_future(self.kinds(ToolCall('hang')))  # cancelled before its tools have come
        await asyncio.sleep(0)
        early.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await early
        while any(hasattr(thing, 'calls') for thing in self.runtime._kept.values()):
            await asyncio.sleep(0)

    async def test_a_limit_of_the_turn(self):
        ((kind, _),) = await self.kinds(ToolCall('hang'), limit_ms=20)
        self.assertIn(kind, ('cancelled', 'timed_out'))
        if self.begun.is_set():  # on a slow machine the call may be cancelled before it begins
            await self.ended.wait()

    async def test_the_runtime_is_closed_meanwhile(self):
        task = asyncio.ensure_future(self.kinds(ToolCall('hang')))
        await self.begun.wait()
        await self.runtime.close(0)
        self.assertEqual(await task, [('cancelled', 'the call was cancelled')])
        with self.assertRaises(turnphase.UsageError):
            await self.kinds(ToolCall('hang'))

    async def test_a_tool_that_reads_its_arguments_itself(self):
        @self.runtime.tool(schema={'type': 'object'})
        async def raw(run: turnphase.ToolRun) -> str:
            return repr(run.arguments)

        self.assertEqual(await self.kinds(ToolCall('raw', {'a': [1]})), [('ok', "{'a': [1]}")])


if __name__ == '__main__':
    unittest.main()
