#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of the Python package on the module of a build: run.py MODULE FOLDER [TEST…].

The package is made in FOLDER of links to its sources and to the module. A TEST is a name that unittest knows, or a file
below this folder.
"""

import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def link_package(module, folder):
    package = pathlib.Path(folder) / 'turnphase'
    package.mkdir(parents=True, exist_ok=True)
    for source in [*(HERE.parent / 'turnphase').iterdir(), pathlib.Path(module).resolve()]:
        if source.suffix in ('.py', '.pyi', '.typed', '.so') or source.name == 'adapters':
            link = package / source.name
            if not link.is_symlink() or os.readlink(link) != str(source):
                link.unlink(missing_ok=True)
                link.symlink_to(source)


def main():
    module, folder, *names = sys.argv[1:]
    link_package(module, folder)
    os.environ['PYTHONPATH'] = folder
    sys.path[:0] = [str(HERE), folder]
    sys.path[:0] = sorted({str(HERE / name.rpartition('/')[0]) for name in names if '/' in name})
    names = [name.rpartition('/')[2].removesuffix('.py') for name in names]
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(names) if names else loader.discover(str(HERE), 'test_*.py')
    return not unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful()


if __name__ == '__main__':
    sys.dont_write_bytecode = True
    sys.exit(main())
