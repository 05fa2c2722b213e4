#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages of the command and its completions, made of what `turnphase help --json` says.

    python3 docs/pages/command.py VERSION FOLDER COMMAND…

Writes FOLDER/man1/*.1 and the completions FOLDER/turnphase (bash), _turnphase (zsh) and turnphase.fish. COMMAND is
turnphase, with what must stand before it.
"""

import json
import os
import shutil
import subprocess
import sys

import completions
import roff


class Table:
    """The commands, each a map as the command prints it, and the exit statuses."""

    def __init__(self, lines):
        rows = [json.loads(line) for line in lines.splitlines()]
        self.commands = [row for row in rows if 'command' in row]
        self.exit_statuses = [row['exit_statuses'] for row in rows if 'exit_statuses' in row][0]


def synopsis(command):
    words = '\\fBturnphase ' + roff.code(command['command']) + '\\fR'
    if command['operand'] or len(command['options']) > 1:
        words += ' [\\fIOPTION\\fR...]'
    return words + (' [\\fI%s\\fR]' % roff.code(command['operand']) if command['operand'] else '') + '\n'


def description(command):
    """Running text, and the table of the actions: a line each, what is indented goes on with the one before."""
    out, tag, text = '', None, []

    def end():
        nonlocal tag, text
        done = '' if tag is None and not text else roff.prose(' '.join(text)) if tag is None else \
            roff.item('\\fB%s\\fR' % roff.code(tag), roff.prose(' '.join(text)))
        tag, text = None, []
        return done

    for line in command['description'].split('\n'):
        first = line.split(' ')[0]
        if first in command['actions']:
            out += end()
            tag, _, rest = line.partition('  ')
            text = [rest.strip()]
        elif not line.strip():
            out += end() + '.PP\n'
        else:
            if tag is None or line.startswith(' '):
                text.append(line.strip())
            else:
                out += end() + '.PP\n'
                text = [line]
    return (out + end()).replace('.PP\n.TP', '.TP')


def option(row):
    tag = ''
    if 'letter' in row:
        tag = '\\fB\\-%s\\fR, ' % row['letter']
    tag += '\\fB\\-\\-%s\\fR' % roff.code(row['name'])
    if 'argument' in row:
        tag += ' \\fI%s\\fR' % roff.code(row['argument'])
    return roff.item(tag, roff.prose(row['help']))


def exit_statuses(table):
    return '.SH EXIT STATUS\n' + ''.join(roff.item('\\fB%d\\fR' % row['status'], roff.prose(row['meaning']))
                                         for row in table.exit_statuses)


def page_of(command, version):
    name = 'turnphase-' + command['command']
    return (roff.title(name, '1', version) + roff.name_section(name, command['summary']) +
            '.SH SYNOPSIS\n' + synopsis(command) +
            '.SH DESCRIPTION\n' + description(command) +
            '.SH OPTIONS\n' + ''.join(option(row) for row in command['options']) +
            '.SH EXAMPLES\n' + roff.block(command['examples']) +
            '.SH EXIT STATUS\n' + roff.prose('As of turnphase(1), and of turnphase exit-status.') +
            roff.see_also([('turnphase', '1')]))


def overview(table, version):
    commands = ''.join(roff.item('\\fB%s\\fR' % roff.code(row['command']), roff.prose(row['summary']))
                       for row in table.commands)
    return (roff.title('turnphase', '1', version) +
            roff.name_section('turnphase', 'run the turns of AI agents through phases, and look at what ran') +
            '.SH SYNOPSIS\n\\fBturnphase\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.br\n'
            '\\fBturnphase help\\fR [\\fICOMMAND\\fR]\n.br\n\\fBturnphase help \\-\\-json\\fR\n.br\n'
            '\\fBturnphase \\-\\-version\\fR\n' +
            '.SH DESCRIPTION\n' +
            roff.prose('Each command has a page of its own, such as turnphase-run(1). Data goes to standard output, '
                       'everything else to standard error. Colours come only on a terminal; NO_COLOR and TERM=dumb '
                       'turn them off.') +
            '.PP\n' + roff.prose('help --json prints what these pages and the completions of shells are made of: a '
                                 'line of JSON for each command, and one for the exit statuses.') +
            '.SH COMMANDS\n' + commands + exit_statuses(table) +
            roff.see_also([('turnphase-' + row['command'], '1') for row in table.commands] + [('turnphase', '3')]))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def main():
    version, folder, *words = sys.argv[1:]
    table = Table(subprocess.run([*words, 'help', '--json'], check=True, capture_output=True, text=True,
                                 encoding='utf-8').stdout)
    shutil.rmtree(os.path.join(folder, 'man1'), ignore_errors=True)
    write(os.path.join(folder, 'man1/turnphase.1'), overview(table, version))
    for command in table.commands:
        write(os.path.join(folder, 'man1/turnphase-%s.1' % command['command']), page_of(command, version))
    for name, make in completions.SHELLS.items():
        write(os.path.join(folder, name), make(table.commands))


if __name__ == '__main__':
    main()
