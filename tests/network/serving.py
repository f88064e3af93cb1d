"""A scripted peer that serves a recorded chain and sends its newest blocks. It shares no code with the node."""

import gzip

import rlp
from peer import BODIES, GET_BODIES, GET_HEADERS, HEADERS, PING, PONG, Closed, Peer, keccak, number

NEW_BLOCK_HASHES, TRANSACTIONS, NEW_BLOCK = 0x11, 0x12, 0x17


class RecordedChain:
    """The blocks of a file, the first at height 0, with all data needed to serve them."""

    def __init__(self, path):
        with gzip.open(path, "rb") as file:
            data = file.read()
        self.headers, self.bodies, self.blocks, self.difficulties = [], [], [], []
        position = 0
        while position < len(data):
            *_, length, start = rlp.codec.consume_length_prefix(data, position)
            encoded, position = data[position : start + length], start + length
            block = rlp.decode(encoded)
            self.blocks.append(encoded)
            self.headers.append(block[0])
            self.bodies.append([block[1], block[2]])
            below = self.difficulties[-1] if self.difficulties else 0
            self.difficulties.append(below + int.from_bytes(block[0][7], "big"))
        self.hashes = [keccak(rlp.encode(header)) for header in self.headers]
        self.by_hash = {block_hash: height for height, block_hash in enumerate(self.hashes)}

    @property
    def height(self):
        return len(self.headers) - 1

    def new_block(self, height):
        """The payload of NewBlock."""
        return rlp.encode([rlp.decode(self.blocks[height]), number(self.difficulties[height])])


class Server(Peer):
    """A peer that has the blocks of a chain up to a height."""

    def __init__(self, chain, height, enode, **options):
        super().__init__(enode, **options)
        self.chain, self.limit, self.asked, self.got = chain, height, [], []

    def connect(self, network=5151):
        self.handshake()
        self.hello()
        chain = self.chain
        self.status(network, chain.hashes[0], chain.hashes[self.limit], chain.difficulties[self.limit])
        return self

    def header_answer(self, origin, amount, skip, is_reverse):
        height = self.chain.by_hash.get(origin) if len(origin) == 32 else int.from_bytes(origin, "big")
        step = (int.from_bytes(skip, "big") + 1) * (-1 if is_reverse else 1)
        answer = []
        while height is not None and 0 <= height <= self.limit and len(answer) < min(int.from_bytes(amount, "big"), 192):
            answer.append(self.chain.headers[height])
            height += step
        return answer

    def body_answer(self, hashes):
        heights = [self.chain.by_hash.get(block_hash) for block_hash in hashes[:128]]
        return [self.chain.bodies[height] for height in heights if height is not None and height <= self.limit]

    def serve_one(self):
        """Answers the next message, or stores it."""
        code, payload = self.receive()
        if code == PING:
            self.send(PONG, b"\xc0")
        elif code == GET_HEADERS:
            question = rlp.decode(payload)
            self.asked.append((code, question))
            self.send(HEADERS, rlp.encode(self.header_answer(*question)))
        elif code == GET_BODIES:
            question = rlp.decode(payload)
            self.asked.append((code, question))
            self.send(BODIES, rlp.encode(self.body_answer(question)))
        else:
            self.got.append((code, payload))

    def serve_until(self, is_over, seconds=60):
        """Serves until the condition holds, which is checked after each message and five times a second."""
        self.socket.settimeout(0.2)
        for _ in range(int(seconds * 5)):
            if is_over():
                return True
            try:
                while True:
                    self.serve_one()
                    if is_over():
                        return True
            except TimeoutError:
                pass
        return False

    def _read(self, count):
        """Like the parent's method, but a time-out in the middle of a message loses no data."""
        data = getattr(self, "_part", bytearray())
        self._part = data
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except (ConnectionResetError, BrokenPipeError):
                part = b""
            if not part:
                raise Closed()
            data += part
        self._part = bytearray()
        return bytes(data)

    def receive(self):
        # A time-out can occur between a frame's header and its body only while the body is in transit.
        self.socket.settimeout(0.2)
        first = self._read(32)
        self.socket.settimeout(30)
        self._part = bytearray(first)
        return super().receive()

    def closed_with(self, seconds=30):
        """Serves until the node ends the connection; returns the reason of its Disconnect."""
        try:
            self.serve_until(lambda: False, seconds)
        except Closed as closed:
            return closed
        return None


__all__ = ["NEW_BLOCK", "NEW_BLOCK_HASHES", "TRANSACTIONS", "Closed", "RecordedChain", "Server"]
