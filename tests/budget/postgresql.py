"""Runs a PostgreSQL server on this machine, for tests of ledgers in it.

    with server() as url: ...

The programs are those of the system: apt-get install postgresql. As root they run as the user
postgres, as they refuse to run as root.
"""

import contextlib
import ctypes
import glob
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

_SECONDS_TO_START = 30.0
_SET_PARENT_DEATH_SIGNAL = 1
_USER = "postgres"


class Unavailable(Exception):
    """Raised where no server can be had; says why."""


class Server:
    """A server that can be stopped and started again; ``url`` is its database's."""

    def __init__(self, programs, directory, fsync):
        self._programs, self._data = programs, directory / "data"
        self._log = directory / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"
        self._settings = ("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
        self._settings += ("-c", f"port={self.port}", "-c", f"fsync={'on' if fsync else 'off'}")
        self._settings += ("-c", "shared_buffers=16MB", "-c", "max_connections=200")
        self._run("initdb", "-D", self._data, "-U", _USER, "-A", "trust", "-E", "UTF8", "-N")

    def _run(self, program, *arguments):
        command = [self._programs / program, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, **_as_its_user())
        if ran.returncode:
            raise Unavailable(f"{program}: {ran.stderr.strip()[-300:]}")

    def start(self):
        """Starts the server, and waits until it answers."""
        with open(self._log, "ab") as log:
            command = [self._programs / "postgres", "-D", self._data, *self._settings]
            options = {"stdout": log, "stderr": log, "cwd": "/", "preexec_fn": _end_with_parent}
            options |= _as_its_user()
            self._process = subprocess.Popen(command, **options)
        import psycopg

        until = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise Unavailable(self._log.read_text()[-300:]) from None
                time.sleep(0.05)

    def stop(self, mode="immediate"):
        """Ends the server: "fast" as an owner would, "immediate" as in a crash."""
        self._run("pg_ctl", "-D", self._data, "-m", mode, "stop")
        self._process.wait()


def _end_with_parent():
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGQUIT)


def _as_its_user():
    if os.geteuid() != 0:
        return {}
    return {"user": _USER, "group": pwd.getpwnam(_USER).pw_gid, "extra_groups": []}


def _programs():
    initdb = shutil.which("initdb")
    places = [os.path.dirname(initdb)] if initdb else []
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))
    if not places:
        raise Unavailable("no PostgreSQL server is installed: apt-get install postgresql")
    return pathlib.Path(places[-1])


@contextlib.contextmanager
def server(fsync=False):
    """Runs a server on a free port of the loopback interface, in memory; yields a ``Server``."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise Unavailable("psycopg is not installed: pip install '.[ledger]'") from None
    programs = _programs()
    if os.geteuid() == 0:
        try:
            owner = pwd.getpwnam(_USER).pw_uid
        except KeyError:
            raise Unavailable(f"root cannot run a server, and there is no user {_USER}") from None
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        if os.geteuid() == 0:
            os.chown(directory, owner, -1)
        made = Server(programs, pathlib.Path(directory), fsync)
        made.start()
        try:
            yield made
        finally:
            made.stop()
