// cast, the command line client, against the development network.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { ADDRESS, KEY, OTHER, program, startDevelopmentNetwork, token } from "./support.mjs";

const execute = promisify(execFile);
let node;
before(async () => (node = await startDevelopmentNetwork()));
after(async () => assert.equal(await node.stop(), 0));

const cast = async (...args) => (await execute(program("cast"), args, { env: { ...process.env, ETH_RPC_URL: node.http } })).stdout.trim();
const send = async (...args) => JSON.parse(await cast("send", "--json", "--private-key", KEY, ...args));

test("cast reads the chain", async () => {
  assert.equal(await cast("chain-id"), "31337");
  assert.equal(await cast("block-number"), "0");
  assert.ok(BigInt(await cast("balance", ADDRESS)) > 10n ** 21n);
  assert.match(await cast("client"), /^Tenon\/v/);
});

test("cast deploys, sends, calls, reads logs and traces", async () => {
  const supply = "0".repeat(61) + "3e8";
  const deployed = await send("--create", token.bytecode + supply);
  const address = deployed.contractAddress;
  assert.equal(deployed.status, "0x1");

  const sent = await send(address, "transfer(address,uint256)", OTHER, "5");

  assert.equal(sent.status, "0x1");
  assert.equal(await cast("call", address, "balanceOf(address)(uint256)", OTHER), "5");
  const logs = JSON.parse(await cast("logs", "--json", "--address", address, "--from-block", "0"));
  assert.equal(logs.length, 2);
  const trace = JSON.parse(await cast("rpc", "debug_traceTransaction", sent.transactionHash, '{"tracer":"callTracer"}'));
  assert.equal(trace.to, address.toLowerCase());
  assert.match(await cast("storage", address, "0"), /3e8$/);
  const proof = JSON.parse(await cast("proof", address, "0"));
  assert.equal(BigInt(proof.storageProof[0].value), 1000n);
  assert.ok(BigInt(await cast("estimate", "--from", ADDRESS, address, "transfer(address,uint256)", OTHER, "1")) > 21000n);
});

test("cast speaks to the Unix socket", async () => {
  assert.equal(await cast("chain-id", "--rpc-url", node.ipc), "31337");
});
