# SPDX-License-Identifier: Apache-2.0
"""Writes ffi.rs from turnphase.abi.json: every struct, constant, callback type and function of the core.

    python3 generate.py [FILE] >ffi.rs
"""

import json
import re
import subprocess
import sys

HEAD = '''// Written by generate.py from turnphase.abi.json.
//! Enums are numbers, never Rust's enums: a newer library may give values that no variant has.
#![allow(dead_code, non_camel_case_types)]

use std::mem::{self, MaybeUninit};
use std::os::raw::{c_char, c_void};
use std::ptr;

/// A struct that may grow, with its struct_size; what is not named is zero.
macro_rules! made {
    ($name:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $name { struct_size: std::mem::size_of::<$name>(), $($field: $value,)* ..Default::default() }
    };
}
pub(crate) use made;
'''
NUMBERS = {'bool': 'bool', 'char': 'c_char', 'double': 'f64', 'float': 'f32', 'int': 'i32', 'size_t': 'usize',
           'void': 'c_void', 'unsigned char': 'u8', 'enum': 'u32'}
for bits in 8, 16, 32, 64:
    NUMBERS['int%d_t' % bits], NUMBERS['uint%d_t' % bits] = 'i%d' % bits, 'u%d' % bits
KEYWORDS = {'match', 'type', 'self', 'ref', 'move', 'use', 'where', 'fn', 'in', 'loop', 'mod', 'impl'}


def named(name):
    return name + '_' if name in KEYWORDS else name


def function(returns, parameters):
    back = '' if returns == 'void' else ' -> ' + rust(returns)
    return 'Option<unsafe extern "C" fn(%s)%s>' % (', '.join(map(rust, parameters)), back)


def rust(words):
    """The type that C writes so: "const tp_text *"."""
    words = re.sub(r'\bstruct ', '', words).strip()
    pointer = re.fullmatch(r'(.*?)\s*\(\*\)\((.*)\)', words)
    if pointer:
        return function(pointer[1], [re.sub(r'\w+$', '', one).strip() or one for one in pointer[2].split(', ')])
    if words.endswith(']'):
        words = words[:words.index('[')] + ' *'
    if words.endswith('*'):
        target = words[:-1].strip()
        is_const = target.endswith('const') if '*' in target else target.startswith('const ')
        return ('*const ' if is_const else '*mut ') + rust(re.sub(r'\s*const$|^const (?!.*\*)', '', target))
    return NUMBERS.get(words, words)


def main(path):
    with open(path, encoding='utf-8') as file:
        abi = json.load(file)
    core = {name for name, header in abi['headers'].items() if header['library'] == 'turnphase'}

    def ours(table):
        return [(name, entry) for name, entry in abi[table].items() if entry['header'] in core]

    print(HEAD)
    for name, _ in ours('handles'):
        print('pub type %s = c_void;' % name)
    for name, entry in ours('types') + ours('enums'):
        print('pub type %s = %s;' % (name, rust(entry['type'])))
    for name, entry in ours('enums'):
        for constant, value in entry['values'].items():
            print('pub const %s: %s = %d;' % (constant, name, value))
    for name, entry in ours('constants'):
        if isinstance(entry['value'], int):
            pointer = ' as ' + rust(entry['type']) if '*' in entry['type'] else ''
            print('pub const %s: %s = %d%s;' % (name, rust(entry['type']), entry['value'], pointer))
    for name, entry in ours('callbacks'):
        print('pub type %s = %s;' % (name, function(entry['returns'], [one['type'] for one in entry['parameters']])))
    for name, entry in ours('structs'):
        fields = [(named(one['name']), ('[%s; %d]' % (rust(one['type']), one['length'])) if 'length' in one
                   else rust(one['type'])) for one in entry['members']]
        print('\n#[repr(C)]\n#[derive(Clone, Copy)]\npub struct %s {' % name)
        print(''.join('    pub %s: %s,\n' % field for field in fields) + '}')
        # Numbers, raw pointers and functions that may be absent: zero is a value of each, and every field's default.
        print('impl Default for %s {\n    fn default() -> Self {\n        unsafe { mem::zeroed() }\n    }\n}' % name)
    print('\n#[link(name = "turnphase")]\nextern "C" {')
    for name, entry in ours('functions'):
        parameters = ', '.join('%s: %s' % (named(one['name']), rust(one['type'])) for one in entry['parameters'])
        back = '' if entry['returns'] == 'void' else ' -> ' + rust(entry['returns'])
        print('    pub fn %s(%s)%s;' % (name, parameters, back))
    print('}\n\n/// The first field that does not lie as the description says.')
    print('pub fn misplaced() -> Option<&\'static str> {')
    for name, entry in ours('structs'):
        print('    let place = MaybeUninit::<%s>::uninit();' % name)
        for member in entry['members']:
            print('    if unsafe { ptr::addr_of!((*place.as_ptr()).%s) } as usize - place.as_ptr() as usize != %d {' %
                  (named(member['name']), member['offset']))
            print('        return Some("%s.%s");\n    }' % (name, member['name']))
        print('    if mem::size_of::<%s>() != %d {\n        return Some("%s");\n    }' % (name, entry['size'], name))
    print('    None\n}')


main(sys.argv[1] if len(sys.argv) > 1 else subprocess.check_output(
    ['pkg-config', '--variable=abi', 'turnphase'], text=True).strip())
