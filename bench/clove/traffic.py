"""Flows between two guests, one connection each: `traffic.py serve PORT`, and `traffic.py send ADDRESS PORT CONGESTION` with a JSON list
of flows, [seconds from the start, bytes], on standard input. Prints [bytes, seconds or null] of each."""

import json
import socket
import struct
import sys
import threading
import time

BLOCK = memoryview(bytes(1 << 18))
# After the last arrival. What has not come by then is not finished.
DRAIN = 15.0


def serve(port):
    listener = socket.create_server(("", port), backlog=1024)
    print("ready", flush=True)

    def take(connection):
        buffer = bytearray(1 << 18)
        with connection:
            left = struct.unpack("!Q", connection.recv(8, socket.MSG_WAITALL))[0]
            while left:
                n = connection.recv_into(buffer, min(left, len(buffer)))
                if not n:
                    return
                left -= n
            connection.sendall(b".")

    while True:
        threading.Thread(target=take, args=(listener.accept()[0],), daemon=True).start()


def send(address, port, congestion, flows):
    found, begin = [None] * len(flows), time.monotonic() + 0.5

    def one(i, at, size):
        try:
            with socket.socket() as connection:
                # Not by sysctl: a namespace may choose few by itself.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
                connection.connect((address, port))
                connection.sendall(struct.pack("!Q", size))
                left = size
                while left:
                    left -= connection.send(BLOCK[: min(left, len(BLOCK))])
                if connection.recv(1):
                    found[i] = time.monotonic() - begin - at
        except OSError:
            pass  # it is not finished

    threads = []
    for i, (at, size) in enumerate(flows):
        time.sleep(max(0, begin + at - time.monotonic()))
        threads.append(threading.Thread(target=one, args=(i, at, size), daemon=True))
        threads[-1].start()
    end = time.monotonic() + DRAIN
    for thread in threads:
        thread.join(max(0, end - time.monotonic()))
    print(json.dumps([[size, took] for (_, size), took in zip(flows, found)]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]), sys.argv[4], json.load(sys.stdin))
