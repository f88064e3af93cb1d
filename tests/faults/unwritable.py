"""Standard errors that cannot be written."""

import contextlib
import os


@contextlib.contextmanager
def full_disk():
    """A standard error that is on a full disk."""
    with open("/dev/full", "wb") as full:
        yield full


@contextlib.contextmanager
def closed_pipe():
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        yield pipe


@contextlib.contextmanager
def unread_pipe():
    """A full pipe whose reader does not read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    with open(writer, "wb") as pipe:
        yield pipe
    os.close(reader)


KINDS = (full_disk, closed_pipe, unread_pipe)
