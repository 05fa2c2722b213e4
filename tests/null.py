#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls every public function with NULL where an object belongs, as turnphase.abi.json lists them.

Each call runs in a child of its own: numbers are 0, structs by value are zero, callbacks are NULL, and so is every
pointer but those to results (ret_…) and to the fault. No call may end its process. A function that returns tp_status
returns an error, with a fault where it has one, unless NEUTRAL says that NULL is what it documents.

null.py DESCRIPTION LIBRARY…"""
import ctypes
import json
import os
import signal
import sys

# What NULL means there is documented: options with their defaults, the allocator of the C library, an empty list, and a
# session that is closed already.
NEUTRAL = {'tp_history_memory_new', 'tp_process_loop_new', 'tp_runtime_new', 'tp_script_model_new',
           'tp_session_close_with', 'tp_store_memory_new', 'tp_writer_new'}

NUMBERS = {'bool': ctypes.c_bool, 'double': ctypes.c_double, 'int32_t': ctypes.c_int32, 'int64_t': ctypes.c_int64,
           'size_t': ctypes.c_size_t, 'uint32_t': ctypes.c_uint32, 'uint64_t': ctypes.c_uint64, 'int': ctypes.c_int}


def c_type(abi, name):
    """The ctypes type of a parameter or result."""
    if name == 'void':
        return None
    if '*' in name or '[' in name or name in abi['callbacks']:
        return ctypes.c_void_p
    if name in NUMBERS:
        return NUMBERS[name]
    if name in abi['structs']:
        words = abi['structs'][name]['size'] // 8
        return type(name, (ctypes.Structure,), {'_fields_': [('word%d' % i, ctypes.c_uint64) for i in range(words)]})
    if name in abi['enums']:
        return NUMBERS.get(abi['enums'][name]['type'], ctypes.c_int32)
    return NUMBERS[abi['types'][name]['type']]


def arguments_of(described, fault):
    """@return the arguments, and what keeps the memory of results."""
    kept, values = [], []
    for parameter in described['parameters']:
        kind, name = parameter['type'], parameter['name']
        if name == 'fault' and kind == 'tp_fault *':
            values.append(ctypes.addressof(fault))
        elif name.startswith('ret_') and '*' in kind:
            kept.append(ctypes.create_string_buffer(1024))
            values.append(ctypes.addressof(kept[-1]))
        else:
            values.append(None)
    return values, kept


def call(abi, library, name):
    """In the child. @return what is wrong, or nothing."""
    described = abi['functions'][name]
    function = getattr(library, name)
    function.restype = c_type(abi, described['returns'])
    kinds = [c_type(abi, parameter['type']) for parameter in described['parameters']]
    function.argtypes = kinds
    fault = ctypes.create_string_buffer(abi['structs']['tp_fault']['size'])
    values, _kept = arguments_of(described, fault)
    result = function(*[kind() if value is None else value for kind, value in zip(kinds, values)])
    if described['returns'] != 'tp_status' or name in NEUTRAL:
        return ''
    if result == 0:
        return 'returned TP_OK'
    if any(parameter['type'] == 'tp_fault *' for parameter in described['parameters']):
        if int.from_bytes(fault.raw[:4], 'little') != result:
            return 'returned %d without a fault' % result
    return ''


def takes_object(described):
    """Whether a parameter is a pointer to an object, and no result, text or context."""
    return any('tp_' in parameter['type'] and '*' in parameter['type'] and not parameter['name'].startswith('ret_') and
               parameter['type'] != 'tp_fault *' for parameter in described['parameters'])


def judge(abi, library, name):
    """@return what is wrong with a function, or nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(20)
        os.write(writer, call(abi, library, name).encode())
        os._exit(0)
    os.close(writer)
    wrong = b''
    while more := os.read(reader, 4096):
        wrong += more
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return 'ended its process by %s' % signal.Signals(os.WTERMSIG(status)).name
    return wrong.decode() if os.WEXITSTATUS(status) == 0 else 'exit status %d' % os.WEXITSTATUS(status)


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        abi = json.load(file)
    libraries = {}
    for path in sys.argv[2:]:
        libraries[os.path.basename(path).split('.so')[0][3:]] = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    called = wrong = 0
    for name, described in abi['functions'].items():
        library = libraries.get(abi['headers'][described['header']]['library'])
        if not library or not takes_object(described):
            continue
        called += 1
        flaw = judge(abi, library, name)
        if flaw:
            wrong += 1
            print('%s: %s' % (name, flaw))
    print('%d functions called with NULL, %d wrong' % (called, wrong))
    return 1 if wrong or called < 100 else 0


sys.exit(main())
