# SPDX-License-Identifier: Apache-2.0
"""python -m turnphase: the command turnphase of this machine, with the same arguments. The package itself has the
library, and not the command: that is a program of its own."""

from __future__ import annotations

import os
import shutil
import sys


def command() -> str | None:
    """TURNPHASE_COMMAND, or the command turnphase beside this Python, or in PATH."""
    named = os.environ.get('TURNPHASE_COMMAND')
    return named or shutil.which('turnphase', path=os.path.dirname(sys.executable)) or shutil.which('turnphase')


def main() -> int:
    found = command()
    try:
        if found:
            os.execv(found, ['turnphase', *sys.argv[1:]])
        why = 'there is no command turnphase beside this Python, and none in PATH'
    except OSError as error:
        why = f'{found}: {error.strerror}'
    print(
        f'python -m turnphase: {why}. Install the command (./dev install, or the Debian package turnphase), or name it '
        'in TURNPHASE_COMMAND',
        file=sys.stderr,
    )
    return 127


if __name__ == '__main__':
    sys.exit(main())
