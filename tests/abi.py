#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the public headers declare, compared with what is checked in and with the rules of docs/abi.md.

    python3 tests/abi.py symbols ROOT [--write | --copy FILE]
    python3 tests/abi.py structs ROOT
    python3 tests/abi.py threads ROOT
    python3 tests/abi.py layout ROOT [--write] COMPILER…
    python3 tests/abi.py grow ROOT FOLDER
    python3 tests/abi.py fill INCLUDE FILE

symbols: the functions that the public headers declare are those that turnphase.map exports, each in one node. --write
adds what is missing to the newest node and removes what is declared no more; --copy writes the map to FILE when it is
right (the build links with that copy).
structs: every struct is frozen or obeys the growth rule of base.h, every enum is closed with …_FORCE_32. Each rule is
tried on a planted breach first.
threads: every function and callback type has a Threads: line in its comment; declarations in a row share a comment.
layout: sizes and offsets of every public struct are those of tests/headers/layout.txt, growable ones have no padding at
their end, and -fshort-enums changes nothing. --write writes the file.
grow: writes the public headers to FOLDER with one more field at the end of each growable struct.
fill: writes a C header with, for each struct that is not frozen, fill_tp_x(), 0xee everywhere and then every field
zero; GROWS_tp_x, whether grow lets it grow; and set_grown_tp_x(), which sets the field that it has grown by.
Exit: 0 all is as it should be, 1 it is not, 2 usage or the checks themselves are broken.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile

COMMENT = re.compile(r'/\*.*?\*/', re.S)
FUNCTION = re.compile(r'\bTP_API\b[^;({]*?\b(tp_\w+)\s*\(')
VERSION = re.compile(r'^#define TP_VERSION_(MAJOR|MINOR) (\d+)$', re.M)
NODE = re.compile(r'(TURNPHASE_[\d.]+)\s*\{(.*?)\}\s*(TURNPHASE_[\d.]+)?\s*;', re.S)
STRUCT = re.compile(r'\bstruct (tp_\w+)\s*\{')
DECLARATION = re.compile(r'((?:\w+\s+)*?\w+(?:\s*\*\s*const\b)*)\s*([\s*]*\w+\s*(?:\[.*\]\s*)*)$', re.S)
ENUM = re.compile(r'\benum(?:\s+(tp_\w+))?\s*\{([^}]*)\}\s*(tp_\w+)?')


def read(*path):
    with open(os.path.join(*path), encoding='utf-8') as file:
        return file.read()


def write(text, *path):
    with open(os.path.join(*path), 'w', encoding='utf-8') as file:
        file.write(text)


def headers(include):
    for name in sorted(os.listdir(os.path.join(include, 'turnphase'))):
        if name.endswith('.h'):
            yield name, read(include, 'turnphase', name)


def code_of(text):
    """The text without comments and macros."""
    return re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', '', COMMENT.sub(' ', text), flags=re.M)


# ---- symbols --------------------------------------------------------------------------------------------------------


def declared_functions(root):
    """{header: [function, …]}, comments and macros left out."""
    found = {}
    for name, text in headers(os.path.join(root, 'include')):
        found[name] = sorted(set(FUNCTION.findall(code_of(text))))
    return found


def version_node(root):
    """The node of the headers' version: TURNPHASE_0.1."""
    numbers = dict(VERSION.findall(read(root, 'include/turnphase/base.h')))
    return 'TURNPHASE_%s.%s' % (numbers['MAJOR'], numbers['MINOR'])


def map_nodes(text):
    """[(node, [function, …], the node before or None)], oldest first."""
    code = COMMENT.sub(' ', text)
    return [(m.group(1), re.findall(r'\b(tp_\w+)\s*;', m.group(2)), m.group(3)) for m in NODE.finditer(code)]


def map_text(declared, nodes, newest):
    """The map with every declared function in the node where it stands today, new ones in the newest."""
    place = {function: node for node, functions, _ in nodes for function in functions}
    names = [node for node, _, _ in nodes]
    if newest not in names:
        names.append(newest)
    lines = ['/* SPDX-License-Identifier: Apache-2.0',
             ' * What the libraries export, one node a minor version; each exports what it has of it. The review',
             ' * list of the public functions: ./dev symbols writes it from the headers, and the build refuses to link',
             ' * when they differ (docs/abi.md). */']
    before = None
    for node in names:
        lines += [node + ' {', '  global:']
        for header, functions in declared.items():
            own = [function for function in functions if place.get(function, newest) == node]
            if own:
                lines += ['    /* %s */' % header] + ['    %s;' % function for function in own]
        if before is None:
            lines += ['  local:', '    *;']
        lines += ['}%s;' % (' ' + before if before else '')]
        before = node
    return '\n'.join(lines) + '\n'


def symbols(root, words):
    if words not in ([], ['--write']) and not (len(words) == 2 and words[0] == '--copy'):
        return usage()
    text = read(root, 'turnphase.map')
    wanted = map_text(declared_functions(root), map_nodes(text), version_node(root))
    there = {function for _, functions, _ in map_nodes(text) for function in functions}
    need = {function for functions in declared_functions(root).values() for function in functions}
    if words == ['--write']:
        write(wanted, root, 'turnphase.map')
    elif there != need:
        print('turnphase.map is not what the public headers declare:')
        print(''.join('  + %s\n' % name for name in sorted(need - there)), end='')
        print(''.join('  - %s\n' % name for name in sorted(there - need)), end='')
        print('run ./dev symbols and commit turnphase.map')
        return 1
    if words[:1] == ['--copy']:
        write(wanted, words[1])
    return 0


# ---- structs: the growth rule of base.h ---------------------------------------------------------------------------


def split_at(separator, text):
    """Splits where no parenthesis or bracket is open."""
    parts, depth, begin = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter in '([{') - (letter in ')]}')
        if letter == separator and depth == 0:
            parts.append(text[begin:index].strip())
            begin = index + 1
    return parts + [text[begin:].strip()]


class Member:
    """name; type: its first word that begins with tp_, or else the whole; stars: how many * before the name."""

    def __init__(ctx, base, declarator):
        function = re.search(r'\(\s*\*\s*(\w+)\s*\)\s*\(', declarator)
        ctx.is_function = function is not None
        ctx.name = function.group(1) if function else re.search(r'(\w+)\s*(?:\[[^\]]*\]\s*)*$', declarator).group(1)
        named = re.search(r'\btp_\w+', base)
        ctx.type = named.group() if named else base.strip()
        ctx.stars = 1 if function else declarator.count('*') + base.count('*')
        ctx.is_array = not function and '[' in declarator


def members_of(body):
    for declaration in split_at(';', body):
        if not declaration:
            continue
        first, *others = split_at(',', declaration)
        function = re.match(r'(.*?)\(\s*\*', first, re.S)
        if function:
            yield Member(function.group(1), first[function.end(1):])
            continue
        base, declarator = DECLARATION.match(first).groups()
        yield Member(base, declarator)
        for other in others:
            yield Member(base.replace('*', ''), other)


def structs_in(texts):
    """{struct: [Member, …]} of every struct that the texts define, in their order."""
    found = {}
    for text in texts:
        code = code_of(text)
        for match in STRUCT.finditer(code):
            depth, end = 1, match.end()
            while depth:
                depth += {'{': 1, '}': -1}.get(code[end], 0)
                end += 1
            found[match.group(1)] = list(members_of(code[match.end():end - 1]))
    return found


# These never grow: only they are passed by value, stand side by side or inside of others.
FROZEN = {'tp_text', 'tp_token', 'tp_allocator', 'tp_field', 'tp_fault', 'tp_value_walk', 'tp_breadcrumb'}


def breaches(texts):
    """Yields what breaks the growth rule or leaves an enum open."""
    found = structs_in(texts)
    growable = set(found) - FROZEN
    for name, members in found.items():
        if name in FROZEN:
            continue
        if members[0].name != 'struct_size' or members[0].type != 'size_t' or members[0].stars:
            yield '%s: begins with size_t struct_size, or is one of the frozen' % name
        for member, behind in zip(members, members[1:] + members[:1]):
            if member.is_function:
                continue
            if member.type in growable and member.stars == 0:
                yield '%s.%s: a %s is never a member of another struct' % (name, member.name, member.type)
            if member.type in growable and member.stars == 1 and behind.name.endswith('count'):
                yield '%s.%s: a list of %s is an array of pointers' % (name, member.name, member.type)
    for text in texts:
        code = code_of(text)
        for returned in re.findall(r'\b(tp_\w+)\s+(?:\(\s*\*\s*)?\w+\s*\)?\s*\(', code):
            if returned in growable:
                yield '%s: never returned by value' % returned
        for listed in re.findall(r'\b(tp_\w+) \*(?:const )?\w+, (?:size_t|uint32_t) (?:\w+_)?count\b', code):
            if listed in growable:
                yield '%s: a list of it is an array of pointers' % listed
        for tag, body, name in ENUM.findall(code):
            if name and not re.search(r'\bTP_\w+_FORCE_32\s*=\s*0x7fffffff\s*,?\s*$', body):
                yield 'enum %s: the last is TP_…_FORCE_32 = 0x7fffffff' % name


PLANTED = [
    'struct tp_x { uint32_t a; };',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; tp_x x; };',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; tp_x x[3]; };',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; const tp_x *xs; size_t x_count; };',
    'struct tp_x { size_t struct_size; }; TP_API tp_x tp_x_get(int index);',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; tp_x (*get)(void *ctx); };',
    'struct tp_x { size_t struct_size; }; TP_API int tp_xs_run(const tp_x *xs, size_t count);',
    'typedef enum tp_e { TP_E_A = 1 } tp_e;',
]
INNOCENT = '''
typedef struct tp_text { const char *data; size_t size; } tp_text;
typedef enum tp_e { TP_E_A = 1, TP_E_FORCE_32 = 0x7fffffff } tp_e;
enum { TP_LIMIT = 3 };
typedef struct tp_x { size_t struct_size; tp_text text; const tp_text *ids; size_t id_count; tp_e e; } tp_x;
typedef struct tp_y {
  size_t struct_size;
  const tp_x *const *xs;
  size_t x_count;
  const tp_x *(*get)(void *ctx, size_t index);
  tp_x *one, *other; /* not a tp_x x[3]; */
} tp_y;
TP_API const tp_x *tp_x_get(const tp_y *y, size_t index);
TP_API int tp_xs_run(const tp_x *const *xs, size_t count);
'''


# Known breaches, which are printed but do not fail. The list only gets shorter.
def structs(root, words):
    if words:
        return usage()
    broken = [planted for planted in PLANTED if not list(breaches([planted]))] + list(breaches([INNOCENT]))
    if broken:
        print('the rules of structs are broken: %s' % broken)
        return 2
    failed = 0
    for line in breaches([text for _, text in headers(os.path.join(root, 'include'))]):
        failed += 1
        print(line)
    return 1 if failed else 0


# ---- threads --------------------------------------------------------------------------------------------------------

DECLARED = re.compile(r'/\*.*?\*/|\bTP_API\b[^;({=]*?\b(tp_\w+)\s*\([^;]*;'
                      r'|\btypedef [^;{]*?\(\s*\*\s*(tp_\w+)\s*\)\s*\([^;]*;', re.S)


def without_thread_rule(text):
    """Functions and callback types with no Threads: line in the comment above them, or above the row that they end."""
    end, rule = 0, False
    for match in DECLARED.finditer(text):
        words = match.group()
        if text[end:match.start()].strip():  # another declaration stands between
            rule = False
        if words.startswith('/**'):
            rule = 'Threads:' in words
        elif words.startswith('/*'):
            rule = False
        elif not rule:
            yield match.group(1) or match.group(2)
        end = match.end()


def threads(root, words):
    if words:
        return usage()
    if list(without_thread_rule('/* head */ /** x */ TP_API void tp_a(void);')) != ['tp_a'] or \
       list(without_thread_rule('/** x. Threads: any. */ TP_API void tp_a(void); TP_API void tp_b(void);')) or \
       list(without_thread_rule('/** Threads: any. */ typedef struct tp_s tp_s; TP_API void tp_c(void);')) != ['tp_c']:
        print('the rule of threads is broken')
        return 2
    missing = [(name, f) for name, text in headers(os.path.join(root, 'include')) for f in without_thread_rule(text)]
    for name, function in missing:
        print('%s: %s has no Threads: line in the comment above it' % (name, function))
    return 1 if missing else 0


# ---- layout ---------------------------------------------------------------------------------------------------------


def compile_and_run(compiler, include, text, options=(), run=True, language='c'):
    """(exit status, what it printed)"""
    with tempfile.TemporaryDirectory() as folder:
        write(text, folder, 'unit.c')
        words = compiler + ['-x', language, '-I', include, *options, os.path.join(folder, 'unit.c')]
        words += ['-o', os.path.join(folder, 'unit')] if run else ['-fsyntax-only']
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0 and run:
            done = subprocess.run([os.path.join(folder, 'unit')], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout


def includes(include):
    return ''.join('#include "turnphase/%s"\n' % name for name, _ in headers(include))


LAYOUT_HEAD = '''# Written by ./dev symbols from the public headers, for a 64-bit machine (docs/abi.md).
# Of each struct its size; of each of its fields offset, size and name.
'''


def layout(root, words):
    write_it = words[:1] == ['--write']
    compiler = words[1:] if write_it else words
    if not compiler:
        return usage()
    include = os.path.join(root, 'include')
    found = structs_in([text for _, text in headers(include)])
    lines, asserts = [], []
    for name in sorted(found):
        last = found[name][-1].name
        lines.append('  printf("%s %%zu%s\\n", sizeof(%s));' % (name, ' frozen' if name in FROZEN else '', name))
        for member in found[name]:
            place = '(%s, %s)' % (name, member.name)
            size = 'sizeof(((%s *)0)->%s)' % (name, member.name)
            lines.append('  printf("  %%zu %%zu %s\\n", offsetof%s, %s);' % (member.name, place, size))
        if name not in FROZEN:
            end = 'offsetof(%s, %s) + sizeof(((%s *)0)->%s)' % (name, last, name, last)
            lines.append('  if (%s != sizeof(%s))' % (end, name))
            lines.append('    printf("^ padding at the end\\n");')
    status, text = compile_and_run(compiler, include, includes(include) + '#include <stdio.h>\nint main(void) {\n' +
                                   '\n'.join(lines) + '\n  return 0;\n}\n')
    if status:
        print(text)
        return 1
    padded = re.findall(r'^(tp_\w+) \d+\n(?:  .*\n)*\^ padding', text, re.M)
    for name in padded:
        print('%s has padding at its end: name it reserved_ (must be zero)' % name)
    text = LAYOUT_HEAD + text
    file = os.path.join(root, 'tests/headers/layout.txt')
    if write_it:
        write(text, file)
    elif read(file) != text:
        was, now = read(file).splitlines(), text.splitlines()
        print('\n'.join(difflib.unified_diff(was, now, 'tests/headers/layout.txt', 'the headers', lineterm='', n=2)))
        print('a public struct has changed: look at it, run ./dev symbols and commit tests/headers/layout.txt')
        return 1
    for match in re.finditer(r'^(tp_\w+) (\d+)', text, re.M):
        name, size = match.groups()
        asserts.append('TP_STATIC_ASSERT(sizeof(%s) == %s, "%s");' % (name, size, name))
    status, text = compile_and_run(compiler, include, includes(include) + '\n'.join(asserts) + '\n',
                                   ['-std=c11', '-fshort-enums'], run=False)
    if status:
        print(text)
    return 1 if padded or status else 0


# ---- growing --------------------------------------------------------------------------------------------------------


def growable_of(include):
    """What breaks the rule cannot grow."""
    texts = [text for _, text in headers(include)]
    return set(structs_in(texts)) - FROZEN - set(re.findall(r'tp_\w+', '\n'.join(breaches(texts))))


def grow(root, words):
    if len(words) != 1:
        return usage()
    include = os.path.join(root, 'include')
    growable = growable_of(include)
    os.makedirs(words[0], exist_ok=True)
    for name, text in headers(include):
        write(re.sub(r'^\} (tp_\w+);', lambda m: ('  uint64_t grown_;\n' if m.group(1) in growable else '') + m.group(),
                     text, flags=re.M), words[0], name)
    write(read(include, 'turnphase/status.def'), words[0], 'status.def')
    return 0


def fill(include, words):
    if len(words) != 1:
        return usage()
    lines = ['/* Written by tests/abi.py: a struct as a careless program has it, with 0xee in its padding. */',
             '#include <string.h>', includes(include)]
    growable = growable_of(include)
    for name, members in structs_in([text for _, text in headers(include)]).items():
        if name in FROZEN:
            continue
        field = 'x->grown_ = value' if members[-1].name == 'grown_' else '(void)x, (void)value'
        lines += ['enum { GROWS_%s = %d };' % (name, name in growable),
                  'static inline void set_grown_%s(%s *x, uint64_t value) { %s; }' % (name, name, field)]
        lines += ['static inline void fill_%s(%s *x) {' % (name, name), '  memset(x, 0xee, sizeof *x);']
        lines += ['  memset(&x->%s, 0, sizeof x->%s);' % (member.name, member.name) for member in members]
        lines += ['  x->struct_size = sizeof *x;'] * (members[0].name == 'struct_size') + ['}']
    write('\n'.join(lines) + '\n', words[0])
    return 0


# ---- the command ----------------------------------------------------------------------------------------------------


def usage():
    print(__doc__.strip(), file=sys.stderr)
    return 2


def main(words):
    verbs = {'symbols': symbols, 'structs': structs, 'threads': threads, 'layout': layout, 'grow': grow, 'fill': fill}
    if len(words) < 2 or words[0] not in verbs:
        return usage()
    return verbs[words[0]](words[1], words[2:])


sys.exit(main(sys.argv[1:]))
