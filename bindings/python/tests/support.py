# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""

import functools
import os
import unittest

import turnphase
from turnphase import Response, ToolCall

# With TURNPHASE_TEST_THREADS the library has threads of its own, also where the loop would do its work.
Runtime = turnphase.Runtime
if os.environ.get('TURNPHASE_TEST_THREADS'):
    Runtime = functools.partial(turnphase.Runtime, pump=False)


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    """A case with a loop."""


def calls(*tools, then='done'):
    """A model that makes these calls ((name, arguments) or a name), and then says `then` and what it has read."""

    async def model(request):
        if request.messages[-1].role == 'user':
            rows = [tool if isinstance(tool, tuple) else (tool, {}) for tool in tools]
            return Response(calls=[ToolCall(name, arguments) for name, arguments in rows])
        texts = []
        for message in reversed(request.messages):
            if message.role != 'tool':
                break
            texts.append(message.text)
        return '%s: %s' % (then, ' | '.join(reversed(texts)))

    return model


async def says_hello(request):
    return 'hello ' + request.messages[-1].text


async def one_turn(runtime, model=says_hello, text='x', **options):
    """The result of one turn in a session of its own."""
    async with runtime.session(model=model) as session:
        return await session.turn(text, **options)


__all__ = ['AsyncTest', 'Runtime', 'calls', 'one_turn', 'says_hello', 'turnphase']
