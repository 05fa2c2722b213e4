#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a turn costs: bench.py [TURNS]. A turn has one guard, two tools and two requests to a model, all async. The same
calls in Python alone, each in a task of its own, are measured in the same run, in turn with it."""

import asyncio
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import turnphase
from turnphase import Allow, Response, Runtime, ToolCall

ROUNDS = 5
IMPORTS = 20


async def guard(call):
    return Allow() if call.tool != 'delete' else None


async def look(path: str) -> str:
    return 'seen ' + path


async def rain(city: str) -> str:
    return 'rain in ' + city


async def model(request):
    if request.messages[-1].role == 'user':
        return Response(calls=[ToolCall('look', {'path': 'a'}), ToolCall('rain', {'city': 'Oslo'})])
    return 'done'


class Plain:
    """The same work in a host without the library."""

    def __init__(self, tool):
        self.tool = tool


async def plain_call(name, function, arguments):
    await guard(Plain(name))
    return await function(**arguments)


async def plain_turn():
    messages = [turnphase.Message('user', 'x')]
    response = await asyncio.create_task(model(turnphase.ModelRequest(messages, [])))
    calls = [
        asyncio.create_task(plain_call(call.name, globals()[call.name], call.arguments)) for call in response.calls
    ]
    messages += [turnphase.Message('tool', text) for text in await asyncio.gather(*calls)]
    return await asyncio.create_task(model(turnphase.ModelRequest(messages, [])))


async def in_flight(count, width, run):
    """Runs `count` turns, `width` at a time; the CPU time of each in us, of the whole process, and the wall time."""
    left = iter(range(count))

    async def lane(number):
        for _ in left:
            await run(number)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(asyncio.create_task(lane(number)) for number in range(width)))
    return (time.process_time() - cpu) / count * 1e6, (time.perf_counter() - wall)


async def longest_delay(stop):
    longest = 0.0
    while not stop.is_set():
        begin = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - begin - 0.001)
    return longest


async def main(count):
    async with Runtime() as runtime:
        runtime.guard(id='guard')(guard)
        runtime.tool(look)
        runtime.tool(rain)
        sessions = [runtime.session(model=model) for _ in range(64)]

        async def turn(number):
            result = await sessions[number].turn(
                'x', messages=[{'role': 'user', 'text': 'y'}, {'role': 'assistant', 'text': 'z'}]
            )
            assert result.text == 'done'

        async def plain(number):
            assert await plain_turn() == 'done'

        for width in (1, 64):
            rows = {'turnphase': [], 'plain': []}
            for _ in range(ROUNDS):
                rows['turnphase'].append((await in_flight(count, width, turn))[0])
                rows['plain'].append((await in_flight(count, width, plain))[0])
            ours, theirs = (statistics.median(rows[name]) for name in rows)
            print(
                f'{width:3} in flight: {ours:6.1f} us of CPU a turn ({min(rows["turnphase"]):.1f} to '
                f'{max(rows["turnphase"]):.1f}), the calls alone {theirs:5.1f} us: {ours / theirs:.2f} times'
            )
        stop = asyncio.Event()
        watch = asyncio.create_task(longest_delay(stop))
        await in_flight(count, 64, turn)
        stop.set()
        print(f'longest delay of the loop beside 64 turns: {await watch * 1e3:.1f} ms')
    async with Runtime() as runtime:

        @runtime.tool
        async def wait() -> str:
            await asyncio.sleep(0.1)
            return 'x'

        async def waits(request):
            return Response(calls=[ToolCall('wait')]) if request.messages[-1].role == 'user' else 'done'

        sessions = [runtime.session(model=waits) for _ in range(1000)]
        begin = time.perf_counter()
        await asyncio.gather(*(session.turn('x')._wait() for session in sessions))
        print(f'1,000 turns with a tool of 100 ms: {(time.perf_counter() - begin) * 1e3:.0f} ms')


def import_ms():
    """Of fresh interpreters, which find the bytecode that `pip install` leaves."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        around = {**os.environ, 'PYTHONPYCACHEPREFIX': folder, 'PYTHONDONTWRITEBYTECODE': ''}
        for _ in range(IMPORTS + 1):
            for name in ('asyncio', 'asyncio, turnphase'):
                begin = time.perf_counter()
                subprocess.run([sys.executable, '-c', 'import ' + name], env=around, check=True)
                runs.append(time.perf_counter() - begin)
    return [statistics.median(runs[2 + which :: 2]) * 1e3 for which in (0, 1)]  # the first ones wrote the bytecode


if __name__ == '__main__':
    print(f'{platform.machine()}, Python {platform.python_version()}, {ROUNDS} rounds, medians')
    alone, both = import_ms()
    print(f'import turnphase: {both - alone:.1f} ms over asyncio ({alone:.1f} ms)')
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
    print(f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most')
