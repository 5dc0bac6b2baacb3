"""Where processes listen, as `ss` tells it."""

import contextlib
import ipaddress
import os
import pathlib
import re
import shutil
import subprocess
import threading

import pytest

_SECONDS_BETWEEN_LOOKS = 0.1


@contextlib.contextmanager
def watched_ports(processes):
    """Yields a set of addresses (host, port). It grows by all those at which the processes, this
    one, and processes that they start listen meanwhile."""
    if not shutil.which("ss"):
        pytest.skip("there is no ss: install iproute2")
    roots = {*processes, os.getpid()}
    addresses, done = listening(roots), threading.Event()

    def look():
        while not done.wait(_SECONDS_BETWEEN_LOOKS):
            addresses.update(listening(roots))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield addresses
    finally:
        done.set()
        thread.join()


def listening(processes):
    """Returns the addresses (host, port) at which processes and their descendants listen."""
    wanted = with_descendants(processes)
    table = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    addresses = set()
    for line in table.splitlines():
        if wanted & set(map(int, re.findall(r"pid=(\d+)", line))):
            host, _, port = line.split()[3].rpartition(":")
            addresses.add((host, int(port)))
    return addresses


def open_to_others(addresses):
    """Returns those addresses that are not on the loopback interface.

    >>> open_to_others({("127.0.0.1", 1), ("[::1]", 2), ("[::ffff:127.0.0.1]", 3)})
    set()
    >>> sorted(open_to_others({("*", 1), ("0.0.0.0", 2), ("[::]", 3), ("10.0.0.7%eth0", 4)}))
    [('*', 1), ('0.0.0.0', 2), ('10.0.0.7%eth0', 4), ('[::]', 3)]
    """
    return {(host, port) for host, port in addresses if not _is_loopback(host)}


def with_descendants(processes):
    """Returns the ids of processes, and of all that these have started."""
    parents = {}
    for directory in pathlib.Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
                parents[int(directory.name)] = int(fields[1])
    family = set(processes)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _is_loopback(host):
    if host == "*":
        return False
    address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
