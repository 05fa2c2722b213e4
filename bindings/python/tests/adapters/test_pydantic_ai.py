# SPDX-License-Identifier: Apache-2.0
"""The adapter of pydantic-ai, with its FunctionModel and TestModel."""

import datetime
import unittest

import turnphase
from cases import cases
from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from turnphase.adapters.pydantic_ai import guarded


def returns(messages):
    return [part for part in messages[-1].parts if part.part_kind in ('tool-return', 'retry-prompt')]


async def run(session, tools, calls, **options):
    read = []

    def model(messages, info):
        if not returns(messages):
            return ModelResponse([ToolCallPart(name, given, 'c%d' % at) for at, (name, given) in enumerate(calls)])
        read.extend(returns(messages))
        return ModelResponse([TextPart('done')])

    toolset = FunctionToolset(tools)
    agent = Agent(FunctionModel(model), toolsets=[guarded(session, toolset, **options) if session else toolset])
    await agent.run('go')
    return [part.model_response_str() if isinstance(part, ToolReturnPart) else part.content for part in read]


class PydanticAI(cases(run)):
    async def test_the_models_of_the_framework(self):
        agent = Agent(TestModel(call_tools=['look']), toolsets=[
            guarded(self.runtime.session(), FunctionToolset([self.tools.look]))])
        self.assertIn('seen', (await agent.run('go')).output)

    async def test_a_denial_has_failed(self):
        self.runtime.guard(id='keep')(lambda call: turnphase.Deny('kept'))
        tools = guarded(self.runtime.session(), FunctionToolset([self.tools.look]))
        run = await Agent(TestModel(), toolsets=[tools]).run('go')
        (part,) = [part for message in run.all_messages() for part in message.parts if part.part_kind == 'tool-return']
        self.assertEqual((part.outcome, part.content), ('failed', 'hook keep blocked the action: kept'))

    async def test_validated_arguments_stay_what_they_are(self):
        given, seen = [], []

        def on(day: datetime.date, times: int = 1) -> datetime.date:
            given.append((day, times))
            return day

        @self.runtime.hook('tool.rewrite', id='r', grants='rewrite')
        async def twice(call):
            seen.append(call.arguments)
            if len(seen) == 2:
                call.replace(arguments={'day': '2026-01-02', 'times': 2})

        for _ in range(2):
            texts = await run(self.runtime.session(), [on], [('on', {'day': '2026-11-27'})])
        self.assertEqual(given, [(datetime.date(2026, 11, 27), 1), (datetime.date(2026, 1, 2), 2)])
        self.assertEqual(seen, [{'day': '2026-11-27', 'times': 1}] * 2)
        self.assertEqual(texts, ['2026-01-02'])


if __name__ == '__main__':
    unittest.main()
