# SPDX-License-Identifier: Apache-2.0
"""Every program for Python of docs/adapters.md runs."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PAGE = pathlib.Path(__file__).resolve().parents[4] / 'docs/adapters.md'
SAID = ('mail goes to colleagues only', 'rain', 'files are kept')


class Page(unittest.TestCase):
    def test_each_program_runs(self):
        programs = re.findall(r'^```python\n(.*?)^```$', PAGE.read_text(encoding='utf-8'), re.M | re.S)
        self.assertEqual(len(programs), len(SAID))
        for program, words in zip(programs, SAID):
            with tempfile.TemporaryDirectory() as folder:
                run = subprocess.run(
                    [sys.executable, '-c', program], cwd=folder, capture_output=True, text=True, timeout=90
                )
            self.assertEqual(run.returncode, 0, program + run.stderr)
            self.assertIn(words, run.stdout)


if __name__ == '__main__':
    unittest.main()
