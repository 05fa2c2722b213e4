#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages of the public headers, made of their comments.

    python3 docs/pages/headers.py VERSION ROOT FOLDER

Writes FOLDER/man3: turnphase_NAME.3 for each include/turnphase/NAME.h, turnphase.3 over them, and a page with its
comment for each function and type; those that share a comment share the page. turnphase.abi.json says which library has
which header.
"""

import json
import os
import re
import shutil
import sys

import roff

# A comment of documentation, then what it is about: up to the next empty line or comment.
DECLARED = re.compile(r'/\*\*(?P<comment>.*?)\*/\n(?P<code>.*?)(?=\n\n|\n/\*|\n#|\nTP_END_DECLS|\Z)', re.S)
HEAD = re.compile(r'\A/\*(.*?)\*/', re.S)
FUNCTION = re.compile(r'\b(tp_\w+)\s*\(')
NUMBER = re.compile(r'typedef \w+ (tp_\w+);')
TYPE = re.compile(r'typedef (?:struct|enum|union) (tp_\w+)')
CALLBACK = re.compile(r'typedef [^;{]*?\(\*(tp_\w+)\)')


def words_of(comment):
    """The lines of a comment without its stars."""
    return [re.sub(r'^ *\* ?', '', line).rstrip() for line in comment.strip().split('\n')]


def paragraphs(lines):
    """Running text, labels, lists; what is indented without being one of a label or list stays as it is."""
    out, text, shown, kind = '', [], [], None

    def end():
        nonlocal text, shown, kind
        done = ''
        if text:
            words = roff.prose(' '.join(text))
            done = words if kind is None else roff.item('\\[bu]', words) if kind == 'item' else \
                '.PP\n' + words
        if shown:
            done += '.PP\n' + roff.block('\n'.join(shown))
        text, shown, kind = [], [], None
        return done

    for line in lines:
        stripped = line.strip()
        label = re.match(r'@(param|return)\s*', stripped)
        if not stripped:
            out += end() + '.PP\n'
        elif label or re.match(r'(Threads|Blocks|On failure|From a \w+( or \w+)?|Since): ', stripped):
            out += end()
            kind, text = 'label', [re.sub(r'^@param +(\w+) +', r'\1: ', stripped).replace('@return', 'Returns')]
        elif stripped.startswith('- '):
            out += end()
            kind, text = 'item', [stripped[2:]]
        elif line.startswith('    ') and kind is None:
            if text:
                out += end()
            shown.append(line)
        else:
            if shown:
                out += end()
            text.append(stripped)
    out += end()
    return re.sub(r'(\.PP\n)+(?=\.TP)|(?<=\.PP\n)(\.PP\n)+|(\.PP\n)+\Z|\A(\.PP\n)+', '', out)


def declaration(text):
    text = re.sub(r'\b(TP_API|TP_MUST_USE|TP__?PRINTF\([^)]*\))\s?', '', text)
    return re.sub(r' +;', ';', text)


def parts_of(header):
    """(head, [(comment, code)]) of a header's text."""
    head = HEAD.match(header)
    lines = [line for line in words_of(head.group(1)) if not line.startswith('SPDX')]
    rows = [(words_of(match['comment']), declaration(match['code'])) for match in DECLARED.finditer(header)
            if match['code'].strip()]
    return lines, rows


def names_of(code, functions):
    """The functions, or the type, that a row declares, in their order."""
    if code.startswith('typedef'):
        named = NUMBER.match(code) or TYPE.search(code) or CALLBACK.search(code)
        return [named.group(1)] if named else []
    return [name for name in dict.fromkeys(FUNCTION.findall(code)) if name in functions]


def cmake_name(library):
    return 'turnphase::' + library.removeprefix('turnphase-')


def page_name(header):
    return 'turnphase_' + header.removesuffix('.h').replace('/', '_')


def split_head(lines):
    """The first sentence of a header's comment, and all of it: "tool.h: for authors of tools: what …"."""
    text = ' '.join(line.strip() for line in lines).strip()
    text = re.sub(r'^[\w/]+\.h: ', '', text)
    return re.split(r'[.:;] |\.$', text)[0]


def page(header, text, library, version):
    lines, rows = parts_of(text)
    out = roff.title(page_name(header), '3', version) + roff.name_section(page_name(header), split_head(lines))
    out += '.SH LIBRARY\n' + roff.prose('pkg-config: %s; CMake: %s' % (library, cmake_name(library)))
    out += '.SH SYNOPSIS\n.B #include <turnphase/%s>\n' % header
    out += '.SH DESCRIPTION\n' + paragraphs(lines)
    for comment, code in rows:
        out += '.SS %s\n' % roff.code(subject(code)) + roff.block(code) + '.PP\n' + paragraphs(comment)
    return out + roff.see_also([('turnphase', '3')])


def first_sentence(comment, otherwise):
    text = ' '.join(line.strip() for line in comment).split(' @')[0].strip()
    return re.split(r'(?<=[\w)\]"])[.:;](?: |$)', text)[0].rstrip('.') or otherwise


def page_of(name, header, row, library, version):
    """The page of what one row declares."""
    comment, code = row
    return (roff.title(name, '3', version) +
            roff.name_section(name, first_sentence(comment, 'see %s(3)' % page_name(header))) +
            '.SH LIBRARY\n' + roff.prose('pkg-config: %s; CMake: %s' % (library, cmake_name(library))) +
            '.SH SYNOPSIS\n.B #include <turnphase/%s>\n.PP\n' % header + roff.block(code) +
            '.SH DESCRIPTION\n' + paragraphs(comment) +
            roff.see_also([(page_name(header), '3'), ('turnphase', '3')]))


def subject(code):
    """What a declaration is called, for the heading over it."""
    named = TYPE.search(code) or CALLBACK.search(code) or re.search(r'#define (\w+)', code) or \
        FUNCTION.search(code) or re.search(r'\b(tp_\w+|TP_\w+)', code)
    return named.group(1) if named else code.split('\n')[0]


def overview(headers, version):
    rows = ''
    for header, library, summary in headers:
        rows += roff.item('\\fB%s\\fR(3)' % roff.code(page_name(header)),
                          roff.prose('%s; of %s (CMake: %s)' % (summary, library, cmake_name(library))))
    return (roff.title('turnphase', '3', version) +
            roff.name_section('turnphase', 'the phases of an agent turn as a concurrent graph of handlers') +
            '.SH SYNOPSIS\n.B #include <turnphase/turnphase.h>\n.PP\n.nf\n'
            'cc host.c $(pkg\\-config \\-\\-cflags \\-\\-libs turnphase)\n.fi\n'
            '.SH DESCRIPTION\n' +
            roff.prose('Each public header has a page, and so has each function and type, such as '
                       'tp_turn_run(3). The documents say more: docs/README.md, where documents are installed.') +
            '.SH HEADERS\n' + rows + roff.see_also([('turnphase', '1')]))


def main():
    version, root, folder = sys.argv[1:]
    with open(os.path.join(root, 'turnphase.abi.json'), encoding='utf-8') as file:
        description = json.load(file)
    folder = os.path.join(folder, 'man3')
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

    def write(name, text):
        with open(os.path.join(folder, name + '.3'), 'w', encoding='utf-8') as file:
            file.write(text)

    headers, written = [], set()
    for header, about in sorted(description['headers'].items()):
        with open(os.path.join(root, 'include/turnphase', header), encoding='utf-8') as file:
            text = file.read()
        lines, rows = parts_of(text)
        write(page_name(header), page(header, text, about['library'], version))
        for row in rows:
            names = [name for name in names_of(row[1], description['functions']) if name not in written]
            written.update(names)
            if names:
                write(names[0], page_of(names[0], header, row, about['library'], version))
            for name in names[1:]:
                write(name, '.so man3/%s.3\n' % names[0])
        headers.append((header, about['library'], split_head(lines)))
    write('turnphase', overview(headers, version))


if __name__ == '__main__':
    main()
