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
import contextvars
import functools
import inspect
import itertools
import logging
import os
import sys
import weakref
from types import TracebackType
from typing import Any, Callable, Iterable, Self, Sequence, TypeVar, overload

from . import _core, _errors, _options, _schema
from ._answers import Decision, Question
from ._calls import CANCEL, DESTROY, END, EVENT, HANDLER, MODEL, TOOL, Function, ToolRun, name_of
from ._turn import EVENT_KINDS, Agent, Calls, End, Session

logger = logging.getLogger('turnphase')
F = TypeVar('F', bound=Callable[..., Any])

_AT_ONCE = 64  # how many works are taken before the loop runs again
# Options that count threads; a runtime without threads refuses them.
_OF_THREADS = {
    'engine_workers',
    'no_engine_workers',
    'handler_threads',
    'detached_threads',
    'tool_threads',
    'abandoned_threads_max',
}
_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
_live: weakref.WeakSet[Runtime] = weakref.WeakSet()


@atexit.register
def _free_all() -> None:
    """Called when the interpreter ends during turns: turns are cancelled, and nothing of the library keeps running."""
    for runtime in list(_live):
        runtime._free()


class Runtime:
    """Registrations, and the sessions whose turns run with them, in one asyncio loop.

    Hooks and tools are registered before or inside `async with runtime:`, in which everything else happens.

    @param parts     Memory(), Files(), Skills(), DeclaredHooks(), Mcp().
    @param database  Sqlite(path): the file of history, records and jobs; None: in memory.
    @param pump      whether the loop's thread also does the work of the library. Then a turn costs less, but library
                     code that blocks also blocks the loop. None: true if there are no parts, no database, and no option
                     that counts threads. False: the library has threads of its own.
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
        # For a runtime without threads: whether it is one; its next pump, without waiting for the descriptor; and the
        # pump at its next deadline.
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

        @param drain_ms  how long running turns may last, in ms; None: as the runtime was made.
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
                    if isinstance(thing, Calls) and not thing.future.done():
                        thing.future.set_exception(_errors.of(100, 'TP_ERR_USAGE', 'usage', 'the runtime was closed'))
        else:
            self._free()

    def _free(self) -> None:
        self._is_closed = True
        try:
            self._core.free()
        except RuntimeError:  # another thread of the host is in a call: the runtime ends with the process
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
        key = self._keep(End(future))
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
        """Pumps after the tasks that are ready now, so that their answers need no further round of the loop."""
        if self._pumps and self._pump_due is None:
            assert self._loop is not None
            self._pump_due = self._loop.call_soon(self._pump_now)

    def _pump(self) -> None:
        """Runs what is ready of a runtime without threads, and schedules the next run for its next deadline."""
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
        """Begins the work in the inbox. @return whether there was any."""
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
                if task is not None and task.cancel():  # the task may be cancelled before it has run
                    task.add_done_callback(functools.partial(self._drop_task, number))
            elif kind == DESTROY:
                kept.pop(key, None)
        return bool(works)

    def _drop_task(self, number: int, task: asyncio.Task[None]) -> None:
        self._tasks.pop(number, None)

    def _begin(self, function: Function, turn_key: int, token: int, work: _core.Work) -> None:
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
        """Registers the function that puts a question to a person and returns a Decision. The runtime must be made with
        asks=True."""
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

        @param failure  what follows when the function raises or exceeds its limit: "required" (the phase fails, a guard
                        denies), "best_effort", or None: the phase's.
        @param tools, agents, modes  patterns: the hook runs only for tools, agents and modes that fit one of them.
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
            name = id or name_of(function) or f'hook-{next(self._names)}'
            key = self._keep(Function(function, HANDLER, name, thread))
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
            called = name or name_of(function)
            key = self._keep(Function(function, TOOL, called, thread, signature))
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
        """Returns (handle or key, options) of a given model."""
        if model is None:
            return None, None
        if isinstance(model, (_options.OpenAI, _options.Script)):
            return self._core.model_new(model.kind, model.script, model.options), None
        if not isinstance(model, _options.FunctionModel):
            if not callable(model):
                raise TypeError(f'{model!r} is no model: OpenAI(), Script(), FunctionModel() or a function')
            model = _options.FunctionModel(model)
        name = model.options.get('name') or name_of(model.function) or 'model'
        function = Function(model.function, MODEL, name, model.thread)
        function.options = {'name': name, **model.options}  # the library reads these texts until it destroys the model
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
        name = id or os.urandom(16).hex()
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
