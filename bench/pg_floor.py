"""The floor for reading a result from PostgreSQL: sends one query, reads every byte and parses none."""
import socket
import struct
import time

READY = b"Z\0\0\0\5I"


def connect(path, user, database):
    """A connection over the unix socket at `path`; the server must trust everybody."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    body = struct.pack("!I", 196608) + f"user\0{user}\0database\0{database}\0\0".encode()
    connection.sendall(struct.pack("!I", len(body) + 4) + body)
    seen = b""
    while not seen.endswith(READY):
        chunk = connection.recv(65536)
        if not chunk or seen[:1] == b"E":
            raise SystemExit(f"PostgreSQL refused: {seen + chunk!r}")
        seen += chunk
    return connection


def drain(connection, sql):
    """(seconds from the query to ReadyForQuery, bytes on the wire)"""
    message = sql.encode() + b"\0"
    buffer, total, tail = bytearray(1 << 20), 0, b""
    start = time.perf_counter()
    connection.sendall(b"Q" + struct.pack("!I", len(message) + 4) + message)
    while tail != READY:
        got = connection.recv_into(buffer)
        if got == 0:
            raise SystemExit("PostgreSQL closed the connection")
        total += got
        tail = (tail + bytes(buffer[max(0, got - 6):got]))[-6:]
    return time.perf_counter() - start, total
