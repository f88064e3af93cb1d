"""A link between two nodes of a test. It forwards connections with a delay, and can hold back all data or close the
connections."""

import contextlib
import queue
import socket
import threading
import time


class Link:
    """Listens on a port of its own, and forwards each connection to `target`, a port of this machine."""

    def __init__(self, target, delay=0.0):
        self.target, self.delay = target, delay
        self.is_broken, self.is_over = False, False
        self.flows = threading.Event()
        self.flows.set()
        self.sockets, self.lock = set(), threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.is_over:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.is_broken:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.sockets |= {near, far}
            for source, sink in ((near, far), (far, near)):
                held = queue.Queue(1024)
                threading.Thread(target=self._read, args=[source, held], daemon=True).start()
                threading.Thread(target=self._write, args=[source, sink, held], daemon=True).start()

    def _read(self, source, held):
        """Queues received data with the time at which it may be forwarded."""
        source.settimeout(None)
        content = b"begins"
        while content:
            try:
                content = source.recv(1 << 16)
            except OSError:
                content = b""
            held.put((time.monotonic() + self.delay, content))

    def _write(self, source, sink, held):
        with contextlib.suppress(OSError):
            while True:
                leaves_at, content = held.get()
                if not content:
                    break
                time.sleep(max(0.0, leaves_at - time.monotonic()))
                self.flows.wait()
                sink.sendall(content)
        self._close(source, sink)

    def _close(self, *sockets):
        with self.lock:
            self.sockets -= set(sockets)
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def hold(self):
        """Holds back all data without closing connections."""
        self.flows.clear()

    def drop(self):
        """Closes all connections; new ones can be opened."""
        with self.lock:
            sockets = list(self.sockets)
        self._close(*sockets)

    def cut(self):
        """Closes all connections and refuses new ones."""
        self.is_broken = True
        self.drop()

    def heal(self):
        self.is_broken = False
        self.flows.set()

    def end(self):
        self.is_over = True
        self.cut()
        self.flows.set()
        self.listener.close()
