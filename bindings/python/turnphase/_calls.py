# SPDX-License-Identifier: Apache-2.0
"""Calls that come from the library: the argument of a function of Python, and the answer that its result or exception
becomes."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import logging
import types
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable

from . import _answers, _core, _errors, _schema
from ._answers import (
    Allow,
    Answer,
    Ask,
    Deny,
    Failed,
    Message,
    Part,
    Response,
    Thinking,
    ToolCall,
)

from ._turn import Session, Turn

if TYPE_CHECKING:
    from ._runtime import Runtime

logger = logging.getLogger('turnphase')

HANDLER, TOOL, MODEL, EVENT, END, CANCEL, DESTROY = range(1, 8)
_IDS = {
    'tenant': 0,
    'agent_id': 1,
    'workspace': 2,
    'session_id': 3,
    'thread': 4,
    'turn_id': 5,
    'task_id': 6,
    'run_id': 7,
}

class _Work:
    """A call that is not answered yet; after its answer, reading it raises RuntimeError."""

    __slots__ = ('_work', '_runtime')

    def __init__(self, work: _core.Work, runtime: Runtime) -> None:
        self._work, self._runtime = work, runtime

    @property
    def tenant(self) -> str:
        return self._work.id(_IDS['tenant'])

    @property
    def agent_id(self) -> str:
        return self._work.id(_IDS['agent_id'])

    @property
    def session_id(self) -> str:
        return self._work.id(_IDS['session_id'])

    @property
    def turn_id(self) -> str:
        return self._work.id(_IDS['turn_id'])

    @property
    def time_left_ms(self) -> int:
        """Milliseconds until its limit, after which its answer is discarded."""
        return self._work.time_left_ms

    @property
    def is_open(self) -> bool:
        """Whether an answer would still have an effect."""
        return self._work.open

    @property
    def mode(self) -> str:
        return self._work.mode

    @property
    def agent_config(self) -> dict[str, Any]:
        return self._work.agent_config

    def turn(self, session: Session, text: str, **options: Any) -> Turn:
        """A nested turn of another session; it ends with this call."""
        return Turn(session, {'text': text, **options}, (), self._work)


class Call(_Work):
    """A call of a hook. call['tool'] is a field of its payload, None if it is missing."""

    __slots__ = ()

    def __getitem__(self, field: str) -> Any:
        return self._work.get(field)

    @property
    def phase(self) -> str:
        return self._work.phase

    @property
    def subscription(self) -> str:
        return self._work.subscription

    @property
    def attempt(self) -> int:
        return self._work.attempt

    @property
    def text(self) -> str:
        """The user's message."""
        return self._work.get('text') or ''

    @property
    def tool(self) -> str:
        return self._work.get('tool') or ''

    @property
    def arguments(self) -> Any:
        """The arguments of the tool: a dict; a str if the provider could not decode them."""
        return self._work.get('arguments')

    def payload(self) -> dict[str, Any]:
        return self._work.payload()

    def messages(self) -> list[Message]:
        """The conversation so far."""
        return [_answers.message_of(message) for message in self._work.messages()]

    def policy(self, domain: str, key: str) -> str:
        return self._work.policy(domain, key)

    def replace(self, **fields: Any) -> None:
        """Replaces fields of the payload, in a phase that allows it, when this call succeeds."""
        self._work.replace(fields)

    def emit(self, kind: str, **members: Any) -> None:
        """Adds a contribution to the answer: tp_contribution of turnphase/handler.h."""
        self._work.emit({'kind': kind, **members})

    def add_context(self, id: str, text: str, weight: int = 0) -> None:
        self._work.emit({'kind': 'prompt_context', 'key': id, 'text': text, 'weight': weight})

    def add_section(self, id: str, text: str, title: str = '', weight: int = 0) -> None:
        self._work.emit({'kind': 'prompt_section', 'key': id, 'title': title, 'text': text, 'weight': weight})

    def add_policy(self, domain: str, key: str, value: str, weight: int = 0) -> None:
        self._work.emit({'kind': 'policy', 'domain': domain, 'key': key, 'text': value, 'weight': weight})

    def add_reminder(self, text: str) -> None:
        self._work.emit({'kind': 'reminder', 'text': text})

    def add_audit(self, code: str, text: str) -> None:
        self._work.emit({'kind': 'audit', 'key': code, 'text': text})

    def add_diagnostic(self, code: str, text: str, severity: str = 'info') -> None:
        self._work.emit({'kind': 'diagnostic', 'key': code, 'text': text, 'severity': severity})


class ToolRun(_Work):
    """A run of a tool. The tool's function gets it in a parameter of this type."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self._work.name

    @property
    def call_id(self) -> str:
        return self._work.call_id

    @property
    def arguments(self) -> dict[str, Any]:
        return self._work.arguments


class Function:
    """A function that is registered: a hook, a tool or a model."""

    __slots__ = ('function', 'kind', 'name', 'is_async', 'thread', 'signature', 'options')

    def __init__(
        self,
        function: Callable[..., Any],
        kind: int,
        name: str,
        thread: bool | None,
        signature: _schema.Signature | None = None,
    ) -> None:
        called = inspect.unwrap(function)
        while isinstance(called, functools.partial):
            called = called.func
        if not inspect.isroutine(called) and not inspect.isclass(called):
            called = getattr(called, '__call__')
        self.function, self.kind, self.name, self.signature = function, kind, name, signature
        self.options: dict[str, Any] | None = None
        self.is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        if thread and self.is_async:
            raise ValueError(f'{name}: an async function runs in the loop: thread is for plain functions')
        self.thread = (kind != HANDLER if thread is None else thread) and not self.is_async

    def call(self, work: _core.Work, runtime: Runtime) -> Any:
        if self.kind == HANDLER:
            return self.function(Call(work, runtime))
        if self.kind == MODEL:
            request = _answers.request_of(work.request())
            request.session_id, request.turn_id = work.id(_IDS['session_id']), work.id(_IDS['turn_id'])
            return self.function(request)
        signature = self.signature
        assert signature is not None
        arguments = signature.arguments(work.arguments) if signature.builds else {}
        if signature.run_name:
            arguments[signature.run_name] = ToolRun(work, runtime)
        return self.function(**arguments)

    # ---- answers ----

    def complete(self, work: _core.Work, answer: Any) -> None:
        """Answers a call. @raises for a value that is no answer; then the call is not answered."""
        if self.kind == HANDLER:
            _complete_hook(work, answer, self.name)
        elif self.kind == TOOL:
            work.answer(_tool_answer(answer, self.name))
        else:
            text_only = type(answer) is str
            work.respond({'text': answer} if text_only else _answers.response_dict(_response(answer, self.name)))

    def fail(self, work: _core.Work, error: BaseException) -> None:
        """Answers a call whose function has raised."""
        if not work.open:
            pass  # the answer is late, or the call was cancelled: it is discarded
        elif not isinstance(error, (_errors.ToolError, _errors.ModelError, asyncio.CancelledError)):
            logger.warning('%s has raised %s', self.name, type(error).__name__, exc_info=error)
        words = f'{type(error).__name__}: {error}' if str(error) else type(error).__name__
        if self.kind == HANDLER:
            work.complete('failed', f'{self.name} has raised {type(error).__name__}')
        elif self.kind == TOOL:
            work.answer({'is_error': True, 'text': str(error) if isinstance(error, _errors.ToolError) else words})
        else:
            known = isinstance(error, _errors.ModelError)
            work.fail(
                getattr(error, 'code', 710) if known else 710,
                str(error) if known else words,
                bool(getattr(error, 'retryable', False)) if known else False,
            )

    def answer(self, work: _core.Work, answer: Any) -> None:
        try:
            self.complete(work, answer)
        except Exception as error:
            self.fail(work, error)

    async def run(self, work: _core.Work, runtime: Runtime) -> None:
        try:
            answer = self.call(work, runtime)
            if type(answer) is types.CoroutineType:
                answer = await answer
            elif inspect.isasyncgen(answer):
                answer = await _pieces(work, answer, self.name)
            elif inspect.isawaitable(answer):
                answer = await answer
            self.answer(work, answer)
        except BaseException as error:
            self.fail(work, error)
            if not isinstance(error, (Exception, asyncio.CancelledError)):
                raise
        finally:
            runtime._tasks.pop(work.token, None)

    def run_at_once(self, work: _core.Work, runtime: Runtime) -> None:
        try:
            answer = self.call(work, runtime)
            if inspect.isawaitable(answer):
                getattr(answer, 'close', lambda: None)()
                raise TypeError(f'{self.name} returned an awaitable from a plain function: make it async')
            self.answer(work, answer)
        except BaseException as error:
            self.fail(work, error)
            if not isinstance(error, Exception):
                raise


def _complete_hook(work: _core.Work, answer: Any, name: str) -> None:
    if answer is None:
        work.complete('done')
    elif isinstance(answer, Deny):
        work.complete('deny', answer.reason)
    elif isinstance(answer, Allow):
        work.complete('allow')
    elif isinstance(answer, Ask):
        work.complete('ask', answer.reason)
    elif isinstance(answer, Failed):
        work.complete('failed', answer.reason, answer.retryable)
    else:
        raise TypeError(f'{name} returned {answer!r}: a hook returns Allow(), Deny(), Ask(), Failed() or None')


def plain(value: Any) -> Any:
    """Makes plain data of dataclasses, TypedDicts and pydantic models."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, 'model_dump'):
        return value.model_dump(mode='json')
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def _tool_answer(answer: Any, name: str) -> dict[str, Any]:
    if isinstance(answer, str):
        return {'text': answer}
    if answer is None:
        return {}
    if isinstance(answer, Part):
        answer = Answer(parts=[answer])
    if isinstance(answer, Answer):
        shown: dict[str, Any] = {'text': answer.text, 'is_error': answer.is_error}
        if answer.value is not None:
            shown['value'] = plain(answer.value)
        if answer.parts:
            shown['parts'] = [_answers.dict_of(part) for part in answer.parts]
        return shown
    return {'value': plain(answer)}


def _response(answer: Any, name: str) -> Response:
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, str):
        return Response(answer)
    raise TypeError(
        f'{name} returned {answer!r}: a model returns a str or a Response, or yields str, Thinking, ToolCall '
        'and at last a Response'
    )


async def _pieces(work: _core.Work, pieces: AsyncIterator[Any], name: str) -> Response:
    """Passes on what a model yields: deltas at once, the rest in its response."""
    said: list[str] = []
    calls: list[ToolCall] = []
    last: Response | None = None
    async for piece in pieces:
        if isinstance(piece, str):
            said.append(piece)
            work.delta(piece)
        elif isinstance(piece, Thinking):
            work.thinking(piece.text)
        elif isinstance(piece, ToolCall):
            calls.append(piece)
        else:
            last = _response(piece, name)
    last = last or Response()
    return dataclasses.replace(last, text=last.text or ''.join(said), calls=[*calls, *last.calls])


def name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, '__name__', type(function).__name__))
