"""Random requests about a chain, for comparing two nodes: spoiled requests from the OpenRPC document, calls of
precompiled contracts, random programs, and spoiled transactions and blocks. The same chain and seed produce the same
requests."""

import random

#: Moduli of fields and orders of groups, at which results of precompiled contracts change.
BN254_FIELD = 0x30644E72E131A029B85045B68181585D97816A916871CA8D3C208C16D87CFD47
BN254_ORDER = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
SECP256K1_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
EDGES = [0, 1, 2, 3, 27, 28, 32, 2**64 - 1, 2**64, 2**255, 2**256 - 1, BN254_FIELD - 1, BN254_FIELD, BN254_ORDER, SECP256K1_ORDER, SECP256K1_ORDER // 2]
#: Options of debug_trace* that select a tracer.
TRACERS = [{}, {}, {"enableMemory": True, "enableReturnData": True}, {"tracer": "callTracer"}, {"tracer": "prestateTracer"}, {"tracer": "4byteTracer"}, {"disableStack": True, "disableStorage": True}]
#: Instructions that random programs contain often: pushes, calls, creations, jumps, storage, copies, logs, ends.
FREQUENT = [0x5F, 0x60, 0x60, 0x60, 0x61, 0x73, 0x52, 0x51, 0x54, 0x55, 0x56, 0x57, 0x5B, 0x5B, 0xF0, 0xF1, 0xF2, 0xF4, 0xF5, 0xFA, 0xFD, 0xF3, 0xFF, 0xFE, 0x37, 0x39, 0x3C, 0x3E, 0x5E, 0x5C, 0x5D, 0xA0, 0xA4, 0x20, 0x31, 0x3B, 0x3F, 0x47, 0x40, 0x48, 0x49, 0x4A]


def hexadecimal(data):
    return "0x" + bytes(data).hex()


class RandomRequests:
    """Requests about a chain that both nodes know."""

    def __init__(self, call, document, seed, spoiled):
        """`call` sends a request to one of the nodes; `spoiled(document, generator)` yields requests from the OpenRPC
        document endlessly."""
        self.random = random.Random(seed)
        self.head = int(call("eth_blockNumber"), 16)
        blocks = [call("eth_getBlockByNumber", hex(number), True) for number in range(max(1, self.head - 300), self.head + 1)]
        self.hashes = [block["hash"] for block in blocks]
        self.transactions = [transaction for block in blocks for transaction in block["transactions"]][-400:]
        self.senders = sorted({transaction["from"] for transaction in self.transactions})
        self.contracts = sorted({transaction["to"] for transaction in self.transactions if transaction["to"] and transaction["input"] != "0x"})
        self.raw = [call("eth_getRawTransactionByHash", transaction["hash"]) for transaction in self.transactions[::4]]
        self.raw_blocks = [call("debug_getBlockRlp", self.head - behind) for behind in range(0, 40, 4)]
        self.spoiled = spoiled(document, self.random)

    def __iter__(self):
        kinds = [self.from_document] * 6 + [self.precompile] * 5 + [self.program] * 5 + [self.transaction] * 2 + [self.call_of_contract] * 2 + [self.block] + [self.place] * 2
        while True:
            yield self.random.choice(kinds)()

    def pick(self, *choices):
        return self.random.choice(choices)

    def bytes(self, most):
        return self.random.randbytes(self.random.randrange(most + 1))

    def tag(self):
        return self.pick("latest", "latest", hex(self.random.randrange(1, self.head + 3)))

    def from_document(self):
        name, params = next(self.spoiled)
        return name, self.with_real_values(params)

    def with_real_values(self, value):
        """Replaces the generator's placeholders by values of the chain."""
        if isinstance(value, list):
            return [self.with_real_values(item) for item in value]
        if isinstance(value, dict):
            return {name: self.with_real_values(item) for name, item in value.items()}
        if value == "0x" + "22" * 32:
            return self.pick(self.random.choice(self.hashes), self.random.choice(self.transactions)["hash"], value)
        if value == "0x" + "11" * 20:
            return self.pick(self.random.choice(self.contracts), self.random.choice(self.senders))
        return value

    def word(self):
        number = self.random.choice(EDGES) if self.random.random() < 0.6 else self.random.getrandbits(256)
        return number.to_bytes(32)

    def input_of_precompile(self, contract):
        words = b"".join(self.word() for _ in range(self.random.randrange(8)))
        match contract:
            case 5:
                lengths = [self.random.choice([0, 1, 2, 31, 32, 33, 64, 128, 1023, 1024, 1025, 2**31, 2**63, 2**64, 2**255]) for _ in range(3)]
                words = b"".join(length.to_bytes(32) for length in lengths) + self.bytes(200)
            case 6 | 7:
                point = b"".join(value.to_bytes(32) for value in self.pick((1, 2), (1, 3), (0, 0), (BN254_FIELD, 2), (1, BN254_FIELD + 2)))
                words = point + self.pick(point, words, self.word())
            case 8:
                words = b"".join(self.word() for _ in range(self.pick(0, 5, 6, 7, 12)))
            case 9:
                words = self.random.choice([0, 1, 12, 2**20, 2**32 - 1]).to_bytes(4) + self.random.randbytes(208) + self.pick(b"\0", b"\1", b"\2")
        return words[: self.random.randrange(len(words) + 1)] if self.random.random() < 0.2 else words

    def precompile(self):
        contract = self.random.choice([*range(1, 20), 0x28, 0x29, 0x2A, 0x2B, 0x88, 0x91])
        request = {"from": self.random.choice(self.senders), "to": f"0x{contract:040x}", "data": hexadecimal(self.input_of_precompile(contract))}
        if self.random.random() < 0.4:
            request["gas"] = hex(self.random.choice([21_000, 22_000, 25_000, 60_000, 200_000, 3_000_000]))
        return self.asked(request)

    def asked(self, request):
        """Returns a call, an estimate or a trace of a request."""
        match self.random.randrange(6):
            case 0:
                return "eth_estimateGas", [request, self.tag()]
            case 1:
                return "debug_traceCall", [request, self.tag(), self.random.choice(TRACERS)]
            case _:
                return "eth_call", [request, self.tag()]

    def code(self):
        """A random program; most of its instructions find their operands on the stack."""
        code, depth = bytearray(), 0
        for _ in range(self.random.randrange(1, 60)):
            instruction = self.random.choice(FREQUENT) if self.random.random() < 0.8 else self.random.randrange(256)
            while depth < 7 and self.random.random() < 0.6:
                code += self.pushed()
                depth += 1
            code.append(instruction)
            if 0x60 <= instruction <= 0x7F:
                code += self.random.randbytes(instruction - 0x5F)
            depth = max(0, depth - 2)
        return bytes(code)

    def pushed(self):
        match self.random.randrange(6):
            case 0:
                address = self.pick(self.random.randrange(1, 12).to_bytes(20), bytes.fromhex(self.random.choice(self.contracts)[2:]))
                return b"\x73" + address
            case 1:
                return b"\x61" + self.random.randbytes(2)
            case 2:
                return b"\x7f" + self.word()
            case _:
                return b"\x60" + bytes([self.random.choice([0, 0, 1, 4, 32, 64, 255])])

    def program(self):
        request = {"from": self.random.choice(self.senders), "data": hexadecimal(self.code())}
        request["gas"] = hex(self.random.choice([53_500, 60_000, 100_000, 300_000, 2_000_000]))
        if self.random.random() < 0.3:
            request["value"] = hex(self.random.choice([1, 10**18, 2**255]))
        if self.random.random() < 0.5:
            return self.asked(request)
        contract = self.random.choice(self.contracts)
        request = request | {"to": contract, "data": hexadecimal(self.bytes(68))}
        override = {contract: {"code": hexadecimal(self.code())}}
        if self.random.random() < 0.5:
            return "eth_call", [request, self.tag(), override]
        return "debug_traceCall", [request, self.tag(), {**self.random.choice(TRACERS), "stateOverrides": override}]

    def call_of_contract(self):
        request = {"from": self.random.choice(self.senders), "to": self.random.choice(self.contracts)}
        request["data"] = hexadecimal(bytes.fromhex(self.random.choice(self.transactions)["input"][2:10]) + b"".join(self.word() for _ in range(3)))
        if self.random.random() < 0.3:
            request |= {self.pick("gasPrice", "maxFeePerGas", "maxPriorityFeePerGas", "value", "nonce"): hex(self.random.choice([0, 1, 10**9, 2**64, 2**256 - 1]))}
        return self.asked(request)

    def damaged(self, data):
        """Returns bytes with one defect."""
        data, at = bytearray(data), self.random.randrange(max(1, len(data)))
        match self.random.randrange(6):
            case 0:
                return data[:at]
            case 1:
                return data + self.bytes(3)
            case 2:
                data[at : at + 1] = self.bytes(3)
            case 3:
                data[self.random.randrange(min(4, len(data)))] = self.random.randrange(256)
            case 4:
                return self.random.randbytes(self.random.randrange(40))
            case _:
                data[at] = self.random.randrange(256)
        return data

    def transaction(self):
        raw = bytes.fromhex(self.random.choice(self.raw)[2:])
        return "eth_sendRawTransaction", [hexadecimal(raw if self.random.random() < 0.1 else self.damaged(raw))]

    def block(self):
        raw = bytes.fromhex(self.random.choice(self.raw_blocks)[2:])
        return "debug_traceBlock", [hexadecimal(self.damaged(raw)), self.random.choice(TRACERS)]

    def place(self):
        """A request for something by its position or hash."""
        number, index, block_hash = hex(self.random.randrange(self.head + 3)), hex(self.random.randrange(12)), self.random.choice(self.hashes)
        transaction = self.random.choice(self.transactions)["hash"]
        return self.pick(
            ("eth_getTransactionByBlockNumberAndIndex", [number, index]),
            ("eth_getTransactionByBlockHashAndIndex", [block_hash, index]),
            ("eth_getTransactionReceipt", [transaction]),
            ("eth_getBlockReceipts", [number]),
            ("eth_getStorageAt", [self.random.choice(self.contracts), index, number]),
            ("eth_getTransactionAndReceiptProof", [transaction]),
            ("debug_traceTransaction", [transaction, self.random.choice(TRACERS)]),
            ("debug_storageRangeAt", [block_hash, int(index, 16), self.random.choice(self.contracts), "0x", 5]),
            ("eth_getLogs", [{"fromBlock": number, "toBlock": hex(int(number, 16) + 9)}]),
        )
