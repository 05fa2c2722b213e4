#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What documents say that the tree knows: links, and the options of each command.

    python3 tests/documents.py --write      writes the tables of options in docs/command/*.md

tests/lint.py refuses a link that leads nowhere, a command without a page, and a table of options that is out of date.
"""

import os
import re
import sys

OPTIONS, VERBS = 'cli/common/options.def', 'cli/common/verbs.def'
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
TABLE = re.compile(r'\n## Options\n.*\Z', re.S)
FENCE = re.compile(r'^```.*?^```\s*?$', re.M | re.S)
LINK = re.compile(r'(?<!\\)\]\(([^)\s]+)\)')


def unquoted(text):
    return ''.join(piece.replace('\\"', '"').replace('\\\\', '\\') for piece in TEXT.findall(text))


def arguments_of(call):
    """The arguments of a macro, split at the commas that stand in no brackets and in no text."""
    pieces, depth, begin = [], 0, 0
    for match in re.finditer(TEXT.pattern + r'|[(){}\[\],]', call):
        token = match.group()
        if token in '({[':
            depth += 1
        elif token in ')}]':
            depth -= 1
        elif token == ',' and depth == 0:
            pieces.append(call[begin:match.start()].strip())
            begin = match.end()
    return pieces + [call[begin:].strip()]


def rows_of(macro, definition):
    """The arguments of each row of a table."""
    rows = re.split(r'^%s\(' % macro, re.sub(r'/\*.*?\*/', '', definition, flags=re.S), flags=re.M)[1:]
    return [arguments_of(row.rstrip()[:-1]) for row in rows]


def options_of(definition):
    """(letter, name, argument, help) of each row."""
    for letter, name, argument, _, text in rows_of('OPTION', definition):
        yield letter.strip("'0"), unquoted(name), unquoted(argument), unquoted(text)


def verbs_of(definition):
    """Returns for each row: (name, its options, {option: its meaning in this command})."""
    for _, _, *members in rows_of('VERB', definition):
        member = dict(re.match(r'\.(\w+) =\s+(.*)', text, re.S).groups() for text in members)
        meanings = [arguments_of(pair.strip()[1:-1]) for pair in arguments_of(member.get('meanings', '')[1:-1]) if pair]
        yield (unquoted(member['name']), unquoted(member.get('options', '')).split() + ['help'],
               {unquoted(option): unquoted(text) for option, text in meanings})


def table_of(takes, meanings, options):
    lines = ['', '## Options', '', '<!-- Written by tests/documents.py from the table of the command. -->', '',
             '| option | what it does |', '|---|---|']
    for letter, name, argument, text in options:
        if name in takes:
            shown = ('`-%s`, ' % letter if letter else '') + '`--%s`' % ' '.join(filter(None, (name, argument)))
            text = re.sub(r'[*|]', r'\\\g<0>', meanings.get(name, text)).replace('<', '&lt;')
            lines.append('| %s | %s |' % (shown.replace('|', '\\|'), text))
    return '\n'.join(lines) + '\n'


def pages_of(read):
    """(path, what its table of options is) for each command."""
    options = list(options_of(read(OPTIONS)))
    for name, takes, meanings in verbs_of(read(VERBS)):
        yield 'docs/command/%s.md' % name, table_of(takes, meanings, options)


def verbs_take_options(path, text, tree):
    """The names that a row of verbs.def has are those of options.def, in its order, and each option is taken."""
    if path != VERBS:
        return
    order, taken = [name for _, name, _, _ in options_of(tree.read(OPTIONS))], set()
    for verb, takes, meanings in verbs_of(text):
        taken.update(takes)
        if takes != [name for name in order if name in takes]:
            yield 1, 'the options of %s are not options of options.def in their order' % verb
        for name in sorted(set(meanings) - set(takes)):
            yield 1, '%s says what --%s means, and does not take it' % (verb, name)
    for name in sorted(set(order) - taken):
        yield 1, '--%s is taken by no command' % name


def commands_have_pages(path, text, tree):
    """Each command has a page, docs/command.md leads to it, and its table of options is that of the command."""
    if path != 'docs/command.md':
        return
    for page, table in pages_of(tree.read):
        if '](%s)' % page[len('docs/'):] not in text:
            yield 1, 'no link to %s' % page
        if not tree.read(page).endswith(table):
            yield 1, 'the options of %s are out of date: python3 tests/documents.py --write' % page


def defaults_of(definition):
    """{option: the number in brackets in its help}."""
    defaults = {}
    for _, name, _, text in options_of(definition):
        number = re.search(r'\((\d+)[);]', text)
        if number:
            defaults[name] = number.group(1)
    return defaults


def defaults_are_right(path, text, tree):
    """A number in brackets that a page gives after an option is the default in the table of the command."""
    if not re.match(r'docs/command/[\w-]+\.md$', path):
        return
    defaults = defaults_of(tree.read(OPTIONS))
    for match in re.finditer(r'`--([\w-]+)[^`\n]*`(?:(?!`--)[^\n;.])*?\((\d[\d,]*)[);]', text):
        name, number = match.group(1), match.group(2).replace(',', '')
        if defaults.get(name, number) != number:
            yield text.count('\n', 0, match.start()) + 1, '--%s is %s by default' % (name, defaults[name])


def exit_statuses_are_documented(path, text, tree):
    """The page of exit-status has the row of each status, in the words of the command."""
    if path != 'docs/command/exit-status.md':
        return
    for number, words in re.findall(r'^X\(\w+, (\d+), "(.*)"\)$', tree.read('cli/common/exit_status.def'), re.M):
        if '| %s | %s |\n' % (number, words) not in text:
            yield 1, 'no row | %s | %s |' % (number, words)


def events_are_documented(path, text, tree):
    """docs/events.md has a row for each event of a turn and for each that the command adds."""
    if path != 'docs/events.md':
        return
    events = re.findall(r'\[TP_EVENT_\w+\] = "(\w+)"', tree.read('phases/turn/event.c'))
    events += re.findall(r'append_event\(events, "(\w+)"', tree.read('cli/run/event.c'))
    rows = [name for row in re.findall(r'^\| (`.*?) \|', text, re.M) for name in re.findall(r'`(\w+)`', row)]
    for name in sorted(set(events) ^ set(rows)):
        yield 1, 'the event %s %s' % (name, 'is not described' if name in events else 'does not exist')


def event_keys_are_documented(path, text, tree):
    """docs/events.md names each key of the tables from which the events are printed."""
    if path != 'docs/events.md':
        return
    keys = set(re.findall(r'^  KEY\((\w+), ', tree.read('cli/run/event.h'), re.M))
    names = set(re.findall(r'\w+', ' '.join(map(' '.join, re.findall(r'`([^`]*)`|^\| (\w+) \|', text, re.M)))))
    for key in sorted(keys - names):
        yield 1, 'the key %s of an event is not described' % key


# readme and guide_* of tests/meson.build run the first two; the third needs a registry of packages.
RUN_BY_OTHERS = re.compile(r'README\.md$|docs/guides/|bindings/python/README\.md$')


def commands_are_run(path, text, tree):
    """The test documents runs each page with a block of the kind `sh`, and no page without one."""
    if not path.endswith('.md') or RUN_BY_OTHERS.match(path):
        return
    listed = re.search(r'^document_files = files\((.*?)\)', tree.read('tests/meson.build'), re.M | re.S).group(1)
    is_listed, has_commands = "'../%s'" % path in listed, re.search(r'^```sh$', text, re.M)
    if has_commands and not is_listed:
        yield 1, 'not in document_files of tests/meson.build, but it has a block of the kind `sh`'
    if is_listed and not has_commands:
        yield 1, 'in document_files of tests/meson.build, but it has no block of the kind `sh`'


def anchors_of(text):
    anchors = set()
    for heading in re.findall(r'^#+ (.*)$', FENCE.sub('', text), re.M):
        heading = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading.replace('`', ''))
        anchors.add(re.sub(r'[^\w\- ]', '', heading.lower()).strip().replace(' ', '-'))
    return anchors


def links_lead_somewhere(path, text, tree):
    """A link inside the tree names a file that is there, and a heading of it."""
    if not path.endswith('.md'):
        return
    code = re.compile(r'`[^`\n]*`')
    plain = FENCE.sub(lambda block: re.sub(r'[^\n]', ' ', block.group()), text)
    plain = code.sub(lambda span: ' ' * len(span.group()), plain)
    for match in LINK.finditer(plain):
        if re.match(r'\w+:', match.group(1)):
            continue
        file, _, anchor = match.group(1).partition('#')
        file = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if file != path and file not in tree.files:
            yield text.count('\n', 0, match.start()) + 1, 'the link leads nowhere: %s' % match.group(1)
        elif anchor and file.endswith('.md') and anchor not in anchors_of(text if file == path else tree.read(file)):
            yield text.count('\n', 0, match.start()) + 1, 'no heading is %s' % match.group(1)


def main():
    if sys.argv[1:] != ['--write']:
        print(__doc__, file=sys.stderr)
        return 2

    def read(path):
        with open(path, encoding='utf-8') as file:
            return file.read()

    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    for page, table in pages_of(read):
        text = TABLE.sub('', read(page) if os.path.exists(page) else '').rstrip('\n') + '\n' + table
        with open(page, 'w', encoding='utf-8') as file:
            file.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
