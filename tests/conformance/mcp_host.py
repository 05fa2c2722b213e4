# SPDX-License-Identifier: Apache-2.0
"""A host with one of the client libraries of Python, for tests/mcp_hosts.py:

    python3 mcp_host.py mcp|mcp2|pydantic-ai|langchain COMMAND…

mcp is the library before version 2, mcp2 the client of version 2, which asks for 2026-07-28 first. COMMAND is the
gateway, or a URL and a key for it. Prints a line of JSON for what it gets, as mcp_host.mjs."""

import asyncio
import json
import sys

library, command = sys.argv[1], sys.argv[2:]
url = command[0] if command[0].startswith('http') else None
headers = {'Authorization': 'Bearer ' + command[-1]}


def say(key, value):
    print(json.dumps({key: value}), flush=True)


def seen(result):
    text = ' '.join(part.text for part in result.content if part.type == 'text')
    return {'isError': bool(result.isError if hasattr(result, 'isError') else result.is_error), 'text': text}


async def play_mcp():
    from mcp import ClientSession, StdioServerParameters, types
    from mcp.client.stdio import stdio_client

    async def accept(context, params):
        return types.ElicitResult(action='accept', content={'allow': True})

    def connect():
        if url:
            from mcp.client.streamable_http import streamablehttp_client
            return streamablehttp_client(url, headers=headers)
        return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))

    async with connect() as (read, write, *_):
        async with ClientSession(read, write, elicitation_callback=accept) as session:
            await session.initialize()
            say('tools', [tool.name for tool in (await session.list_tools()).tools])
            say('call', seen(await session.call_tool('e__echo', {'message': 'hi'})))
            say('denied', seen(await session.call_tool('e__get-env', {})))
            say('asked', seen(await session.call_tool('files_write', {'path': 'mcp.txt', 'text': 'x'})))


async def play_mcp2():
    from mcp import Client, StdioServerParameters, types

    async def accept(context, params):
        return types.ElicitResult(action='accept', content={'allow': True})

    def transport():
        if not url:
            return StdioServerParameters(command=command[0], args=command[1:])
        import httpx2
        from mcp.client.streamable_http import streamable_http_client
        return streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers))

    async with Client(transport(), elicitation_callback=accept) as client:
        say('version', client.protocol_version)
        say('tools', [tool.name for tool in (await client.list_tools()).tools])
        say('call', seen(await client.call_tool('e__echo', {'message': 'hi'})))
        say('denied', seen(await client.call_tool('e__get-env', {})))
        say('asked', seen(await client.call_tool('files_write', {'path': 'mcp2.txt', 'text': 'x'})))


async def play_pydantic():
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
    from pydantic_ai.mcp import MCPToolset
    server = MCPToolset(StreamableHttpTransport(url, headers=headers) if url
                        else StdioTransport(command[0], command[1:]))

    async def call(name, given):
        try:
            return {'isError': False, 'text': str(await server.direct_call_tool(name, given))}
        except Exception as error:  # the library raises it with the text that a model would read
            return {'isError': True, 'text': str(error)}

    async with server:
        say('tools', [tool.name for tool in await server.list_tools()])
        say('call', await call('e__echo', {'message': 'hi'}))
        say('denied', await call('e__get-env', {}))


async def play_langchain():
    from langchain_mcp_adapters.client import MultiServerMCPClient
    client = MultiServerMCPClient({'g': {'transport': 'streamable_http', 'url': url, 'headers': headers} if url else
                                   {'transport': 'stdio', 'command': command[0], 'args': command[1:]}})
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def call(name, given):
        try:
            return {'isError': False, 'text': str(await tools[name].ainvoke(given))}
        except Exception as error:  # the library raises it with the text that a model would read
            return {'isError': True, 'text': str(error)}

    say('tools', list(tools))
    say('call', await call('e__echo', {'message': 'hi'}))
    say('denied', await call('e__get-env', {}))


asyncio.run({'mcp': play_mcp, 'mcp2': play_mcp2, 'pydantic-ai': play_pydantic, 'langchain': play_langchain}[library]())
