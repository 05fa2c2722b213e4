# SPDX-License-Identifier: Apache-2.0
"""Turns and other operations that are submitted and end once; and the sessions of turns."""

from __future__ import annotations

import asyncio
import collections
import contextvars
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Generator, Self, Sequence

from . import _answers, _core, _errors
from ._answers import Event, Result, ToolCall, ToolResult

if TYPE_CHECKING:
    from ._runtime import Runtime

EVENT_KINDS = {name: number for number, name in enumerate(_core.event_names(), 1)}
# The events that `async for` yields when a turn names no kinds.
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
    EVENTS_MAX = 65536  # how many events wait for a slow consumer; further ones are only counted, in the event `lost`

    def __init__(
        self, session: Session, request: dict[str, Any], kinds: Sequence[str], around: _core.Work | None = None
    ):
        if kinds and (unknown := set(kinds) - set(EVENT_KINDS)):
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
        """The pieces of the model's answer."""
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


class End:
    """The end of another submitted operation."""

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


class Calls:
    """A turn of which only tool calls run. First the phase that contributes its tools is run."""

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
        elif self.future.done():  # cancelled meanwhile, so nothing runs
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
        """Runs tool calls of a model that another program asks. They run at the same time, each through its gates, and
        with tool.post, events and records, as the calls of one response do. No other phase is run, and nothing enters
        the history. Several may run at once in a session. Cancelling the task that waits for them cancels them.

        @param options  members of tp_turn_request (turnphase/turn.h): id, mode, limit_ms, …
        @return the result of each call, in their order.
        """
        run = Calls(self, [_answers.call_dict(call) for call in calls], options)
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
