# SPDX-License-Identifier: Apache-2.0
"""The client libraries of PyPI against turnphase serve: plain, streamed, with a tool, an error, a cancel, a structured
answer. Prints a line of JSON for each case: {"library", "case", "ok", "why"}.

    python clients.py URL LIBRARY…
"""

import asyncio
import json
import sys

import pydantic

URL = sys.argv[1]
TEXT = 'One two three.'
HI = [{'role': 'user', 'content': 'hi'}]


class Shape(pydantic.BaseModel):
    steps: int


def look(n: int) -> str:
    """Looks."""
    return f'seen {n}'


async def fails(what, kind, **fields):
    try:
        await what
    except kind as error:
        for name, value in fields.items():
            assert getattr(error, name) == value, (name, getattr(error, name))
        return
    raise AssertionError('it was taken')


def cases_of_openai():
    import openai
    client = openai.AsyncOpenAI(base_url=URL, api_key='unused', max_retries=0)
    chat, responses = client.chat.completions, client.responses
    tools = [{'type': 'function', 'function': {'name': 'look', 'strict': True, 'parameters': {
        'type': 'object', 'properties': {'n': {'type': 'integer'}}, 'required': ['n'], 'additionalProperties': False}}}]

    async def plain():
        assert (await chat.create(model='talker', messages=HI)).choices[0].message.content == TEXT
        assert (await responses.create(model='talker', input='hi')).output_text == TEXT

    async def streamed():
        async with chat.stream(model='talker', messages=HI) as stream:
            assert (await stream.get_final_completion()).choices[0].message.content == TEXT
        async with responses.stream(model='talker', input='hi') as stream:
            assert (await stream.get_final_response()).output_text == TEXT

    async def with_tools():
        first = (await chat.create(model='looker', messages=HI, tools=tools)).choices[0].message
        call = first.tool_calls[0]
        result = {'role': 'tool', 'tool_call_id': call.id, 'content': look(**json.loads(call.function.arguments))}
        messages = [*HI, first.model_dump(exclude_none=True), result]
        assert (await chat.create(model='looker', messages=messages, tools=tools)).choices[0].message.content == 'Seen.'

    async def errors():
        await fails(chat.create(model='nobody', messages=HI), openai.NotFoundError, code='model_not_found')
        await fails(chat.create(model='talker', messages=HI, n=2), openai.BadRequestError, param='n')
        await fails(responses.create(model='talker', input='hi', previous_response_id='resp_no'),
                    openai.BadRequestError, code='previous_response_not_found')

    async def cancel():
        stream = await chat.create(model='endless', messages=HI, stream=True)
        await stream.__anext__()
        await stream.close()

    async def structured():
        answer = await chat.parse(model='shape', messages=HI, response_format=Shape)
        assert answer.choices[0].message.parsed.steps == 3
        assert (await responses.parse(model='shape', input='hi', text_format=Shape)).output_parsed.steps == 3
    return {'plain': plain, 'streamed': streamed, 'tools': with_tools, 'errors': errors, 'cancel': cancel,
            'structured': structured}


def cases_of_openai_agents():
    import agents
    import openai
    agents.set_tracing_disabled(True)
    agents.set_default_openai_client(openai.AsyncOpenAI(base_url=URL, api_key='unused', max_retries=0))

    def both(each):
        async def play():
            for api in ('responses', 'chat_completions'):
                agents.set_default_openai_api(api)
                await each()
        return play

    def run(model, **more):
        return agents.Runner.run(agents.Agent(name='a', model=model, **more), 'hi')

    async def plain():
        assert (await run('talker')).final_output == TEXT

    async def streamed():
        result = agents.Runner.run_streamed(agents.Agent(name='a', model='talker'), 'hi')
        async for _ in result.stream_events():
            pass
        assert result.final_output == TEXT

    async def with_tools():
        assert (await run('looker', tools=[agents.function_tool(look)])).final_output == 'Seen.'

    async def errors():
        await fails(run('nobody'), openai.NotFoundError)

    async def cancel():
        result = agents.Runner.run_streamed(agents.Agent(name='a', model='endless'), 'hi')
        async for event in result.stream_events():
            if event.type == 'raw_response_event':
                result.cancel()

    async def structured():
        assert (await run('shape', output_type=Shape)).final_output.steps == 3
    return {'plain': both(plain), 'streamed': both(streamed), 'tools': both(with_tools), 'errors': both(errors),
            'cancel': both(cancel), 'structured': both(structured)}


def cases_of_langchain():
    import langchain_openai
    import openai
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    def chat(model, **more):
        return langchain_openai.ChatOpenAI(model=model, base_url=URL, api_key='unused', max_retries=0, **more)

    async def plain():
        assert (await chat('talker').ainvoke('hi')).content == TEXT
        assert (await chat('talker', use_responses_api=True).ainvoke('hi')).text == TEXT

    async def streamed():
        pieces = [piece async for piece in chat('talker', stream_usage=True).astream('hi')]
        assert ''.join(piece.content for piece in pieces) == TEXT
        assert sum((piece.usage_metadata or {}).get('total_tokens', 0) for piece in pieces) == 9

    async def with_tools():
        looks = tool(look)
        model, messages = chat('looker').bind_tools([looks]), [HumanMessage('hi')]
        first = await model.ainvoke(messages)
        call = first.tool_calls[0]
        messages += [first, ToolMessage(looks.invoke(call['args']), tool_call_id=call['id'])]
        assert (await model.ainvoke(messages)).content == 'Seen.'

    async def errors():
        await fails(chat('nobody').ainvoke('hi'), openai.NotFoundError)

    async def cancel():
        stream = chat('endless').astream('hi')
        await stream.__anext__()
        await stream.aclose()

    async def structured():
        assert (await chat('shape').with_structured_output(Shape, method='json_schema').ainvoke('hi')).steps == 3
    return {'plain': plain, 'streamed': streamed, 'tools': with_tools, 'errors': errors, 'cancel': cancel,
            'structured': structured}


def cases_of_pydantic_ai():
    import pydantic_ai
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    provider = OpenAIProvider(base_url=URL, api_key='unused')

    def both(each):
        async def play():
            for kind in (OpenAIChatModel, OpenAIResponsesModel):
                await each(lambda name, kind=kind, **more: pydantic_ai.Agent(kind(name, provider=provider), **more))
        return play

    async def plain(agent):
        assert (await agent('talker').run('hi')).output == TEXT

    async def streamed(agent):
        async with agent('talker').run_stream('hi') as result:
            assert await result.get_output() == TEXT

    async def with_tools(agent):
        assert (await agent('looker', tools=[look]).run('hi')).output == 'Seen.'

    async def errors(agent):
        await fails(agent('nobody').run('hi'), ModelHTTPError, status_code=404)

    async def cancel(agent):
        async def read():
            async with agent('endless').run_stream('hi') as result:
                async for _ in result.stream_text(delta=True, debounce_by=None):
                    begun.set()
        begun = asyncio.Event()
        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def structured(agent):
        result = await agent('shape', output_type=pydantic_ai.NativeOutput(Shape)).run('hi')
        assert result.output.steps == 3
    return {'plain': both(plain), 'streamed': both(streamed), 'tools': both(with_tools), 'errors': both(errors),
            'cancel': both(cancel), 'structured': both(structured)}


LIBRARIES = {'openai': cases_of_openai, 'openai-agents': cases_of_openai_agents,
             'langchain-openai': cases_of_langchain, 'pydantic-ai': cases_of_pydantic_ai}


async def main():
    for library in sys.argv[2:]:
        for name, case in LIBRARIES[library]().items():
            why = None
            try:
                await asyncio.wait_for(case(), 30)
            except Exception as error:  # pylint: disable=broad-except
                why = f'{type(error).__name__}: {error}'[:500]
            print(json.dumps({'library': library, 'case': name, 'ok': why is None, 'why': why}), flush=True)


if __name__ == '__main__':
    asyncio.run(main())
