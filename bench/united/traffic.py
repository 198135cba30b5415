"""Guests' traffic of bench/united/run, beside that of bench/tenants/traffic.py. Times are printed as JSON, ms.

    traffic.py answer PORT                                         answers each message, which begins with its length, with a byte
    traffic.py messages ADDRESS PORT CONNECTIONS SIZE EVERY SECONDS    on connections that stay, in turn
    traffic.py bursts ADDRESS PORT AT_ONCE SIZE EVERY SECONDS       each message on a connection of its own
"""

import asyncio
import json
import sys

# What takes longer has failed, and counts as this long.
PATIENCE = 20.0


async def answer(port):
    async def take(reader, writer):
        try:
            while True:
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                writer.write(b".")
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(take, "", port, backlog=256)
    print("ready", flush=True)
    await server.serve_forever()


async def ask(connection, size):
    reader, writer = connection
    writer.write(size.to_bytes(4, "big") + bytes(size))
    await reader.readexactly(1)


async def within(found, work):
    clock = asyncio.get_running_loop().time
    begun, took = clock(), PATIENCE
    try:
        await asyncio.wait_for(work, PATIENCE)
        took = clock() - begun
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
        pass
    found.append(round(took * 1e3, 3))


async def messages(address, port, connections, size, every, seconds):
    """A message goes when its time has come, behind those of its connection that have no answer yet."""
    found, tasks, clock = [], [], asyncio.get_running_loop().time
    opened = [(await asyncio.open_connection(address, port), asyncio.Lock()) for _ in range(connections)]

    async def one(connection, lock):
        async with lock:
            await ask(connection, size)

    begun = clock()
    for n in range(int(seconds / every)):
        await asyncio.sleep(begun + n * every - clock())
        tasks.append(asyncio.create_task(within(found, one(*opened[n % connections]))))
    await asyncio.gather(*tasks)
    print(json.dumps(found), flush=True)


async def bursts(address, port, at_once, size, every, seconds):
    found, tasks, clock = [], [], asyncio.get_running_loop().time

    async def one():
        connection = await asyncio.open_connection(address, port)
        await ask(connection, size)
        connection[1].close()

    begun = clock()
    for n in range(int(seconds / every)):
        await asyncio.sleep(begun + n * every - clock())
        tasks += [asyncio.create_task(within(found, one())) for _ in range(at_once)]
    await asyncio.gather(*tasks)
    print(json.dumps(found), flush=True)


def main():
    what, *words = sys.argv[1:]
    if what == "answer":
        asyncio.run(answer(int(words[0])))
    else:
        work = {"messages": messages, "bursts": bursts}[what]
        asyncio.run(work(words[0], *map(int, words[1:4]), *map(float, words[4:6])))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
