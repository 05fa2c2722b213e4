# SPDX-License-Identifier: Apache-2.0
"""turnphase through cffi (1.15 or later) in API mode: every struct, enum and function of the core. build.py makes the
module _turnphase, which this one needs.

A callback returns an integer, and 0 is no answer: cffi returns 0 for a callback that raised, so a required guard that
raises denies, and a tool that raises is a handler_error. What is handed to the library lives until the library destroys
it.
"""

import weakref

from _turnphase import ffi, lib

kept = weakref.WeakKeyDictionary()  # what a struct points to lives as long as the struct
handles = set()                     # of the functions that the library calls, until it destroys them
raised = []                         # what the callbacks raised; a host logs it


def note(error, value, traceback):
    raised.append(str(value))


@ffi.def_extern(onerror=note)
def tpy_handler(ctx, call):
    return ffi.from_handle(ctx)(call)


@ffi.def_extern(onerror=note)
def tpy_tool(ctx, run):
    return ffi.from_handle(ctx)(run)


@ffi.def_extern(onerror=note)
def tpy_match(ctx, view):
    return ffi.from_handle(ctx)(view)


@ffi.def_extern(onerror=note)
def tpy_event(ctx, event):
    ffi.from_handle(ctx)(event)


@ffi.def_extern()
def tpy_destroy(ctx):
    handles.discard(ctx)


class Error(Exception):
    pass


def ctx_of(function):
    """What the library gives back to tpy_handler() and the others, until tpy_destroy()."""
    handle = ffi.new_handle(function)
    handles.add(handle)
    return handle


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
