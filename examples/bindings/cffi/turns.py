# SPDX-License-Identifier: Apache-2.0
"""Many turns at once in one asyncio loop: none denied, none unheard.

    python3 turns.py [COUNT]

Each turn has a guard, a model that asks for a tool, the tool, and the model again. Of every 50 one waits in its tool
until the turn is cancelled, and another turn waits after it in its session, and is cancelled there.
"""

import asyncio
import collections
import sys
import time

from loop import Host, Session
from turnphase import handles, lib, struct, text, words

LIMIT_MS = 120000  # of each call: the turns take their time from one another
seen = collections.Counter()
all_wait = asyncio.Event()


def check(what, holds):
    print('%s: %s' % ('ok' if holds else 'WRONG', what), flush=True)
    if not holds:
        sys.exit(1)


async def guard(entry):
    seen['guard'] += 1
    await asyncio.sleep(0)
    return struct('tp_outcome', kind=lib.TP_ANSWER_ALLOW)


async def model(request):
    seen['model'] += 1
    await asyncio.sleep(0.01)
    last = request.messages[request.message_count - 1]
    if last.role == lib.TP_ROLE_USER:
        name = 'wait' if words(last.text) == 'wait' else 'look'
        return struct('tp_model_response', calls=[struct('tp_tool_call', id=text('1'), name=text(name))], call_count=1)
    return struct('tp_model_response', text=text('It is done.'))


async def look(run):
    seen['look'] += 1
    await asyncio.sleep(0.01)
    return 'seen'


async def wait(run):
    seen['wait'] += 1
    if seen['wait'] == seen['waiting']:
        all_wait.set()
    try:
        await asyncio.Event().wait()
    finally:
        seen['stopped'] += 1


async def play(host, count):
    host.tool('look', look)
    host.tool('wait', wait)
    host.hook('guard', 'turn.intake', guard, failure=lib.TP_FAILURE_REQUIRED, limit_ms=LIMIT_MS)
    sessions = [Session(host, 'session_%d' % i, model) for i in range(count)]
    waiting = range(0, count, 50)
    seen['waiting'] = len(waiting)
    turns = [session.turn('wait' if i in waiting else 'look') for i, session in enumerate(sessions)]
    queued = [sessions[i].turn('look') for i in waiting]
    called = asyncio.ensure_future(all_wait.wait())
    await asyncio.wait([called, *(turns[i][0] for i in waiting)], return_when=asyncio.FIRST_COMPLETED)
    early = [turns[i][0].result() for i in waiting if turns[i][0].done()]
    check('they wait in their tools%s' % ''.join('; %d: %s' % (turn.outcome, turn.reason) for turn in early[:1]),
          called.done())
    for i, (_, cancel) in zip(waiting, queued):
        cancel()
    for i in waiting:
        turns[i][1]()
    ended = await asyncio.gather(*(future for future, _ in turns))
    stopped = await asyncio.gather(*(future for future, _ in queued))
    outcomes = collections.Counter(turn.outcome for turn in ended)
    print(dict(outcomes), dict(seen))
    check('every turn that was not cancelled has completed', outcomes[lib.TP_TURN_COMPLETED] == count - len(waiting))
    check('every turn that waited in its tool is cancelled', outcomes[lib.TP_TURN_CANCELLED] == len(waiting))
    check('each tool was called once', seen['look'] == count - len(waiting))
    check('so is every turn that had not begun', {turn.outcome for turn in stopped} == {lib.TP_TURN_CANCELLED})
    await asyncio.gather(*(session.close() for session in sessions))
    check('every tool that waited was stopped', seen['stopped'] == len(waiting) == host.cancels)
    check('no call is open, no end is missing', not host.tasks and not host.ends)


async def main(count):
    began = time.monotonic()
    async with Host() as host:
        await asyncio.wait_for(play(host, count), 300)
    check('nothing is kept', not handles)
    print('%d turns: %.1f s' % (count, time.monotonic() - began))


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000))
