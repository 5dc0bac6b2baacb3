"""Tells whether a program is there for others to connect to."""

from __future__ import annotations

import socket

CONNECT_SECONDS = 5.0


def listens(endpoint: str) -> bool:
    """Returns whether something accepts connections at a host:port."""
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
