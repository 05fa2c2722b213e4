#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./dev install has put under a prefix, and its removal.

    python3 packaging/installed.py record PREFIX LOG    after an installation, of which meson wrote LOG
    python3 packaging/installed.py remove PREFIX

The list is PREFIX/share/turnphase/installed.json: the SHA-256 of each file, the target of each link, and the folders
that the installation made. A second installation keeps what only the first one had in the list. Removed is what is as
it was installed, and folders that are empty then; everything else is named and left. Exit: 0 done, 1 not.
"""

import hashlib
import json
import os
import sys

LIST = 'share/turnphase/installed.json'


def content_of(path):
    if os.path.islink(path):
        return 'link ' + os.readlink(path)
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def load(prefix):
    try:
        with open(os.path.join(prefix, LIST), encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def record(prefix, log):
    before = load(prefix) or {'files': {}, 'folders': []}
    files, folders = dict(before['files']), set(before['folders'])
    with open(log, encoding='utf-8') as lines:
        paths = [line.rstrip('\n') for line in lines if not line.startswith('#')]
    for path in paths:
        inside = os.path.relpath(path, prefix)
        if os.path.isdir(path) and not os.path.islink(path):
            folders.add(inside)
        else:
            files[inside] = content_of(path)
    at = os.path.dirname(os.path.join(prefix, LIST))
    if not os.path.isdir(at):
        os.makedirs(at)
        folders.add(os.path.dirname(LIST))
    with open(os.path.join(prefix, LIST), 'w', encoding='utf-8') as file:
        json.dump({'files': files, 'folders': sorted(folders)}, file, indent=0)
        file.write('\n')


def remove_file(path, content):
    """None, or why it is left; '' when it was not there."""
    if not os.path.lexists(path):
        return ''
    if os.path.isdir(path) and not os.path.islink(path):
        return 'it is a folder now'
    if content_of(path) != content:
        return 'it has changed since it was installed'
    os.unlink(path)
    return None


def remove(prefix):
    listed = load(prefix)
    if listed is None:
        print('%s is not there: ./dev install has installed nothing under %s; --prefix names another place'
              % (os.path.join(prefix, LIST), prefix))
        return 1
    removed, gone = 0, 0
    for inside, content in sorted(listed['files'].items()):
        why = remove_file(os.path.join(prefix, inside), content)
        if why:
            print('left: %s: %s' % (os.path.join(prefix, inside), why))
        removed += why is None
        gone += why == ''
    os.unlink(os.path.join(prefix, LIST))
    folders = [os.path.normpath(os.path.join(prefix, inside)) for inside in listed['folders']]
    for path in sorted(folders, key=len, reverse=True):
        if not os.path.isdir(path):
            continue
        others = sorted(os.listdir(path))
        if others:
            print('left: %s: it has %s' % (path, ', '.join(others[:5]) + (' …' if len(others) > 5 else '')))
        else:
            os.rmdir(path)
    print('removed %d files%s' % (removed, '; not there any more: %d' % gone if gone else ''))
    return 0


def main():
    words = sys.argv[1:]
    if len(words) == 3 and words[0] == 'record':
        record(words[1], words[2])
        return 0
    if len(words) == 2 and words[0] == 'remove':
        return remove(words[1])
    print(__doc__.strip(), file=sys.stderr)
    return 2


sys.exit(main())
