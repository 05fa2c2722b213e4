#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers as doxygen reads them (INPUT_FILTER of docs/Doxyfile).

    python3 docs/doxygen_filter.py FILE

The headers are written for readers of C: this turns what such a reader sees into what doxygen understands. It keeps the
number of lines, so that warnings name those of the header.
 - The comment at the head of a file, and the comments behind members, enum values and macros, become documentation.
 - Declarations in a row under one comment share it, and each names the others.
 - An enum without a name belongs to the type above it.
 - `Threads:`, `Blocks:` and the like begin paragraphs of their own; a table or an example in a comment stays as it is.
 - The rows of status.def stand where base.h includes them.
Of a Markdown file only the links into the tree are taken out, which lead to nothing in the HTML.
"""

import os
import re
import sys

# `Threads: any.` within a comment, and the alias of docs/Doxyfile that it becomes.
LABELS = {'Threads': '@threads', 'Blocks': '@blocks', 'From a hook': '@fromhook',
          'From a handler or callback': '@fromcallback', 'On failure': '@onfailure', 'Since': '@since'}
LABEL = re.compile(r'(^ *\* *|/\*\* |[.;)] +)(%s):(?=\s)' % '|'.join(LABELS), re.M)
ITEM = re.compile(r'^ *- |@(?:param|return)\b|' + '|'.join(LABELS.values()))
DOC = re.compile(r'/\*\*.*?\*/', re.S)
TRAILING = re.compile(r'^([ \t]*[^\s/*][^\n]*?)/\*(?!\*)(?= )', re.M)
# Several members at once: doxygen would give the comment to the last one alone.
SEVERAL = re.compile(r'^([ \t]+)((?:const |struct )?\w+ )(\**\w+(?:, \**\w+)+);[ \t]*/\*(?!\*)( .*?\*/)', re.M | re.S)
# A comment, or a declaration that has one above it or stands in a row with one that has.
DECLARED = re.compile(r'/\*.*?\*/|^(?:TP_API\b|typedef [^;{]*\(\*)[^;{=]*?\b(tp_\w+)\)?\s*\([^;]*;', re.S | re.M)
STATUS_ROWS = re.compile(r'#define TP_STATUS_ROW.*\n#include "turnphase/status\.def"\n#undef TP_STATUS_ROW')
STATUS_ROW = re.compile(r'TP_STATUS_ROW\((\w+), (\d+), "(\w+)",\s*"([^"]*)"\)')


def kind_of_item(line):
    """What the text at the end of a line belongs to: "label", "item" (of a list, @param, @return), or None."""
    found = ITEM.findall(line)
    return found and ('label' if found[-1] in LABELS.values() else 'item') or None


def comment(match):
    """One documentation comment: labels, lists, and what is indented beyond them: tables and examples."""
    text = LABEL.sub(lambda m: m.group(1) + LABELS[m.group(2)], match.group())
    words = [re.sub(r'^ *\*(?!/) ?|\s*\*/$', '', line) for line in text.split('\n')]
    lines = text.split('\n')
    base = 0 if '@file' in lines[0] else 1
    item, table, in_list = kind_of_item(words[0]), False, False
    for number, line in enumerate(words[1:], 1):
        indent = len(line) - len(line.lstrip())
        kind = None if table and indent > base else kind_of_item(line)
        if line and indent > base and not kind and not item:
            if not table:
                lines[number - 1] += ' @verbatim'
            lines[number] = line + (' @endverbatim */' if number == len(words) - 1 else '')
            table = True
        elif line:
            ends = indent <= base and item == 'item' and not line.lstrip().startswith(('@', '- ')) and words[number - 1]
            if table or ends:
                lines[number] = lines[number].replace('*', '@endverbatim' if table else '* @then', 1)
            if kind or ends:
                item = kind
            table = False
            if line.lstrip().startswith('- '):
                lines[number] = lines[number].replace('- ', '<li>' if in_list else '<ul><li>', 1)
                in_list = True
            elif in_list and (kind or indent <= base):
                lines[number - 1] += '</ul>'
                in_list = False
        elif table:
            lines[number] = ''
        else:
            item = None
    if in_list:
        lines[-1] = lines[-1].replace('*/', '</ul> */')
    return '\n'.join(lines)


def one_by_one(match):
    """The members of one declaration, each with the comment; the last one keeps its line ends."""
    margin, kind, names, words = match.groups()
    *others, last = names.split(', ')
    short = ' '.join(words.split())
    return margin + ''.join('%s%s; /**< %s ' % (kind, name, short) for name in others) + kind + last + '; /**<' + words


def share_comments(text):
    """Declarations in a row, of which the first has a comment."""
    rows, end = [], 0
    for match in DECLARED.finditer(text):
        if text[end:match.start()].strip():
            rows.append(None)
        if match.group(1) is None:
            rows.append([] if match.group().startswith('/**') else None)
        elif rows and rows[-1] is not None:
            rows[-1].append(match)
        end = match.end()
    insertions = []
    for row in rows:
        if row and len(row) > 1:
            names = [match.group(1) + '()' for match in row]
            for match in row[1:]:
                insertions.append((match.start(), '/** @copydoc %s */ ' % row[0].group(1)))
            opening = text.rindex('*/', 0, row[0].start())
            insertions.append((opening, '@together ' + ', '.join(names) + ' '))
    for offset, words in sorted(insertions, reverse=True):
        text = text[:offset] + words + text[offset:]
    return text


def header(path, text):
    if '/status.def"' in text:
        with open(os.path.join(os.path.dirname(path), 'status.def'), encoding='utf-8') as file:
            rows = STATUS_ROW.findall(file.read())
        text = STATUS_ROWS.sub('\n\n' + ' '.join('%s = %s, /**< %s: %s */' % (name, number, category, words)
                                                 for name, number, category, words in rows), text)
    text = re.sub(r'\A/\* SPDX[^\n]*', '/** @file', text)
    text = re.sub(r'(typedef \w+ (tp_\w+);\n)enum \{', r'\1/** The values of #\2. */ enum {', text)
    text = re.sub(r'(size_t struct_size;)(?!\s*/\*)', r'\1 /**< the sizeof of the code that fills it: base.h */', text)
    text = share_comments(text)
    text = DOC.sub(comment, text)
    text = SEVERAL.sub(one_by_one, text)
    return TRAILING.sub(r'\1/**<', text)


def main():
    path = sys.argv[1]
    with open(path, encoding='utf-8') as file:
        text = file.read()
    if path.endswith('.md'):
        text = re.sub(r'\[([^\]]*)\]\((?!https?:)[^)]*\)', r'\1', text)
    else:
        text = header(path, text)
    sys.stdout.write(text)


main()
