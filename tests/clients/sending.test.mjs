// A client's view right after a transaction was accepted, on a node that makes blocks on demand.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ADDRESS, KEY, OTHER, load, startDevelopmentNetwork } from "./support.mjs";

const { ethers } = load("ethers");
const { WebSocket } = load("ws");

/** Requests over one WebSocket connection; each is answered or fails with the connection. */
async function connect(url) {
  const socket = new WebSocket(url);
  const waiting = new Map();
  const fail = (error) => waiting.forEach(({ reject }) => reject(error));
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  socket.on("error", fail).on("close", () => fail(new Error("the connection was closed")));
  socket.on("message", (text) => {
    const answer = JSON.parse(text);
    // A batch is identified by its first request.
    const { id } = Array.isArray(answer) ? answer[0] : answer;
    waiting.get(id).resolve(answer);
    waiting.delete(id);
  });
  let last = 0;
  const request = (method, params) => ({ jsonrpc: "2.0", id: ++last, method, params });
  const send = (message, id) =>
    new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject });
      socket.send(JSON.stringify(message));
    });
  const ask = async (method, ...params) => {
    const message = request(method, params);
    const answer = await send(message, message.id);
    assert.equal(answer.error, undefined, JSON.stringify(answer));
    return answer.result;
  };
  const batch = async (calls) => {
    const messages = calls.map(([method, ...params]) => request(method, params));
    const answers = await send(messages, messages[0].id);
    assert.deepEqual(answers.map(({ id }) => id), messages.map(({ id }) => id));
    return answers.map(({ error, result }) => (assert.equal(error, undefined), result));
  };
  return { ask, batch, close: () => socket.close() };
}

async function signed(ask, count, first = 0) {
  const wallet = new ethers.Wallet(KEY);
  const [chainId, gasPrice] = [await ask("eth_chainId"), await ask("eth_gasPrice")];
  const start = Number(await ask("eth_getTransactionCount", ADDRESS, "latest")) + first;
  const fields = { type: 0, to: OTHER, value: 1n, gasLimit: 21_000n, gasPrice: BigInt(gasPrice) * 2n, chainId: BigInt(chainId) };
  return Promise.all(Array.from({ length: count }, (_, index) => wallet.signTransaction({ ...fields, nonce: start + index })));
}

for (const profile of ["ethereum", "native"]) {
  test(`${profile}: receipts are there right after the answers, one by one and in batches`, { timeout: 300_000 }, async () => {
    const node = await startDevelopmentNetwork("--profile", profile);
    const { ask, batch, close } = await connect(node.ws);

    for (let sent = 0; sent < 100; sent++) {
      const hash = await ask("eth_sendTransaction", { from: ADDRESS, to: OTHER, value: "0x1" });
      assert.notEqual(await ask("eth_getTransactionReceipt", hash), null, `transaction ${sent} from an account of the node`);
    }
    for (const raw of await signed(ask, 100)) {
      const hash = await ask("eth_sendRawTransaction", raw);
      assert.notEqual(await ask("eth_getTransactionReceipt", hash), null, hash);
    }
    const raws = await signed(ask, 200);
    const hashes = await batch(raws.map((raw) => ["eth_sendRawTransaction", raw]));
    assert.deepEqual(hashes, raws.map((raw) => ethers.keccak256(raw)));
    const receipts = await batch(hashes.map((hash) => ["eth_getTransactionReceipt", hash]));
    assert.equal(receipts.filter((receipt) => receipt?.status === "0x1").length, hashes.length);

    close();
    assert.equal(await node.stop(), 0);
  });
}

test("a transaction with a nonce gap is accepted, and the missing transaction closes the gap", { timeout: 60_000 }, async () => {
  const node = await startDevelopmentNetwork();
  const { ask, close } = await connect(node.ws);
  const [first, second] = await signed(ask, 2);

  const waits = await ask("eth_sendRawTransaction", second);
  assert.equal(await ask("eth_getTransactionReceipt", waits), null);
  const closes = await ask("eth_sendRawTransaction", first);

  assert.notEqual(await ask("eth_getTransactionReceipt", closes), null);
  close();
  assert.equal(await node.stop(), 0);
});
