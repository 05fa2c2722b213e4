#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of operators of turnphase serve in a headless Chromium, where it is installed: what it shows of turns and
questions, at 400 and 1,600 pixels, light and dark, by keyboard only, and with hostile texts in every field.

    python3 tests/integration/serve_page_test.py TURNPHASE [DIRECTORY FOR PICTURES]

Prints TAP. The browser is spoken to over a pipe, in its own protocol.
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from serve_test import ADMIN, ASKING, ASKING_FILES, LIMIT_S, Operating, trust, until

HOSTILE = '<img src=x onerror="window.broken=1"><script>window.broken=2</script>"\'&\u202e{{7*7}}'
TOOL = {'type': 'function', 'function': {'name': 'look', 'parameters': {'type': 'object'}}}
TOOLS = """
repeat: true
responses:
  - text: Let me look.
    tool_calls: [{name: look, arguments: {path: %s, n: 7}}]
  - text: Done.
""" % json.dumps(HOSTILE)
SIGNAL = {'kind': 'ability_guard', 'code': 'REQUIRES_HUMAN', 'payload': {'reason': HOSTILE.replace("'", '`')}}
GUARD = {'id': 'asks', 'event': 'tool.pre', 'handler': {'command': [
    'sh', '-c', "cat >/dev/null; echo '%s'" % json.dumps({'hook_signals': [SIGNAL]})]}}


class Browser:
    def __init__(self, program, place):
        ours, theirs = os.pipe(), os.pipe()  # the browser reads descriptor 3 and writes 4

        def hand_over():
            first, second = os.dup(ours[0]), os.dup(theirs[1])
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [program, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
             '--disable-extensions', '--disable-background-networking', '--user-data-dir=' + place,
             '--remote-debugging-pipe'], preexec_fn=hand_over, pass_fds=(3, 4), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(ours[0])
        os.close(theirs[1])
        self.out, self.into = os.fdopen(ours[1], 'wb'), os.fdopen(theirs[0], 'rb')
        self.number, self.rest, self.session = 0, b'', None
        target = self.do('Target.createTarget', url='about:blank')['targetId']
        self.session = self.do('Target.attachToTarget', targetId=target, flatten=True)['sessionId']

    def do(self, method, **params):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': params}
        if self.session:
            message['sessionId'] = self.session
        self.out.write(json.dumps(message).encode() + b'\0')
        self.out.flush()
        while True:
            while b'\0' not in self.rest:
                got = os.read(self.into.fileno(), 1 << 16)
                assert got, 'the browser has ended'
                self.rest += got
            line, self.rest = self.rest.split(b'\0', 1)
            heard = json.loads(line)
            if heard.get('id') == self.number:
                assert 'error' not in heard, heard
                return heard['result']

    def run(self, script):
        result = self.do('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        assert 'exceptionDetails' not in result, result
        return result['result'].get('value')

    def until(self, script):
        return until(lambda: self.run(script))

    def press(self, key):
        for kind in ('keyDown', 'keyUp'):
            self.do('Input.dispatchKeyEvent', type=kind, key=key, text=key if kind == 'keyDown' else '')

    def look(self, width, height, scheme):
        self.do('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.do('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])

    def picture(self, file):
        with open(file, 'wb') as out:
            out.write(base64.b64decode(self.do('Page.captureScreenshot')['data']))

    def close(self):
        self.out.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(LIMIT_S)
        self.into.close()


def enter(browser, serving):
    browser.do('Page.navigate', url=f'http://127.0.0.1:{serving.port}/admin')
    browser.until("document.readyState === 'complete' && !!document.getElementById('key')")
    browser.run(f"document.getElementById('key').value = 'a wrong key 0123456789'; "
                "document.querySelector('#door button').click()")
    browser.until("!document.getElementById('wrong').hidden")
    browser.run(f"document.getElementById('key').value = '{ADMIN}'; document.querySelector('#door button').click()")
    browser.until("!document.getElementById('desk').hidden")


def the_page_shows_what_runs_and_answers_by_keyboard(browser, serving, pictures):
    enter(browser, serving)
    body = {'model': HOSTILE[:40], 'messages': [{'role': 'user', 'content': HOSTILE}], 'tools': [TOOL]}
    client = serving.begin(body)
    browser.until("document.querySelectorAll('article.question').length === 1")
    browser.until("document.querySelector('#turns .now.question') !== null")
    for width, height in ((1600, 1000), (400, 900)):
        for scheme in ('light', 'dark'):
            browser.look(width, height, scheme)
            assert browser.run('document.documentElement.scrollWidth') <= width, width
            if pictures:
                time.sleep(0.3)
                browser.picture(os.path.join(pictures, f'{width}-{scheme}.png'))
    shown = browser.run("document.querySelector('article.question pre').textContent")
    assert json.loads(shown) == {'path': HOSTILE, 'n': 7} and '\u202e' not in shown, shown
    assert '<img' in browser.run("document.querySelector('article.question').textContent")
    assert browser.run('window.broken') is None
    assert browser.run("document.querySelectorAll('img, script').length") == 1  # its own
    browser.run("document.activeElement.blur()")
    browser.press('q')
    assert browser.run("document.activeElement.className.includes('question')")
    browser.press('d')
    answer = json.loads(client.getresponse().read())
    assert answer['choices'][0]['finish_reason'] == 'stop', answer
    client.close()
    browser.until("document.querySelectorAll('article.question').length === 0")
    browser.until("document.querySelector('#denials .item') !== null")
    browser.until("document.querySelector('#handlers .item') !== null")


def hostile_names_are_text_in_every_list(browser, serving, _):
    names = json.dumps({name: HOSTILE for name in (
        'tenant', 'session', 'turn', 'agent', 'what', 'hook', 'handler', 'message', 'tool', 'reason', 'subscription',
        'key', 'arguments', 'model', 'phase', 'status', 'state', 'result', 'version')})
    browser.run(f"""
        const n = {names};
        drawDenials([n]);
        drawHandlers([{{...n, count: 1, total_us: 1, mean_us: 1, p95_us: 1, max_us: 1}}]);
        drawJobs([{{...n, state: 'dead', id: 1, attempt: 1, attempts_max: 1}}, n]);
        drawCards({{...n, ready: true}});
        questions = [n]; drawQuestions();
        for (const kind of ['turn_begin', 'phase_begin', 'phase_end', 'model_begin', 'model_end', 'tool_begin',
                            'tool_end', 'question', 'turn_end']) hear({{...n, kind, time_ms: 1}});
        drawNow(); note(n.reason); lock(n.reason);""")
    assert browser.run('window.broken') is None
    assert browser.run("document.querySelectorAll('img, script').length") == 1
    assert browser.run("document.body.textContent.split('<img').length") > 10
    assert serving.admin('state')['ready'] is True


def a_script_of_another_origin_or_in_the_page_is_refused(browser, serving, _):
    browser.do('Page.navigate', url=f'http://127.0.0.1:{serving.port}/admin')
    browser.until("document.readyState === 'complete' && !!document.getElementById('key')")
    assert browser.run("""(async () => {
        const script = document.createElement('script');
        script.textContent = 'window.broken = 3';
        document.body.append(script);
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.broken=4">');
        await new Promise(resolve => setTimeout(resolve, 100));
        return window.broken || 'refused' })()""") == 'refused'


CASES = [the_page_shows_what_runs_and_answers_by_keyboard, hostile_names_are_text_in_every_list,
         a_script_of_another_origin_or_in_the_page_is_refused]


def main(program, pictures=None):
    chromium = shutil.which('chromium')
    if not chromium:
        print('1..0 # SKIP chromium is not installed')
        return 0
    failed = 0
    print(f'1..{len(CASES)}', flush=True)
    files = {**ASKING_FILES, 'tools.yaml': TOOLS, 'hooks/asks.yaml': json.dumps(GUARD)}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, \
            Operating(program, *ASKING, files=files, before=trust) as serving:
        browser = Browser(chromium, place)
        for number, case in enumerate(CASES, 1):
            try:
                case(browser, serving, pictures)
                print(f'ok {number} - {case.__name__}', flush=True)
            except Exception as error:  # pylint: disable=broad-except
                failed += 1
                print(f'not ok {number} - {case.__name__}\n# {type(error).__name__}: {str(error)[:600]}', flush=True)
        browser.close()
    return failed


if __name__ == '__main__':
    sys.exit(1 if main(os.path.abspath(sys.argv[1]), *sys.argv[2:3]) else 0)
