-- SPDX-License-Identifier: Apache-2.0
--[[ A guard, a match and a tool in LuaJIT, each of which also raises: denied, denied, handler_error. Another tool
answers with an image.

    TURNPHASE_LIBRARY=/usr/local/lib/x86_64-linux-gnu/libturnphase.so.0.1 luajit guard.lua ]]
package.path = arg[0]:gsub('[^/]*$', '') .. '?.lua;' .. package.path
local ffi = require('ffi')
local tp = require('turnphase')
local c, struct, text, words = tp.c, tp.struct, tp.text, tp.words

local results = {} -- of tool calls: kind and media type of the first part

local guard = tp.callback('tp_handler_fn', function(_, entry)
  local message = words(c.tp_call_text(entry, c.TP_FIELD_TEXT))
  if message == 'raise' then error('a guard that raises') end
  if message == 'deny' then return c.tp_call_deny(entry, 'not today') end
  return c.tp_call_allow(entry)
end)

local deny_always = tp.callback('tp_handler_fn', function(_, entry)
  return c.tp_call_deny(entry, 'never')
end)

local match_raises = tp.callback('int32_t (*)(void *, const tp_match_view *)', function()
  error('a match that raises')
end)

local tool_raises = tp.callback('tp_tool_fn', function()
  error('a tool that raises')
end)

local image = struct('tp_part', {
  kind = c.TP_PART_IMAGE, bytes = text('\137PNG\r\n\26\n'), media_type = text('image/png'),
})
local peaks = struct('tp_tool_answer', {text = text('Two peaks.'), parts = tp.list('tp_part', image), part_count = 1})
local chart = tp.callback('tp_tool_fn', function(_, run)
  return c.tp_tool_answer_with(run, peaks, nil)
end)

local see_event = tp.listener(function(event)
  if event.kind ~= c.TP_EVENT_TOOL_END then return end
  local result, part = event.tool_result, struct('tp_part', {})
  local has_part = c.tp_part_read(c.tp_value_at(result.parts, 0), part, nil) == c.TP_OK
  results[words(result.name)] = {kind = tonumber(result.kind), media_type = has_part and words(part.media_type)}
end)

local function script_model()
  local broken, drawn = struct('tp_tool_call', {name = text('broken')}), struct('tp_tool_call', {name = text('chart')})
  local asks = struct('tp_model_response', {calls = tp.list('tp_tool_call', broken, drawn), call_count = 2})
  local says = struct('tp_model_response', {text = text('It is done.')})
  return tp.made('tp_model', 'tp_script_model_new', tp.list('tp_model_response', asks, says), 2, true)
end

-- Runs a turn: what came of it.
local function turn(session, message)
  local request = struct('tp_turn_request', {text = text(message)})
  local result = tp.made('const tp_turn_result', 'tp_turn_run', session, request)
  local is_denied = result.outcome == c.TP_TURN_DENIED
  local answered = result.state == c.TP_STATE_SUCCEEDED and result.why == c.TP_REASON_NONE
  local failed = result.state == c.TP_STATE_FAILED and result.why == c.TP_REASON_MALFORMED
  local ended = {
    is_completed = result.outcome == c.TP_TURN_COMPLETED,
    text = words(result.text),
    reason = words(result.bare_reason),
    denied_by = is_denied and answered and words(result.subscription), -- a server says 403
    failed_by = is_denied and failed and words(result.subscription),   -- a server says 503
  }
  c.tp_turn_result_free(result)
  return ended
end

local function check(what, holds)
  print((holds and 'ok' or 'WRONG') .. ': ' .. what)
  if not holds then os.exit(1) end
end

local function main()
  local runtime = tp.made('tp_runtime', 'tp_runtime_new', struct('tp_runtime_options', {no_engine_workers = true}))
  tp.call('tp_hook_add', runtime, struct('tp_hook', {
    id = 'guard', phase = 'turn.intake', run = guard, failure = c.TP_FAILURE_REQUIRED,
    placement = c.TP_PLACEMENT_INLINE,
  }))
  tp.call('tp_tool_add', runtime, struct('tp_tool', {
    name = 'broken', run = tool_raises, placement = c.TP_PLACEMENT_INLINE,
  }))
  tp.call('tp_tool_add', runtime, struct('tp_tool', {name = 'chart', run = chart, placement = c.TP_PLACEMENT_INLINE}))
  local options = struct('tp_session_options', {id = 'first', model = script_model(), on_event = see_event})
  local session = tp.made('tp_session', 'tp_session_open', runtime, options)

  local ended = turn(session, 'hello')
  check('a turn completes', ended.is_completed and ended.text == 'It is done.')
  check('a tool that raises is a handler_error', results.broken.kind == c.TP_TOOL_HANDLER_ERROR)
  check('a tool answers with an image', results.chart.kind == c.TP_TOOL_OK and results.chart.media_type == 'image/png')
  ended = turn(session, 'deny')
  check('a guard denies', ended.denied_by == 'guard' and ended.reason == 'not today')
  check('a guard that raises denies', turn(session, 'raise').failed_by == 'guard')
  tp.call('tp_hook_add', runtime, struct('tp_hook', {
    id = 'strict', phase = 'turn.intake', run = deny_always, failure = c.TP_FAILURE_REQUIRED,
    placement = c.TP_PLACEMENT_INLINE,
    match = struct('tp_match', {matches = match_raises, description = 'a match that raises'}),
  }))
  check('a match that raises denies', turn(session, 'hello').failed_by == 'strict')
  c.tp_session_close(session, nil, nil)
  c.tp_runtime_free(runtime)
end
jit.off(main)

local is_fine, problem = pcall(main)
if not is_fine then
  io.stderr:write(tostring(problem), '\n')
  os.exit(1)
end
