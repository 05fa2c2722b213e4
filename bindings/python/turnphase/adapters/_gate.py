# SPDX-License-Identifier: Apache-2.0
"""Shared code of the adapters: a tool call of another framework becomes a tool call of a session."""

from __future__ import annotations

import contextvars
import dataclasses
import json
import weakref
from typing import Any, Awaitable, Callable

from .. import _errors
from .._answers import Answer, ToolCall
from .._calls import ToolRun, plain
from .._runtime import Runtime
from .._turn import Session


@dataclasses.dataclass(slots=True)
class Outcome:
    """The result of a call for the framework's model: `value`, as the framework's function returned it; or `text`, if
    that is not None: a denial, a passed limit, or the answer as a hook left it."""

    value: Any
    text: str | None = None
    is_error: bool = False


def answer_of(value: Any) -> Answer:
    """The answer that hooks and records see for a value."""
    if isinstance(value, str):
        return Answer(value)
    text = '' if value is None else json.dumps(plain(value), ensure_ascii=False, default=str)
    return Answer(text)


class _Call:
    """A call, with what the framework's own function has returned or raised."""

    def __init__(self, run: Callable[[dict[str, Any]], Awaitable[Any]], shown: Callable[[Any], Answer]) -> None:
        self.run, self.shown = run, shown
        self.value: Any = None
        self.error: Exception | None = None
        self.told: str | None = None  # the text with which the library was answered; None: the function has not ended

    async def answer(self, arguments: dict[str, Any]) -> Answer:
        try:
            self.value = await self.run(arguments)
            answer = self.shown(self.value)
        except Exception as error:
            self.error = error
            answer = Answer(f'{type(error).__name__}: {error}', is_error=True)
        self.told = answer.text
        return answer


_current: contextvars.ContextVar[_Call] = contextvars.ContextVar('turnphase_call')
_forwarded: weakref.WeakKeyDictionary[Runtime, set[str]] = weakref.WeakKeyDictionary()


async def _forward(run: ToolRun) -> Answer:
    call = _current.get(None)
    if call is None:
        raise _errors.ToolError(f'{run.name} runs inside its framework only')
    return await call.answer(run.arguments)


class Gate:
    """Runs a framework's tool calls through a session.

    @param options  members of tp_tool (turnphase/tool.h) for each of its tools: limit_ms, max_concurrent, …
    """

    def __init__(self, session: Session, options: dict[str, Any]) -> None:
        if not isinstance(session, Session):
            raise TypeError(f'a Session of a Runtime is wanted, not {type(session).__name__}')
        self.session, self.options = session, options

    def _register(self, name: str) -> None:
        names = _forwarded.setdefault(self.session.runtime, set())
        if name not in names:
            options = {'schema': {'type': 'object'}, **self.options}  # the framework checks the arguments itself
            self.session.runtime.tool(name=name, description='a tool of another framework', **options)(_forward)
            names.add(name)

    async def call(
        self,
        name: str,
        arguments: Any,
        run: Callable[[dict[str, Any]], Awaitable[Any]],
        call_id: str = '',
        shown: Callable[[Any], Answer] = answer_of,
    ) -> Outcome:
        """Runs a call through its gates.

        @param arguments  of the call: a dict, or a str that is no JSON object.
        @param run        the framework's own function; gets the arguments as hooks have left them.
        @raises what `run` raised, unless a hook has replaced its message; CanceledError if the runtime has cancelled
        it.
        """
        self._register(name)
        call = _Call(run, shown)
        before = _current.set(call)
        try:
            row = ToolCall(name, arguments, call_id, malformed=isinstance(arguments, str))
            (result,) = await self.session.call_tools([row])
        finally:
            _current.reset(before)
        if result.kind == 'cancelled':
            raise _errors.of(400, 'TP_ERR_CANCELLED', 'canceled', f'the call of {name} was cancelled')
        is_error = result.kind != 'ok'
        if result.kind not in ('ok', 'handler_error') or call.told is None or result.text != call.told:
            return Outcome(call.value, result.text, is_error)
        if call.error is not None:
            raise call.error
        return Outcome(call.value)
