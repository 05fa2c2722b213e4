#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the site of the documents with mkdocs: a warning of mkdocs, such as a broken link, is an error.

    python3 docs/site.py FOLDER       # FOLDER/html is the site

mkdocs wants all pages in one folder. FOLDER/pages gets each document of the tree at its own path, and the files that
documents link to, so that every link works as it stands in the tree.
"""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OTHER_FOLDERS = {'.git', 'build', 'node_modules', '__pycache__'}
LINK = re.compile(r'\]\(([^)\s#]+)')


def documents():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in OTHER_FOLDERS]
        for name in names:
            if name.endswith('.md'):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def links_of(path):
    """The files of the tree that a document links to."""
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        for link in LINK.findall(file.read()):
            target = os.path.normpath(os.path.join(os.path.dirname(path), link))
            if not re.match(r'\w+:', link) and os.path.isfile(os.path.join(ROOT, target)):
                yield target


def stage(pages):
    shutil.rmtree(pages, ignore_errors=True)
    found = set(documents())
    for path in sorted(found.union(*map(links_of, found))):
        os.makedirs(os.path.dirname(os.path.join(pages, path)), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, path), os.path.join(pages, path))
    shutil.copyfile(os.path.join(ROOT, 'docs', 'site.css'), os.path.join(pages, 'site.css'))


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = os.path.abspath(sys.argv[1])
    stage(os.path.join(folder, 'pages'))
    with open(os.path.join(ROOT, 'docs', 'mkdocs.yml'), encoding='utf-8') as file:
        settings = file.read()
    with open(os.path.join(folder, 'mkdocs.yml'), 'w', encoding='utf-8') as file:
        file.write(settings)
    mkdocs = ['mkdocs', 'build', '--strict', '--quiet', '--site-dir', os.path.join(folder, 'html')]
    return subprocess.run(mkdocs + ['--config-file', os.path.join(folder, 'mkdocs.yml')], check=False).returncode


if __name__ == '__main__':
    sys.exit(main())
