#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The documents as they are installed: README.md, the pages of docs/ and the examples, in the folders of the tree.

    python3 docs/pages/documents.py ROOT FOLDER INCLUDE DEPFILE TARGET

A link from one to another stays as it is. One to a public header leads to the installed header: INCLUDE is the way from
the folder of README.md to that of the headers. Of one to another file of the tree, which is not installed, the words
stay, and the name of the file. A link to what is not in the tree at all is an error. DEPFILE gets what was read.
"""

import os
import re
import shutil
import sys

FILES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'SECURITY.md', 'bench/README.md',
         'bindings/python/README.md', 'bindings/node/README.md']
FOLDERS = ['docs', 'examples']
# What makes documents of sources, and what building leaves.
LEFT_OUT = re.compile(r'(^|/)(pages|__pycache__|node_modules|build|target)(/|$)|^docs/.*\.(py|yml)$|'
                      r'(^|/)(Doxyfile|meson\.build)$')
LINK = re.compile(r'(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)')
FENCE = re.compile(r'(^```.*?^```[^\n]*\n|`[^`\n]+`)', re.S | re.M)
OUTSIDE = ('http://', 'https://', 'mailto:')


def installed(root):
    """The files that are installed, as paths in the tree."""
    found = [name for name in FILES if os.path.exists(os.path.join(root, name))]
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            inside = os.path.relpath(folder, root)
            folders[:] = sorted(name for name in folders if not LEFT_OUT.search(inside + '/' + name))
            found += [inside + '/' + name for name in sorted(names) if not LEFT_OUT.search(inside + '/' + name)]
    return found


class Links:
    """Rewrites the links of one document."""

    def __init__(self, root, there, include):
        self.root, self.there, self.include = root, there, include
        self.folders = {os.path.dirname(path) for path in there} | {''}
        self.wrong = []

    def of(self, document, text):
        """The text with its links rewritten; what stands in blocks and between backquotes stays."""
        parts = FENCE.split(text)
        # A link whose words are code: the code must not be cut out of it.
        if any('`' in part for part in LINK.findall(text) for part in part):
            parts = re.split(r'(^```.*?^```[^\n]*\n)', text, flags=re.S | re.M)
        return ''.join(part if at % 2 else LINK.sub(lambda m: self.one(document, m), part)
                       for at, part in enumerate(parts))

    def one(self, document, match):
        picture, words, path, anchor = match.group(1), match.group(2), match.group(3), match.group(4) or ''
        if not path or path.startswith(OUTSIDE):
            return match.group()
        inside = os.path.normpath(os.path.join(os.path.dirname(document), path))
        if inside in self.there or inside in self.folders:
            return match.group()
        if inside.startswith('include/turnphase'):
            up = '../' * document.count('/')
            return '%s[%s](%s%s)' % (picture, words, up + self.include + inside.removeprefix('include'), anchor)
        if not os.path.exists(os.path.join(self.root, inside)):
            self.wrong.append('%s: %s is not in the tree' % (document, path))
        return words if inside in words else '%s (%s in the sources)' % (words, inside)


def main():
    root, folder, include, depfile, target = sys.argv[1:]
    names = installed(root)
    links = Links(root, set(names), include)
    for top in {name.split('/')[0] for name in names if '/' in name}:
        shutil.rmtree(os.path.join(folder, top), ignore_errors=True)
    for name in names:
        source, to = os.path.join(root, name), os.path.join(folder, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if name.endswith('.md'):
            with open(source, encoding='utf-8') as file:
                text = links.of(name, file.read())
            with open(to, 'w', encoding='utf-8') as file:
                file.write(text)
            shutil.copymode(source, to)
        else:
            shutil.copy(source, to)
    with open(depfile, 'w', encoding='utf-8') as file:
        file.write('%s: %s\n' % (target, ' '.join(os.path.join(root, name).replace(' ', '\\ ') for name in names)))
    if links.wrong:
        sys.exit('\n'.join(links.wrong))


if __name__ == '__main__':
    main()
