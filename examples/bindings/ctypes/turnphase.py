# SPDX-License-Identifier: Apache-2.0
"""turnphase through ctypes: every struct, constant, callback type and function of the core, none of them declared by
hand. turnphase.abi.json, which is installed with the library, describes them.

A callback returns an integer, and 0 is no answer. What ctypes returns for a callback that raised is undefined, so each
is made by answer(), which returns 0 then: a required guard that raises denies, and a tool that raises is a
handler_error. The host keeps a reference to each callback that it registers.
"""

import ctypes
import functools
import json
import os
import re
import subprocess
import traceback


def abi_path():
    return os.environ.get('TURNPHASE_ABI') or subprocess.check_output(
        ['pkg-config', '--variable=abi', 'turnphase'], text=True).strip()


with open(abi_path(), encoding='utf-8') as file:
    ABI = json.load(file)

NUMBERS = {'bool': ctypes.c_bool, 'enum': ctypes.c_uint32, 'char': ctypes.c_char, 'double': ctypes.c_double,
           'int': ctypes.c_int, 'size_t': ctypes.c_size_t, 'void': None, 'float': ctypes.c_float,
           'unsigned char': ctypes.c_uint8}
for bits in 8, 16, 32, 64:
    NUMBERS['int%d_t' % bits] = getattr(ctypes, 'c_int%d' % bits)
    NUMBERS['uint%d_t' % bits] = getattr(ctypes, 'c_uint%d' % bits)

# TP_FAILURE_REQUIRED and all others are names of this module.
for enum in ABI['enums'].values():
    globals().update(enum['values'])
globals().update({name: constant['value'] for name, constant in ABI['constants'].items()})


class Struct(ctypes.Structure):
    """One that may grow has its struct_size set. A str becomes UTF-8; a list becomes an array of pointers. No
    member but reserved_ ends with an underscore: methods do."""

    def __init__(self, **values):
        self.kept = []
        if self._fields_[0][0] == 'struct_size':
            values['struct_size'] = ctypes.sizeof(self)
        types = dict(self._fields_)
        super().__init__(**{name: self.convert_(types[name], value) for name, value in values.items()})

    def convert_(self, kind, value):
        if isinstance(value, str):
            value = value.encode() if kind is ctypes.c_char_p else text(value)
        elif isinstance(value, list):
            made = [self.convert_(kind._type_, one) for one in value]
            value = (kind._type_ * len(made))(*made)
        elif isinstance(value, Struct) and not issubclass(kind, Struct):
            value = ctypes.pointer(value)
        self.kept.append(value)
        return ctypes.cast(value, kind) if isinstance(value, ctypes.Array) else value

    def __str__(self):
        """Of a tp_text what it says."""
        return ctypes.string_at(self.data, self.size).decode() if self.size else ''


structs = {name: type(name, (Struct,), {}) for name in ABI['structs']}
callbacks = {}


def function_type(returns, parameters):
    return ctypes.CFUNCTYPE(c_type(returns), *(c_type(parameter) for parameter in parameters))


def c_type(words):
    """The type that C writes so: "const tp_text *"."""
    words = re.sub(r'\b(?:const|struct)\b\s*', '', words).strip()
    pointer = re.fullmatch(r'(.*?)\s*\(\*\)\((.*)\)', words)
    if pointer:
        return function_type(pointer[1], [re.sub(r'\w+$', '', one).strip() or one for one in pointer[2].split(', ')])
    if words.endswith(']'):
        return ctypes.POINTER(c_type(words[:words.index('[')]))
    if words.endswith('*'):
        target = words[:-1].strip()
        if target == 'char':
            return ctypes.c_char_p
        return ctypes.c_void_p if target == 'void' or target in ABI['handles'] else ctypes.POINTER(c_type(target))
    if words in ABI['callbacks']:
        if words not in callbacks:
            described = ABI['callbacks'][words]
            callbacks[words] = function_type(described['returns'], [one['type'] for one in described['parameters']])
        return callbacks[words]
    if words in structs:
        return structs[words]
    if words in ABI['types'] or words in ABI['enums']:
        words = ABI['types'].get(words, ABI['enums'].get(words))['type']
    return NUMBERS[words]


def lay_out(name):
    """Gives a struct its fields, those of structs inside of it first, and compares sizes and offsets."""
    struct, described = structs[name], ABI['structs'][name]
    if '_fields_' in struct.__dict__:
        return
    fields = []
    for member in described['members']:
        if member['kind'] == 'struct':
            lay_out(member['type'])
        kind = c_type(member['type'])
        fields.append((member['name'], kind * member['length'] if 'length' in member else kind))
    struct._fields_ = fields
    places = [(getattr(struct, one['name']).offset, getattr(struct, one['name']).size) for one in described['members']]
    if places != [(one['offset'], one['size']) for one in described['members']] or \
       ctypes.sizeof(struct) != described['size']:
        raise ImportError('%s does not lie as %s says' % (name, abi_path()))


for name in structs:
    lay_out(name)
    globals()[name] = structs[name]


def text(words):
    """A tp_text."""
    data = words.encode() if isinstance(words, str) else words
    return tp_text(data=data, size=len(data))


def on_error(error):
    """What a callback raised; a host puts its own function here."""
    traceback.print_exception(type(error), error, error.__traceback__)


def answer(kind):
    """Makes a function a callback of a named type, or of a type that C writes out."""
    def decorate(function):
        @functools.wraps(function)
        def call(*arguments):
            try:
                return function(*arguments)
            except BaseException as error:
                on_error(error)
                return 0
        return c_type(kind)(call)
    return decorate


class Error(Exception):
    pass


class Library:
    """The functions of the core; call() and made() raise Error with the words of the fault."""

    def __init__(self, path=None):
        self.c = ctypes.CDLL(path or os.environ.get('TURNPHASE_LIBRARY', 'libturnphase.so.0.1'))
        for name, described in ABI['functions'].items():
            if ABI['headers'][described['header']]['library'] == 'turnphase':
                function = getattr(self.c, name)
                function.restype = c_type(described['returns'])
                function.argtypes = [c_type(parameter['type']) for parameter in described['parameters']]

    def call(self, name, *arguments):
        """Calls a function whose last parameter is a fault."""
        fault = tp_fault()
        arguments = [ctypes.byref(one) if isinstance(one, Struct) else one for one in arguments]
        if getattr(self.c, name)(*arguments, ctypes.byref(fault)) != TP_OK:
            raise Error('%s: %s' % (name, fault.message.decode(errors='replace')))

    def made(self, name, *arguments):
        """What a function gives through the parameter before its fault."""
        result = getattr(self.c, name).argtypes[-2]._type_()
        self.call(name, *arguments, ctypes.byref(result))
        return result
