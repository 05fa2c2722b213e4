# SPDX-License-Identifier: Apache-2.0
"""roff: texts as pages of man(7), which groff and mandoc read without a warning."""

import datetime
import os
import re
import textwrap

# The day that stands on the pages: that of a package (SOURCE_DATE_EPOCH), else of this form of them.
DATE = '2026-11-27'
# What every device can show. What is not here is named by its number.
GLYPHS = {'\\': '\\[rs]', '…': '...', '–': '\\[en]', '—': '\\[em]', '→': '\\[->]', '×': '\\[mu]', '“': '\\[lq]',
          '”': '\\[rq]', '’': '\\[cq]', '^': '\\[ha]', '~': '\\[ti]', '`': '\\[ga]', "'": '\\[aq]'}
# A minus that people paste: of an option, of a number, or alone; not the hyphen of a word.
MINUS = re.compile(r'(?<![\w-])-+')


def glyphs(text):
    text = ''.join(GLYPHS.get(c, c) for c in text)
    return re.sub(r'[^\x00-\x7f]', lambda m: '\\[u%04X]' % ord(m.group()), text)


def guarded(line):
    """A line that is no request, whatever it begins with."""
    return '\\&' + line if line[:1] in ('.', "'") else line


def prose(text):
    """Lines of running text."""
    text = MINUS.sub(lambda m: '\\-' * len(m.group()), glyphs(' '.join(text.split())))
    lines = textwrap.wrap(text, 76, break_long_words=False, break_on_hyphens=False)
    return ''.join(guarded(line) + '\n' for line in lines)


def code(text):
    """Words that are typed as they stand."""
    return glyphs(text).replace('-', '\\-')


def block(text):
    """Lines that stay as they are."""
    lines = textwrap.dedent(text.strip('\n')).split('\n')
    return '.nf\n' + ''.join(guarded(code(line.rstrip())) + '\n' if line.strip() else '.sp\n'
                             for line in lines) + '.fi\n'


def macro(name, *words):
    """A request with its words, each as one."""
    return '.%s %s\n' % (name, ' '.join('"%s"' % word.replace('"', '\\[dq]') for word in words))


def item(tag, text):
    """An indented text under a tag that is in roff already."""
    return '.TP\n' + guarded(tag) + '\n' + (text or '\\&\n')


def title(name, section, version):
    epoch = os.environ.get('SOURCE_DATE_EPOCH')
    utc = datetime.timezone.utc
    date = datetime.datetime.fromtimestamp(int(epoch), utc).strftime('%Y-%m-%d') if epoch else DATE
    manual = {'1': 'turnphase, the command', '3': 'turnphase, the library'}[section]
    return ('.\\" Generated: what it says stands in the tables of the command and in the public headers.\n' +
            macro('TH', name.upper(), section, date, 'turnphase ' + version, manual))


def name_section(name, summary):
    return '.SH NAME\n' + guarded(code(name)) + ' \\-\n' + prose(summary)


def see_also(pages):
    """(name, section) of each page."""
    rows = ['.BR %s (%s)' % (code(name), section) for name, section in pages]
    return '.SH SEE ALSO\n' + ' ,\n'.join(rows) + '\n' if rows else ''
