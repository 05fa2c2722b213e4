# SPDX-License-Identifier: Apache-2.0
"""A runtime in an asyncio loop: the loop polls the descriptor of one inbox, out of which come the calls of handlers,
tools and models, their cancels, and the ends of what was submitted. Each call runs as a task of asyncio; no thread of
the library enters Python.
"""

import asyncio

from turnphase import call, ctx_of, ffi, lib, made, struct, text, words

NULL = ffi.NULL
# The on_end functions that put an end into the inbox.
END_OF_TURN, END_OF_SESSION, END_OF_DRAIN = (ffi.addressof(lib, 'tp_end_of_' + kind)
                                             for kind in ('turn', 'session', 'drain'))


class Failed(Exception):
    """An end of something other than a turn with a status that is not TP_OK."""


class Turn:
    """What came of a turn."""

    def __init__(self, result):
        self.outcome, self.code = result.outcome, result.code
        self.text, self.reason = words(result.text), words(result.bare_reason)


class Host:
    """async with Host() as host: the runtime drains when the block ends."""

    def __init__(self, **options):
        self.loop = asyncio.get_running_loop()
        self.runtime = made('tp_runtime', lib.tp_runtime_new, struct('tp_runtime_options', **options))
        self.inbox = made('tp_inbox', lib.tp_inbox_new, self.runtime, NULL)
        self.tasks = {}   # of taken calls, by token
        self.ends = set()  # handles of futures whose end has not come
        self.cancels = 0  # how many calls were no longer wanted
        self.work = ffi.new('const tp_work **')
        self.kinds = {
            lib.TP_WORK_HANDLER: self.run_handler, lib.TP_WORK_TOOL: self.run_tool, lib.TP_WORK_MODEL: self.run_model,
        }
        self.loop.add_reader(lib.tp_inbox_fd(self.inbox), self.take)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *raised):
        await self.submit(lib.tp_runtime_drain_submit, self.runtime, 10000, END_OF_DRAIN)
        lib.tp_runtime_free(self.runtime)
        self.take()  # what the end of the runtime put there: destroys
        self.loop.remove_reader(lib.tp_inbox_fd(self.inbox))
        lib.tp_inbox_free(self.inbox)

    # ---- what comes ----

    def take(self):
        while lib.tp_inbox_next(self.inbox, self.work) == lib.TP_OK and self.work[0] != NULL:
            work = self.work[0]
            if work.kind in self.kinds:
                task = self.loop.create_task(self.kinds[work.kind](work, work.token))
                self.tasks[work.token.bits] = task
                continue
            if work.kind == lib.TP_WORK_CANCEL:
                self.cancels += 1
                if work.token.bits in self.tasks:
                    self.tasks[work.token.bits].cancel()
            elif work.kind == lib.TP_WORK_END:
                future = ffi.from_handle(work.ctx)
                self.ends.discard(work.ctx)
                if not future.done():
                    future.set_result(Turn(work.end.turn) if work.end.kind == lib.TP_END_TURN else None)
            call_status = lib.tp_work_release(work)  # of a DESTROY it calls destroy
            assert call_status == lib.TP_OK

    async def answered(self, run, token):
        """What a coroutine returned, or the exception that it raised; CancelledError when it is no longer wanted."""
        try:
            return await run
        except (Exception, asyncio.CancelledError) as error:
            return error
        finally:
            del self.tasks[token.bits]

    async def run_handler(self, work, token):
        answer = await self.answered(ffi.from_handle(work.ctx)(work.call), token)
        if isinstance(answer, BaseException):
            answer = struct('tp_outcome', kind=lib.TP_ANSWER_FAILED, reason=repr(answer))
        lib.tp_token_complete(token, answer, NULL)  # TP_ERR_STALE: it came too late

    async def run_tool(self, work, token):
        answer = await self.answered(ffi.from_handle(work.ctx)(work.run), token)
        is_error = isinstance(answer, BaseException)
        lib.tp_tool_complete(token, is_error, text(repr(answer) if is_error else answer), NULL)

    async def run_model(self, work, token):
        answer = await self.answered(ffi.from_handle(work.ctx)(work.request), token)
        if isinstance(answer, BaseException):
            lib.tp_model_fail(token, lib.TP_ERR_MODEL, repr(answer).encode(), False, NULL)
        else:
            lib.tp_model_complete(token, answer, NULL)

    # ---- what goes ----

    def submit(self, function, *arguments):
        """Submits something whose last parameters are on_end, ctx and a fault. @return a future of its end."""
        future = self.loop.create_future()
        handle, end = ffi.new_handle(future), ffi.new('tp_end **')
        call(lib.tp_end_new, self.inbox, handle, end)
        self.ends.add(handle)
        *first, on_end = arguments
        try:
            call(function, *first, on_end, end[0])
        except BaseException:
            self.ends.discard(handle)
            lib.tp_end_free(end[0])
            raise
        return future

    def hook(self, name, phase, run, **fields):
        call(lib.tp_hook_add, self.runtime, struct(
            'tp_hook', id=name, phase=phase, inbox=self.inbox, ctx=ctx_of(run), destroy=lib.tpy_destroy, **fields))

    def tool(self, name, run, **fields):
        """A tool that every turn has."""
        call(lib.tp_tool_add, self.runtime, struct(
            'tp_tool', name=name, inbox=self.inbox, ctx=ctx_of(run), destroy=lib.tpy_destroy, **fields))


class Session:
    def __init__(self, host, name, model):
        self.host = host
        described = struct('tp_model', name=name, inbox=host.inbox, ctx=ctx_of(model), destroy=lib.tpy_destroy)
        self.session = made('tp_session', lib.tp_session_open, host.runtime,
                            struct('tp_session_options', id=name, model=described))

    def turn(self, message, **fields):
        """@return (future of a Turn, function that cancels it)"""
        submission = ffi.new('tp_submission **')
        request = struct('tp_turn_request', text=text(message), **fields)

        def submit_it(session, request, on_end, end, fault):
            return lib.tp_turn_submit(session, request, on_end, end, submission, fault)

        future = self.host.submit(submit_it, self.session, request, END_OF_TURN)
        reference = ffi.gc(submission[0], lib.tp_submission_unref)
        return future, lambda: lib.tp_submission_cancel(reference)

    def close(self):
        """@return a future of its end."""
        future = self.host.loop.create_future()
        handle, end = ffi.new_handle(future), ffi.new('tp_end **')
        call(lib.tp_end_new, self.host.inbox, handle, end)
        self.host.ends.add(handle)
        lib.tp_session_close(self.session, END_OF_SESSION, end[0])
        return future
