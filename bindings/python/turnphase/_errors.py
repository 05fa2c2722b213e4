# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each category of status (turnphase/status.def)."""

from __future__ import annotations

import builtins


class Error(Exception):
    """An error of the library. `name` is the status ("TP_ERR_CYCLE"), `subject` the id of the object at fault."""

    category = ''

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        name: str = '',
        subject: str = '',
        phase: str = '',
        line: int = 0,
        column: int = 0,
        system_error: int = 0,
    ) -> None:
        super().__init__(message)
        self.code, self.name, self.subject, self.phase = code, name, subject, phase
        self.line, self.column, self.system_error = line, column, system_error

    def __str__(self) -> str:
        place = f' (line {self.line}, column {self.column})' if self.line else ''
        subject = f'{self.subject}: ' if self.subject and self.subject not in self.args[0] else ''
        return f'{subject}{self.args[0]}{place}' + (f' [{self.name}]' if self.name else '')


class UsageError(Error, ValueError):
    category = 'usage'


class ForkedError(UsageError):
    """The runtime belongs to the parent of this process."""


class LimitError(Error):
    category = 'limit'


class TimeoutError(Error, builtins.TimeoutError):
    category = 'timeout'


class CanceledError(Error):
    category = 'canceled'


class HookError(Error):
    """A hook denied, or a required one did not answer."""

    category = 'hook'


class DeniedError(HookError):
    """A hook denied."""


class StoreError(Error):
    category = 'store'


class SystemFailure(Error):
    """The operating system or a model provider failed."""

    category = 'system'


class InternalError(Error):
    category = 'internal'


class ToolError(Exception):
    """Raised by a tool: its text is what the model reads, and nothing is logged."""


class ModelError(Exception):
    """Raised by a model: the request failed.

    @param retryable  whether the same request may succeed when it is sent again.
    @param unavailable  the provider is down: the next model of the session's list is asked.
    @param context_length  the context is too long: the session's history may be made shorter.
    """

    def __init__(
        self, message: str, *, retryable: bool = False, unavailable: bool = False, context_length: bool = False
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.code = 712 if unavailable else 711 if context_length else 710


_CLASSES: dict[str, type[Error]] = {
    kind.category: kind
    for kind in (
        UsageError,
        LimitError,
        TimeoutError,
        CanceledError,
        HookError,
        StoreError,
        SystemFailure,
        InternalError,
    )
}
_NAMED: dict[str, type[Error]] = {'TP_ERR_FORKED': ForkedError, 'TP_ERR_DENIED': DeniedError}


def of(
    code: int,
    name: str,
    category: str,
    message: str,
    subject: str = '',
    phase: str = '',
    line: int = 0,
    column: int = 0,
    system_error: int = 0,
) -> Error:
    """The exception of a status."""
    kind = _NAMED.get(name) or _CLASSES.get(category, Error)
    return kind(
        message, code=code, name=name, subject=subject, phase=phase, line=line, column=column, system_error=system_error
    )
