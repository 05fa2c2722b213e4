# SPDX-License-Identifier: Apache-2.0
"""The runtime in one asyncio loop. The loop polls the descriptor of the library's inbox: no thread of this package
waits for the library, and no thread of the library runs Python.

A plain function of a hook runs in the loop at once; one of a tool or a model may block, so it runs on a thread of the
loop's executor unless it is registered with thread=False. Each call runs in a copy of the context (contextvars) of the
code that made its turn.
"""

from __future__ import annotations

import asyncio
import atexit
import collections
import contextvars
import dataclasses
import functools
import inspect
import itertools
import logging
import sys
import types
import uuid
import weakref
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Generator, Iterable, Self, Sequence, TypeVar, overload

from . import _answers, _core, _errors, _options, _schema
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
    ToolCall,
    ToolResult,
)

logger = logging.getLogger('turnphase')
F = TypeVar('F', bound=Callable[..., Any])

HANDLER, TOOL, MODEL, EVENT, END, CANCEL, DESTROY = range(1, 8)
_AT_ONCE = 64  # pieces of work between two looks at the loop
# Options that count threads, which a runtime without threads does not take.
_OF_THREADS = {
    'engine_workers',
    'no_engine_workers',
    'handler_threads',
    'detached_threads',
    'tool_threads',
    'abandoned_threads_max',
}
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
EVENT_KINDS = {name: number for number, name in enumerate(_core.event_names(), 1)}
_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
# What `async for` yields where a turn names no kinds.
DEFAULT_EVENTS = (
    'turn_begin',
    'model_begin',
    'model_delta',
    'thinking',
    'model_end',
    'tool_begin',
    'tool_end',
    'reminder',
    'diagnostic',
    'message',
    'turn_end',
)
_live: weakref.WeakSet[Runtime] = weakref.WeakSet()


@atexit.register
def _free_all() -> None:
    """The interpreter ends in mid-turn: turns are cancelled, and nothing of the library is left running."""
    for runtime in list(_live):
        runtime._free()


class _Work:
    """A call, while it is not answered; after that its reading raises RuntimeError."""

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
        """Until its limit, after which its answer is discarded."""
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
    """A call of a hook. call['tool'] is a field of its payload, None where it is not there."""

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
        """Of the tool: a dict; a str where the provider could not decode them."""
        return self._work.get('arguments')

    def payload(self) -> dict[str, Any]:
        return self._work.payload()

    def messages(self) -> list[Message]:
        """The conversation so far."""
        return [_answers.message_of(message) for message in self._work.messages()]

    def policy(self, domain: str, key: str) -> str:
        return self._work.policy(domain, key)

    def replace(self, **fields: Any) -> None:
        """Replaces fields of the payload, in a phase that takes it, when this call succeeds."""
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
    """A run of a tool: for a parameter of its function that has this type."""

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


class _Function:
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
        """Answers a call. @raises for an answer that is none; then it is not answered."""
        if self.kind == HANDLER:
            _complete_hook(work, answer, self.name)
        elif self.kind == TOOL:
            work.answer(_tool_answer(answer, self.name))
        else:
            work.respond(_answers.response_dict(_response(answer, self.name)))

    def fail(self, work: _core.Work, error: BaseException) -> None:
        """Answers a call whose function has raised."""
        if not work.open:
            pass  # a late one, or cancelled: its answer is discarded
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


def _plain(value: Any) -> Any:
    """A value of dataclasses, TypedDicts and pydantic models."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, 'model_dump'):
        return value.model_dump(mode='json')
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
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
            shown['value'] = _plain(answer.value)
        if answer.parts:
            shown['parts'] = [_answers.dict_of(part) for part in answer.parts]
        return shown
    return {'value': _plain(answer)}


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
    """What a model yields: deltas at once, the rest in its response."""
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


class Turn:
    """A turn of a session. It begins when it is awaited, iterated or started, as a coroutine does.

    `await turn` gives its Result, whatever its outcome (Result.check() raises). `async for event in turn` yields events
    until its end. Cancelling the task that waits for it cancels the turn.
    """

    __slots__ = (
        'session',
        '_request',
        '_kinds',
        '_around',
        '_key',
        '_submission',
        '_waiters',
        '_result',
        '_events',
        '_listener',
        'context',
        '_lost',
        '__weakref__',
    )
    EVENTS_MAX = 65536  # that wait for a slow consumer; then they are counted: the event `lost`

    def __init__(
        self, session: Session, request: dict[str, Any], kinds: Sequence[str], around: _core.Work | None = None
    ):
        unknown = set(kinds) - set(EVENT_KINDS)
        if unknown:
            raise ValueError(f'there are no events {sorted(unknown)}: {", ".join(EVENT_KINDS)}')
        self.session, self._request, self._kinds, self._around = session, request, kinds or DEFAULT_EVENTS, around
        self._key = 0
        self._submission: _core.Handle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._result: Result | None = None
        self._events: collections.deque[Event] | None = None
        self._listener = 0
        self._lost = 0
        self.context = contextvars.copy_context()

    @property
    def result(self) -> Result | None:
        """None before the end."""
        return self._result

    def start(self) -> Self:
        """Submits the turn. After that its events cannot be iterated any more, unless that has begun."""
        if not self._key:
            runtime = self.session.runtime
            self._key = key = runtime._keep(self)
            try:
                core = runtime._loop_core()
                handle = self.session._handle
                self._submission = (
                    self._around.submit_turn(handle, self._request, key)
                    if self._around
                    else core.turn_submit(handle, self._request, key)
                )
            except BaseException:
                del runtime._kept[key]
                raise
            runtime._pump_soon()
        return self

    def cancel(self) -> None:
        """Cancels the turn: its result will have the outcome cancelled."""
        if self._submission is not None and self._result is None:
            self.session.runtime._core.cancel(self._submission)

    def add_message(self, text: str, files: Sequence[str] = ()) -> None:
        """Adds a message of the user before the turn's next request."""
        if self._submission is None:
            raise _errors.UsageError('the turn has not begun')
        self.session.runtime._core.add_message(self._submission, {'text': text, 'files': list(files) or None})

    def __await__(self) -> Generator[Any, None, Result]:
        return self._wait().__await__()

    async def _wait(self) -> Result:
        self.start()
        while self._result is None:
            await self._changed()
        return self._result

    async def _changed(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def __aiter__(self) -> AsyncIterator[Event]:
        if self._key:
            raise _errors.UsageError('the turn has begun: iterate it first, and await it afterwards')
        session = self.session
        core = session.runtime._loop_core()
        kinds = sum(1 << EVENT_KINDS[kind] for kind in set(self._kinds) - {'lost'})
        self._events = collections.deque()
        self._listener = key = session.runtime._keep(self)
        listener = core.listen(session._handle, {'kinds': kinds}, key)
        try:
            self.start()
        except BaseException:
            self._listen_end(listener)
            raise
        return self._iterate(listener)

    def _listen_end(self, listener: int) -> None:
        runtime = self.session.runtime
        self._events = None
        runtime._kept.pop(self._listener, None)
        if not runtime._is_closed and self.session._handle is not None:
            runtime._core.unlisten(self.session._handle, listener)

    async def _iterate(self, listener: int) -> AsyncIterator[Event]:
        events = self._events
        assert events is not None
        try:
            while events or self._result is None:
                if not events:
                    await self._changed()
                    continue
                yield events.popleft()
                if self._lost:
                    lost, self._lost = self._lost, 0
                    yield Event('lost', lost=lost)
        finally:
            self._listen_end(listener)

    async def deltas(self) -> AsyncIterator[str]:
        """The pieces of what the model says."""
        self._kinds = ('model_delta',)
        async for event in self:
            yield event.text

    # ---- what the runtime reports ----

    def _event(self, shown: dict[str, Any]) -> None:
        if self._events is None:
            return
        if len(self._events) >= self.EVENTS_MAX:
            self._lost += 1
        else:
            self._events.append(_answers.event_of(shown))
            self._wake()

    def _ended(self, shown: Any) -> None:
        self._result = _answers.made(Result, shown)
        self._submission = self._around = None
        self._wake()


class _End:
    """The end of something else that was submitted."""

    __slots__ = ('future',)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future

    def _ended(self, shown: Any) -> None:
        if self.future.done():
            return
        if isinstance(shown, BaseException):
            self.future.set_exception(shown)
        else:
            self.future.set_result(shown)


class _Calls:
    """A turn of which only tool calls run. Its tools come first: the end of that phase."""

    __slots__ = ('runtime', 'calls', 'future', 'context', 'turn', 'key')

    def __init__(self, session: Session, calls: list[dict[str, Any]], options: dict[str, Any]) -> None:
        self.runtime, self.calls = session.runtime, calls
        self.future: asyncio.Future[list[ToolResult]] = asyncio.get_running_loop().create_future()
        self.context = contextvars.copy_context()
        self.key = self.runtime._keep(self)
        try:
            self.turn = self.runtime._loop_core().turn_begin(session._handle, options, self.key)
        except BaseException:
            del self.runtime._kept[self.key]
            raise

    def _ended(self, shown: Any) -> None:
        core = self.runtime._core
        if isinstance(shown, list):
            self._end(lambda future: future.set_result([_answers.made(ToolResult, result) for result in shown]))
        elif isinstance(shown, BaseException):
            self._end(lambda future: future.set_exception(shown))
        elif self.future.done():  # cancelled meanwhile: nothing runs
            self._end(None)
        else:
            try:
                self.runtime._kept[self.key] = self
                core.tools_submit(self.turn, self.calls, self.key)
            except Exception as error:
                refused = error
                del self.runtime._kept[self.key]
                self._end(lambda future: future.set_exception(refused))

    def _end(self, settle: Callable[[asyncio.Future[list[ToolResult]]], None] | None) -> None:
        self.runtime._core.turn_end(self.turn)
        if settle is not None and not self.future.done():
            settle(self.future)

    def cancel(self) -> None:
        if self.key in self.runtime._kept and not self.runtime._is_closed:
            self.runtime._core.turn_cancel(self.turn)


class Agent:
    """A configuration that sessions share."""

    def __init__(self, runtime: Runtime, id: str, handle: _core.Handle) -> None:
        self.runtime, self.id, self._handle = runtime, id, handle

    async def remove(self) -> None:
        await self.runtime._submit(lambda core, key: core.agent_remove(self._handle, key))


class Session:
    """A conversation: its turns run one after the other."""

    def __init__(self, runtime: Runtime, id: str, handle: _core.Handle) -> None:
        self.runtime, self.id = runtime, id
        self._handle: _core.Handle = handle
        self._is_closed = False

    def turn(self, text: str, *, events: Sequence[str] = (), **options: Any) -> Turn:
        """A turn that has not begun.

        @param events  the kinds that `async for` yields (tp_event_kind); empty: those that a chat shows.
        @param options  members of tp_turn_request (turnphase/turn.h): id, mode, files, limit_ms, system, parameters, …
        """
        return Turn(self, {'text': text, **options}, events)

    async def call_tools(self, calls: Sequence[ToolCall], **options: Any) -> list[ToolResult]:
        """Runs tool calls of a model that something else asks: all at the same time, each through its gates, and with
        tool.post, events and records, as those of one response. No other phase is run, and nothing enters the history.
        Several may run at once in a session. Cancelling the task that waits for them cancels them.

        @param options  members of tp_turn_request (turnphase/turn.h): id, mode, limit_ms, …
        @return the result of each call, in their order.
        """
        run = _Calls(self, [_answers.call_dict(call) for call in calls], options)
        try:
            return await run.future
        except asyncio.CancelledError:
            run.cancel()
            raise

    async def close(self, **end: Any) -> None:
        """Closes the session after its turns. @param end  reason, changed_files and the like (tp_session_end)."""
        if not self._is_closed:
            self._is_closed = True
            await self.runtime._submit(lambda core, key: core.session_close(self._handle, end, key))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.runtime._is_closed:
            await self.close()


class Runtime:
    """Registrations, and the sessions whose turns run with them, in one asyncio loop.

    Hooks and tools are registered before or inside `async with runtime:`, in which everything else happens.

    @param parts     Memory(), Files(), Skills(), DeclaredHooks(), Mcp().
    @param database  Sqlite(path): where history, records and jobs are kept; None: in memory.
    @param pump      whether the loop's thread does the work of the library, too. A turn costs less then; what blocks in
                     the library blocks the loop. None: where there are no parts and no database, and no option that
                     counts threads. False: the library has threads of its own.
    @param options   members of tp_runtime_options (turnphase/runtime.h): turns_running_max, hook_limit_ms, …
    """

    def __init__(
        self,
        *parts: _options.Domain,
        database: _options.Sqlite | None = None,
        asks: bool = False,
        drain_ms: int = 5000,
        pump: bool | None = None,
        **options: Any,
    ) -> None:
        if pump is None:
            pump = not parts and database is None and not _OF_THREADS & options.keys()
        self._kept: dict[int, Any] = {}
        self._keys = itertools.count(1)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._drain_ms = drain_ms
        self._question: Callable[[Question], Any] | None = None
        self._fds: tuple[int, ...] = (-1, -1)
        # Of a runtime without threads: whether it is one, its next pump without a look at the descriptor, and that at
        # its next deadline.
        self._pumps = False
        self._pump_due: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._names = itertools.count(1)
        self._core = _core.Runtime({'pump': pump, **options}, database.options if database else None, asks)
        _live.add(self)
        try:
            for part in parts:
                self._core.domain_add(part.kind, part.options, part.trusted)
            if asks:
                self._core.listen(None, {'kinds': 1 << EVENT_KINDS['question']}, 0)
        except BaseException:
            self._free()
            raise

    # ---- the loop ----

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise _errors.UsageError(
                'the runtime is in a loop already' if not self._is_closed else 'the runtime was closed'
            )
        loop = asyncio.get_running_loop()
        self._core.start()
        self._fds = (self._core.fd(), self._core.log_fd())
        self._loop = loop
        loop.add_reader(self._fds[0], self._ready)
        loop.add_reader(self._fds[1], self._log)
        pump_fd = self._core.pump_fd()
        if pump_fd >= 0:
            self._pumps = True
            self._fds = (*self._fds, pump_fd)
            loop.add_reader(pump_fd, self._pump)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(0 if kind else None)

    async def close(self, drain_ms: int | None = None) -> None:
        """Refuses new turns, lets running ones end, cancels the rest, closes sessions, and frees the runtime.

        @param drain_ms  how long running turns may take; None: what the runtime was made with.
        """
        if self._is_closed:
            return
        if self._loop is not None:
            try:
                limit = self._drain_ms if drain_ms is None else drain_ms
                await self._submit(lambda core, key: core.drain(limit, key))
            finally:
                for task in list(self._tasks.values()):
                    task.cancel()
                self._log()
                for fd in self._fds:
                    self._loop.remove_reader(fd)
                for handle in (self._pump_due, self._timer):
                    if handle is not None:
                        handle.cancel()
                self._pump_due = self._timer = None
                self._free()
                for thing in list(self._kept.values()):
                    if isinstance(thing, _Calls) and not thing.future.done():
                        thing.future.set_exception(_errors.of(100, 'TP_ERR_USAGE', 'usage', 'the runtime was closed'))
        else:
            self._free()

    def _free(self) -> None:
        self._is_closed = True
        try:
            self._core.free()
        except RuntimeError:  # another thread of the host is in a call: it ends with the process
            logger.error('the runtime is in use by another thread, and was not freed')

    def _loop_core(self) -> _core.Runtime:
        if self._loop is None or self._is_closed:
            raise _errors.UsageError('use the runtime inside `async with runtime:`')
        return self._core

    def _keep(self, thing: Any) -> int:
        key = next(self._keys)
        self._kept[key] = thing
        return key

    async def _submit(self, submit: Callable[[_core.Runtime, int], None]) -> Any:
        core = self._loop_core()
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        key = self._keep(_End(future))
        try:
            submit(core, key)
        except BaseException:
            del self._kept[key]
            raise
        return await future

    def _log(self) -> None:
        for record in self._core.logs():
            extra = {name: record.get(name) for name in ('turn_id', 'session_id', 'subscription')}
            logger.log(_LEVELS.get(record['level'], logging.INFO), '%s', record['message'], extra=extra)

    def _pump_soon(self) -> None:
        """Pumps after the tasks that are ready now: what they answer needs no other round of the loop."""
        if self._pumps and self._pump_due is None:
            assert self._loop is not None
            self._pump_due = self._loop.call_soon(self._pump_now)

    def _pump(self) -> None:
        """Runs what is ready of a runtime without threads, and comes again at its next deadline."""
        if self._is_closed:
            return
        wait_ms = self._core.pump(_AT_ONCE)
        if self._ready():
            self._pump_soon()
        elif wait_ms >= 0:
            assert self._loop is not None
            due = self._loop.time() + wait_ms / 1000
            if self._timer is None or due < self._timer.when():
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = self._loop.call_at(due, self._pump_in_time)

    def _pump_now(self) -> None:
        self._pump_due = None
        self._pump()

    def _pump_in_time(self) -> None:
        self._timer = None
        self._pump()

    def _ready(self) -> bool:
        """Begins what the inbox has. @return whether it had something."""
        kept = self._kept
        works = self._core.take(_AT_ONCE)
        for kind, key, turn, number, payload in works:
            if kind <= MODEL:
                self._begin(kept[key], turn, number, payload)
            elif kind == EVENT:
                listener = kept.get(key)
                if payload['kind'] == 'question':
                    self._ask(payload)
                if listener is not None and (turn == listener._key or payload['kind'] == 'lost'):
                    listener._event(payload)
            elif kind == END:
                kept.pop(key)._ended(payload)
            elif kind == CANCEL:
                task = self._tasks.get(number)
                if task is not None and task.cancel():  # it may be cancelled before it has run once
                    task.add_done_callback(functools.partial(self._drop_task, number))
            elif kind == DESTROY:
                kept.pop(key, None)
        return bool(works)

    def _drop_task(self, number: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(number, None)

    def _begin(self, function: _Function, turn_key: int, token: int, work: _core.Work) -> None:
        turn = self._kept.get(turn_key)
        context = turn.context.copy() if turn is not None else contextvars.copy_context()
        loop = self._loop
        assert loop is not None
        if function.is_async:
            run = function.run(work, self)
            if sys.version_info >= (3, 12):
                task = asyncio.Task(run, loop=loop, context=context, eager_start=True)
                if task.done():
                    return
            else:
                task = asyncio.Task(run, loop=loop, context=context)
            self._tasks[token] = task
        elif function.thread:
            loop.run_in_executor(None, context.run, function.run_at_once, work, self)
        else:
            context.run(function.run_at_once, work, self)

    # ---- questions ----

    def on_question(self, function: F) -> F:
        """The function that puts a question to a person and returns a Decision. The runtime is made with asks=True."""
        self._question = function
        return function

    def _ask(self, shown: dict[str, Any]) -> None:
        call = shown.get('tool_call', {})
        question = Question(
            call.get('name', ''),
            call.get('arguments', {}),
            shown.get('text', ''),
            shown.get('subscription', ''),
            shown.get('session_id', ''),
            shown.get('turn_id', ''),
        )
        token = shown['question_token']
        assert self._loop is not None
        task = self._loop.create_task(self._decide(question, token, shown.get('question', {})))
        self._tasks[-token] = task
        task.add_done_callback(functools.partial(self._drop_task, -token))

    async def _decide(self, question: Question, token: int, shown: dict[str, Any]) -> None:
        decision = Decision(False, 'no one was asked')
        try:
            if self._question is not None:
                answer = self._question(question)
                answer = await answer if inspect.isawaitable(answer) else answer
                decision = answer if isinstance(answer, Decision) else Decision(answer is True)
        except Exception as error:
            logger.warning('on_question has raised %s', type(error).__name__, exc_info=error)
        finally:
            row = {
                'verdict': 'allow' if decision.allow else 'deny',
                'arguments_hash': shown.get('arguments_hash'),
                'reason': decision.reason,
                'person': decision.person,
                'arguments': decision.arguments,
            }
            if not self._is_closed:
                self._core.answer_question(token, row)

    # ---- registering ----

    def hook(
        self,
        phase: str,
        *,
        id: str | None = None,
        failure: str | None = None,
        limit_ms: int | None = None,
        tools: Sequence[str] = (),
        agents: Sequence[str] = (),
        modes: Sequence[str] = (),
        after: Iterable[str] = (),
        before: Iterable[str] = (),
        needs: Iterable[str] = (),
        thread: bool | None = None,
        **options: Any,
    ) -> Callable[[F], F]:
        """Registers a function as a hook of a phase.

        @param failure  what follows when it raises or exceeds its limit: "required" (the phase fails, a guard denies),
                        "best_effort", or None: the phase's.
        @param tools, agents, modes  patterns: it runs only for tools, agents and modes that fit one of them.
        @param after, before, needs  ids of other hooks of the phase.
        @param options  members of tp_hook (turnphase/runtime.h): execution, priority, attempts, …
        """
        match = {
            name: list(patterns)
            for name, patterns in (('tools', tools), ('agents', agents), ('modes', modes))
            if patterns
        }
        edges = {
            name: [{'target': target} for target in targets] or None
            for name, targets in (('after', after), ('before', before), ('needs', needs))
        }

        def register(function: F) -> F:
            name = id or _name_of(function) or f'hook-{next(self._names)}'
            key = self._keep(_Function(function, HANDLER, name, thread))
            try:
                self._core.hook_add(
                    {
                        'id': name,
                        'phase': phase,
                        'failure': failure,
                        'limit_ms': limit_ms,
                        'match': match or None,
                        **edges,
                        **options,
                    },
                    key,
                )
            except BaseException:
                del self._kept[key]
                raise
            return function

        return register

    def guard(self, phase: str = 'tool.pre', **options: Any) -> Callable[[F], F]:
        """A hook whose failure denies: hook() with failure="required"."""
        return self.hook(phase, **{'failure': 'required', **options})

    def remove_hook(self, id: str) -> None:
        self._core.hook_remove(id)

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        function: None = ...,
        /,
        *,
        name: str | None = ...,
        description: str | None = ...,
        thread: bool | None = ...,
        **options: Any,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        thread: bool | None = None,
        **options: Any,
    ) -> F | Callable[[F], F]:
        """Registers a function as a tool of every turn. Its schema is that of its signature, its description its
        docstring.

        @param options  members of tp_tool (turnphase/tool.h): limit_ms, max_concurrent, write_key, …; schema in place
                        of the signature's. A function whose only parameter is a ToolRun reads its arguments there.
        """

        def register(function: F) -> F:
            signature = _schema.signature(function, ToolRun)
            called = name or _name_of(function)
            key = self._keep(_Function(function, TOOL, called, thread, signature))
            try:
                self._core.tool_add(
                    {
                        'name': called,
                        'description': description or signature.description,
                        'schema': signature.schema,
                        **options,
                    },
                    key,
                )
            except BaseException:
                del self._kept[key]
                raise
            return function

        return register if function is None else register(function)

    def remove_tool(self, name: str) -> None:
        self._core.tool_remove(name)

    def _model(self, model: Any) -> tuple[Any, dict[str, Any] | None]:
        """(handle or key, options) of a model that is given."""
        if model is None:
            return None, None
        if isinstance(model, (_options.OpenAI, _options.Script)):
            return self._core.model_new(model.kind, model.script, model.options), None
        if not isinstance(model, _options.FunctionModel):
            if not callable(model):
                raise TypeError(f'{model!r} is no model: OpenAI(), Script(), FunctionModel() or a function')
            model = _options.FunctionModel(model)
        name = model.options.get('name') or _name_of(model.function) or 'model'
        function = _Function(model.function, MODEL, name, model.thread)
        function.options = {'name': name, **model.options}  # the library reads its texts until it destroys the model
        return self._keep(function), function.options

    # ---- agents, sessions, turns ----

    async def agent(
        self,
        id: str,
        *,
        system: str | None = None,
        model: Any = None,
        tools: Sequence[str] | None = None,
        extra: dict[str, Any] | None = None,
        **options: Any,
    ) -> Agent:
        """Adds an agent.

        @param tools  the names of the tools that its turns may use; None: all.
        @param extra  further keys of its config. Other options are members of tp_agent_config (turnphase/turn.h).
        """
        config = {**(extra or {}), **({'tools': list(tools)} if tools is not None else {})}
        given, model_options = self._model(model)
        try:
            handle = await self._submit(
                lambda core, key: core.agent_add(
                    {'id': id, 'system': system, 'extra': config or None, **options}, given, model_options, key
                )
            )
        except BaseException:
            if isinstance(given, int):
                self._kept.pop(given, None)
            raise
        if isinstance(given, _core.Handle):
            self._core.disown(given)
        return Agent(self, id, handle)

    def session(
        self, id: str | None = None, *, agent: Agent | None = None, model: Any = None, **options: Any
    ) -> Session:
        """Opens a session; `async with` closes it.

        @param model  OpenAI(), Script(), FunctionModel(), or a function of a ModelRequest: async or not, that returns a
                      str or a Response, or an async generator of pieces; None: the agent's.
        @param options  members of tp_session_options (turnphase/turn.h): tenant, workspace, compaction, …
        """
        core = self._loop_core()
        name = id or uuid.uuid4().hex
        given, model_options = self._model(model)
        try:
            handle = core.session_open({'id': name, **options}, agent._handle if agent else None, given, model_options)
        except BaseException:
            if isinstance(given, int):
                self._kept.pop(given, None)
            raise
        return Session(self, name, handle)

    async def wait_for_jobs(self, limit_ms: int = 60000) -> bool:
        """Waits until no background job is open. @return false when the limit has passed."""
        return bool(await self._submit(lambda core, key: core.jobs_wait(limit_ms, key)) == 0)


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, '__name__', type(function).__name__))
