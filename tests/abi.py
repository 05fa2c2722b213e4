#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the public headers declare, compared with what is checked in and with the rules of docs/abi.md.

    python3 tests/abi.py symbols ROOT [--write | --copy FILE]
    python3 tests/abi.py structs ROOT
    python3 tests/abi.py threads ROOT
    python3 tests/abi.py describe ROOT [--write] COMPILER…
    python3 tests/abi.py grow ROOT FOLDER
    python3 tests/abi.py fill INCLUDE FILE

symbols: the functions that the public headers declare are those that turnphase.map exports, each in one node. --write
adds what is missing to the newest node and removes what is declared no more; --copy writes the map to FILE when it is
right (the build links with that copy).
structs: every struct is frozen or obeys the growth rule of base.h; every enum has a name that generators of bindings
see, and is closed with …_FORCE_32; its values have the name of its noun. Each rule is tried on a planted breach first.
threads: every function and callback type has a Threads: line in its comment; declarations in a row share a comment.
describe: turnphase.abi.json says what the public headers declare: structs with offsets, enums, constants, callbacks,
functions with their rules of ownership and threads. Growable structs have no padding at their end, and -fshort-enums
changes nothing. --write writes the file.
grow: writes the public headers to FOLDER with one more field at the end of each growable struct.
fill: writes a C header with, for each struct that is not frozen, fill_tp_x(), 0xee everywhere and then every field
zero; GROWS_tp_x, whether grow lets it grow; and set_grown_tp_x(), which sets the field that it has grown by.
Exit: 0 all is as it should be, 1 it is not, 2 usage or the checks themselves are broken.
"""

import ast
import difflib
import json
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


# The values that do not begin with the noun of their enum, and what they begin with.
OTHER_PREFIX = {'tp_status': 'TP_', 'tp_tool_result_kind': 'TP_TOOL_'}
INTEGER_TYPE = re.compile(r'typedef u?int\d+_t (tp_\w+);\s*\Z')
DEFINED_NUMBER = re.compile(r'^#define (TP_\w+) +\(?-?(?:0x)?\d', re.M)


def plural(name):
    return re.sub(r'y$', 'ie', name) + 's'


def unnamed_enums(text):
    """Yields enums and constants that generators of bindings do not see by a name, and values with a name of their own.

    A closed set is `typedef enum tp_x { … } tp_x`. A set of bits, a set to which hosts add, and a set that callbacks of
    any language return is an integer type tp_x, followed by `enum tp_xs` with the known values. Constants that are no
    set are an `enum tp_…_limits`. Values of tp_<noun>_kind are TP_<NOUN>_<KIND>, those of other types TP_<TYPE>_… or
    the same without the last word of the type."""
    for match in DEFINED_NUMBER.finditer(COMMENT.sub(' ', text)):
        if not match.group(1).startswith('TP_VERSION_'):
            yield '%s: a number is the value of a named enum, not a macro' % match.group(1)
    code = code_of(text)
    for match in ENUM.finditer(code):
        tag, body, name = match.groups()
        integer = INTEGER_TYPE.search(code[:match.start()])
        shown = tag or re.search(r'\w*', body.strip()).group()
        if name and tag != name:
            yield 'typedef enum %s: its tag is its name' % name
        if not name and tag and tag.endswith('_limits'):
            continue
        if not name and not (tag and integer and tag == plural(integer.group(1))):
            yield 'enum %s: tp_xs after the integer type tp_x, or tp_…_limits' % shown
        words = (name or (integer and integer.group(1)) or 'tp_').upper().split('_')
        whole, noun = '_'.join(words) + '_', '_'.join(words[:-1]) + '_'
        is_kind = words[-1] == 'KIND'
        prefixes = (noun,) if is_kind else (whole, noun) if len(words) > 2 else (whole,)
        prefixes = (OTHER_PREFIX[name],) if name in OTHER_PREFIX else prefixes
        for value in re.findall(r'\b(TP_\w+)', re.sub(r'=[^,]*', '', body)):
            if value.endswith('_FORCE_32'):
                continue
            if not value.startswith(prefixes) or (is_kind and value.startswith(whole)):
                yield '%s of %s: begins with %s, without other words' % (value, shown, ' or '.join(prefixes))


def breaches(texts):
    """Yields what breaks the growth rule or leaves an enum open or without a name."""
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
        yield from unnamed_enums(text)


PLANTED = [
    'struct tp_x { uint32_t a; };',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; tp_x x; };',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; tp_x x[3]; };',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; const tp_x *xs; size_t x_count; };',
    'struct tp_x { size_t struct_size; }; TP_API tp_x tp_x_get(int index);',
    'struct tp_x { size_t struct_size; }; struct tp_y { size_t struct_size; tp_x (*get)(void *ctx); };',
    'struct tp_x { size_t struct_size; }; TP_API int tp_xs_run(const tp_x *xs, size_t count);',
    'typedef enum tp_e { TP_E_A = 1 } tp_e;',
    'enum { TP_LIMIT = 3 };',
    'enum tp_e { TP_E_A = 1 };',
    'typedef enum { TP_E_A = 1, TP_E_FORCE_32 = 0x7fffffff } tp_e;',
    'typedef enum tp_f { TP_E_A = 1, TP_E_FORCE_32 = 0x7fffffff } tp_e;',
    'typedef uint32_t tp_e; enum { TP_E_A = 1 };',
    'typedef uint32_t tp_e; enum tp_e { TP_E_A = 1 };',
    'typedef uint32_t tp_e; typedef int x; enum tp_es { TP_E_A = 1 };',
    'typedef uint32_t tp_e; enum tp_es { TP_F_A = 1 };',
    'typedef enum tp_e_kind { TP_E_KIND_A = 1, TP_E_FORCE_32 = 0x7fffffff } tp_e_kind;',
    'typedef enum tp_e_kind { TP_A = 1, TP_E_FORCE_32 = 0x7fffffff } tp_e_kind;',
    'typedef enum tp_a_b_c { TP_A_X = 1, TP_A_FORCE_32 = 0x7fffffff } tp_a_b_c;',
    '#define TP_E_A 1',
    '#define TP_E_A (0x10)',
]
INNOCENT = '''
typedef struct tp_text { const char *data; size_t size; } tp_text;
typedef enum tp_e { TP_E_A = 1, TP_E_FORCE_32 = 0x7fffffff } tp_e;
typedef enum tp_e_kind { TP_E_B = 1, TP_E_KIND_FORCE_32 = 0x7fffffff } tp_e_kind;
typedef enum tp_e_state { TP_E_STATE_B = 1, TP_E_C, TP_E_STATE_FORCE_32 = 0x7fffffff } tp_e_state;
#define TP_VERSION_MAJOR 0
#define TP_NAME "text"
enum tp_e_limits { TP_LIMIT = 3 };
typedef uint32_t tp_bit;
enum tp_bits { TP_BIT_A = 1 << 0 };
typedef uint32_t tp_capability;
enum tp_capabilities { TP_CAPABILITY_A = 1 << 0 };
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


# ---- compiling ------------------------------------------------------------------------------------------------------


def compile_and_run(compiler, include, text, options=(), run=True, language='c'):
    """Returns (exit status, printed text)."""
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



# ---- description ----------------------------------------------------------------------------------------------------

DESCRIPTION = 'turnphase.abi.json'
FIRST_SENTENCE = re.compile(r'(.*?[.!?])(?=\s+[A-Z0-9@"(]|\s*$)', re.S)
PIECE = re.compile(r'(?P<comment>/\*.*?\*/)|(?P<macro>^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)|'
                   r'(?P<open>[{(\[])|(?P<close>[})\]])|(?P<end>;)|(?P<string>"(?:\\.|[^"\\])*")', re.S | re.M)
NUMBERS = {'bool': ('bool', 1), 'char': ('char', 1), 'double': ('float', 8), 'int': ('int', 4), 'size_t': ('uint', 8)}
for bits in 8, 16, 32, 64:
    NUMBERS['int%d_t' % bits], NUMBERS['uint%d_t' % bits] = ('int', bits // 8), ('uint', bits // 8)
RULE = re.compile(r'\bThreads:\s*((?:[^.]|\.(?=\w))+)\.')
BLOCKS = re.compile(r'\bBlocks:\s*((?:[^.]|\.(?=\w))+)\.')
PARAMETER = re.compile(r'@param\s+((?:\w+,\s*)*\w+)\s+(.*?)(?=@\w|\bThreads:|\bBlocks:|\bFrom a |\Z)', re.S)
OWNERSHIP = re.compile(r'\b(borrowed|kept|taken|copied)\b', re.I)


def words_of(comment):
    """Returns the text of a comment, without its stars, on one line."""
    text = re.sub(r'^\s*/\*+|\*+/\s*$', '', comment)
    return ' '.join(re.sub(r'^\s*\*(?!\w)', '', line).strip() for line in text.split('\n')).strip()


def about(comment):
    """The first sentence of a comment."""
    text = re.split(r'\s*(?:\bThreads:|@)', words_of(comment))[0]
    sentence = FIRST_SENTENCE.match(text)
    return sentence.group(1).strip() if sentence else text


def with_tables(text):
    """The text with the names of each table that it includes (status.def) in the place of the #include."""
    return re.sub(r'^#include "turnphase/(\w+\.def)"$', lambda m: '@@' + m.group(1) + '@@', text, flags=re.M)


def declarations(text):
    """Yields (comment, declaration): declarations in a row share a comment; comments within a declaration stay."""
    comment, begin, depth = '', 0, 0
    for piece in PIECE.finditer(text):
        kind = piece.lastgroup
        depth += (kind == 'open') - (kind == 'close')
        if depth == 0 and kind == 'comment':
            comment = piece.group() if piece.group().startswith('/**') else ''
            begin = piece.end()
        elif depth == 0 and kind == 'macro':
            begin = piece.end()
        elif depth == 0 and kind == 'end':
            code = re.sub(r'\bTP_(?:BEGIN|END)_DECLS\b', '', text[begin:piece.start()]).strip()
            begin = piece.end()
            if code:
                yield comment, code
        elif kind == 'open' and depth == 1 and text[begin:piece.start()].strip() == 'extern "C"':
            depth = 0


def c_type(base, declarator):
    """(name, type, array lengths) of one declarator, the type as C writes it: "const tp_text *"."""
    function = re.search(r'\(\s*\*\s*(\w+)\s*\)', declarator)
    if function:
        text = (base + ' ' + declarator).replace(function.group(), '(*)', 1)
        return function.group(1), tidy(text), []
    name = re.search(r'(\w+)\s*((?:\[[^\]]*\]\s*)*)$', declarator)
    arrays = [part.strip() for part in re.findall(r'\[([^\]]*)\]', name.group(2))]
    return name.group(1), tidy(base + ' ' + declarator[:name.start()]), arrays


def tidy(text):
    text = re.sub(r'\s+', ' ', text.strip())
    return re.sub(r'\* (?=[*)])', '*', re.sub(r'(?<=\w)\*', ' *', text)).replace('( *', '(*').strip()


def declared_names(declaration):
    """[(name, type, array lengths)] of one declaration without its semicolon."""
    first, *others = split_at(',', declaration)
    if re.search(r'\(\s*\*', first):
        base, declarator = re.match(r'(.*?)(\(\s*\*.*)', first, re.S).groups()
        return [c_type(base, declarator)]
    base, declarator = DECLARATION.match(first).groups()
    return [c_type(base, declarator)] + [c_type(re.sub(r'\s*\*\s*const\b', '', base), other) for other in others]


def signature(text):
    """(type, [(name, type, arrays), …]) of "ret (*)(params)" or of "ret name(params)"."""
    match = (re.match(r'([^(]*?)\s*\(\s*\*\s*\w*\s*\)\s*\((.*)\)\s*$', text, re.S) or
             re.match(r'(.*?)\b\w+\s*\((.*?)\)\s*(?:TP_MUST_USE|TP_PRINTF\(\d, \d\))?\s*$', text, re.S))
    parameters = [] if match.group(2).strip() in ('', 'void') else split_at(',', match.group(2))
    return tidy(match.group(1)), [declared_names(parameter)[0] for parameter in parameters if parameter != '...']


def member_comments(body):
    """Yields (declaration, comment) of a struct's body: a comment on the line of a declaration's end belongs to it, any
    other to what follows it."""
    above, last, begin, depth, pending = '', None, 0, 0, None
    for piece in PIECE.finditer(body):
        kind = piece.lastgroup
        depth += (kind == 'open') - (kind == 'close')
        if depth or kind in ('open', 'close', 'string'):
            continue
        if kind == 'comment':
            on_line = pending is not None and '\n' not in body[last:piece.start()]
            if on_line:
                yield pending, piece.group()
                pending = None
                above = ''
            else:
                if pending is not None:
                    yield pending, above
                    pending = None
                above = piece.group()
            begin = piece.end()
        elif kind == 'end':
            if pending is not None:
                yield pending, above
                above = ''
            pending, last, begin = body[begin:piece.start()].strip(), piece.end(), piece.end()
    if pending is not None:
        yield pending, above


class Description:
    """What the public headers declare, as the file has it."""

    def __init__(self):
        self.headers, self.types, self.handles, self.structs = {}, {}, {}, {}
        self.enums, self.constants, self.callbacks, self.functions = {}, {}, {}, {}

    def read(self, root):
        include = os.path.join(root, 'include')
        build = read(root, 'meson.build')
        core = re.search(r'^core_headers = .*?^\)', build, re.S | re.M)[0]
        core = set(re.findall(r"include/turnphase/(\w+\.h)'", core))
        tables = {name: re.findall(r'^TP_\w+_ROW\((TP_\w+)', read(include, 'turnphase', name), re.M)
                  for name in os.listdir(os.path.join(include, 'turnphase')) if name.endswith('.def')}
        # A library with a second header names it: 'headers': files('../../include/turnphase/mcp_server.h').
        seconds = {header: library for library, header in re.findall(
            r"^libraries \+= \{'(\w+)': \{(?:(?!^\}).)*?'headers': files\('[./]*include/turnphase/(\w+\.h)'\)",
            read(root, 'domains/mcp/meson.build'), re.S | re.M)}
        for name, text in headers(include):
            self.headers[name] = 'turnphase' if name in core else 'turnphase-' + seconds.get(name, name[:-2])
            self.header(name, text, tables)

    def header(self, name, text, tables):
        for macro in re.findall(r'^#define (TP_\w+)[ \t]+(?:\\\n)?[^\n]*', text, re.M):
            if not re.match(r'TP_(API|MUST_USE|BEGIN_DECLS|END_DECLS|\w+_ROW)$', macro):
                self.constants[macro] = {'header': name}
        before = ''
        for comment, code in declarations(with_tables(text)):
            code = re.sub(r'@@(\w+\.def)@@', lambda m: ', '.join(tables[m.group(1)]) + ',', code)
            before = self.declaration(name, comment, code, before) or ''

    def declaration(self, header, comment, code, before):
        """@return the name of a plain number's type, to which an enum with its plural after it belongs."""
        plain = COMMENT.sub(' ', code)
        entry = {'header': header, 'about': about(comment)} if comment else {'header': header}
        struct = re.match(r'(?:typedef )?struct (tp_\w+)\s*\{', code)
        enum = re.match(r'(?:typedef )?enum(?:\s+(tp_\w+))?\s*\{', code)
        if struct:
            body = code[struct.end():code.rindex('}')]
            entry['members'] = [self.member(one, note) for line, note in member_comments(body)
                                for one in declared_names(COMMENT.sub(' ', line))]
            self.structs[struct.group(1)] = entry
        elif enum:
            body = re.sub(r'=[^,]*', '=', plain[enum.end():plain.rindex('}')])
            constants = re.findall(r'\b(TP_\w+)\b(?=\s*(?:=|,|$))', body)
            name = before or enum.group(1)
            if not name.endswith('_limits'):
                self.enums[name] = {**entry, 'type': self.types.pop(name, {}).get('type', 'enum'), 'values': constants}
            else:
                self.constants.update({one: {'header': header} for one in constants})
        elif re.match(r'typedef struct tp_\w+ tp_\w+$', plain):
            self.handles[plain.split()[-1]] = entry
        elif re.match(r'typedef .*\(\s*\*\s*tp_\w+\s*\)\s*\(', plain, re.S):
            name = re.search(r'\(\s*\*\s*(tp_\w+)', plain).group(1)
            self.callbacks[name] = {**entry, **self.function(comment, plain[len('typedef '):])}
        elif re.match(r'typedef \w+ tp_\w+$', plain):
            name = plain.split()[-1]
            self.types[name] = {**entry, 'type': plain.split()[1]}
            return name
        elif 'TP_API' in plain:
            plain = re.sub(r'\bTP_API\s+', '', plain)
            name = re.search(r'\b(tp_\w+)\s*\(', plain).group(1)
            self.functions[name] = {**entry, **self.function(comment, plain)}
        return None

    def function(self, comment, text):
        returns, parameters = signature(text)
        notes = words_of(comment)
        owners = {}
        for names, note in PARAMETER.findall(notes):
            for name in re.split(r',\s*', names):
                owners[name] = note
        entry = {'returns': returns, 'parameters': []}
        for name, kind, arrays in parameters:
            one = {'name': name, 'type': kind + ''.join('[%s]' % length for length in arrays)}
            owner = OWNERSHIP.search(owners.get(name, ''))
            if owner:
                one['ownership'] = owner.group(1).lower()
            if 'may be NULL' in owners.get(name, ''):
                one['nullable'] = True
            entry['parameters'].append(one)
        if re.search(r',\s*\.\.\.\s*\)', text):
            entry['variadic'] = True
        for key, rule in ('threads', RULE), ('blocks', BLOCKS):
            found = rule.search(notes)
            if found:
                entry[key] = found.group(1).strip()
        return entry

    def member(self, declared, comment):
        name, kind, arrays = declared
        entry = {'name': name, 'type': kind}
        if arrays:
            entry['length'] = arrays
        if comment:
            entry['about'] = about(comment)
        return entry

    def kind_of(self, kind):
        """bool, char, int, uint, float, enum, string (with a NUL), pointer, callback or struct."""
        if kind in self.callbacks or '(*)' in kind:
            return 'callback'
        if kind.count('*'):
            return 'string' if kind == 'const char *' else 'pointer'
        kind = kind.replace('const ', '')
        if kind in self.structs:
            return 'struct'
        if kind in self.enums:
            return 'enum'
        return NUMBERS[self.types.get(kind, {'type': kind})['type']][0]

    def program(self, include):
        """A C program that prints a Python dict of sizes, offsets and values."""
        lines = []
        for name, struct in self.structs.items():
            lines.append('  printf("(\'%s\',): %%zu,\\n", sizeof(%s));' % (name, name))
            for member in struct['members']:
                pair = name, member['name']
                lines.append('  printf("(\'%s\', \'%s\'): (%%zu, %%zu, %%zu),\\n", offsetof(%s, %s), '
                             'sizeof(((%s *)0)->%s), sizeof(((%s *)0)->%s%s));' %
                             (pair * 4 + ('[0]' * len(member.get('length', [])),)))
        values = [*self.constants, *(one for enum in self.enums.values() for one in enum['values'])]
        for name in values:
            lines.append('  VALUE(%s);' % name)
        return '''#include <inttypes.h>
#include <stdio.h>
%s
#define ROW(type, format) printf("'%%s': ('" type "', %%" format "),\\n", name, value)
static void text(const char *name, const char *value) { printf("'%%s': ('const char *', '%%s'),\\n", name, value); }
static void u64(const char *name, uint64_t value) { ROW("uint64_t", PRIu64); }
static void u32(const char *name, uint32_t value) { ROW("uint32_t", PRIu32); }
static void i32(const char *name, int32_t value) { ROW("int32_t", PRId32); }
static void inbox(const char *name, const tp_inbox *at) {
  uint64_t value = (uintptr_t)at;
  ROW("tp_inbox *", PRIu64);
}
#define VALUE(x) _Generic((x), char *: text, tp_inbox *: inbox, uint64_t: u64, uint32_t: u32, int32_t: i32)(#x, x)
int main(void) {
  printf("{\\n");
%s
  printf("}\\n");
  return 0;
}
''' % (includes(include), '\n'.join(lines))

    def measure(self, measured):
        for name, struct in self.structs.items():
            struct['size'] = measured[(name,)]
            if name in FROZEN:
                struct['frozen'] = True
            for member in struct['members']:
                offset, size, element = measured[name, member['name']]
                member['kind'] = self.kind_of(member['type'])
                if member['name'] == 'data' and member['kind'] == 'string':
                    member['kind'] = 'pointer'  # it points to bytes, and its size is the next member
                member['offset'], member['size'] = offset, size
                if 'length' in member:
                    member['length'] = size // element
        for name in self.constants:
            self.constants[name] = {**self.constants[name], 'type': measured[name][0], 'value': measured[name][1]}
        for enum in self.enums.values():
            enum['values'] = {one: measured[one][1] for one in enum['values'] if not one.endswith('_FORCE_32')}

    def text(self, version):
        """One struct member, constant, parameter list, … a line; every table in the order of the alphabet."""
        line = lambda entry: json.dumps(entry, ensure_ascii=False)
        parts = [
            '"about": "Written by ./dev symbols from the public headers, for 64-bit machines (docs/abi.md)."',
            '"format": 1', '"version": "%s"' % version]

        def table(name, entries, inner=None):
            rows = []
            for key in sorted(entries):
                entry = dict(entries[key])
                lines = entry.pop(inner, None) if inner else None
                if lines is None:
                    rows.append('"%s": %s' % (key, line(entry)))
                    continue
                head = line(entry)[:-1] + (', ' if entry else '')
                if isinstance(lines, dict):
                    body = ',\n'.join('  "%s": %s' % pair for pair in lines.items())
                    rows.append('"%s": %s"%s": {\n%s\n}}' % (key, head, inner, body))
                else:
                    body = ',\n'.join('  ' + line(one) for one in lines)
                    rows.append('"%s": %s"%s": [\n%s\n]}' % (key, head, inner, body))
            parts.append('"%s": {\n%s\n}' % (name, ',\n'.join(rows)))

        table('headers', {name: {'library': library} for name, library in self.headers.items()})
        table('types', self.types)
        table('handles', {name: entry for name, entry in self.handles.items() if name not in self.structs})
        table('structs', self.structs, 'members')
        table('enums', self.enums, 'values')
        table('constants', self.constants)
        table('callbacks', self.callbacks)
        table('functions', self.functions)
        return '{\n%s\n}\n' % ',\n'.join(parts)


PLANTED_HEADER = '''/* head */
TP_BEGIN_DECLS
/** An id. Of what. */
typedef uint32_t tp_x_id;
enum tp_x_ids { TP_X_NONE = 0, TP_X_ONE = 1 << 4, /* not this */ };
enum tp_x_limits { TP_XS_MAX = 3 };
/** One {thing; of "it"}. More. */
typedef struct tp_x {
  size_t struct_size;
  const char *name, *other; /* of the x; may be
                               NULL. Not more */
  /** Above. Not more. */
  tp_x_id *const *ids[2][3];
  int32_t (*each)(void *ctx, const tp_x *x); /* called */
} tp_x;
/** Makes one.
 *  @param one   borrowed; may be NULL.
 *  @param end, ctx  kept until (x.h) it ends.
 *  Threads: any, also after x.y().  Blocks: no.  From a hook: yes. */
TP_API tp_x *tp_x_new(const tp_x *one, void (*end)(void *ctx), void *ctx) TP_MUST_USE;
TP_API void tp_x_row(void);
TP_API int32_t tp_x_printf(tp_x *x, const char *format, ...) TP_PRINTF(2, 3);
'''


def misread():
    """Yields the mistakes of the reader of headers with a planted header."""
    described = Description()
    described.header('x.h', PLANTED_HEADER, {})
    x, new, row = described.structs['tp_x'], described.functions['tp_x_new'], described.functions['tp_x_row']
    shown = described.functions['tp_x_printf']
    members = [(one['name'], one['type'], one.get('length'), one.get('about')) for one in x['members']]
    parameters = [tuple(one.values()) for one in new['parameters']]
    for is_read, wanted in [
            (described.enums['tp_x_id'], {'header': 'x.h', 'about': 'An id.', 'type': 'uint32_t',
                                          'values': ['TP_X_NONE', 'TP_X_ONE']}),
            (described.constants, {'TP_XS_MAX': {'header': 'x.h'}}),
            (x['about'], 'One {thing; of "it"}.'),
            (members, [('struct_size', 'size_t', None, None),
                       ('name', 'const char *', None, 'of the x; may be NULL.'),
                       ('other', 'const char *', None, 'of the x; may be NULL.'),
                       ('ids', 'tp_x_id *const *', ['2', '3'], 'Above.'),
                       ('each', 'int32_t (*)(void *ctx, const tp_x *x)', None, 'called')]),
            ((new['returns'], new['about'], new['threads'], new['blocks']),
             ('tp_x *', 'Makes one.', 'any, also after x.y()', 'no')),
            (parameters, [('one', 'const tp_x *', 'borrowed', True), ('end', 'void (*)(void *ctx)', 'kept'),
                          ('ctx', 'void *', 'kept')]),
            ((row['about'], row['threads'], row['parameters']), ('Makes one.', 'any, also after x.y()', [])),
            ((shown['returns'], shown['variadic'], [one['name'] for one in shown['parameters']]),
             ('int32_t', True, ['x', 'format']))]:
        if is_read != wanted:
            yield '%s, not %s' % (is_read, wanted)
    ends = [{'size': size, 'members': [{'offset': 8, 'size': 4}]} for size in (12, 16)]
    if list(padded({'tp_x': ends[0], 'tp_y': ends[1], 'tp_text': ends[1]})) != ['tp_y']:
        yield 'padding at the end of a struct'


def padded(structs):
    """Yields growable structs with padding at their end."""
    for name, struct in structs.items():
        last = struct['members'][-1]
        if name not in FROZEN and last['offset'] + last['size'] != struct['size']:
            yield name


def incomplete(root, described):
    """Yields what the headers declare, as the other verbs read them, and the description does not have."""
    texts = [text for _, text in headers(os.path.join(root, 'include'))]
    for functions in declared_functions(root).values():
        yield from (name for name in functions if name not in described.functions)
    for name, members in structs_in(texts).items():
        there = [member['name'] for member in described.structs.get(name, {'members': []})['members']]
        yield from ('%s.%s' % (name, member.name) for member in members if member.name not in there)
    for text in texts:
        yield from (name for name in re.findall(r'\btypedef [^;{]*?\(\s*\*\s*(tp_\w+)\s*\)', code_of(text))
                    if name not in described.callbacks)
        known = {*described.constants, *(one for enum in described.enums.values() for one in enum['values'])}
        for _, body, _ in ENUM.findall(code_of(text)):
            yield from (one for one in re.findall(r'\bTP_\w+(?=\s*=)', body) if one not in known)


def describe(root, words):
    write_it = words[:1] == ['--write']
    compiler = words[1:] if write_it else words
    if not compiler:
        return usage()
    include = os.path.join(root, 'include')
    described = Description()
    described.read(root)
    wrong = list(misread()) or list(incomplete(root, described))
    if wrong:
        print('abi.py does not read headers rightly:\n  ' + '\n  '.join(wrong))
        return 2
    status, text = compile_and_run(compiler, include, described.program(include))
    if status:
        print(text)
        return 1
    described.measure(ast.literal_eval(text))
    version = re.search(r"^  version: '(.*)',$", read(root, 'meson.build'), re.M).group(1)
    text, failed = described.text(version), False
    for name in padded(described.structs):
        failed = True
        print('%s has padding at its end: name it reserved_ (must be zero)' % name)
    if write_it:
        write(text, root, DESCRIPTION)
    elif read(root, DESCRIPTION) != text:
        was, now = read(root, DESCRIPTION).splitlines(), text.splitlines()
        print('\n'.join(difflib.unified_diff(was, now, DESCRIPTION, 'the headers', lineterm='', n=1)))
        print('a public header has changed: look at it, run ./dev symbols and commit ' + DESCRIPTION)
        return 1
    asserts = ['TP_STATIC_ASSERT(sizeof(%s) == %s, "%s");' % (name, struct['size'], name)
               for name, struct in described.structs.items()]
    status, text = compile_and_run(compiler, include, includes(include) + '\n'.join(asserts) + '\n',
                                   ['-std=c11', '-fshort-enums'], run=False)
    if status:
        print(text)
    return 1 if failed or status else 0


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
    verbs = {'symbols': symbols, 'structs': structs, 'threads': threads, 'describe': describe, 'grow': grow,
             'fill': fill}
    if len(words) < 2 or words[0] not in verbs:
        return usage()
    return verbs[words[0]](words[1], words[2:])


sys.exit(main(sys.argv[1:]))
