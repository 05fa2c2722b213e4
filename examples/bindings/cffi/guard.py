# SPDX-License-Identifier: Apache-2.0
"""A guard, a match and a tool in Python through cffi, each of which also raises: denied, denied, handler_error. Another
tool answers with an image.

    python3 build.py && python3 guard.py
"""

import sys

from turnphase import call, ctx_of, ffi, lib, made, raised, struct, text, words

NULL = ffi.NULL
results = {}  # of tool calls: kind and media types of the parts


def guard(entry):
    message = words(lib.tp_call_text(entry, lib.TP_FIELD_TEXT))
    if message == 'raise':
        raise ValueError('a guard that raises')
    return lib.tp_call_deny(entry, b'not today') if message == 'deny' else lib.tp_call_allow(entry)


def deny_always(entry):
    return lib.tp_call_deny(entry, b'never')


def match_raises(view):
    raise ValueError('a match that raises')


def tool_raises(run):
    raise ValueError('a tool that raises')


def chart(run):
    png = ffi.from_buffer(b'\x89PNG\r\n\x1a\n')
    image = struct('tp_part', kind=lib.TP_PART_IMAGE, bytes=(png, len(png)), media_type=text('image/png'))
    return lib.tp_tool_answer_with(run, struct('tp_tool_answer', text=text('Two peaks.'), parts=[image], part_count=1),
                                   NULL)


def media_types(parts):
    for i in range(lib.tp_value_count(parts)):
        part = struct('tp_part')
        if lib.tp_part_read(lib.tp_value_at(parts, i), part, NULL) == lib.TP_OK:
            yield words(part.media_type)


def see_event(event):
    if event.kind == lib.TP_EVENT_TOOL_END:
        result = event.tool_result
        results[words(result.name)] = result.kind, list(media_types(result.parts))


def script_model():
    wanted = [struct('tp_tool_call', name=text(name)) for name in ('broken', 'chart')]
    asks = struct('tp_model_response', calls=wanted, call_count=2)
    says = struct('tp_model_response', text=text('It is done.'))
    return made('tp_model', lib.tp_script_model_new, ffi.new('const tp_model_response *[]', [asks, says]), 2, True)


def add_hook(runtime, name, phase, run, **fields):
    call(lib.tp_hook_add, runtime, struct('tp_hook', id=name, phase=phase, run=lib.tpy_handler, ctx=ctx_of(run),
                                          destroy=lib.tpy_destroy, **fields))


class Turn:
    """Runs a turn: what came of it."""

    def __init__(self, session, message):
        result = made('const tp_turn_result', lib.tp_turn_run, session, struct('tp_turn_request', text=text(message)))
        self.text, self.reason = words(result.text), words(result.bare_reason)
        self.is_completed = result.outcome == lib.TP_TURN_COMPLETED
        is_denied = result.outcome == lib.TP_TURN_DENIED
        answered = result.state == lib.TP_STATE_SUCCEEDED and result.why == lib.TP_REASON_NONE
        failed = result.state == lib.TP_STATE_FAILED and result.why == lib.TP_REASON_MALFORMED
        self.denied_by = words(result.subscription) if is_denied and answered else None  # a server says 403
        self.failed_by = words(result.subscription) if is_denied and failed else None    # a server says 503
        lib.tp_turn_result_free(result)


def check(what, holds):
    print('%s: %s' % ('ok' if holds else 'WRONG', what), flush=True)
    if not holds:
        sys.exit(1)


def main():
    runtime = made('tp_runtime', lib.tp_runtime_new, NULL)
    add_hook(runtime, 'guard', 'turn.intake', guard, failure=lib.TP_FAILURE_REQUIRED)
    for name, tool in ('broken', tool_raises), ('chart', chart):
        call(lib.tp_tool_add, runtime, struct('tp_tool', name=name, run=lib.tpy_tool, ctx=ctx_of(tool),
                                              destroy=lib.tpy_destroy))
    options = struct('tp_session_options', id='first', model=script_model(), on_event=lib.tpy_event,
                     event_ctx=ctx_of(see_event))
    session = made('tp_session', lib.tp_session_open, runtime, options)

    turn = Turn(session, 'hello')
    check('a turn completes', turn.is_completed and turn.text == 'It is done.')
    check('a tool that raises is a handler_error', results['broken'] == (lib.TP_TOOL_HANDLER_ERROR, []))
    check('a tool answers with an image', results['chart'] == (lib.TP_TOOL_OK, ['image/png']))
    turn = Turn(session, 'deny')
    check('a guard denies', turn.denied_by == 'guard' and turn.reason == 'not today')
    check('a guard that raises denies', Turn(session, 'raise').failed_by == 'guard')
    match = struct('tp_match', matches=lib.tpy_match, ctx=ctx_of(match_raises), destroy=lib.tpy_destroy,
                   description='a match that raises')
    add_hook(runtime, 'strict', 'turn.intake', deny_always, failure=lib.TP_FAILURE_REQUIRED, match=match)
    check('a match that raises denies', Turn(session, 'hello').failed_by == 'strict')
    check('each of them raised', raised == ['a tool that raises', 'a guard that raises', 'a match that raises'])
    lib.tp_session_close(session, NULL, NULL)
    lib.tp_runtime_free(runtime)


main()
