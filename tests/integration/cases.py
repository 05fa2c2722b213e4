# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of a Python test and prints them as TAP: each with a folder of its own, which it gets as what `make`
makes of it. Names on the command line, after the command that is tested, choose cases."""
import sys
import tempfile


def run(cases, make):
    """@return the exit status: 0 when no case failed."""
    print(f'1..{len(cases)}')
    failed = False
    wanted = sys.argv[2:]
    for number, case in enumerate(cases, 1):
        if wanted and case.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                case(make(directory))
                print(f'ok {number} - {case.__name__}', flush=True)
            except Exception as error:  # also an error from a child or a file
                failed = True
                print(f'not ok {number} - {case.__name__}', flush=True)
                line = error.__traceback__.tb_next.tb_lineno
                print(f'# {type(error).__name__}: {error} (line {line})'.replace('\n', '\n# '), flush=True)
    return failed
