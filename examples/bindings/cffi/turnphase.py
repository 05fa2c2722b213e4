# SPDX-License-Identifier: Apache-2.0
"""turnphase through cffi (1.15 or later) in ABI mode: every struct, enum and function of the headers, none of them
declared by hand. The C preprocessor makes the text that cffi reads out of the headers that are installed here.

A callback returns an integer, and 0 is no answer: cffi returns 0 for a callback that raised, so a required guard that
raises denies, and a tool that raises is a handler_error. What is handed to the library is kept by its maker.
"""

import os
import shlex
import subprocess
import tempfile
import weakref

import cffi

DECIDE = 1 << 32  # TP_CAPABILITY_DECIDE: a macro, which cffi does not see


def header_text():
    """turnphase.h with all that it includes, as C without compiler extensions and without the headers of the system,
    whose types cffi knows."""
    include = os.environ.get('TURNPHASE_INCLUDE') or subprocess.check_output(
        ['pkg-config', '--variable=includedir', 'turnphase'], text=True).strip()
    with tempfile.TemporaryDirectory() as empty:
        for name in 'stdbool.h', 'stddef.h', 'stdint.h':
            open(os.path.join(empty, name), 'w').close()
        return subprocess.run(shlex.split(os.environ.get('CC', 'cc')) +
                              ['-E', '-P', '-std=c99', '-U__GNUC__', '-nostdinc', '-I', empty, '-I', include, '-'],
                              input='#include <turnphase/turnphase.h>\n', stdout=subprocess.PIPE, text=True,
                              check=True).stdout


ffi = cffi.FFI()
ffi.cdef(header_text())
lib = ffi.dlopen(os.environ.get('TURNPHASE_LIBRARY', 'libturnphase.so.0.1'))

kept = weakref.WeakKeyDictionary()  # what a struct points to lives as long as the struct


class Error(Exception):
    pass


def text(words):
    """A tp_text, as the value of a field."""
    data = words.encode()
    return ffi.new('char[]', data), len(data)


def words(text):
    """What a tp_text says."""
    return ffi.buffer(text.data, text.size)[:].decode() if text.size else ''


def struct(kind, /, **fields):
    """A struct that may grow, with struct_size; a str becomes a C string, a list an array of pointers or of numbers."""
    made = ffi.new(kind + ' *')
    made.struct_size = ffi.sizeof(made[0])
    types = dict(ffi.typeof(made[0]).fields)
    keep = kept[made] = []
    for field, value in fields.items():
        if isinstance(value, str):
            value = ffi.new('char[]', value.encode())
        elif isinstance(value, list):
            keep.extend(value)
            value = ffi.new(ffi.getctype(types[field].type.item, '[]'), value)
        keep.append(value)
        setattr(made, field, value)
    return made


def call(function, *arguments):
    """Calls a function whose last parameter is a fault."""
    fault = ffi.new('tp_fault *')
    if function(*arguments, fault) != lib.TP_OK:
        raise Error(ffi.string(fault.message).decode(errors='replace'))


def made(kind, function, *arguments):
    """What a function gives through the parameter before its fault."""
    result = ffi.new(kind + ' **')
    call(function, *arguments, result)
    return result[0]
