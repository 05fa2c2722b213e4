# SPDX-License-Identifier: Apache-2.0
"""turnphase: the turns of an agent, with hooks, tools and models as functions of Python.

async with Runtime() as runtime:
    @runtime.tool
    async def rain(city: str) -> str: ...

    async with runtime.session('s', model=OpenAI('gpt-5-mini')) as session:
        print((await session.turn('Does it rain in Oslo?')).text)
"""

from ._answers import (
    Allow,
    Answer,
    Ask,
    Decision,
    Deny,
    Event,
    Failed,
    Message,
    ModelRequest,
    Part,
    Question,
    Response,
    Result,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from ._calls import Call, ToolRun
from ._core import version as _version
from ._errors import (
    CanceledError,
    DeniedError,
    Error,
    ForkedError,
    HookError,
    InternalError,
    LimitError,
    ModelError,
    StoreError,
    SystemFailure,
    TimeoutError,
    ToolError,
    UsageError,
)
from ._options import DeclaredHooks, Files, FunctionModel, Mcp, Memory, OpenAI, Script, Skills, Sqlite
from ._runtime import Runtime
from ._sync import SyncRuntime, SyncSession
from ._turn import Agent, Session, Turn

__version__ = _version()
__all__ = [
    'Agent',
    'Allow',
    'Answer',
    'Ask',
    'Call',
    'CanceledError',
    'Decision',
    'DeclaredHooks',
    'DeniedError',
    'Deny',
    'Error',
    'Event',
    'Failed',
    'Files',
    'ForkedError',
    'FunctionModel',
    'HookError',
    'InternalError',
    'LimitError',
    'Mcp',
    'Memory',
    'Message',
    'ModelError',
    'ModelRequest',
    'OpenAI',
    'Part',
    'Question',
    'Response',
    'Result',
    'Runtime',
    'Script',
    'Session',
    'Skills',
    'Sqlite',
    'StoreError',
    'SyncRuntime',
    'SyncSession',
    'SystemFailure',
    'Thinking',
    'TimeoutError',
    'Tool',
    'ToolCall',
    'ToolError',
    'ToolResult',
    'ToolRun',
    'Turn',
    'UsageError',
]
