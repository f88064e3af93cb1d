// The objects that a tracer's script sees, over the functions of the process (natives.rs).
// Names and semantics: docs/spec/rpc-node.md 4.2, "JavaScript tracer interface".
(function (host) {
    'use strict';

    // Most scripts need no big integers; the library takes a millisecond.
    let library;
    const big = (hex) => {
        library ??= host.loadBigInteger();
        return library(BigInt(hex));
    };
    Object.defineProperty(globalThis, 'bigInt', {
        configurable: true,
        enumerable: true,
        get: () => (library ??= host.loadBigInteger()),
        set: (value) => Object.defineProperty(globalThis, 'bigInt', { value, writable: true }),
    });

    const isText = (value) => typeof value === 'string' || value instanceof String;

    const buffer = (value, allowsText) => {
        if (value instanceof Uint8Array) return value;
        if (value instanceof ArrayBuffer) return new Uint8Array(value);
        if (Array.isArray(value)) return Uint8Array.from(value);
        if (allowsText && isText(value)) return host.fromHex(String(value));
        throw new TypeError('invalid buffer type');
    };
    // Bytes as a text with a character for each: what the functions of the process take.
    const PIECE = 8192;
    const packed = (value, allowsText) => {
        const bytes = buffer(value, allowsText);
        let text = '';
        for (let at = 0; at < bytes.length; at += PIECE) {
            text += String.fromCharCode.apply(null, bytes.subarray(at, at + PIECE));
        }
        return text;
    };
    const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));
    const place = (value) => Math.trunc(Number(value)) || 0;

    globalThis.toHex = (value) => {
        const bytes = buffer(value, false);
        let text = '0x';
        for (let at = 0; at < bytes.length; at++) text += DIGITS[bytes[at]];
        return text;
    };
    globalThis.toWord = (value) => host.toWord(packed(value, true));
    globalThis.toAddress = (value) => host.toAddress(packed(value, true));
    globalThis.toContract = (from, nonce) => host.toContract(packed(from, true), place(nonce));
    globalThis.toContract2 = (from, salt, code) =>
        host.toContract2(packed(from, true), packed(salt, true), packed(code, true));
    globalThis.isPrecompiled = (address) => host.isPrecompiled(packed(address, true));
    globalThis.slice = (value, start, end) => {
        const bytes = buffer(value, false);
        const [from, to] = [place(start), place(end)];
        if (from >= 0 && from <= to && to <= bytes.length) return bytes.slice(from, to);
        if (!host.boundsSlices) return new Uint8Array(0);
        throw new Error(
            `tracer accessed out of bound memory: available ${bytes.length}, offset ${from}, size ${to - from}`,
        );
    };

    const log = {
        op: {
            toNumber: () => host.opcode(),
            toString: () => host.opcodeName(),
            isPush: () => host.opcode() >= 0x5f && host.opcode() <= 0x7f,
        },
        stack: {
            length: () => host.stackLength(),
            peek: (index) => big(host.stackItem(place(index))),
        },
        memory: {
            length: () => host.memoryLength(),
            slice: (start, end) => host.memorySlice(place(start), place(end)),
            getUint: (offset) => big(host.memoryWord(place(offset))),
        },
        contract: {
            getCaller: () => host.caller(),
            getAddress: () => host.address(),
            getValue: () => big(host.value()),
            getInput: () => host.input(),
        },
        getPC: () => host.pc(),
        getGas: () => host.gas(),
        getCost: () => host.cost(),
        getDepth: () => host.depth(),
        getRefund: () => host.refund(),
        getError: () => host.error(),
    };

    const db = {
        getBalance: (address) => big(host.balance(packed(address, true))),
        getNonce: (address) => host.nonce(packed(address, true)),
        getCode: (address) => host.code(packed(address, true)),
        getState: (address, slot) => host.slot(packed(address, true), packed(slot, true)),
        exists: (address) => host.exists(packed(address, true)),
    };

    const optional = (hex) => (hex === undefined ? undefined : big(hex));
    const frame = {
        getType: () => host.frameType(),
        getFrom: () => host.frameFrom(),
        getTo: () => host.frameTo(),
        getInput: () => host.frameInput(),
        getGas: () => host.frameGas(),
        getValue: () => optional(host.frameValue()),
    };
    const frameResult = {
        getGasUsed: () => host.resultGasUsed(),
        getOutput: () => host.resultOutput(),
        getError: () => host.resultError(),
    };

    const context = (facts) => {
        for (const name of ['value', 'gasPrice']) {
            if (facts[name] !== undefined) facts[name] = big(facts[name]);
        }
        return facts;
    };

    return { log, db, frame, frameResult, context };
})
