# SPDX-License-Identifier: Apache-2.0
"""Hooks around the tools of pydantic-ai.

session = runtime.session('ada')
agent = pydantic_ai.Agent(model, toolsets=[guarded(session, FunctionToolset([rain, send_mail]))])
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from .._answers import Answer
from .._turn import Session
from ._gate import Gate, answer_of


def _answer_of(value: Any) -> Answer:
    return answer_of(to_jsonable_python(value, fallback=str, serialize_unknown=True))


@dataclasses.dataclass
class Guarded(WrapperToolset[Any]):
    """The toolset that guarded() makes."""

    gate: Gate

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        given = to_jsonable_python(tool_args, fallback=str)

        async def run(left: dict[str, Any]) -> Any:
            arguments = tool_args if left == given else tool.args_validator.validate_json(json.dumps(left))
            return await self.wrapped.call_tool(name, arguments, ctx, tool)

        outcome = await self.gate.call(name, given, run, ctx.tool_call_id or '', _answer_of)
        if outcome.text is None:
            return outcome.value
        if outcome.is_error:
            raise ToolFailed(outcome.text)
        return outcome.text


def guarded(session: Session, toolset: AbstractToolset[Any], **options: Any) -> Guarded:
    """A toolset whose calls go through the hooks of a session's runtime.

    For the model, a call that a hook denies has failed with the denial (ToolFailed), and the model is not asked to try
    again. Hooks see the arguments that pydantic has validated, as JSON; arguments that a hook has changed are validated
    again. Output tools and the tools of a provider are not in a toolset: no hook is in front of them.

    @param options  members of tp_tool (turnphase/tool.h) of each tool: limit_ms (0: two minutes), max_concurrent, …
    """
    return Guarded(toolset, Gate(session, options))


__all__ = ['Guarded', 'guarded']
