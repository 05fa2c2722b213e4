# SPDX-License-Identifier: Apache-2.0
"""A server with the official library of Python, of version 1 or 2, for tests/mcp_hosts.py: on standard input and
output, or with the argument http over streamable HTTP. Then it prints its URL once it can be connected to."""

import socket
import sys

import uvicorn
from pydantic import BaseModel

try:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server

server = Server('upstream')


class Sum(BaseModel):
    sum: int


class Sure(BaseModel):
    sure: bool


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(sum=a + b)


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError('out of order')


@server.tool()
async def delete(name: str, ctx: Context) -> str:
    """Deletes, after it has asked."""
    answer = await ctx.elicit(message='Delete %s?' % name, schema=Sure)
    return 'deleted' if answer.action == 'accept' and answer.data.sure else 'kept'


def serve_http():
    listener = socket.socket()
    listener.bind(('127.0.0.1', 0))
    listener.listen()
    app = server.streamable_http_app()
    print('http://127.0.0.1:%d/mcp' % listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level='error')).run(sockets=[listener])


if sys.argv[1:] == ['http']:
    serve_http()
else:
    server.run()
