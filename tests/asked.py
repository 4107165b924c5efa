#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands between radd and who asks it:  tests/asked.py SOCKET LISTEN NOTES GO

Notes the operation of each request that comes in at LISTEN as a line of NOTES, and passes on what comes once the file GO is there:
so that a test knows how often radd is asked for something while it has not answered.
"""
import asyncio
import json
import os
import struct
import sys

SOCKET, LISTEN, NOTES, GO = sys.argv[1:]


async def passed_back(reader, writer):
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(reader, writer):
    from_radd, to_radd = await asyncio.open_unix_connection(SOCKET)
    back = asyncio.create_task(passed_back(from_radd, writer))
    try:
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(struct.unpack(">I", head)[0])
            with open(NOTES, "a") as f:
                f.write(json.loads(body)["op"] + "\n")
            while not os.path.exists(GO):
                await asyncio.sleep(0.02)
            to_radd.write(head + body)
            await to_radd.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        to_radd.close()
    await back


async def main():
    server = await asyncio.start_unix_server(serve, LISTEN)
    os.chmod(LISTEN, 0o666)
    async with server:
        await server.serve_forever()


asyncio.run(main())
