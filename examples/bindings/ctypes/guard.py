# SPDX-License-Identifier: Apache-2.0
"""A guard, a match and a tool in Python through ctypes, each of which also raises: denied, denied, handler_error.
Another tool answers with an image.

    TURNPHASE_LIBRARY=/usr/local/lib/x86_64-linux-gnu/libturnphase.so.0.1 python3 guard.py
"""

import ctypes
import sys

import turnphase as tp

library = tp.Library()
results = {}  # of tool calls: kind and media types of the parts


@tp.answer('tp_handler_fn')
def guard(_, call):
    text = str(library.c.tp_call_text(call, tp.TP_FIELD_TEXT))
    if text == 'raise':
        raise ValueError('a guard that raises')
    return library.c.tp_call_deny(call, b'not today') if text == 'deny' else library.c.tp_call_allow(call)


@tp.answer('tp_handler_fn')
def deny_always(_, call):
    return library.c.tp_call_deny(call, b'never')


@tp.answer('int32_t (*)(void *ctx, const tp_match_view *view)')
def match_raises(_, view):
    raise ValueError('a match that raises')


@tp.answer('tp_tool_fn')
def tool_raises(_, run):
    raise ValueError('a tool that raises')


@tp.answer('tp_tool_fn')
def chart(_, run):
    image = tp.tp_part(kind=tp.TP_PART_IMAGE, bytes=tp.text(b'\x89PNG\r\n\x1a\n'), media_type='image/png')
    answer = tp.tp_tool_answer(text='Two peaks.', parts=[image], part_count=1)
    return library.c.tp_tool_answer_with(run, ctypes.byref(answer), None)


def media_types(parts):
    for i in range(library.c.tp_value_count(parts)):
        part = tp.tp_part()
        if library.c.tp_part_read(library.c.tp_value_at(parts, i), ctypes.byref(part), None) == tp.TP_OK:
            yield str(part.media_type)


@tp.answer('tp_event_fn')
def see_event(_, event):
    if event[0].kind == tp.TP_EVENT_TOOL_END:
        result = event[0].tool_result[0]
        results[str(result.name)] = result.kind, list(media_types(result.parts))


def script_model():
    asks = tp.tp_model_response(calls=[tp.tp_tool_call(name='broken'), tp.tp_tool_call(name='chart')], call_count=2)
    says = tp.tp_model_response(text='It is done.')
    responses = (ctypes.POINTER(tp.tp_model_response) * 2)(ctypes.pointer(asks), ctypes.pointer(says))
    return library.made('tp_script_model_new', responses, 2, True)


class Turn:
    """Runs a turn: what came of it."""

    def __init__(self, session, message):
        result = library.made('tp_turn_run', session, tp.tp_turn_request(text=message))
        ended = result[0]
        self.text, self.reason = str(ended.text), str(ended.bare_reason)
        self.is_completed = ended.outcome == tp.TP_TURN_COMPLETED
        is_denied, by = ended.outcome == tp.TP_TURN_DENIED, str(ended.subscription)
        answered = ended.state == tp.TP_STATE_SUCCEEDED and ended.why == tp.TP_REASON_NONE
        failed = ended.state == tp.TP_STATE_FAILED and ended.why == tp.TP_REASON_MALFORMED
        self.denied_by = by if is_denied and answered else None  # a server says 403
        self.failed_by = by if is_denied and failed else None    # a server says 503
        library.c.tp_turn_result_free(result)


def check(what, holds):
    print('%s: %s' % ('ok' if holds else 'WRONG', what), flush=True)
    if not holds:
        sys.exit(1)


def main():
    tp.on_error = lambda error: None  # what the callbacks raise is meant
    runtime = library.made('tp_runtime_new', None)
    library.call('tp_hook_add', runtime, tp.tp_hook(id='guard', phase='turn.intake', run=guard,
                                                    failure=tp.TP_FAILURE_REQUIRED))
    library.call('tp_tool_add', runtime, tp.tp_tool(name='broken', run=tool_raises))
    library.call('tp_tool_add', runtime, tp.tp_tool(name='chart', run=chart))
    options = tp.tp_session_options(id='first', model=script_model(), on_event=see_event)
    session = library.made('tp_session_open', runtime, options)

    turn = Turn(session, 'hello')
    check('a turn completes', turn.is_completed and turn.text == 'It is done.')
    check('a tool that raises is a handler_error', results['broken'] == (tp.TP_TOOL_HANDLER_ERROR, []))
    check('a tool answers with an image', results['chart'] == (tp.TP_TOOL_OK, ['image/png']))
    turn = Turn(session, 'deny')
    check('a guard denies', turn.denied_by == 'guard' and turn.reason == 'not today')
    check('a guard that raises denies', Turn(session, 'raise').failed_by == 'guard')
    match = tp.tp_match(matches=match_raises, description='a match that raises')
    library.call('tp_hook_add', runtime, tp.tp_hook(id='strict', phase='turn.intake', run=deny_always, match=match,
                                                    failure=tp.TP_FAILURE_REQUIRED))
    check('a match that raises denies', Turn(session, 'hello').failed_by == 'strict')
    library.c.tp_session_close(session, tp.c_type('void (*)(void *ctx)')(), None)
    library.c.tp_runtime_free(runtime)


main()
