# SPDX-License-Identifier: Apache-2.0
"""The synchronous API: the same runtime in a loop of its own, which runs only inside these functions."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Any, Callable, Iterator, Self, Sequence, TypeVar

from . import _errors
from ._answers import Event, Result
from ._runtime import Runtime
from ._turn import Agent, Session

F = TypeVar('F', bound=Callable[..., Any])


class SyncSession:
    """A session of a SyncRuntime."""

    def __init__(self, runtime: SyncRuntime, session: Session) -> None:
        self._runtime, self.session, self.id = runtime, session, session.id

    def turn(self, text: str, **options: Any) -> Result:
        """Runs a turn to its end."""

        async def run() -> Result:
            return await self.session.turn(text, **options)

        result: Result = self._runtime._run(run())
        return result

    def stream(self, text: str, *, events: Sequence[str] = (), **options: Any) -> Iterator[Event]:
        """Runs a turn, and yields its events. The turn makes progress only while the caller waits for the next
        event."""
        runner = self._runtime._runner
        if runner is None:
            raise _errors.UsageError('use the runtime inside `with runtime:`')

        async def begin() -> Any:
            return self.session.turn(text, events=events, **options).__aiter__()

        async def step(source: Any) -> Event | None:
            return await anext(source, None)

        source = runner.run(begin())
        try:
            while (event := runner.run(step(source))) is not None:
                yield event
        finally:
            runner.run(source.aclose())

    def close(self, **end: Any) -> None:
        self._runtime._run(self.session.close(**end))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncRuntime:
    """A Runtime for programs without a loop: `with SyncRuntime() as runtime:`. Its options are those of Runtime."""

    def __init__(self, *parts: Any, **options: Any) -> None:
        self.runtime = Runtime(*parts, **options)
        self.hook, self.guard, self.tool = self.runtime.hook, self.runtime.guard, self.runtime.tool
        self.remove_hook, self.remove_tool = self.runtime.remove_hook, self.runtime.remove_tool
        self.on_question = self.runtime.on_question
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            runner = stack.enter_context(asyncio.Runner())
            runner.run(self.runtime.__aenter__())
            stack.pop_all()
        self._runner = runner
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            with runner:
                runner.run(self.runtime.__aexit__(kind, error, trace))

    def _run(self, coroutine: Any) -> Any:
        if self._runner is None:
            coroutine.close()
            raise _errors.UsageError('use the runtime inside `with runtime:`')
        return self._runner.run(coroutine)

    def agent(self, id: str, **options: Any) -> Agent:
        agent: Agent = self._run(self.runtime.agent(id, **options))
        return agent

    def session(self, id: str | None = None, **options: Any) -> SyncSession:
        async def open_it() -> Session:
            return self.runtime.session(id, **options)

        return SyncSession(self, self._run(open_it()))

    def wait_for_jobs(self, limit_ms: int = 60000) -> bool:
        return bool(self._run(self.runtime.wait_for_jobs(limit_ms)))
