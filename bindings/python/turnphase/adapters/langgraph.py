# SPDX-License-Identifier: Apache-2.0
"""Hooks around the tools of LangGraph.

session = runtime.session('ada')
node = ToolNode([rain, send_mail], **guarded(session))
"""

from __future__ import annotations

from typing import Any, Awaitable, Callable

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from .. import _errors
from .._answers import Answer
from .._turn import Session
from ._gate import Gate, answer_of


def _answer_of(value: Any) -> Answer:
    if not isinstance(value, ToolMessage):
        return answer_of(str(value))  # a Command has only a text for the library
    return Answer(answer_of(value.content).text, is_error=value.status == 'error')


def guarded(session: Session, **options: Any) -> dict[str, Any]:
    """The arguments wrap_tool_call and awrap_tool_call of a ToolNode (or of a middleware of langchain's create_agent),
    with which its calls go through the hooks of a session's runtime.

    A call that a hook denies has a ToolMessage with the denial and the status "error". Run graphs with ainvoke() and
    astream(): without a loop a call is refused. An interrupt works as it does without hooks: the call ends, and runs
    again when the graph goes on.

    @param options  members of tp_tool (turnphase/tool.h) of each tool: limit_ms (0: two minutes), max_concurrent, …
    """
    gate = Gate(session, options)

    async def wrap(request: ToolCallRequest, execute: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        call = request.tool_call
        name, given, call_id = call['name'], call['args'], call['id'] or ''

        async def run(left: dict[str, Any]) -> Any:
            return await execute(request if left == given else request.override(tool_call={**call, 'args': left}))

        outcome = await gate.call(name, given, run, call_id, _answer_of)
        if outcome.text is None:
            return outcome.value
        status = 'error' if outcome.is_error else 'success'
        return ToolMessage(outcome.text, name=name, tool_call_id=call_id, status=status)

    def refuse(request: ToolCallRequest, execute: Any) -> Any:
        raise _errors.UsageError('hooks run in the loop of their runtime: call ainvoke() or astream() of the graph')

    return {'wrap_tool_call': refuse, 'awrap_tool_call': wrap}


__all__ = ['guarded']
