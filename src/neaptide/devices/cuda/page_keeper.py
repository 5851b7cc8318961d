"""The keeper of a GPU's pages: a process that makes them, hands them to jobs, and takes them apart.

A job starts it when none runs (csrc/keeper_line.h), and it ends when no job is connected any more. It has no context on
the GPU and never maps a page. csrc/region/page_table.h has the rules of the pages on the board.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

from neaptide.devices.board import Board
from neaptide.devices.cuda import nvml
from neaptide.devices.cuda.driver import PageMaker, device_of
from neaptide.devices.cuda.page_table import PageTable
from neaptide.peer import Peer

_TICK_SECONDS = 0.1  # between two looks at the budget
_FIRST_SECONDS = 10.0  # in which the job connects that has started the keeper
_PACKET_BYTES = 4096
_SET_NAME = 15  # PR_SET_NAME


class Ask(IntEnum):
    """The first word of a packet; csrc/keeper_line.cpp has the same."""

    MAKE = 1  # so many pages: answered by how many were made
    SHARE = 2  # these pages: answered by 1 for each that this keeper made, and its descriptor, else 0
    LISTEN = 3  # this line gets a word whenever pages retire
    SWEPT = 4  # the job has let go of pages that retire


class PageKeeper:
    """Serves the jobs of one board."""

    def __init__(self, listening: socket.socket, table: PageTable, maker: PageMaker) -> None:
        self._listening, self._table, self._maker = listening, table, maker
        self._handles: dict[int, int] = {}  # of pages, by their place
        self._listeners: set[socket.socket] = set()
        self._lines = selectors.DefaultSelector()
        self._lines.register(listening, selectors.EVENT_READ)
        self._first_until = time.monotonic() + _FIRST_SECONDS

    def serve(self) -> None:
        """Until the last job is gone."""
        while len(self._lines.get_map()) > 1 or time.monotonic() < self._first_until:
            for key, _ in self._lines.select(_TICK_SECONDS):
                if key.fileobj is self._listening:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._answer(key.fileobj)
            if self._table.retire():
                self._tell_listeners()
            self._take_apart()
        self._table.retire(everything=True)
        self._take_apart()

    def _accept(self) -> None:
        line, _ = self._listening.accept()
        if not Peer.of(line).is_this_user:
            line.close()
            return
        self._lines.register(line, selectors.EVENT_READ)
        self._first_until = 0.0

    def _close(self, line: socket.socket) -> None:
        self._lines.unregister(line)
        self._listeners.discard(line)
        line.close()

    def _answer(self, line: socket.socket) -> None:
        try:
            packet = line.recv(_PACKET_BYTES)
            ask, *words = struct.unpack(f"={len(packet) // 4}I", packet) if packet else (0,)
            if ask == Ask.MAKE:
                line.send(struct.pack("=I", self._make(words[0])))
            elif ask == Ask.SHARE:
                self._share(line, words)
            elif ask == Ask.LISTEN:
                self._listeners.add(line)
            elif ask != Ask.SWEPT:
                self._close(line)
        except (OSError, struct.error, IndexError):  # the job is gone, or it is none
            self._close(line)

    def _make(self, count: int) -> int:
        for made in range(count):
            if (page := self._table.announce()) is None:
                return made
            handle = self._maker.make()
            if handle is not None:
                self._handles[page] = handle
            self._table.settle(page, there=handle is not None)
            if handle is None:
                return made
        return count

    def _share(self, line: socket.socket, pages: list[int]) -> None:
        files: list[int] = []
        words: list[int] = []
        try:
            for page in pages:
                handle = self._handles.get(page)
                file = None if handle is None else self._maker.export(handle)
                words.append(int(file is not None))
                files += [] if file is None else [file]
            socket.send_fds(line, [struct.pack(f"={len(words)}I", *words)], files)
        finally:
            for file in files:
                os.close(file)

    def _tell_listeners(self) -> None:
        for line in list(self._listeners):
            with suppress(BlockingIOError):  # it has not read the last word yet
                try:
                    line.send(b"\0\0\0\0", socket.MSG_DONTWAIT)
                except (BrokenPipeError, ConnectionError):
                    self._close(line)

    def _take_apart(self) -> None:
        for page in self._table.take_unheld():
            if (handle := self._handles.pop(page, None)) is not None:
                self._maker.release(handle)
            self._table.settle(page, there=False)


def _keep(path: Path, inode: int, ready: Callable[[str], None]) -> None:
    """Serve the board's jobs. Calls `ready` once: with nothing when jobs can connect, or with what is in the way."""
    address = Path(f"{path}.pages-{inode}")
    board = Board.open(path)
    if os.fstat(board.descriptor).st_ino != inode:
        ready(f"the board {path} was replaced by another")
        return
    try:
        fcntl.flock(board.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another keeper is there
        ready("")
        return
    gpu = next((gpu for gpu in nvml.all_gpus() if gpu.bus_id == board.region_setting()), None)
    device = None if gpu is None else device_of(gpu.uuid)
    if device is None:
        ready("CUDA does not see the board's GPU")
        return
    table = PageTable(board)
    while not table.begin():
        time.sleep(_TICK_SECONDS / 10)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    address.unlink(missing_ok=True)
    before = os.umask(0o177)  # no other user may connect, from the first moment on
    listening.bind(str(address))
    os.umask(before)
    listening.listen(128)
    ready("")
    os.chdir("/")  # no folder stays in use
    try:
        PageKeeper(listening, table, PageMaker(device, board.chunk_bytes)).serve()
    finally:
        address.unlink(missing_ok=True)


def main(board: str, inode: str) -> int:
    """Become a process of its own, and return when jobs can connect to it."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            os.closerange(max(int(name), 3), int(name) + 1)  # a job's files end with the job
    path = Path(board).absolute()
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(write_end)
        with os.fdopen(read_end) as said:
            problem = said.read()
        if problem:
            print(f"neaptide: the keeper of the GPU's pages cannot start: {problem}", file=sys.stderr)
        return int(bool(problem))
    os.close(read_end)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in range(3):
        os.dup2(nothing, file)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_NAME, b"neaptide-pages")

    def ready(problem: str) -> None:
        os.write(write_end, problem.encode())
        os.close(write_end)

    try:
        _keep(path, int(inode), ready)
    except Exception as error:
        with suppress(OSError):
            ready(str(error) or type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
