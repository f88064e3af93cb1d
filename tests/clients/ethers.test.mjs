// ethers against the development network, over HTTP and WebSocket.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { KEY, OTHER, load, pause, startDevelopmentNetwork, token, until } from "./support.mjs";

const { ethers } = load("ethers");

let node;
before(async () => (node = await startDevelopmentNetwork()));
after(async () => assert.equal(await node.stop(), 0));

const overHttp = () => new ethers.JsonRpcProvider(node.http, undefined, { pollingInterval: 50, cacheTimeout: -1 });

async function deploy(provider) {
  const signer = new ethers.NonceManager(new ethers.Wallet(KEY, provider));
  const contract = await new ethers.ContractFactory(token.abi, token.bytecode, signer).deploy(1000n);
  return contract.waitForDeployment();
}

test("a contract is deployed, sent to and read", async () => {
  const provider = overHttp();
  const contract = await deploy(provider);

  const receipt = await (await contract.transfer(OTHER, 9n)).wait();

  assert.equal(receipt.status, 1);
  assert.equal(await contract.balanceOf(OTHER), 9n);
  const events = await contract.queryFilter(contract.filters.Transfer(null, OTHER), 0);
  assert.equal(events.at(-1).args.value, 9n);
  provider.destroy();
});

test("every request of an ethers batch gets its answer", async () => {
  const provider = overHttp();

  const blocks = await Promise.all(Array.from({ length: 20 }, () => provider.getBlock("latest")));

  assert.equal(new Set(blocks.map((block) => block.hash)).size, 1);
  provider.destroy();
});

test("a failing call returns its reason", async () => {
  const provider = overHttp();
  const contract = await deploy(provider);

  await assert.rejects(contract.transferFrom.staticCall(OTHER, OTHER, 1n), { code: "CALL_EXCEPTION", reason: "allowance exceeded" });
  provider.destroy();
});

/** A WebSocket provider that sends subscriptions with a delay of `delay`, and the answers to its unsubscriptions. */
function overWebSocket(delay = 0) {
  const provider = new ethers.WebSocketProvider(node.ws);
  // ethers ends subscriptions without waiting for the answers; destroying the provider before they arrive is an error.
  const unsubscribed = [];
  const send = provider.send.bind(provider);
  provider.send = async (method, params) => {
    if (method === "eth_subscribe" && delay) await pause(delay);
    const answer = send(method, params);
    if (method === "eth_unsubscribe") unsubscribed.push(answer);
    return answer;
  };
  return { provider, unsubscribed };
}

test("events arrive over WebSocket", async () => {
  const { provider, unsubscribed } = overWebSocket();
  const contract = await deploy(provider);
  const arrived = new Promise((resolve) => contract.once("Transfer", (from, to, value) => resolve([to, value])));
  const head = new Promise((resolve) => provider.once("block", resolve));
  await provider.getBlockNumber();

  await (await contract.transfer(OTHER, 11n)).wait();

  assert.deepEqual(await arrived, [OTHER, 11n]);
  assert.ok((await head) > 0);
  await provider.removeAllListeners();
  await until("the ends of both subscriptions", () => unsubscribed.length >= 2);
  assert.deepEqual(new Set(await Promise.all(unsubscribed)), new Set([true]));
  await provider.destroy();
});

test("a receipt is found even if the subscription to heads is late", { timeout: 60_000 }, async () => {
  // The provider looks for the receipt once after sending, and otherwise waits for the next block, which never comes
  // here.
  const { provider } = overWebSocket(200);
  const signer = new ethers.NonceManager(new ethers.Wallet(KEY, provider));

  for (let sent = 0; sent < 10; sent++) {
    const response = await signer.sendTransaction({ to: OTHER, value: 1n });
    assert.equal((await response.wait()).status, 1);
  }

  await provider.destroy();
});
