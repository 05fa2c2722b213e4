#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a turn costs: python -P bench.py [TURNS]. A turn has one guard, two tools and two requests to a model, which are
all async. The same calls in Python alone, each in a task of its own, are measured in the same run, in turn with it. The
parts of a turn are differences between turns that have them and turns that do not."""

import asyncio
import contextlib
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import turnphase
from turnphase import Allow, FunctionModel, Response, Runtime, Script, ToolCall

ROUNDS = 5
IMPORTS = 20
EARLIER = [{'role': 'user', 'text': 'y'}, {'role': 'assistant', 'text': 'z'}]  # else the history grows


async def guard(call):
    return Allow() if call.tool != 'delete' else None


async def look(path: str) -> str:
    return 'seen ' + path


async def rain(city: str) -> str:
    return 'rain in ' + city


async def model(request):
    if request.messages[-1].role == 'user':
        return Response(calls=CALLS)
    return 'done'


CALLS = [ToolCall('look', {'path': 'a'}), ToolCall('rain', {'city': 'Oslo'})]
SCRIPT = [{'tool_calls': [{'name': call.name, 'arguments': call.arguments} for call in CALLS]}, 'done']


def plain_guard(call):
    return Allow() if call.tool != 'delete' else None


def plain_look(path: str) -> str:
    return 'seen ' + path


def plain_rain(city: str) -> str:
    return 'rain in ' + city


def plain_model(request):
    return Response(calls=CALLS) if request.messages[-1].role == 'user' else 'done'


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


def turn_of(runtime, model, look_at=None, tools=()):
    """A function that runs a turn of these functions, in one of 64 sessions."""
    if look_at is not None:
        runtime.guard(id='guard')(look_at)
    for name, function in tools:
        runtime.tool(name=name, thread=None if asyncio.iscoroutinefunction(function) else False)(function)
    sessions = [runtime.session(model=model()) for _ in range(64)]

    async def turn(number):
        result = await sessions[number].turn('x', messages=EARLIER)
        assert result.text == 'done'

    return turn


async def parts(count):
    """Each part is the difference of two rows; the rows are measured in turn."""
    in_tasks, at_once = [('look', look), ('rain', rain)], [('look', plain_look), ('rain', plain_rain)]
    rows = (
        (lambda: model, guard, in_tasks),
        (lambda: FunctionModel(plain_model, thread=False), plain_guard, at_once),
        (lambda: Script(SCRIPT, repeat=True), plain_guard, at_once),
        (lambda: Script(SCRIPT, repeat=True), None, at_once),
        (lambda: Script(['done'], repeat=True),),
    )
    costs = [[] for _ in rows]
    async with contextlib.AsyncExitStack() as stack:
        turns = [turn_of(await stack.enter_async_context(Runtime()), *row) for row in rows]
        for _ in range(2 * ROUNDS):
            for turn, cost in zip(turns, costs):
                cost.append((await in_flight(count, 64, turn))[0])
    least = [*(min(cost) for cost in costs), 0]
    print('parts of a turn with 64 in flight, least of the rounds, us of CPU:')
    for i, name in enumerate((
        'six tasks of asyncio for the async functions',
        'two requests and responses as objects of Python',
        'two calls of a guard',
        'two calls of tools, and a second request in the library',
        'a turn of one request that the library answers',
    )):
        print(f'  {least[i] - least[i + 1]:5.1f}  {name}')


async def main(count):
    async with Runtime() as runtime:
        runtime.guard(id='guard')(guard)
        runtime.tool(look)
        runtime.tool(rain)
        sessions = [runtime.session(model=model) for _ in range(64)]

        async def turn(number):
            result = await sessions[number].turn('x', messages=EARLIER)
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
    await parts(count)
    await wait_in_all()


async def wait() -> str:
    await asyncio.sleep(0.1)
    return 'x'


async def waits(request):
    return Response(calls=[ToolCall('wait')]) if request.messages[-1].role == 'user' else 'done'


async def plain_wait():
    messages = [turnphase.Message('user', 'x')]
    response = await asyncio.create_task(waits(turnphase.ModelRequest(messages, [])))
    texts = await asyncio.gather(*(asyncio.create_task(wait()) for _ in response.calls))
    messages += [turnphase.Message('tool', text) for text in texts]
    return await asyncio.create_task(waits(turnphase.ModelRequest(messages, [])))


async def wait_in_all():
    """1,000 turns that are begun at once, whose tool waits for 100 ms; and the same calls in Python alone."""
    rows = {'turnphase': [], 'the calls alone': []}
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        await asyncio.gather(*(plain_wait() for _ in range(1000)))
        rows['the calls alone'].append((time.perf_counter() - begin) * 1e3)
        async with Runtime() as runtime:
            runtime.tool(wait)
            sessions = [runtime.session(model=waits) for _ in range(1000)]
            begin = time.perf_counter()
            await asyncio.gather(*(session.turn('x')._wait() for session in sessions))
            rows['turnphase'].append((time.perf_counter() - begin) * 1e3)
    said = ', '.join(f'{name} {statistics.median(row):.0f} ms (least {min(row):.0f})' for name, row in rows.items())
    print(f'1,000 turns with a tool of 100 ms: {said}')


def import_ms():
    """(time, CPU time) of asyncio, and of both; of fresh interpreters, which find the bytecode that pip leaves."""

    def ran(name):
        cpu, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, '-c', 'import ' + name], env=around, check=True)
        end, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        return (end - begin) * 1e3, (after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime) * 1e3

    with tempfile.TemporaryDirectory() as folder:
        around = {**os.environ, 'PYTHONPYCACHEPREFIX': folder, 'PYTHONDONTWRITEBYTECODE': ''}
        names = ('asyncio', 'asyncio, turnphase')
        runs = [[ran(name) for name in names] for _ in range(IMPORTS + 1)][1:]  # the first ones wrote the bytecode
    return [[statistics.median(row[which][unit] for row in runs) for unit in (0, 1)] for which in (0, 1)]


if __name__ == '__main__':
    print(f'{platform.machine()}, Python {platform.python_version()}, {ROUNDS} rounds, medians')
    alone, both = import_ms()
    print(
        f'import turnphase: {both[0] - alone[0]:.1f} ms over asyncio ({alone[0]:.1f} ms); of CPU '
        f'{both[1] - alone[1]:.1f} ms ({alone[1]:.1f} ms)'
    )
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
    print(f'{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most')
