# SPDX-License-Identifier: Apache-2.0
"""A server of turns with FastAPI: answers are streamed (SSE), a turn ends when its client leaves, and a question to a
person is answered by a second request.

    uvicorn server:app                    # in this folder, with the packages turnphase, fastapi and uvicorn
    curl -N localhost:8000/turns -H 'Content-Type: application/json' -d '{"session": "ada", "text": "mail bob"}'
    curl localhost:8000/questions/ID -H 'Content-Type: application/json' -d '{"allow": true}'

With TURNPHASE_MODEL_URL and TURNPHASE_MODEL an endpoint is asked; without, a model that is played.
"""

import asyncio
import contextlib
import json
import os
import uuid

import turnphase
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from turnphase import Ask, Decision, OpenAI, Response, Runtime, ToolCall

runtime = Runtime(asks=True)
streams: dict[str, asyncio.Queue] = {}  # of the turn that each session runs
questions: dict[str, tuple[str, asyncio.Future]] = {}  # the session and the answer of each
turns: set[asyncio.Task] = set()


@runtime.tool
async def send_mail(to: str) -> str:
    """Sends a mail."""
    return f'sent to {to}'


@runtime.guard('tool.pre', tools=['send_mail'])
async def ask_before_mail(call):
    return Ask('mail leaves the company')


@runtime.on_question
async def ask_the_client(question):
    token, answer = uuid.uuid4().hex, asyncio.get_running_loop().create_future()
    questions[token] = (question.session_id, answer)
    shown = {'id': token, 'tool': question.tool, 'arguments': question.arguments, 'reason': question.reason}
    streams[question.session_id].put_nowait(('question', shown))
    try:
        return await answer
    finally:
        del questions[token]


async def played(request):
    last = request.messages[-1]
    if last.role == 'user' and last.text.startswith('mail '):
        yield Response(calls=[ToolCall('send_mail', {'to': last.text[5:]})])
    elif last.role == 'user':
        for word in last.text.split():
            yield word + ' '
            await asyncio.sleep(0.05)
    else:
        yield last.text


def model():
    url = os.environ.get('TURNPHASE_MODEL_URL')
    return OpenAI(os.environ.get('TURNPHASE_MODEL', 'gpt-5-mini'), base_url=url) if url else played


async def play(session_id, text, stream):
    """Runs a turn. Cancelling its task cancels the turn; then its session is closed."""
    try:
        async with runtime.session(session_id, model=model()) as session:
            turn = session.turn(text)
            async for event in turn:
                if event.kind == 'model_delta':
                    stream.put_nowait(('delta', {'text': event.text}))
            result = await turn
        stream.put_nowait(('end', {'outcome': result.outcome, 'text': result.text, 'reason': result.reason}))
    except turnphase.Error as error:
        stream.put_nowait(('end', {'outcome': 'failed', 'text': '', 'reason': str(error)}))
    finally:
        del streams[session_id]
        for asker, answer in questions.values():
            if asker == session_id and not answer.done():  # nobody answers it any more
                answer.set_result(Decision(False, 'the turn has ended'))


async def told(task, stream):
    """What the client gets. When it leaves, this generator is cancelled or closed, and the turn with it."""
    try:
        kind = ''
        while kind != 'end':
            kind, data = await stream.get()
            yield f'event: {kind}\ndata: {json.dumps(data)}\n\n'
    finally:
        task.cancel()


@contextlib.asynccontextmanager
async def lifespan(app):
    async with runtime:
        yield
        for task in list(turns):
            task.cancel()


app = FastAPI(lifespan=lifespan)


class Asked(BaseModel):
    session: str
    text: str


class Decided(BaseModel):
    allow: bool
    reason: str = ''


@app.post('/turns')
async def begin(asked: Asked):
    if asked.session in streams:
        raise HTTPException(409, 'the session runs a turn')
    stream = streams[asked.session] = asyncio.Queue()
    task = asyncio.create_task(play(asked.session, asked.text, stream))
    turns.add(task)
    task.add_done_callback(turns.discard)
    return StreamingResponse(told(task, stream), media_type='text/event-stream')


@app.post('/questions/{token}')
async def decide(token: str, decided: Decided):
    _, answer = questions.get(token, ('', None))
    if answer is None or answer.done():
        raise HTTPException(404, 'no such question: it was answered, or its turn has ended')
    answer.set_result(Decision(decided.allow, decided.reason, person='client'))
    return {'decided': True}
