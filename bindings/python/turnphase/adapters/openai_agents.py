# SPDX-License-Identifier: Apache-2.0
"""Hooks around the function tools of the OpenAI Agents SDK (openai-agents).

session = runtime.session('ada')
agent = agents.Agent(name='clerk', model=…, tools=guarded(session, [rain, send_mail]))
"""

from __future__ import annotations

import copy
import json
from typing import Any, Iterable

from agents import FunctionTool, Tool
from agents.tool_context import ToolContext

from .._turn import Session
from ._gate import Gate


def guarded(session: Session, tools: Iterable[Tool], **options: Any) -> list[Tool]:
    """Copies of function tools, whose calls go through the hooks of a session's runtime.

    A call that a hook denies has the denial as its output. The text that the SDK's own error function makes of an
    exception is an output, too, so such a call counts as ok in the records.

    @param options  members of tp_tool (turnphase/tool.h) of each: limit_ms (0: two minutes), max_concurrent, …
    @raises TypeError for a tool that the provider runs, such as web search: no hook can be in front of it.
    """
    gate = Gate(session, options)
    return [_guarded(gate, tool) for tool in tools]


def _guarded(gate: Gate, tool: Tool) -> FunctionTool:
    if not isinstance(tool, FunctionTool):
        raise TypeError(f'{getattr(tool, "name", tool)!r} is no FunctionTool: its calls do not run in this process')
    made = copy.copy(tool)
    invoke = made.on_invoke_tool

    async def through(context: ToolContext[Any], text: str) -> Any:
        arguments = _object(text)

        async def run(given: dict[str, Any]) -> Any:
            return await invoke(context, text if given == arguments else json.dumps(given))

        outcome = await gate.call(tool.name, arguments, run, context.tool_call_id)
        return outcome.value if outcome.text is None else outcome.text

    made.on_invoke_tool = through
    return made


def _object(text: str) -> Any:
    """Returns the arguments of a call; the str itself if it holds no JSON object."""
    try:
        given = json.loads(text or '{}')
    except ValueError:
        return text
    return given if isinstance(given, dict) else text


__all__ = ['guarded']
