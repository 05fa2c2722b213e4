# SPDX-License-Identifier: Apache-2.0
"""turnphase through ctypes: the structs and functions that a guard, a match, a tool and a turn need.

A callback returns an integer, and 0 is no answer. What ctypes returns for a callback that raised is undefined, so each
is made by answer(), which returns 0 then: a required guard that raises denies, and a tool that raises is a
handler_error. The host keeps a reference to each callback that it registers.
"""

import ctypes
import functools
import os
import re
import traceback

ALLOW, DENY = 2, 3                 # tp_answer
DONE = 1
YES, NO = 1, 2                     # what a match returns
REQUIRED = 3                       # tp_failure
DECIDE = 1 << 32                   # TP_CAPABILITY_DECIDE
COMPLETED, DENIED = 1, 3           # tp_turn_outcome
SUCCEEDED = 3                      # tp_state
NO_REASON, MALFORMED = 0, 6        # tp_reason
HANDLER_ERROR = 2                  # tp_tool_result_kind
TOOL_END = 9                       # tp_event_kind
FIELD_TEXT = 1                     # TP_FIELD_*

ANSWER = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


def on_error(error):
    """What a callback raised; a host puts its own function here."""
    traceback.print_exception(type(error), error, error.__traceback__)


def answer(function):
    """Makes a callback of a guard, match or tool."""
    @functools.wraps(function)
    def call(self, context):
        try:
            return function(self, context)
        except BaseException as error:
            on_error(error)
            return 0
    return ANSWER(call)


class Text(ctypes.Structure):
    _fields_ = [('data', ctypes.c_char_p), ('size', ctypes.c_size_t)]

    def __init__(self, words=''):
        self.bytes = words.encode() if isinstance(words, str) else words
        super().__init__(self.bytes, len(self.bytes))

    def __str__(self):
        return ctypes.string_at(self.data, self.size).decode() if self.size else ''


class Fault(ctypes.Structure):
    _fields_ = [('code', ctypes.c_int32), ('phase', ctypes.c_uint32), ('line', ctypes.c_uint32),
                ('column', ctypes.c_uint32), ('system_error', ctypes.c_int32), ('reserved_', ctypes.c_uint32),
                ('reserved_words_', ctypes.c_uint64 * 12), ('subject', ctypes.c_char * 129),
                ('message', ctypes.c_char * 512), ('reserved_bytes_', ctypes.c_uint8 * 7)]


class Growable(ctypes.Structure):
    """A struct that may grow: its maker sets struct_size."""

    def __init__(self, **values):
        super().__init__(struct_size=ctypes.sizeof(self), **values)


def growable(name, *fields):
    return type(name, (Growable,), {'_fields_': [('struct_size', ctypes.c_size_t)] + list(fields)})


P, S, U32, I32, U64, SIZE = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_int32, ctypes.c_uint64,
                             ctypes.c_size_t)
BYTE, I64 = ctypes.c_uint8, ctypes.c_int64

Hook = growable('tp_hook', ('id', S), ('phase', S), ('run', ANSWER), ('inbox', P), ('ctx', P), ('destroy', P),
                ('failure', U32), ('limit_ms', U32), ('placement', U32), ('reserved_', U32))
Match = growable('tp_match', ('matches', ANSWER), ('destroy', P), ('ctx', P), ('description', S), ('fields', P),
                 ('field_count', SIZE))
Handler = growable('tp_handler', ('id', S), ('summary', S), ('run', ANSWER), ('inbox', P), ('ctx', P), ('destroy', P),
                   ('phases', ctypes.POINTER(U32)), ('phase_count', SIZE), ('capabilities', U64),
                   ('contract_version', U32), ('placement', U32), ('idempotent', BYTE), ('reserved_', BYTE * 7))
Subscription = growable('tp_subscription', ('id', S), ('handler', S), ('phase', U32), ('phase_name', S),
                        ('disabled', BYTE), ('priority', I32), ('execution', U32), ('limit_ms', U32),
                        ('failure', U32), ('fallback_verdict', U32), ('fallback', P), ('fallback_count', SIZE),
                        ('attempts', U32), ('backoff', U32), ('backoff_ms', U32), ('max_concurrent', U32),
                        ('sequential', U32), ('visibility', U32), ('after', P), ('before', P), ('needs', P),
                        ('after_count', SIZE), ('before_count', SIZE), ('needs_count', SIZE),
                        ('match', ctypes.POINTER(Match)), ('metadata', S))
Tool = growable('tp_tool', ('name', S), ('description', S), ('schema', Text), ('run', ANSWER), ('ctx', P),
                ('placement', U32), ('idempotent', BYTE), ('max_concurrent', U32), ('limit_ms', U32),
                ('result_bytes_max', U32), ('reserved_', U32))
ToolCall = growable('tp_tool_call', ('id', Text), ('name', Text), ('arguments', Text), ('malformed', BYTE),
                    ('reserved_', U32))
ModelResponse = growable('tp_model_response', ('text', Text), ('calls', ctypes.POINTER(ctypes.POINTER(ToolCall))),
                         ('call_count', SIZE), ('stop_reason', Text), ('input_tokens', I64), ('output_tokens', I64),
                         ('cost_micros', I64))
ToolResult = growable('tp_tool_result', ('kind', U32), ('started', BYTE), ('completion_order', U32),
                      ('reserved_', U32), ('call_id', Text), ('name', Text), ('text', Text), ('duration_ns', I64))
# What stands behind the last field here is left out: an older and shorter struct is as good.
Event = growable('tp_event', ('kind', U32), ('phase', U32), ('sequence', U64), ('time_ns', I64), ('unix_ms', I64),
                 ('ids', P), ('id_count', U32), ('status', U32), ('visibility', U32), ('call_index', U32),
                 ('text', Text), ('subscription', S), ('run', P), ('contribution', P), ('tool_call', P),
                 ('tool_result', ctypes.POINTER(ToolResult)))
ON_EVENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Event))
SessionOptions = growable('tp_session_options', ('id', S), ('tenant', S), ('workspace', S), ('thread', S),
                          ('agent', P), ('model', P), ('history', P), ('shared_history', P), ('on_event', ON_EVENT),
                          ('event_ctx', P))
TurnRequest = growable('tp_turn_request', ('id', S), ('task', S), ('run', S), ('mode', S), ('caller', U32),
                       ('text', Text))
TurnResult = growable('tp_turn_result', ('outcome', U32), ('code', U32), ('text', Text), ('reason', Text),
                      ('turn_id', Text), ('phase', U32), ('state', U32), ('why', U32), ('iterations', U32),
                      ('tool_calls', U32), ('reserved_', U32), ('subscription', Text), ('bare_reason', Text))

STRUCTS = [Hook, Match, Handler, Subscription, Tool, ToolCall, ToolResult, ModelResponse, Event, SessionOptions,
           TurnRequest, TurnResult]


def check_layout(path):
    """Whether the structs above lie as those of the headers do (tests/headers/layout.txt of the source tree)."""
    places, sizes, name = {}, {}, None
    try:
        with open(path, errors='replace') as file:
            lines = file.readlines()
    except OSError as error:
        raise SystemExit('%s: %s; name tests/headers/layout.txt of the source tree' % (path, error.strerror))
    for line in lines:
        if re.match(r'tp_\w+ \d+', line):
            name = line.split()[0]
            sizes[name] = int(line.split()[1])
        elif re.match(r'  \d+ \d+ \w+', line):
            offset, size, field = line.split()
            places[name, field] = int(offset), int(size)
    if 'tp_text' not in sizes:
        raise SystemExit('%s has no table of structs; name tests/headers/layout.txt of the source tree' % path)
    for name, struct in [('tp_text', Text), ('tp_fault', Fault)] + [(s.__name__, s) for s in STRUCTS]:
        for field, _ in struct._fields_:
            here = getattr(struct, field)
            if places.get((name, field)) != (here.offset, here.size):
                raise SystemExit('%s.%s does not lie as the header says' % (name, field))
    if ctypes.sizeof(Fault) != sizes['tp_fault']:  # the library writes all of it
        raise SystemExit('tp_fault has another size than the header says')


class Error(Exception):
    pass


class Library:
    """The functions; those that may fail raise Error with the words of the fault."""

    def __init__(self, path=None):
        self.c = ctypes.CDLL(path or os.environ.get('TURNPHASE_LIBRARY', 'libturnphase.so.0.1'))
        self.c.tp_call_text.restype = Text
        self.c.tp_call_text.argtypes = [P, U32]
        self.c.tp_call_allow.argtypes = [P]
        self.c.tp_call_deny.argtypes = [P, S]
        self.c.tp_call_emit_tool_bundle.argtypes = [P, S, P, SIZE]
        for name in ('tp_runtime_free', 'tp_turn_result_free'):
            getattr(self.c, name).argtypes = [P]
            getattr(self.c, name).restype = None
        self.c.tp_session_close.argtypes = [P, P, P]
        self.c.tp_session_close.restype = None

    def call(self, name, *arguments):
        """Calls a function whose last parameter is a fault."""
        fault = Fault()
        status = getattr(self.c, name)(*arguments, ctypes.byref(fault))
        if status:
            raise Error('%s: %s' % (name, fault.message.decode(errors='replace')))
