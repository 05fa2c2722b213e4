#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is left of many turns: leaks.py COUNT, with the package in PYTHONPATH. After a first part, which fills what is
kept for reuse, objects, descriptors and memory must stay as they are over COUNT turns with a guard, a tool, events, and
calls without a turn. Exit: 0; 1 with what has grown."""

import asyncio
import gc
import os
import sys

from turnphase import Allow, Response, Runtime, ToolCall

SESSIONS = 16
# The most growth between the two ends of the run.
OBJECTS_MAX, DESCRIPTORS_MAX, BYTES_A_TURN_MAX = 500, 0, 50
MEMORY_NOISE = 12 << 20  # the noise of the allocators


def measured():
    gc.collect()
    with open('/proc/self/statm', encoding='ascii') as file:
        pages = int(file.read().split()[1])
    return len(gc.get_objects()), len(os.listdir('/proc/self/fd')), pages * os.sysconf('SC_PAGE_SIZE')


async def model(request):
    return Response(calls=[ToolCall('act', {'text': 'x' * 100})]) if request.messages[-1].role == 'user' else 'done'


async def play(runtime, count):
    """COUNT turns, in sessions that are closed after 50 of them."""

    async def lane(turns):
        for begin in range(0, turns, 50):
            async with runtime.session(model=model) as session:
                for at in range(begin, min(begin + 50, turns)):
                    turn = session.turn('go')
                    if at % 4 == 0:
                        async for _ in turn:
                            pass
                    assert (await turn).outcome == 'completed'
                    if at % 8 == 0:
                        await session.call_tools([ToolCall('act', {'text': 'y'})])
                    if at % 16 == 0:
                        session.turn('never').start().cancel()

    await asyncio.gather(*(lane(count // SESSIONS) for _ in range(SESSIONS)))


async def main(count):
    async with Runtime() as runtime:

        @runtime.guard()
        async def guard(call):
            return Allow() if call.arguments else None

        @runtime.tool
        async def act(text: str) -> str:
            return text

        await play(runtime, max(count // 4, 800))
        before = measured()
        await play(runtime, count)
        grown = [after - first for first, after in zip(before, measured())]
        kept = len(runtime._kept)
    print(f'{count} turns: {grown[0]} objects, {grown[1]} descriptors, {grown[2] // 1024} KiB, {kept} things kept')
    limits = (OBJECTS_MAX, DESCRIPTORS_MAX, MEMORY_NOISE + BYTES_A_TURN_MAX * count)
    return int(any(value > limit for value, limit in zip(grown, limits)) or kept > 20)


if __name__ == '__main__':
    sys.exit(asyncio.run(main(int(sys.argv[1]))))
