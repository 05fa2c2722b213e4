# SPDX-License-Identifier: Apache-2.0
"""The adapter of openai-agents, with the SDK's runner and a model of its interface that asks nothing."""

import json
import unittest

import agents
from agents import Agent, ModelResponse, Runner, Usage, WebSearchTool, function_tool
from cases import cases
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from turnphase.adapters.openai_agents import guarded

agents.set_tracing_disabled(True)


class Plays(agents.Model):
    def __init__(self, calls):
        self.calls, self.read = calls, None

    async def get_response(self, system_instructions, input, *args, **kwargs):
        if self.read is None and any(row.get('type') == 'function_call_output' for row in input):
            self.read = [row['output'] for row in input if row.get('type') == 'function_call_output']
        output = [
            ResponseFunctionToolCall(
                call_id='c%d' % at, name=name, arguments=json.dumps(given), type='function_call', id='i%d' % at
            )
            for at, (name, given) in enumerate(self.calls)
        ]
        if self.read is not None:
            text = ResponseOutputText(text='done', type='output_text', annotations=[])
            output = [
                ResponseOutputMessage(id='m', content=[text], role='assistant', status='completed', type='message')
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


async def run(session, tools, calls, **options):
    model = Plays(calls)
    made = [function_tool(tool) for tool in tools]
    agent = Agent(name='a', model=model, tools=guarded(session, made, **options) if session else made)
    await Runner.run(agent, 'go')
    return model.read


class OpenAIAgents(cases(run)):
    async def test_tools_of_the_provider_are_refused(self):
        with self.assertRaisesRegex(TypeError, 'no FunctionTool'):
            guarded(self.runtime.session(), [WebSearchTool()])
        with self.assertRaises(TypeError):
            guarded(self.runtime, [])

    async def test_arguments_that_are_no_json(self):
        seen = []
        self.runtime.guard(id='see')(lambda call: seen.append(call.arguments))

        class Broken(Plays):
            async def get_response(self, *args, **kwargs):
                response = await super().get_response(*args, **kwargs)
                for row in response.output:
                    if row.type == 'function_call':
                        row.arguments = '{"path": '
                return response

        model = Broken([('look', {})])
        tools = guarded(self.runtime.session(), [function_tool(self.tools.look)])
        await Runner.run(Agent(name='a', model=model, tools=tools), 'go')
        self.assertEqual((len(model.read), self.tools.ran), (1, []))
        self.assertNotIn('seen', model.read[0])


if __name__ == '__main__':
    unittest.main()
