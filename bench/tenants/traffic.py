"""Guests' traffic of bench/tenants/run. What counts prints JSON; the rest runs until it is ended.

    traffic.py receive PORTS             TCP and UDP on ports 7001 to 7000 + PORTS; a line on standard input asks for the bytes so far
    traffic.py tcp ADDRESS PORT LAW      a connection that never ends; begins with a line on standard input
    traffic.py udp ADDRESS PORT MBPS     datagrams at that rate of payload, likewise
    traffic.py web PORT LAW              pages of 11.5 KB
    traffic.py pages ADDRESS,.. PORT EVERY SECONDS    a page from each address every so many seconds, each on a connection of its own
"""

import asyncio
import json
import selectors
import socket
import sys
import time

FIRST = 7000
PAGE = bytes(11_500)
DATAGRAM = bytes(1400)
# A page that takes longer has failed, and counts as this long.
PATIENCE = 10.0
SO_RCVBUFFORCE = 33


def receive(ports):
    found, poll, buffer = [0] * ports, selectors.DefaultSelector(), bytearray(1 << 18)

    def take(sock, n):
        try:
            for _ in range(64):
                got = sock.recv_into(buffer)
                found[n] += got
                if not got and sock.type == socket.SOCK_STREAM:
                    poll.unregister(sock)
                    return sock.close()
        except BlockingIOError:
            pass
        except OSError:
            poll.unregister(sock)
            sock.close()

    def accept(sock, n):
        connection = sock.accept()[0]
        connection.setblocking(False)
        poll.register(connection, selectors.EVENT_READ, (take, n))

    def tell(_, __):
        if not sys.stdin.readline():
            sys.exit()
        print(json.dumps(found), flush=True)

    for n in range(ports):
        tcp = socket.create_server(("", FIRST + 1 + n))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
        udp.bind(("", FIRST + 1 + n))
        for sock, what in ((tcp, accept), (udp, take)):
            sock.setblocking(False)
            poll.register(sock, selectors.EVENT_READ, (what, n))
    poll.register(sys.stdin, selectors.EVENT_READ, (tell, 0))
    print("ready", flush=True)
    while True:
        for key, _ in poll.select():
            what, n = key.data
            what(key.fileobj, n)


def use(sock, law):
    # Not by sysctl: a namespace may choose few by itself.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, law.encode())


def wait():
    print("ready", flush=True)
    if not sys.stdin.readline():
        sys.exit()


def tcp(address, port, law):
    block = bytes(1 << 17)
    while True:
        try:
            with socket.socket() as sock:
                use(sock, law)
                sock.connect((address, port))
                while True:
                    sock.sendall(block)
        except OSError:
            time.sleep(0.1)  # beside a flood a connection may fail


def udp(address, port, mbps):
    sock, gap = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), len(DATAGRAM) * 8e-6 / mbps
    sock.connect((address, port))
    due = time.monotonic()
    while True:
        now = time.monotonic()
        due = max(due, now - 0.05)  # who was not scheduled for a while sends no burst for it
        while due <= now:
            try:
                sock.send(DATAGRAM)
            except OSError:
                pass
            due += gap
        time.sleep(max(0.0005, due - now))


async def web(port, law):
    async def page(reader, writer):
        try:
            await reader.readline()
            writer.write(PAGE)
            await writer.drain()
            writer.close()
        except OSError:
            pass

    sock = socket.create_server(("", port), backlog=1024)
    use(sock, law)
    server = await asyncio.start_server(page, sock=sock)
    print("ready", flush=True)
    await server.serve_forever()


async def pages(addresses, port, every, seconds):
    found = []

    async def one(address):
        begin, connected, failed = time.monotonic(), None, False

        async def get():
            nonlocal connected
            reader, writer = await asyncio.open_connection(address, port)
            connected = time.monotonic() - begin
            writer.write(b"GET\n")
            got = await reader.read(-1)
            writer.close()
            if len(got) != len(PAGE):
                raise OSError("cut short")

        try:
            await asyncio.wait_for(get(), PATIENCE)
        except (OSError, asyncio.TimeoutError):
            failed = True
        found.append([address, PATIENCE if failed else time.monotonic() - begin, connected, failed])

    begin, tasks = time.monotonic(), []
    for n in range(int(seconds / every)):
        for m, address in enumerate(addresses):
            await asyncio.sleep(max(0, begin + (n + m / len(addresses)) * every - time.monotonic()))
            tasks.append(asyncio.create_task(one(address)))
    await asyncio.gather(*tasks)
    print(json.dumps(found), flush=True)


def main():
    what, *words = sys.argv[1:]
    if what in ("tcp", "udp"):
        wait()
    if what == "receive":
        receive(int(words[0]))
    elif what == "tcp":
        tcp(words[0], int(words[1]), words[2])
    elif what == "udp":
        udp(words[0], int(words[1]), float(words[2]))
    elif what == "web":
        asyncio.run(web(int(words[0]), words[1]))
    else:
        asyncio.run(pages(words[0].split(","), int(words[1]), float(words[2]), float(words[3])))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
