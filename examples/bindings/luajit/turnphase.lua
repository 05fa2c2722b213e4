-- SPDX-License-Identifier: Apache-2.0
--[[ turnphase through LuaJIT's FFI: every struct, enum and function of the core, none of them declared by hand.
turnphase.abi.json, which is installed with the library, describes them.

A Lua state has one thread, and a callback that comes on another one ends the process. So the runtime has no engine
workers: tp_turn_run() and tp_session_close() call on their own thread what has placement inline, every match and every
listener of events. Background work has threads of its own all the same, and a loop that must not block submits its
turns: there handlers take an inbox (turnphase/inbox.h).

No error crosses C: a callback that raises returns 0, which is no answer. What calls back must not be compiled by
LuaJIT's compiler: jit.off(). ]]
local ffi = require('ffi')

-- ---- a reader of JSON -----------------------------------------------------------------------------------------------

local escapes = {n = '\n', t = '\t', r = '\r', b = '\b', f = '\f'}

local function read_string(text, at)
  local close = at + 1
  while text:sub(close, close) ~= '"' do
    close = close + (text:sub(close, close) == '\\' and 2 or 1)
  end
  local words = text:sub(at + 1, close - 1):gsub('\\u%x%x%x%x', '?'):gsub('\\(.)', function(letter)
    return escapes[letter] or letter
  end)
  return words, close + 1
end

-- The value that begins at a place, and the place behind it. An object keeps the order of its names in [0].
local function read_value(text, at)
  at = text:find('%S', at)
  local letter = text:sub(at, at)
  if letter == '"' then return read_string(text, at) end
  if letter == '{' or letter == '[' then
    local made, names, close = {}, {}, letter == '{' and '}' or ']'
    at = text:find('%S', at + 1)
    while text:sub(at, at) ~= close do
      local name = #made + 1
      if letter == '{' then
        name, at = read_string(text, at)
        names[#names + 1] = name
        at = text:find(':', at, true) + 1
      end
      made[name], at = read_value(text, at)
      at = text:find('[^%s,]', at)
    end
    if letter == '{' then made[0] = names end
    return made, at + 1
  end
  local word = text:match('^[%w.+-]+', at)
  local value = tonumber(word)
  if value == nil then value = word == 'true' end
  return value, at + #word
end

local function read_abi()
  local path = os.getenv('TURNPHASE_ABI')
  if not path then
    local output = assert(io.popen('pkg-config --variable=abi turnphase'))
    path = output:read('*l')
    output:close()
  end
  local file = assert(io.open(assert(path, 'pkg-config does not know turnphase'), 'rb'))
  local text = file:read('*a')
  file:close()
  return (read_value(text, 1))
end

-- ---- what LuaJIT is told --------------------------------------------------------------------------------------------

local abi = read_abi()
local lines = {}

-- Calls a function with each entry of a table of the core, in its order.
local function each(section, visit)
  for _, name in ipairs(abi[section][0]) do
    local entry = abi[section][name]
    if abi.headers[entry.header].library == 'turnphase' then visit(name, entry) end
  end
end

local function add(format, ...)
  lines[#lines + 1] = format:format(...)
end

local function signature(entry, name)
  local parameters = {}
  for index, parameter in ipairs(entry.parameters) do parameters[index] = parameter.type end
  return ('%s %s(%s)'):format(entry.returns, name, #parameters > 0 and table.concat(parameters, ', ') or 'void')
end

local written = {}
local function add_struct(name, entry)
  if written[name] then return end
  written[name] = true
  for _, member in ipairs(entry.members) do
    if member.kind == 'struct' then add_struct(member.type, abi.structs[member.type]) end
  end
  add('struct %s {', name)
  for _, member in ipairs(entry.members) do
    if member.type:find('(*)', 1, true) then
      add('  %s;', (member.type:gsub('%(%*%)', '(*' .. member.name .. ')', 1)))
    else
      add('  %s %s%s;', member.type, member.name, member.length and ('[%d]'):format(member.length) or '')
    end
  end
  add('};')
end

for _, section in ipairs({'handles', 'structs'}) do
  each(section, function(name) add('typedef struct %s %s;', name, name) end)
end
each('types', function(name, entry) add('typedef %s %s;', entry.type, name) end)
each('enums', function(name, entry)
  local values = {}
  for index, value in ipairs(entry.values[0]) do values[index] = ('%s = %d'):format(value, entry.values[value]) end
  if entry.type == 'enum' then
    add('typedef enum %s { %s } %s;', name, table.concat(values, ', '), name)
  else
    add('enum { %s }; typedef %s %s;', table.concat(values, ', '), entry.type, name)
  end
end)
each('callbacks', function(name, entry) add('typedef %s;', signature(entry, '(*' .. name .. ')')) end)
each('structs', add_struct)
each('functions', function(name, entry) add('%s;', signature(entry, name)) end)
ffi.cdef(table.concat(lines, '\n'))

-- What LuaJIT reads lies as the compiler of the library laid it.
each('structs', function(name, entry)
  for _, member in ipairs(entry.members) do
    assert(ffi.offsetof(name, member.name) == member.offset, name .. '.' .. member.name .. ' does not lie as described')
  end
  assert(ffi.sizeof(name) == entry.size, name .. ' has another size than described')
end)

local M = {c = ffi.load(os.getenv('TURNPHASE_LIBRARY') or 'libturnphase.so.0.1')}

-- The constants that are no enums: M.TP_VERSION_NUMBER.
each('constants', function(name, entry)
  M[name] = type(entry.value) == 'number' and ffi.cast('uint64_t', entry.value) or entry.value
end)

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
