# SPDX-License-Identifier: Apache-2.0
"""What every adapter does, played against the real framework. A case of one framework says how it runs an agent."""

import asyncio
import contextvars
import logging
import unittest

import turnphase
from turnphase import Allow, Ask, Decision, Deny, Runtime

for name in ('turnphase', 'asyncio'):
    logging.getLogger(name).setLevel(logging.CRITICAL)
inner = contextvars.ContextVar('inner', default='none')


class Tools:
    """Functions of a framework, with types and docstrings, and what has become of them."""

    def __init__(self):
        self.ran, self.cancelled, self.begun, self.leave = [], [], asyncio.Event(), asyncio.Event()

    async def look(self, path: str) -> str:
        """Looks at a file."""
        self.ran.append(('look', path, inner.get()))
        return 'seen ' + path

    async def count(self, path: str) -> int:
        """Counts lines."""
        self.ran.append(('count', path, inner.get()))
        self.leave.set()
        return 7

    async def late(self, path: str) -> str:
        """Ends after count."""
        await self.leave.wait()
        return 'late ' + path

    async def hang(self, path: str) -> str:
        """Never ends."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(path)
            raise
        return path

    async def fail(self, path: str) -> str:
        """Raises."""
        raise LookupError('no such file: ' + path)

    def all(self):
        return [self.look, self.count, self.late, self.hang, self.fail]


def cases(run):
    """A class of tests. run(session, tools, calls, **options) runs an agent whose model makes these calls ((name,
    arguments)) at once and then ends, and returns the texts that the model has read, in the order of the calls."""

    class Cases(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            self.runtime = Runtime(asks=True)
            await self.runtime.__aenter__()
            self.tools = Tools()

        async def asyncTearDown(self):
            await self.runtime.close(0)

        async def play(self, *calls, **options):
            session = self.runtime.session()
            return await asyncio.wait_for(
                run(session, self.tools.all(), [(name, {'path': path}) for name, path in calls], **options), 60
            )

        async def test_a_call_goes_through_its_gates(self):
            seen = []
            inner.set('of the host')

            @self.runtime.guard()
            async def guard(call):
                seen.append((call.tool, call.arguments))
                return Allow()

            @self.runtime.hook('tool.post')
            async def post(call):
                seen.append((call['status'], call['result']))

            self.assertEqual(await self.play(('look', 'a'), ('count', 'b')), ['seen a', '7'])
            self.assertEqual(sorted(self.tools.ran), [('count', 'b', 'of the host'), ('look', 'a', 'of the host')])
            self.assertCountEqual(
                seen, [('look', {'path': 'a'}), ('count', {'path': 'b'}), ('success', 'seen a'), ('success', '7')]
            )

        async def test_a_denied_call_reads_as_denied(self):
            self.runtime.guard(id='keep', tools=['look'])(lambda call: Deny('files are kept'))
            texts = await self.play(('look', 'a'), ('count', 'b'))
            self.assertIn('files are kept', texts[0])
            self.assertEqual((texts[1], [name for name, *_ in self.tools.ran]), ('7', ['count']))

        async def test_a_guard_without_a_clear_answer_has_not_allowed(self):
            async def raises(call):
                raise ZeroDivisionError

            async def hangs(call):
                await asyncio.Event().wait()

            for guard in (raises, hangs, lambda call: True, lambda call: turnphase.Failed('broken')):
                self.runtime.guard(id='guard', limit_ms=30)(guard)
                texts = await self.play(('look', 'a'))
                self.assertNotIn('seen', texts[0])
                self.runtime.remove_hook('guard')
            self.assertEqual(self.tools.ran, [])

        async def test_a_person_is_asked(self):
            answers = [Decision(True), Decision(False, 'not today')]
            self.runtime.guard(id='ask')(lambda call: Ask('why not'))
            self.runtime.on_question(lambda question: answers.pop(0))
            self.assertEqual(await self.play(('look', 'a')), ['seen a'])
            self.assertIn('not today', (await self.play(('look', 'a')))[0])
            self.assertEqual(len(self.tools.ran), 1)

        async def test_calls_keep_their_order(self):
            texts = await self.play(('late', 'a'), ('look', 'b'), ('count', 'c'))
            self.assertEqual(texts, ['late a', 'seen b', '7'])

        async def test_hooks_replace_arguments_and_results(self):
            @self.runtime.hook('tool.rewrite', tools=['look'], grants='rewrite')
            async def elsewhere(call):
                call.replace(arguments={'path': 'public/' + call.arguments['path']})

            @self.runtime.hook('tool.result', tools=['look'])
            async def hide(call):
                call.replace(result=call['result'].replace('seen', 'hidden'))

            self.assertEqual(await self.play(('look', 'a'), ('count', 'b')), ['hidden public/a', '7'])
            self.assertIn(('look', 'public/a', 'none'), self.tools.ran)

        async def test_a_result_that_a_hook_gives_stands_for_the_run(self):
            self.runtime.hook('tool.rewrite', id='cache', grants='rewrite')(lambda call: call.replace(result='cached'))
            self.assertEqual((await self.play(('look', 'a')), self.tools.ran), (['cached'], []))

        async def test_a_tool_that_takes_too_long(self):
            texts = await self.play(('hang', 'a'), ('look', 'b'), limit_ms=40)
            self.assertIn('the tool did not answer in time', texts[0])
            self.assertEqual(texts[1], 'seen b')
            while self.tools.begun.is_set() and not self.tools.cancelled:  # on a slow machine the call may be cancelled
                                                                           # before it begins
                await asyncio.sleep(0)

        async def test_a_run_that_is_cancelled(self):
            task = asyncio.ensure_future(self.play(('hang', 'a')))
            await self.tools.begun.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            while not self.tools.cancelled:
                await asyncio.sleep(0)

        async def test_a_run_that_is_cancelled_in_a_guard(self):
            asked, gone = asyncio.Event(), asyncio.Event()

            @self.runtime.guard()
            async def guard(call):
                asked.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    gone.set()

            task = asyncio.ensure_future(self.play(('look', 'a')))
            await asked.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await gone.wait()
            self.assertEqual(self.tools.ran, [])

        async def test_a_runtime_that_is_closed_ends_the_run(self):
            task = asyncio.ensure_future(self.play(('hang', 'a')))
            await self.tools.begun.wait()
            await self.runtime.close(0)
            (end,) = await asyncio.gather(task, return_exceptions=True)
            self.assertIsInstance(end, Exception)
            self.assertRegex(str(end), 'cancelled|closed')
            with self.assertRaisesRegex(turnphase.UsageError, 'inside `async with'):
                await self.play(('look', 'a'))
            self.assertEqual(self.tools.ran, [])

        async def test_what_a_tool_raises_is_the_frameworks(self):
            plain, seen = await self.outcome_of_fail(None), []

            @self.runtime.hook('tool.post')
            async def post(call):
                seen.append(call['status'])

            self.assertEqual((await self.outcome_of_fail(self.runtime.session()), len(seen)), (plain, 1))

        async def outcome_of_fail(self, session):
            """What the framework makes of an exception: a text, or an exception of its own. session None: no hooks."""
            try:
                return await run(session, self.tools.all(), [('fail', {'path': 'a'})])
            except Exception as error:
                return type(error), str(error)

        async def test_nothing_is_kept_of_calls(self):
            await self.play(('look', 'a'), ('count', 'b'))
            kept = len(self.runtime._kept)
            for _ in range(5):
                await self.play(('look', 'a'), ('count', 'b'))
            self.assertEqual((len(self.runtime._kept), self.runtime._tasks), (kept, {}))

        async def test_a_tool_outside_of_its_framework(self):
            await self.play(('look', 'a'))
            (result,) = await self.runtime.session().call_tools([turnphase.ToolCall('look', {'path': 'a'})])
            self.assertEqual((result.kind, 'framework' in result.text), ('handler_error', True))

    return Cases


__all__ = ['cases']
