# SPDX-License-Identifier: Apache-2.0
"""The answers of hooks, tools and models, and the reports of turns."""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _core, _errors


class _Members:
    """Their text and comparison, once for all classes here: a dataclass would compile them anew for each, which is half
    of what it adds to the time of the import."""

    __slots__: tuple[str, ...] = ()

    def __repr__(self) -> str:
        members = ', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)
        return f'{type(self).__name__}({members})'

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


class _Verdict(_Members):
    """Of a hook: it cannot be changed, so that it has a hash."""

    __slots__: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.__slots__)))


@dataclasses.dataclass(frozen=True, slots=True, repr=False, eq=False)
class Allow(_Verdict):
    """The verdict allow of a hook."""


@dataclasses.dataclass(frozen=True, slots=True, repr=False, eq=False)
class Deny(_Verdict):
    """The verdict deny of a hook, with a reason that is safe to show."""

    reason: str = ''


@dataclasses.dataclass(frozen=True, slots=True, repr=False, eq=False)
class Ask(_Verdict):
    """The verdict ask of a hook: a person decides."""

    reason: str = ''


@dataclasses.dataclass(frozen=True, slots=True, repr=False, eq=False)
class Failed(_Verdict):
    """A hook could not do its work: its failure policy decides what follows."""

    reason: str = ''
    retryable: bool = False


Verdict = Allow | Deny | Ask | Failed | None


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Part(_Members):
    """An image, a sound, a file, a link or a text of a tool's answer. kind: text, file, image, audio, link."""

    kind: str
    text: str | None = None
    bytes: bytes | None = None
    uri: str | None = None
    media_type: str | None = None
    name: str | None = None
    description: str | None = None


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Answer(_Members):
    """All that a tool can answer: what the model reads, a structured result for the host, and parts."""

    text: str = ''
    value: Any = None
    parts: list[Part] = dataclasses.field(default_factory=list)
    is_error: bool = False


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class ToolCall(_Members):
    """A tool call of a model's response."""

    name: str
    arguments: Any = None
    id: str = ''
    malformed: bool = False


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Response(_Members):
    """The response of a model."""

    text: str = ''
    calls: list[ToolCall] = dataclasses.field(default_factory=list)
    stop_reason: str = ''
    finish: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    provider_data: dict[str, Any] | None = None


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Thinking(_Members):
    """A piece of what a model thinks, among the pieces that it yields."""

    text: str


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Message(_Members):
    """One message of a conversation. role: user, assistant, tool, system or end."""

    role: str
    text: str = ''
    calls: list[ToolCall] = dataclasses.field(default_factory=list)
    call_id: str = ''
    name: str = ''
    is_error: bool = False
    parts: list[Any] = dataclasses.field(default_factory=list)
    value: Any = None
    provider_data: Any = None
    turn_id: str = ''
    ending: Any = None


class Tool:
    """A tool as a model is shown it."""

    __slots__ = ('name', 'description', '_schema')

    def __init__(self, name: str, description: str = '', schema: dict[str, Any] | bytes | None = None) -> None:
        self.name, self.description, self._schema = name, description, schema

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments, which is decoded when it is first read."""
        schema = self._schema
        if isinstance(schema, bytes):
            self._schema = schema = dict(_core.value(schema))
        return {'type': 'object'} if schema is None else schema

    def __repr__(self) -> str:
        return f'Tool({self.name!r}, {self.description!r}, {self.schema!r})'


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class ModelRequest(_Members):
    """A request to a model."""

    messages: list[Message]
    tools: list[Tool]
    system: str = ''
    model: str = ''
    attempt: int = 1
    time_left_ms: int = 0
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    files: list[str] = dataclasses.field(default_factory=list)
    answer_schema: dict[str, Any] | None = None
    session_id: str = ''
    turn_id: str = ''


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Result(_Members):
    """How a turn ended. outcome: completed, failed, denied, cancelled or timed_out."""

    outcome: str = 'none'
    code: int = 0
    text: str = ''
    reason: str = ''
    bare_reason: str = ''
    turn_id: str = ''
    subscription: str = ''
    phase: str = ''
    state: str = ''
    why: str = ''
    iterations: int = 0
    tool_calls: int = 0
    finish: str = 'unknown'
    finish_word: str = ''
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    value: Any = None
    is_stored: bool = False
    retry_ms: int = 0

    def check(self) -> Result:
        """@return the result itself. @raises the exception of its code if the turn did not complete."""
        if self.outcome != 'completed':
            name, category = _NAMES.get(self.outcome, ('', _CATEGORIES.get(self.code // 100, '')))
            raise _errors.of(self.code, name, category, self.reason or self.outcome, self.subscription, self.phase)
        return self


_NAMES = {
    'denied': ('TP_ERR_DENIED', 'hook'),
    'cancelled': ('TP_ERR_CANCELLED', 'canceled'),
    'timed_out': ('TP_ERR_TIMEOUT', 'timeout'),
}
_CATEGORIES = {1: 'usage', 2: 'limit', 3: 'timeout', 4: 'canceled', 5: 'hook', 6: 'store', 7: 'system', 8: 'internal'}


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Event(_Members):
    """Something that happened in a turn; `kind` says which members it has (tp_event_kind of turnphase/turn.h)."""

    kind: str = ''
    text: str = ''
    phase: str = ''
    sequence: int = 0
    unix_ms: int = 0
    status: int = 0
    subscription: str = ''
    call_index: int = 0
    tool_call: ToolCall | None = None
    tool_result: dict[str, Any] | None = None
    contribution: dict[str, Any] | None = None
    question: dict[str, Any] | None = None
    run: dict[str, Any] | None = None
    job: dict[str, Any] | None = None
    model: str = ''
    finish: str = ''
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    lost: int = 0
    agent_id: str = ''
    session_id: str = ''
    turn_id: str = ''
    parent_turn: str = ''


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class ToolResult(_Members):
    """How a tool call ended. kind: ok, handler_error, invalid_arguments, unknown_tool, out_of_scope, denied, timed_out,
    cancelled, crashed, shed or interrupted; text: what the model reads."""

    kind: str = 'none'
    text: str = ''
    name: str = ''
    call_id: str = ''
    value: Any = None
    parts: list[Any] = dataclasses.field(default_factory=list)
    started: bool = False
    completion_order: int = 0
    duration_ns: int = 0
    waited_ns: int = 0
    waited_key: str = ''


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Question(_Members):
    """A question to a person about a tool call. Answered by what the `on_question` function returns."""

    tool: str
    arguments: Any
    reason: str = ''
    subscription: str = ''
    session_id: str = ''
    turn_id: str = ''


@dataclasses.dataclass(slots=True, repr=False, eq=False)
class Decision(_Members):
    """What a person decided; `arguments` replaces those of the call."""

    allow: bool
    reason: str = ''
    person: str = ''
    arguments: dict[str, Any] | None = None


def made(kind: type[Any], shown: dict[str, Any]) -> Any:
    """The object of a dict; members that a newer library adds are left out."""
    try:
        return kind(**shown)
    except TypeError:
        return kind(**{key: value for key, value in shown.items() if key in kind.__dataclass_fields__})


def message_of(shown: dict[str, Any]) -> Message:
    if 'calls' in shown:
        shown['calls'] = [made(ToolCall, call) for call in shown['calls']]
    message: Message = made(Message, shown)
    return message


def request_of(shown: dict[str, Any]) -> ModelRequest:
    shown['messages'] = [message_of(message) for message in shown.get('messages', ())]
    shown['tools'] = [
        Tool(tool['name'], tool.get('description', ''), tool.get('schema'))
        for tool in shown.get('tools', ())
    ]
    request: ModelRequest = made(ModelRequest, shown)
    return request


def event_of(shown: dict[str, Any]) -> Event:
    event: Event = made(Event, shown)
    if event.tool_call is not None:
        event.tool_call = made(ToolCall, shown['tool_call'])
    return event


def dict_of(answer: Any) -> dict[str, Any]:
    """The dict of a dataclass for the library, without empty members."""
    return {name: value for name in answer.__slots__ if (value := getattr(answer, name))}


def call_dict(call: ToolCall) -> dict[str, Any]:
    shown: dict[str, Any] = {'name': call.name}
    if call.arguments is not None:
        shown['arguments'] = call.arguments
    if call.id:
        shown['id'] = call.id
    if call.malformed:
        shown['malformed'] = True
    return shown


def response_dict(response: Response) -> dict[str, Any]:
    shown = dict_of(response)
    if response.calls:
        shown['calls'] = [call if isinstance(call, dict) else call_dict(call) for call in response.calls]
    return shown
