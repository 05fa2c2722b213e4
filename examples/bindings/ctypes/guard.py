# SPDX-License-Identifier: Apache-2.0
"""A guard, a match and a tool in Python through ctypes, each of which also raises: denied, denied, handler_error.

    TURNPHASE_LIBRARY=/usr/local/lib/x86_64-linux-gnu/libturnphase.so.0.1 python3 guard.py [LAYOUT]
"""

import ctypes
import sys

import turnphase as tp

library = tp.Library()
kinds = []


@tp.answer
def guard(_, call):
    text = str(library.c.tp_call_text(call, tp.FIELD_TEXT))
    if text == 'raise':
        raise ValueError('a guard that raises')
    return library.c.tp_call_deny(call, b'not today') if text == 'deny' else library.c.tp_call_allow(call)


@tp.answer
def deny_always(_, call):
    return library.c.tp_call_deny(call, b'never')


@tp.answer
def match_raises(_, view):
    raise ValueError('a match that raises')


@tp.answer
def tool_raises(_, run):
    raise ValueError('a tool that raises')


tool = tp.Tool(name=b'broken', run=tool_raises)
tools = (ctypes.POINTER(tp.Tool) * 1)(ctypes.pointer(tool))


@tp.answer
def emit_tools(_, call):
    return tp.DONE if library.c.tp_call_emit_tool_bundle(call, b'tools', tools, 1) == 0 else 5


@tp.ON_EVENT
def see_event(_, event):
    if event[0].kind == tp.TOOL_END:
        kinds.append(event[0].tool_result[0].kind)


def script_model():
    wanted = tp.ToolCall(name=tp.Text('broken'))
    calls = (ctypes.POINTER(tp.ToolCall) * 1)(ctypes.pointer(wanted))
    asks = tp.ModelResponse(calls=calls, call_count=1)
    says = tp.ModelResponse(text=tp.Text('It is done.'))
    responses = (ctypes.POINTER(tp.ModelResponse) * 2)(ctypes.pointer(asks), ctypes.pointer(says))
    model = ctypes.c_void_p()
    library.call('tp_script_model_new', responses, ctypes.c_size_t(2), ctypes.c_bool(True), ctypes.byref(model))
    return model


def subscribe_with_match(runtime):
    edit, phases = ctypes.c_void_p(), (ctypes.c_uint32 * 1)(library.c.tp_phase_find(runtime, b'turn.intake'))
    match = tp.Match(matches=match_raises, description=b'a match that raises')
    handler = tp.Handler(id=b'strict', run=deny_always, phases=phases, phase_count=1, capabilities=tp.DECIDE)
    subscription = tp.Subscription(id=b'strict', handler=b'strict', phase_name=b'turn.intake', failure=tp.REQUIRED,
                                   match=ctypes.pointer(match))
    library.call('tp_edit_begin', runtime, None, ctypes.byref(edit))
    library.call('tp_edit_add_handler', edit, ctypes.byref(handler))
    library.call('tp_edit_add_subscription', edit, ctypes.byref(subscription))
    library.call('tp_edit_commit', edit, None)


def turn(session, words):
    request, result = tp.TurnRequest(text=tp.Text(words)), ctypes.POINTER(tp.TurnResult)()
    library.call('tp_turn_run', session, ctypes.byref(request), ctypes.byref(result))
    ended = result[0]
    seen = (ended.outcome, str(ended.text), str(ended.subscription), str(ended.bare_reason),
            (ended.state == tp.SUCCEEDED, ended.why))
    library.c.tp_turn_result_free(result)
    return seen


def check(what, holds):
    print('%s: %s' % ('ok' if holds else 'WRONG', what), flush=True)
    if not holds:
        sys.exit(1)


def main():
    if len(sys.argv) > 1:
        tp.check_layout(sys.argv[1])
    tp.on_error = lambda error: None  # what the callbacks raise is meant
    runtime, session = ctypes.c_void_p(), ctypes.c_void_p()
    library.call('tp_runtime_new', None, ctypes.byref(runtime))
    for name, phase, run, failure in ((b'guard', b'turn.intake', guard, tp.REQUIRED),
                                      (b'tools', b'turn.pre_tool_materialization', emit_tools, 0)):
        hook = tp.Hook(id=name, phase=phase, run=run, failure=failure)
        library.call('tp_hook_add', runtime, ctypes.byref(hook))
    options = tp.SessionOptions(id=b'first', model=script_model(), on_event=see_event)
    library.call('tp_session_open', runtime, ctypes.byref(options), ctypes.byref(session))

    answered, failed = (True, tp.NO_REASON), (False, tp.MALFORMED)  # a server says 403, or 503
    outcome, text, _, _, _ = turn(session, 'hello')
    check('a turn completes', outcome == tp.COMPLETED and text == 'It is done.')
    check('a tool that raises is a handler_error', kinds == [tp.HANDLER_ERROR])
    outcome, _, who, why, how = turn(session, 'deny')
    check('a guard denies', outcome == tp.DENIED and (who, why) == ('guard', 'not today') and how == answered)
    outcome, _, who, _, how = turn(session, 'raise')
    check('a guard that raises denies', outcome == tp.DENIED and who == 'guard' and how == failed)
    subscribe_with_match(runtime)
    outcome, _, who, _, how = turn(session, 'hello')
    check('a match that raises denies', outcome == tp.DENIED and who == 'strict' and how == failed)
    library.c.tp_session_close(session, None, None)
    library.c.tp_runtime_free(runtime)


main()
