# SPDX-License-Identifier: Apache-2.0
"""A resident worker for hooks of kind worker (docs/hooks.md).

    import turnphase_worker

    @turnphase_worker.serve
    def guard(context):
        if "rm -rf" in str(context["payload"]["arguments"]):
            return {"continue": False, "reason": "rm -rf is not allowed here"}

The function gets the context of one request and returns the structured result, or None for nothing to say. What it
raises is the request's error. Requests run side by side on threads; descriptor 1 belongs to the frames, so print() goes
to descriptor 2. Ends at end-of-file, behind the requests that run.
"""
import json
import os
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock


def _json_frames(stream):
    for line in stream:
        yield json.loads(line)


def _msgpack_frames(stream):
    import msgpack

    while True:
        head = stream.read(4)
        if len(head) < 4:
            return
        yield msgpack.unpackb(stream.read(struct.unpack(">I", head)[0]))


def _json_bytes(reply):
    return json.dumps(reply).encode() + b"\n"


def _msgpack_bytes(reply):
    import msgpack

    body = msgpack.packb(reply)
    return struct.pack(">I", len(body)) + body


def serve(handle, frames="json", threads=8):
    """Answers requests with handle(context) until end-of-file. frames as the hook's file says: json or msgpack."""
    requests, encode = (_json_frames, _json_bytes) if frames == "json" else (_msgpack_frames, _msgpack_bytes)
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    lock = Lock()

    def answer(request):
        reply = {"id": request["id"]}
        try:
            reply["result"] = handle(request["context"])
        except Exception as error:  # pylint: disable=broad-except
            reply["error"] = f"{type(error).__name__}: {error}"
        data = encode(reply)
        with lock:
            while data:
                data = data[output.write(data):]

    with ThreadPoolExecutor(threads) as pool:
        for request in requests(sys.stdin.buffer):
            pool.submit(answer, request)
    return handle
