# SPDX-License-Identifier: Apache-2.0
"""What ends in the wrong moment: tasks, objects, forks, the interpreter."""

import asyncio
import gc
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest
import weakref

from support import AsyncTest, Runtime, calls, one_turn, says_hello, turnphase
from turnphase import Allow, Files, Sqlite

logging.getLogger('turnphase').setLevel(logging.CRITICAL)


def program(text):
    """(exit code, output) of a program in an interpreter of its own."""
    run = subprocess.run(
        [sys.executable, '-P', '-X', 'dev', '-c', textwrap.dedent(text)], capture_output=True, text=True, timeout=60
    )
    return run.returncode, run.stdout + run.stderr


SETUP = """
    import asyncio, os, sys, threading
    import turnphase
    begun = asyncio.Event()

    async def hangs(request):
        begun.set()
        await asyncio.Event().wait()
"""


class Ends(AsyncTest):
    async def test_many_cancelled_tasks(self):
        count = 1000

        async def model(request):
            await asyncio.Event().wait()

        async with Runtime() as runtime:
            sessions = [runtime.session(model=model) for _ in range(20)]
            turns = [session.turn('x') for session in sessions for _ in range(count // 20)]
            tasks = [asyncio.ensure_future(turn._wait()) for turn in turns]
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertTrue(all(isinstance(end, asyncio.CancelledError) for end in ends))
            results = await asyncio.gather(*(turn._wait() for turn in turns))
            self.assertEqual({result.outcome for result in results}, {'cancelled'})
            for session in sessions:
                await session.close()
            while runtime._tasks:
                await asyncio.sleep(0)
            self.assertEqual([kept for kept in runtime._kept.values() if isinstance(kept, turnphase.Turn)], [])

    async def test_nothing_is_kept_of_turns_and_registrations(self):
        async with Runtime() as runtime:

            @runtime.guard()
            async def guard(call):
                return Allow()

            @runtime.tool
            async def act() -> str:
                return 'x'

            async def turns(count):
                for _ in range(count):
                    await one_turn(runtime, calls('act'))
                    runtime.hook('tool.pre', id='passing')(lambda call: None)
                    runtime.remove_hook('passing')
                await one_turn(runtime)
                gc.collect()

            await turns(20)
            kept, objects, descriptors = len(runtime._kept), len(gc.get_objects()), len(os.listdir('/proc/self/fd'))
            await turns(100)
            self.assertLess(len(runtime._kept), kept + 20)
            self.assertLess(len(gc.get_objects()), objects + 300)
            self.assertLessEqual(len(os.listdir('/proc/self/fd')), descriptors)
        gone = weakref.ref(runtime)
        del runtime, guard, act, turns
        gc.collect()
        self.assertIsNone(gone())

    async def test_a_call_that_is_collected_fails_at_once(self):
        """Python drops a coroutine that nothing can wake; its call must then fail at once, and not at its limit."""
        dropped = []
        async with Runtime() as runtime:

            def begin(function, turn, token, work):
                dropped.append(token)
                del work
                gc.collect()

            runtime._begin = begin
            result = await asyncio.wait_for(one_turn(runtime), 30)
            self.assertEqual((result.outcome, len(dropped) > 0), ('failed', True))

    async def test_collections_during_turns(self):
        threshold = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            async with Runtime() as runtime:

                @runtime.guard()
                async def guard(call):
                    call.payload()
                    return Allow()

                runtime.tool(name='act', thread=False)(lambda: {'a': [1]})
                results = await asyncio.gather(*(one_turn(runtime, calls('act')) for _ in range(10)))
        finally:
            gc.set_threshold(*threshold)
        self.assertEqual({result.outcome for result in results}, {'completed'})

    async def test_the_loop_does_the_work_of_the_library(self):
        """Without parts and a database the library has no threads; with an option about threads it has some."""

        def threads():
            names = (pathlib.Path(task, 'comm').read_text() for task in pathlib.Path('/proc/self/task').iterdir())
            return sum(name.startswith(('tp-engine', 'tp-timer')) for name in names)

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for parts, options, is_pumped in [
            ([], {}, True),
            ([], {'pump': False}, False),
            ([], {'engine_workers': 1}, False),
            ([], {'tool_threads': 2}, False),
            ([], {'database': Sqlite(folder.name + '/a.db')}, False),
            ([], {'database': Sqlite(folder.name + '/b.db'), 'pump': True}, True),
            ([Files(folder.name)], {}, False),
        ]:
            async with turnphase.Runtime(*parts, **options) as runtime:
                runtime.tool(name='act', thread=True)(lambda: 'x')
                result = await one_turn(runtime, calls('act'))
                self.assertEqual((result.text, threads() == 0), ('done: x', is_pumped), options)
        with self.assertRaisesRegex(turnphase.UsageError, 'pump'):
            turnphase.Runtime(pump=True, engine_workers=1)

    async def test_deadlines_pass_in_the_loop(self):
        """Nothing else happens at the moment at which the hook's limit passes."""
        async with turnphase.Runtime(pump=True) as runtime:
            late = asyncio.Event()

            @runtime.guard(limit_ms=30)
            async def hangs(call):
                await late.wait()

            runtime.tool(name='act')(lambda: 'x')
            result = await asyncio.wait_for(one_turn(runtime, calls('act')), 30)
            self.assertIn('hook hangs blocked the action: timeout', result.text)

    async def test_two_runtimes_in_one_loop(self):
        async with Runtime() as one, Runtime() as two:
            one.tool(name='who')(lambda: 'one')
            two.tool(name='who')(lambda: 'two')
            texts = await asyncio.gather(*(one_turn(runtime, calls('who')) for runtime in (one, two, one)))
            self.assertEqual([text.text for text in texts], ['done: one', 'done: two', 'done: one'])
            session = one.session(model=says_hello)
            agent = await two.agent('a', model=says_hello)
            with self.assertRaises(turnphase.Error):
                one.session(agent=agent)
            await session.close()

    async def test_leaving_with_an_exception_cancels_what_runs(self):
        begun = asyncio.Event()

        async def model(request):
            begun.set()
            await asyncio.Event().wait()

        with self.assertRaises(ZeroDivisionError):
            async with Runtime(drain_ms=600000) as runtime:
                turn = runtime.session(model=model).turn('x').start()
                await begun.wait()
                raise ZeroDivisionError
        self.assertEqual(turn.result.outcome, 'cancelled')
        with self.assertRaises(turnphase.UsageError):
            runtime.session(model=model)


class Command(unittest.TestCase):
    def run_it(self, *words, **env):
        words = [sys.executable, '-P', '-m', 'turnphase', *words]
        return subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)

    def test_python_m_turnphase_is_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            command = os.path.join(folder, 'turnphase')
            with open(command, 'w', encoding='utf-8') as file:
                file.write('#!/bin/sh\necho "$@"; exit 3\n')
            os.chmod(command, 0o700)
            for env in ({'TURNPHASE_COMMAND': command}, {'TURNPHASE_COMMAND': '', 'PATH': folder + ':/usr/bin:/bin'}):
                run = self.run_it('run', '--once', 'a b', **env)
                self.assertEqual((run.returncode, run.stdout), (3, 'run --once a b\n'), run.stderr)
            for env in ({'TURNPHASE_COMMAND': folder}, {'TURNPHASE_COMMAND': '', 'PATH': '/nowhere'}):
                run = self.run_it('run', **env)
                self.assertEqual((run.returncode, 'TURNPHASE_COMMAND' in run.stderr), (127, True), run.stderr)


class Processes(unittest.TestCase):
    def test_many_turns_leave_nothing(self):
        leaks = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'leaks.py')
        run = subprocess.run([sys.executable, leaks, '2000'], capture_output=True, text=True, timeout=100)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_the_interpreter_ends_in_mid_turn(self):
        for way in ('sys.exit(7)', 'raise SystemExit(7)', 'os._exit(7)'):
            with self.subTest(way):
                code, output = program(
                    SETUP
                    + """
    async def main():
        runtime = turnphase.Runtime()
        await runtime.__aenter__()
        turn = runtime.session(model=hangs).turn('x').start()
        await begun.wait()
        %s

    asyncio.run(main())
"""
                    % way
                )
                self.assertEqual(code, 7, output)

    def test_the_interpreter_ends_while_a_thread_runs_a_tool(self):
        code, output = program(
            SETUP
            + """
    async def model(request):
        return turnphase.Response(calls=[turnphase.ToolCall('act')])

    leave = threading.Event()

    async def main():
        runtime = turnphase.Runtime()
        loop = asyncio.get_running_loop()

        @runtime.tool
        def act(run: turnphase.ToolRun) -> str:
            loop.call_soon_threadsafe(begun.set)
            leave.wait()
            return run.name

        await runtime.__aenter__()
        turn = runtime.session(model=model).turn('x').start()
        await begun.wait()
        runtime._free()
        leave.set()
        sys.exit(7)

    asyncio.run(main())
"""
        )
        self.assertEqual(code, 7, output)
        self.assertNotIn('Fatal', output)

    def test_the_child_of_a_fork_is_refused(self):
        code, output = program(
            SETUP
            + """
    async def main():
        async with turnphase.Runtime() as runtime:
            session = runtime.session(model=hangs)
            turn = session.turn('x').start()
            await begun.wait()
            child = os.fork()
            if child == 0:
                for use in (lambda: runtime.session(), lambda: session.turn('y').start(), lambda: turn.cancel(),
                            lambda: runtime._core.take(1), lambda: runtime.tool(lambda: 'x')):
                    try:
                        use()
                        os._exit(1)
                    except turnphase.ForkedError:
                        pass
                own = turnphase.Runtime()
                own._free()
                runtime._free()
                del own, runtime, session, turn
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            turn.cancel()
            assert (await turn).outcome == 'cancelled'

    asyncio.run(main())
"""
        )
        self.assertEqual(code, 0, output)

    def test_the_module_is_loaded_again(self):
        code, output = program("""
    import asyncio, sys
    for _ in range(3):
        import turnphase

        async def main():
            async with turnphase.Runtime() as runtime:
                async with runtime.session(model=turnphase.Script(['a'])) as session:
                    assert (await session.turn('x')).text == 'a'

        asyncio.run(main())
        for name in [name for name in sys.modules if name.startswith('turnphase')]:
            del sys.modules[name]
""")
        self.assertEqual(code, 0, output)


if __name__ == '__main__':
    unittest.main()
