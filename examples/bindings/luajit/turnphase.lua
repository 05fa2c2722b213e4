-- SPDX-License-Identifier: Apache-2.0
--[[ turnphase through LuaJIT's FFI: every struct, enum and function of the headers, none of them declared by hand. The
C preprocessor makes the text that LuaJIT reads out of the headers that are installed here.

A Lua state has one thread, and a callback that comes on another one ends the process. So the runtime has no engine
workers: tp_turn_run() and tp_session_close() call on their own thread what has placement inline, every match and every
listener of events. Background work has threads of its own all the same, and a loop that must not block submits its
turns: there handlers take an inbox (turnphase/inbox.h).

No error crosses C: a callback that raises returns 0, which is no answer. What calls back must not be compiled by
LuaJIT's compiler: jit.off(). ]]
local ffi = require('ffi')

-- The file's own lines alone: LuaJIT knows the types of the system's headers.
local function header_text()
  local include = os.getenv('TURNPHASE_INCLUDE')
  include = include and "'" .. include .. "'" or '"$(pkg-config --variable=includedir turnphase)"'
  local compiler = os.getenv('CC') or 'cc'
  local output = assert(io.popen("echo '#include <turnphase/turnphase.h>' | " .. compiler ..
                                 ' -E -std=c99 -U__GNUC__ -I ' .. include .. ' -'))
  local lines, is_own = {}, false
  for line in output:lines() do
    local file = line:match('^# %d+ "(.*)"')
    if file then
      is_own = file:find('/turnphase/[%w_]+%.%w+$') ~= nil
    elseif is_own then
      lines[#lines + 1] = line
    end
  end
  output:close()
  assert(#lines > 0, 'the C preprocessor found no turnphase/turnphase.h')
  return table.concat(lines, '\n')
end

ffi.cdef(header_text())

local M = {
  c = ffi.load(os.getenv('TURNPHASE_LIBRARY') or 'libturnphase.so.0.1'),
  DECIDE = 2ULL ^ 32, -- TP_CAPABILITY_DECIDE: a macro, which LuaJIT does not see
}

local kept = setmetatable({}, {__mode = 'k'}) -- what a struct points to lives as long as the struct

-- A tp_text.
function M.text(words)
  local made = ffi.new('tp_text', words, #words)
  kept[made] = words
  return made
end

-- What a tp_text says.
function M.words(text)
  return ffi.string(text.data, text.size)
end

-- A struct that may grow, with its struct_size; what is not named is zero.
function M.struct(name, fields)
  local made = ffi.new(name)
  made.struct_size = ffi.sizeof(name)
  for field, value in pairs(fields) do
    made[field] = value
  end
  kept[made] = fields
  return made
end

-- An array of pointers to structs.
function M.list(name, ...)
  local made = ffi.new('const ' .. name .. ' *[?]', select('#', ...), ...)
  kept[made] = {...}
  return made
end

-- Calls a function whose last parameter is a fault.
function M.call(name, ...)
  local fault = ffi.new('tp_fault')
  local arguments = {...}
  arguments[select('#', ...) + 1] = fault
  if M.c[name](unpack(arguments, 1, select('#', ...) + 1)) ~= M.c.TP_OK then
    error(name .. ': ' .. ffi.string(fault.message), 0)
  end
end
jit.off(M.call)

-- What a function gives through the parameter before its fault.
function M.made(kind, name, ...)
  local result = ffi.new(kind .. ' *[1]')
  local arguments = {...}
  arguments[select('#', ...) + 1] = result
  M.call(name, unpack(arguments, 1, select('#', ...) + 1))
  return result[0]
end

-- Makes a function callable from C; LuaJIT keeps it till the process ends.
function M.callback(kind, run)
  return ffi.cast(kind, function(...)
    local is_fine, answer = pcall(run, ...)
    return is_fine and tonumber(answer) or 0
  end)
end

-- The same for one that answers nothing.
function M.listener(run)
  return ffi.cast('tp_event_fn', function(_, event)
    pcall(run, event)
  end)
end

return M
