# SPDX-License-Identifier: Apache-2.0
"""Every program of the guide runs, from the guide only."""

import http.server
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

GUIDE = pathlib.Path(__file__).resolve().parent.parent / 'README.md'


class Endpoint(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        delta = {'content': 'It will rain 4 mm.'}
        if asked['messages'][-1]['role'] == 'user':
            call = {'name': 'rain', 'arguments': '{"city": "Oslo"}'}
            delta = {'tool_calls': [{'index': 0, 'id': 'c', 'type': 'function', 'function': call}]}
        rows = [
            {'choices': [{'index': 0, 'delta': delta}]},
            {'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop'}]},
        ]
        body = b''.join(b'data: %s\n\n' % json.dumps(row).encode() for row in rows) + b'data: [DONE]\n\n'
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *row):
        pass


class Guide(unittest.TestCase):
    def test_each_program_runs(self):
        programs = re.findall(r'^```python\n(.*?)^```$', GUIDE.read_text(encoding='utf-8'), re.M | re.S)
        printed = []
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Endpoint)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        for program in programs:
            program = program.replace('http://127.0.0.1:8080', 'http://127.0.0.1:%d' % server.server_port)
            with tempfile.TemporaryDirectory() as folder:
                run = subprocess.run(
                    [sys.executable, '-W', 'error', '-c', program],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
            self.assertEqual(run.returncode, 0, program + run.stderr)
            printed.append(run.stdout + run.stderr)
        self.assertEqual(len(programs), 6)
        for text, words in zip(
            printed,
            (
                'It will rain 4 mm.completed',
                "asked: send_mail {'to': 'bob'} mail leaves the company\nsent to bob",
                '4 mm in Oslo',
                'It rains. I was asked 1 things.\nOne.',
                'five\nturn_begin',
                'OK',
            ),
        ):
            self.assertIn(words, text)


if __name__ == '__main__':
    unittest.main()
