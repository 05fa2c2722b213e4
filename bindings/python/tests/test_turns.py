# SPDX-License-Identifier: Apache-2.0
"""Turns with hooks, tools and models that are functions of Python."""

import asyncio
import contextvars
import functools
import logging
import unittest

from support import AsyncTest, Runtime, calls, one_turn, says_hello, turnphase
from turnphase import Allow, Answer, Ask, Decision, Deny, Failed, Part, Response, Script, Thinking, ToolCall, ToolRun

logging.getLogger('turnphase').setLevel(logging.CRITICAL)
SHORT_MS = 50


class Models(AsyncTest):
    async def test_a_coroutine_answers(self):
        async with Runtime() as runtime:
            result = await one_turn(runtime, text='Ada')
        self.assertEqual((result.outcome, result.text, result.finish), ('completed', 'hello Ada', 'stop'))

    async def test_a_plain_function_answers_on_another_thread(self):
        import threading

        seen = []

        def model(request):
            seen.append(threading.current_thread() is threading.main_thread())
            return 'yes'

        async with Runtime() as runtime:
            self.assertEqual((await one_turn(runtime, model)).text, 'yes')
            self.assertEqual((await one_turn(runtime, turnphase.FunctionModel(model, thread=False))).text, 'yes')
        self.assertEqual(seen, [False, True])

    async def test_pieces_are_events_and_the_answer(self):
        async def model(request):
            yield Thinking('hm')
            yield 'a'
            await asyncio.sleep(0)
            yield 'b'
            yield Response(input_tokens=3, output_tokens=4, cost_micros=5, stop_reason='end_turn')

        async with Runtime() as runtime, runtime.session(model=model) as session:
            turn = session.turn('x')
            events = [event async for event in turn]
            result = await turn
            said = [piece async for piece in session.turn('y', each_delta=True).deltas()]
        self.assertEqual(''.join(event.text for event in events if event.kind == 'model_delta'), 'ab')
        self.assertEqual([event.text for event in events if event.kind == 'thinking'], ['hm'])
        self.assertEqual(said, ['a', 'b'])
        self.assertEqual((result.text, result.input_tokens, result.output_tokens, result.cost_micros), ('ab', 3, 4, 5))

    async def test_what_raises_or_answers_nothing_fails_the_turn(self):
        async def raises(request):
            raise ValueError('no key')

        async def answers_none(request):
            return None

        async def answers_a_dict(request):
            return {'text': 'x'}

        async def context(request):
            raise turnphase.ModelError('too long', context_length=True)

        async def raises_in_a_piece(request):
            yield 'a'
            raise ValueError('broken')

        async def cancels_itself(request):
            raise asyncio.CancelledError

        async with Runtime() as runtime:
            for model, words in (
                (raises, 'no key'),
                (answers_none, 'str or a Response'),
                (answers_a_dict, 'Response'),
                (context, 'too long'),
                (raises_in_a_piece, 'broken'),
                (cancels_itself, 'CancelledError'),
            ):
                with self.subTest(model.__name__):
                    result = await one_turn(runtime, model)
                    self.assertEqual(result.outcome, 'failed')
                    self.assertIn(words, result.reason)
                    self.assertRaises(turnphase.SystemFailure, result.check)

    async def test_a_retryable_failure_is_tried_again(self):
        tries = []

        async def model(request):
            tries.append(request.attempt)
            if len(tries) < 2:
                raise turnphase.ModelError('busy', retryable=True)
            return 'ok'

        async with Runtime() as runtime:
            self.assertEqual((await one_turn(runtime, model)).text, 'ok')
        self.assertEqual(tries, [1, 2])

    async def test_a_request_has_messages_tools_and_parameters(self):
        requests = []

        async def model(request):
            requests.append(request)
            return 'a'

        async with Runtime() as runtime:

            @runtime.tool
            async def look(path: str) -> str:
                """Reads a file."""
                return path

            async with runtime.session('s', model=model, tenant='t') as session:
                await session.turn('one')
                await session.turn('two', system='be brief', parameters={'temperature': 0.5}, id='turn-2')
        last = requests[-1]
        self.assertEqual(
            [(message.role, message.text) for message in last.messages],
            [('user', 'one'), ('assistant', 'a'), ('user', 'two')],
        )
        self.assertEqual((last.tools[0].name, last.tools[0].description), ('look', 'Reads a file.'))
        self.assertEqual(last.tools[0].schema['required'], ['path'])
        self.assertEqual((last.parameters, last.session_id, last.turn_id), ({'temperature': 0.5}, 's', 'turn-2'))
        self.assertIn('be brief', last.system)

    async def test_a_scripted_model_and_an_answer_with_a_schema(self):
        async with Runtime() as runtime, runtime.session(model=Script(['nonsense', '{"mm": 4}'])) as session:
            result = await session.turn('rain?', answer_schema='{"type": "object", "required": ["mm"]}')
        self.assertEqual((result.value, result.iterations), ({'mm': 4}, 2))

    async def test_a_model_belongs_to_one_session_when_it_is_the_librarys(self):
        script = Script(['a'])
        async with Runtime() as runtime:
            self.assertEqual((await one_turn(runtime, script)).text, 'a')
            self.assertEqual((await one_turn(runtime, script)).text, 'a')  # a Script object makes a new model for each
                                                                           # session
            for wrong in (3.5, 'gpt', object()):
                with self.assertRaises(TypeError):
                    runtime.session(model=wrong)


class Guards(AsyncTest):
    async def denied(self, guard, limit_ms=None, **options):
        """Returns (the text that the model read of the call, whether the tool has run)."""
        ran = []
        async with Runtime() as runtime:
            runtime.guard('tool.pre', limit_ms=limit_ms, id='watch', **options)(guard)

            @runtime.tool
            async def act() -> str:
                ran.append(True)
                return 'acted'

            result = await one_turn(runtime, calls('act'))
        self.assertEqual(result.outcome, 'completed')
        return result.text, bool(ran)

    async def test_verdicts_decide(self):
        async def deny(call):
            return Deny('not today')

        text, ran = await self.denied(deny)
        self.assertFalse(ran)
        self.assertIn('not today', text)
        for answer in (Allow(), None):
            text, ran = await self.denied(lambda call, answer=answer: answer)
            self.assertTrue(ran)
        text, ran = await self.denied(lambda call: Ask('sure?'))
        self.assertFalse(ran)  # there is no channel for questions

    async def test_a_guard_that_does_not_answer_denies(self):
        async def raises(call):
            raise ValueError('secret')

        async def hangs(call):
            await asyncio.Event().wait()

        async def hangs_and_ignores_the_cancel(call):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
            return Allow()

        async def cancels_itself(call):
            raise asyncio.CancelledError

        async def exits(call):
            call['nothing of this name']

        def plain_raises(call):
            raise KeyError('x')

        def returns_a_coroutine(call):
            return hangs(call)

        guards = [raises, hangs, hangs_and_ignores_the_cancel, cancels_itself, exits, plain_raises, returns_a_coroutine]
        guards += [
            lambda call, answer=answer: answer for answer in (True, False, 0, 'allow', Deny, Failed('no'), [Allow()])
        ]
        for guard in guards:
            with self.subTest(guard.__name__):
                text, ran = await self.denied(guard, limit_ms=SHORT_MS)
                self.assertFalse(ran)
                self.assertNotIn('secret', text)

    async def test_a_late_answer_is_discarded(self):
        late = []
        woken = asyncio.Event()

        async def slow(call):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                late.append((call.is_open, call.tool))  # a call can be read until it is answered
                woken.set()
            return Allow()

        text, ran = await self.denied(slow, limit_ms=SHORT_MS)
        await woken.wait()
        self.assertEqual((ran, late), (False, [(False, 'act')]))

    async def test_a_call_cannot_be_read_after_its_answer(self):
        kept = []

        async def guard(call):
            kept.append(call)
            return Allow()

        await self.denied(guard)
        for read in (
            lambda: kept[0].tool,
            lambda: kept[0].phase,
            lambda: kept[0].payload(),
            lambda: kept[0].add_reminder('x'),
        ):
            self.assertRaises(RuntimeError, read)
        self.assertFalse(kept[0].is_open)

    async def test_a_call_shows_its_payload(self):
        seen = {}

        async def guard(call):
            seen.update(
                tool=call.tool,
                arguments=call.arguments,
                phase=call.phase,
                attempt=call.attempt,
                absent=call['result'],
                subscription=call.subscription,
                keys=sorted(call.payload()),
                session=call.session_id,
                turn=call.turn_id,
                roles=[message.role for message in call.messages()],
                left=call.time_left_ms > 0,
            )
            with self.assertRaises(KeyError):
                call['no field']
            return Allow()

        async with Runtime() as runtime:
            runtime.guard(id='watch')(guard)

            @runtime.tool
            async def act(n: int) -> int:
                return n

            async with runtime.session('s', model=calls(('act', {'n': 7}))) as session:
                await session.turn('go', id='t')
        self.assertEqual(
            (
                seen['tool'],
                seen['arguments'],
                seen['phase'],
                seen['attempt'],
                seen['absent'],
                seen['subscription'],
                seen['session'],
                seen['turn'],
                seen['roles'],
                seen['left'],
            ),
            ('act', {'n': 7}, 'tool.pre', 1, None, 'watch', 's', 't', ['user', 'assistant'], True),
        )
        self.assertIn('arguments', seen['keys'])

    async def test_hooks_add_to_the_prompt_and_replace_payloads(self):
        systems = []

        async def model(request):
            systems.append((request.system, request.messages[-1].text))
            return 'a'

        async with Runtime() as runtime:

            @runtime.hook('turn.intake')
            async def shout(call):
                call.replace(text=call.text.upper())

            @runtime.hook('turn.pre_prompt_context')
            def context(call):
                call.add_context('city', 'They live in Oslo.')

            @runtime.hook('turn.pre_prompt_compile')
            async def section(call):
                call.add_section('manners', 'Be polite.', 'Manners')
                call.add_diagnostic('here', 'It was added.')

            result = await one_turn(runtime, model, 'hi')
        self.assertEqual(result.outcome, 'completed')
        self.assertIn('They live in Oslo.', str(systems))
        self.assertTrue(systems[0][1].endswith('HI'), systems)
        self.assertIn('Be polite.', systems[0][0])

    async def test_what_a_hook_cannot_add_is_refused(self):
        refused = []

        async def guard(call):
            for add in (
                lambda: call.emit('nonsense'),
                lambda: call.emit('audit', colour='red'),
                lambda: call.add_section('', ''),
                lambda: call.replace(nothing=1),
                lambda: call.replace(tool='other'),
                lambda: call.replace(text=3),
            ):
                try:
                    add()
                except Exception as error:
                    refused.append(type(error).__name__)
            return Allow()

        text, ran = await self.denied(guard)
        self.assertFalse(ran)  # an answer is taken as a whole or rejected as a whole
        self.assertEqual(refused, ['ValueError', 'TypeError', 'UsageError', 'KeyError', 'UsageError', 'TypeError'])

    async def test_registration_is_refused_with_its_place(self):
        runtime = Runtime()

        async def hook(call):
            pass

        for options, kind, words in (
            ({'phase': 'tool.never'}, turnphase.UsageError, 'tool.never'),
            ({'phase': 'tool.pre', 'failure': 'always'}, ValueError, 'best_effort'),
            ({'phase': 'tool.pre', 'limit': 3}, TypeError, "no option 'limit'"),
            ({'phase': 'tool.pre', 'limit_ms': -1}, OverflowError, 'limit_ms'),
            ({'phase': 'tool.pre', 'limit_ms': 2**40}, OverflowError, 'limit_ms'),
            ({'phase': 'tool.pre', 'limit_ms': 'x'}, TypeError, 'limit_ms'),
            ({'phase': 'tool.pre', 'tools': [3]}, TypeError, 'tools'),
            ({'phase': 'tool.pre', 'after': ['nothing']}, turnphase.UsageError, 'nothing'),
            ({'phase': 'tool.pre', 'id': 'a b'}, turnphase.UsageError, 'a b'),
            ({'phase': 'tool.pre', 'id': 'a\0b'}, ValueError, 'NUL'),
            ({'phase': 'turn.intake', 'tools': ['x']}, turnphase.UsageError, 'tool'),
        ):
            with self.subTest(options), self.assertRaises(kind) as raised:
                runtime.hook(**options)(hook)
            self.assertIn(words, str(raised.exception))
        runtime.guard(id='one')(hook)
        with self.assertRaises(turnphase.UsageError):
            runtime.guard(id='one')(hook)
        runtime.remove_hook('one')
        runtime.guard(id='one')(hook)
        await runtime.close()

    async def test_nothing_is_kept_of_what_was_refused(self):
        async with Runtime() as runtime, runtime.session(model=says_hello) as session:
            kept = dict(runtime._kept)
            for refused in (
                lambda: runtime.guard('tool.never')(says_hello),
                lambda: runtime.tool(name='a b')(lambda: 'x'),
                lambda: session.turn('x', id='a b').start(),
                lambda: session.turn('x', id='a b').__aiter__(),
                lambda: runtime.session('a b', model=says_hello),
            ):
                with self.assertRaises(turnphase.UsageError):
                    refused()
            with self.assertRaises(turnphase.UsageError):
                await runtime.agent('a b', model=says_hello)
            self.assertEqual(runtime._kept, kept)

    async def test_what_raises_is_logged_with_its_trace(self):
        def fails(call):
            raise ValueError('why')

        def says():
            raise turnphase.ToolError('the model reads it')

        async with Runtime() as runtime:
            runtime.hook('tool.pre', id='fails', failure='best_effort')(fails)
            runtime.tool(name='act')(says)
            with self.assertLogs('turnphase', logging.WARNING) as logs:
                await one_turn(runtime, calls('act'))
        traces = [record for record in logs.records if record.exc_info]
        self.assertEqual([str(record.exc_info[1]) for record in traces], ['why'])

    async def test_a_guard_is_required_where_its_phase_is_not(self):
        async def raises(call):
            raise ValueError

        outcomes = []
        for name in ('hook', 'guard'):
            async with Runtime() as runtime:
                getattr(runtime, name)('turn.pre_prompt_context', limit_ms=60000)(raises)
                outcomes.append((await one_turn(runtime)).outcome)
        self.assertEqual(outcomes, ['completed', 'failed'])

    async def test_patterns_choose_calls(self):
        seen = []
        async with Runtime() as runtime:

            @runtime.guard(tools=['file_*'])
            def guard(call):
                seen.append(call.tool)
                return Allow()

            for name in ('file_read', 'rain'):
                runtime.tool(name=name, thread=False)(lambda: 'ok')
            await one_turn(runtime, calls('file_read', 'rain'))
        self.assertEqual(seen, ['file_read'])


class Tools(AsyncTest):
    async def read(self, function, arguments=None, **options):
        """What the model reads of a call."""
        async with Runtime() as runtime:
            runtime.tool(name='act', **options)(function)
            return (await one_turn(runtime, calls(('act', arguments or {}), then='read'))).text.removeprefix('read: ')

    async def test_answers(self):
        async def text():
            return 'x'

        async def nothing():
            return None

        async def value():
            return {'mm': [1, 2.5, None, True]}

        async def answer():
            return Answer('words', {'n': 1}, [Part('text', text='more')])

        async def error():
            return Answer('no', is_error=True)

        self.assertEqual(await self.read(text), 'x')
        self.assertEqual(await self.read(nothing), '')
        self.assertEqual(await self.read(value), '{"mm":[1,2.5,null,true]}')
        self.assertIn('words', await self.read(answer))
        self.assertIn('no', await self.read(error))
        self.assertEqual(await self.read(functools.partial(lambda n: str(n), n=3)), '3')
        self.assertEqual(await self.read(lambda: 'plain', thread=False), 'plain')

    async def test_what_raises_is_an_error_that_the_model_reads(self):
        async def raises():
            raise ValueError('no such city')

        async def tool_error():
            raise turnphase.ToolError('the file is locked')

        async def not_a_value():
            return object()

        async def huge():
            return 2**70

        async def deep():
            value = []
            for _ in range(40):
                value = [value]
            return value

        def in_a_thread():
            raise OSError('disk')

        for function, words in (
            (raises, 'no such city'),
            (tool_error, 'the file is locked'),
            (not_a_value, 'object'),
            (huge, '64 bits'),
            (deep, 'containers'),
            (in_a_thread, 'disk'),
        ):
            with self.subTest(function.__name__):
                self.assertIn(words, await self.read(function))

    async def test_a_tool_that_hangs_is_timed_out(self):
        stopped = asyncio.Event()

        async def hangs():
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        self.assertIn('in time', await self.read(hangs, limit_ms=SHORT_MS))
        await stopped.wait()

    async def test_arguments_are_checked_before_the_call(self):
        ran = []

        async def act(n: int) -> str:
            ran.append(n)
            return 'x'

        for wrong in ({}, {'n': 'x'}, {'n': 1, 'm': 2}):
            await self.read(act, wrong)
        self.assertEqual(ran, [])

    async def test_arguments_that_could_not_be_decoded_are_text(self):
        seen = []

        async def model(request):
            if request.messages[-1].role == 'user':
                return Response(calls=[ToolCall('act', '{"n": ', malformed=True)])
            seen.append(request.messages[-2].calls[0])
            return request.messages[-1].text

        async with Runtime() as runtime:
            runtime.tool(name='act')(lambda: 'x')
            async with runtime.session(model=model) as session:
                begins = [event.tool_call async for event in session.turn('x', events=['tool_begin', 'tool_end'])]
        self.assertEqual(
            [(call.arguments, call.malformed) for call in begins + seen], [('{"n": ', True)] * len(begins + seen)
        )

    async def test_the_run_is_a_parameter(self):
        async def act(run: ToolRun, n: int = 3) -> str:
            return f'{run.name} {run.call_id != ""} {run.session_id != ""} {n} {run.time_left_ms > 0}'

        self.assertEqual(await self.read(act), 'act True True 3 True')

    async def test_a_structured_result_comes_with_its_event(self):
        async with Runtime() as runtime:

            @runtime.tool
            async def act() -> dict:
                return Answer('words', {'n': 1}, [Part('image', bytes=b'\x89PNG', media_type='image/png')])

            async with runtime.session(model=calls('act')) as session:
                ends = [event async for event in session.turn('x', events=['tool_end'])]
        self.assertEqual(ends[0].tool_result['value'], {'n': 1})
        self.assertEqual(ends[0].tool_result['parts'][0]['image'], b'\x89PNG')

    async def test_a_nested_turn(self):
        async with Runtime() as runtime:
            inner = runtime.session('inner', model=says_hello)

            @runtime.tool
            async def ask(run: ToolRun) -> str:
                return (await run.turn(inner, 'deep')).text

            self.assertEqual((await one_turn(runtime, calls('ask'))).text, 'done: hello deep')


class Turns(AsyncTest):
    async def test_cancelling_the_task_cancels_the_turn(self):
        begun, stopped = asyncio.Event(), asyncio.Event()

        async def model(request):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        async with Runtime() as runtime, runtime.session(model=model) as session:
            for iterated in (False, True):
                begun.clear(), stopped.clear()
                turn = session.turn('x')

                async def wait(turn=turn, iterated=iterated):
                    if iterated:
                        async for event in turn:
                            pass
                    return await turn

                task = asyncio.create_task(wait())
                await begun.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                result = await turn
                self.assertEqual(result.outcome, 'cancelled')
                self.assertRaises(turnphase.CanceledError, result.check)
                await stopped.wait()

    async def test_a_limit_ends_a_turn(self):
        async def model(request):
            await asyncio.Event().wait()

        async with Runtime() as runtime:
            result = await one_turn(runtime, model, limit_ms=SHORT_MS)
        self.assertEqual(result.outcome, 'timed_out')
        with self.assertRaises(TimeoutError):
            result.check()

    async def test_each_event_of_the_library_can_be_asked_for(self):
        names = turnphase._core.event_names()
        self.assertEqual((names[0], names[19]), ('turn_begin', 'tool_progress'))
        async with Runtime() as runtime, runtime.session(model=says_hello) as session:
            of_turns = [name for name in names if name != 'job']  # events of jobs belong to the runtime
            kinds = {event.kind async for event in session.turn('x', events=of_turns)}
        self.assertLessEqual({'turn_begin', 'model_begin', 'model_end', 'turn_end'}, kinds)

    async def test_a_turn_begins_when_it_is_used(self):
        async with Runtime() as runtime, runtime.session(model=says_hello) as session:
            unused = session.turn('never')
            first, second = session.turn('1'), session.turn('2')
            self.assertEqual((await second).text, 'hello 2')
            self.assertEqual((await first).text, 'hello 1')
            self.assertIs(await first, await first)
            self.assertIsNone(unused.result)
            with self.assertRaises(turnphase.UsageError):
                first.__aiter__()
            with self.assertRaises(ValueError):
                session.turn('x', events=['turn_over'])
            with self.assertRaises(TypeError):
                await session.turn('x', colour='red')
            with self.assertRaises(turnphase.UsageError):
                await session.turn('x', id='a b')

    async def test_leaving_the_events_early_leaves_the_turn_running(self):
        async with Runtime() as runtime, runtime.session(model=says_hello) as session:
            turn = session.turn('x')
            async for event in turn:
                break
            self.assertEqual((await turn).text, 'hello x')

    async def test_a_slow_reader_is_told_what_was_lost(self):
        async def model(request):
            for number in range(20):
                yield str(number)
                await asyncio.sleep(0)

        async with Runtime() as runtime, runtime.session(model=model) as session:
            turn = session.turn('x', each_delta=True, events=['model_delta'])
            type(turn).EVENTS_MAX, kept = 5, type(turn).EVENTS_MAX
            try:
                source = turn.__aiter__()
                await turn
                events = [event async for event in source]
            finally:
                type(turn).EVENTS_MAX = kept
        self.assertEqual(sum(event.lost for event in events), 15)
        self.assertEqual(len([event for event in events if event.kind == 'model_delta']), 5)

    async def test_each_reader_gets_the_events_of_its_turn(self):
        async with Runtime() as runtime, runtime.session(model=says_hello) as session:

            async def read(text):
                return {event.text for event in [event async for event in session.turn(text, events=['model_end'])]}

            texts = await asyncio.gather(*(read(text) for text in 'abc'))
        self.assertEqual(texts, [{'hello a'}, {'hello b'}, {'hello c'}])

    async def test_messages_are_added_to_a_turn(self):
        waits = asyncio.Event()
        seen = []

        async def model(request):
            seen.append(request.messages[-1].text)
            if len(seen) == 1:
                await waits.wait()
            return 'a'

        async with Runtime() as runtime, runtime.session(model=model) as session:
            turn = session.turn('one').start()
            turn.add_message('two')
            waits.set()
            await turn
            self.assertEqual(seen[-1], 'two')
            with self.assertRaises(turnphase.UsageError):
                session.turn('x').add_message('y')

    async def test_the_context_of_the_turn_is_that_of_its_calls(self):
        user = contextvars.ContextVar('user', default='none')
        seen = []

        async def model(request):
            seen.append(('model', user.get()))
            user.set('of the model')  # in a copy of the context
            return Response(calls=[ToolCall('act'), ToolCall('act')]) if request.messages[-1].role == 'user' else 'x'

        async with Runtime() as runtime:

            @runtime.guard()
            def guard(call):
                seen.append(('guard', user.get()))
                return Allow()

            @runtime.tool
            def act() -> str:
                seen.append(('tool', user.get()))
                return 'x'

            async with runtime.session(model=model) as session:
                user.set('ada')
                turn = session.turn('x')
                user.set('bob')
                await turn
        self.assertEqual({name for _, name in seen}, {'ada'})
        self.assertEqual({kind for kind, _ in seen}, {'model', 'guard', 'tool'})

    async def test_a_person_decides(self):
        asked = []
        async with Runtime(asks=True) as runtime:

            @runtime.guard()
            def guard(call):
                return Ask('mail leaves')

            @runtime.tool
            async def mail(to: str) -> str:
                return 'sent to ' + to

            @runtime.on_question
            async def decide(question):
                asked.append((question.tool, question.arguments, question.reason))
                if question.arguments['to'] == 'raise':
                    raise ValueError
                other = {'to': 'ada@home'} if question.arguments['to'] == 'ada' else None
                return Decision(question.arguments['to'] == 'ada', 'checked', 'eve', other)

            for to, words in (('ada', 'sent to ada@home'), ('bob', 'checked'), ('raise', 'no one was asked')):
                self.assertIn(words, (await one_turn(runtime, calls(('mail', {'to': to})))).text)
        self.assertEqual(asked[0], ('mail', {'to': 'ada'}, 'mail leaves'))

    async def test_agents(self):
        systems = []

        async def model(request):
            systems.append((request.system, [tool.name for tool in request.tools]))
            return 'a'

        async with Runtime() as runtime:
            runtime.tool(name='one')(lambda: 'x')
            runtime.tool(name='two')(lambda: 'x')
            agent = await runtime.agent('clerk', system='You are a clerk.', model=model, tools=['one'])
            scripted = await runtime.agent('scripted', model=Script(['s']))
            async with runtime.session(agent=agent) as session:
                self.assertEqual((await session.turn('x')).text, 'a')
            async with runtime.session(agent=scripted) as session:
                self.assertEqual((await session.turn('x')).text, 's')
            with self.assertRaises(turnphase.UsageError):
                await runtime.agent('clerk', model=model)

            @runtime.hook('agent.register')
            async def refuse(call):
                return Deny('full')

            with self.assertRaises(turnphase.DeniedError) as raised:
                await runtime.agent('late', model=model)
            self.assertIn('full', str(raised.exception))
            await agent.remove()
            with self.assertRaises(turnphase.UsageError):
                await agent.remove()
        self.assertIn('You are a clerk.', systems[0][0])
        self.assertEqual(systems[0][1], ['one'])

    async def test_messages_of_the_library_are_logged(self):
        with self.assertLogs('turnphase', logging.INFO) as logs:
            async with Runtime() as runtime:
                runtime.guard(id='no')(lambda call: Deny('closed'))
                runtime.tool(name='act')(lambda: 'x')
                await one_turn(runtime, calls('act'))
        self.assertTrue(any('closed' in line for line in logs.output), logs.output)


class Faces(unittest.TestCase):
    def test_the_synchronous_face(self):
        with turnphase.SyncRuntime() as runtime:

            @runtime.tool
            def add(a: int, b: int) -> int:
                """Adds."""
                return a + b

            runtime.guard()(lambda call: Allow())
            with runtime.session(model=calls(('add', {'a': 2, 'b': 3}))) as session:
                self.assertEqual(session.turn('x').text, 'done: 5')
                kinds = [event.kind for event in session.stream('y')]
                self.assertEqual((kinds[0], kinds[-1]), ('turn_begin', 'turn_end'))
                for event in session.stream('z'):
                    break
                self.assertEqual(session.turn('again').outcome, 'completed')
            agent = runtime.agent('a', model=says_hello)
            self.assertEqual(runtime.session(agent=agent).turn('b').text, 'hello b')
        with self.assertRaises(turnphase.UsageError):
            session.turn('x')
        with self.assertRaises(turnphase.UsageError):
            turnphase.SyncRuntime().session()

    def test_what_is_outside_of_the_loop_is_refused(self):
        runtime = Runtime()
        with self.assertRaises(turnphase.UsageError):
            runtime.session(model=says_hello)

        async def twice():
            async with runtime:
                with self.assertRaises(turnphase.UsageError):
                    await runtime.__aenter__()
            with self.assertRaises(turnphase.UsageError):
                await runtime.__aenter__()
            with self.assertRaises(turnphase.UsageError):
                runtime.tool(lambda: 'x')

        asyncio.run(twice())
        for wrong in ({'turns_maximum': 3}, {'turns_max': -1}, {'log_level': 'loud'}):
            with self.assertRaises((TypeError, OverflowError, ValueError)):
                Runtime(**wrong)


if __name__ == '__main__':
    unittest.main()
