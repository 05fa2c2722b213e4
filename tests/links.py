#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each relative link of the documents in a folder leads to a file or folder.

    python3 tests/links.py FOLDER

Prints what does not, and how many links there are. Exit: 0 all do, 1 some do not or there is none.
"""

import os
import re
import sys

LINK = re.compile(r'\]\(([^)\s#]+)(?:#[^)\s]*)?\)|\b(?:src|href|srcset)="([^"#]+)"')


def main():
    count, wrong = 0, 0
    for folder, _, names in os.walk(sys.argv[1]):
        for name in sorted(names):
            if not name.endswith('.md'):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding='utf-8') as file:
                text = re.sub(r'^```.*?^```', '', file.read(), flags=re.S | re.M)
            for found in LINK.finditer(text):
                link = found.group(1) or found.group(2)
                if re.match(r'[a-z]+:', link):
                    continue
                count += 1
                if not os.path.exists(os.path.join(folder, link)):
                    wrong += 1
                    print('%s: %s leads to nothing' % (path, link))
    print('%d links, %d to nothing' % (count, wrong))
    return 1 if wrong or not count else 0


sys.exit(main())
