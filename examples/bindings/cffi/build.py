# SPDX-License-Identifier: Apache-2.0
"""Builds the extension module _turnphase, cffi's API mode: what it declares to cffi is written from turnphase.abi.json,
and the C compiler compares it with the installed headers.

    python3 build.py [FOLDER]    writes _turnphase.*.so to FOLDER (.)
"""

import json
import os
import re
import shlex
import subprocess
import sys

import cffi


def pkg_config(*words):
    return subprocess.check_output(['pkg-config', *words, 'turnphase'], text=True).strip()


def declarations(abi):
    """The types, constants and functions of the core, in an order in which C takes them."""
    core = {name for name, header in abi['headers'].items() if header['library'] == 'turnphase'}

    def ours(table):
        return {name: entry for name, entry in abi[table].items() if entry['header'] in core}

    def signature(entry, name):
        parameters = ', '.join(re.sub(r'(\(\*)?$', r'\1', one['type']) for one in entry['parameters'])
        if entry.get('variadic'):
            parameters += ', ...'
        return '%s %s(%s)' % (entry['returns'], name, parameters or 'void')

    lines = ['typedef struct %s %s;' % (name, name) for name in (*ours('handles'), *ours('structs'))]
    numbers = {**ours('types'), **ours('enums')}
    lines += ['typedef %s %s;' % (entry['type'], name) for name, entry in numbers.items() if entry['type'] != 'enum']
    for name, entry in ours('enums').items():
        values = ['%s = %d' % pair for pair in entry['values'].items()]
        lines += ['enum { %s };' % ', '.join(values) if entry['type'] != 'enum' else
                  'typedef enum %s { %s } %s;' % (name, ', '.join(values), name)]
    lines += ['static %sconst %s;' % (entry['type'], name) if '*' in entry['type'] else
              '#define %s %d' % (name, entry['value']) for name, entry in ours('constants').items()
              if isinstance(entry['value'], int)]
    lines += ['typedef %s;' % signature(entry, '(*%s)' % name) for name, entry in ours('callbacks').items()]
    written, structs = set(), ours('structs')

    def write(name):
        if name in written or name not in structs:
            return
        written.add(name)
        members = structs[name]['members']
        for member in members:
            if member['kind'] == 'struct':
                write(member['type'])
        lines.append('struct %s {' % name)
        for member in members:
            length = '[%d]' % member['length'] if 'length' in member else ''
            text = '%s %s%s' % (member['type'], member['name'], length)
            if '(*)' in member['type']:
                text = member['type'].replace('(*)', '(*%s)' % member['name'], 1)
            lines.append('  %s;' % text)
        lines.append('};')

    for name in structs:
        write(name)
    lines += [signature(entry, name) + ';' for name, entry in ours('functions').items()]
    return '\n'.join(lines) + '\n'


CALLBACKS = '''
extern "Python" {
  tp_answer tpy_handler(void *ctx, tp_call *call);
  tp_answer tpy_tool(void *ctx, tp_tool_run *run);
  int32_t tpy_match(void *ctx, const tp_match_view *view);
  void tpy_event(void *ctx, const tp_event *event);
  void tpy_destroy(void *ctx);
}
'''


def build(folder):
    with open(os.environ.get('TURNPHASE_ABI') or pkg_config('--variable=abi'), encoding='utf-8') as file:
        abi = json.load(file)
    builder = cffi.FFI()
    builder.cdef(declarations(abi) + CALLBACKS)
    library, include = os.environ.get('TURNPHASE_LIBRARY'), os.environ.get('TURNPHASE_INCLUDE')
    builder.set_source(
        '_turnphase', '#include <turnphase/turnphase.h>\n',
        extra_compile_args=['-I' + include] if include else shlex.split(pkg_config('--cflags')),
        extra_link_args=[library, '-Wl,-rpath,' + os.path.dirname(library)] if library
        else shlex.split(pkg_config('--libs')))
    return builder.compile(tmpdir=folder)


if __name__ == '__main__':
    print(build(sys.argv[1] if len(sys.argv) > 1 else '.'))
