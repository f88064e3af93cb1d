// viem against the development network: deploy, send, wait, read logs, subscribe, trace; HTTP, WebSocket, socket.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { ADDRESS, KEY, OTHER, load, startDevelopmentNetwork, token, until } from "./support.mjs";

const viem = load("viem");
const { ipc } = load("viem/node");
const { privateKeyToAccount } = load("viem/accounts");
const account = privateKeyToAccount(KEY);

let node, chain, http, wallet;

before(async () => {
  node = await startDevelopmentNetwork();
  const urls = { default: { http: [node.http], webSocket: [node.ws] } };
  const nativeCurrency = { name: "Ether", symbol: "ETH", decimals: 18 };
  chain = viem.defineChain({ id: 31337, name: "Tenon", nativeCurrency, rpcUrls: urls });
  http = viem.createPublicClient({ chain, transport: viem.http(), pollingInterval: 50 });
  wallet = viem.createWalletClient({ account, chain, transport: viem.http() });
});

after(async () => assert.equal(await node.stop(), 0));

async function deploy() {
  const hash = await wallet.deployContract({ abi: token.abi, bytecode: token.bytecode, args: [1000n] });
  const receipt = await http.waitForTransactionReceipt({ hash });
  assert.equal(receipt.status, "success");
  return viem.getContract({ address: receipt.contractAddress, abi: token.abi, client: { public: http, wallet } });
}

test("the chain has its id and the account its balance", async () => {
  assert.equal(await http.getChainId(), 31337);
  assert.ok((await http.getBalance({ address: ADDRESS })) > viem.parseEther("1000"));
});

test("a contract is deployed, called, and its logs are found", async () => {
  const contract = await deploy();
  assert.equal(await contract.read.symbol(), "TTT");

  const receipt = await http.waitForTransactionReceipt({ hash: await contract.write.transfer([OTHER, 7n]) });

  assert.equal(await contract.read.balanceOf([OTHER]), 7n);
  const logs = await contract.getEvents.Transfer({ to: OTHER }, { fromBlock: 0n });
  assert.equal(logs.length, 1);
  assert.deepEqual([logs[0].args.value, logs[0].transactionHash], [7n, receipt.transactionHash]);
});

test("a custom error of the contract is decoded", async () => {
  const contract = await deploy();

  await assert.rejects(contract.simulate.transfer([OTHER, 5000n], { account }), (error) => {
    const reverted = error.walk((cause) => cause instanceof viem.ContractFunctionRevertedError);
    assert.equal(reverted.data.errorName, "InsufficientBalance");
    assert.deepEqual(reverted.data.args, [1000n, 5000n]);
    return true;
  });
});

test("calls and blocks are simulated without keeping them", async () => {
  const contract = await deploy();
  const head = await http.getBlockNumber();
  const transfer = { to: contract.address, abi: token.abi, functionName: "transfer" };
  const balance = { to: contract.address, abi: token.abi, functionName: "balanceOf", args: [OTHER] };

  const { results } = await http.simulateCalls({
    account: ADDRESS,
    calls: [{ ...transfer, args: [OTHER, 7n] }, balance, { ...transfer, args: [OTHER, 5000n] }],
  });
  assert.deepEqual(results.map(({ status }) => status), ["success", "success", "failure"]);
  assert.equal(results[1].result, 7n);
  assert.equal(results[0].logs.length, 1);
  assert.equal(results[2].error.cause.data.errorName, "InsufficientBalance");

  const coins = viem.parseEther("1");
  const blocks = await http.simulateBlocks({
    blocks: [
      { blockOverrides: { number: head + 1n }, stateOverrides: [{ address: OTHER, balance: coins }], calls: [] },
      { calls: [{ account: OTHER, to: ADDRESS, value: coins }, { account: ADDRESS, ...transfer, args: [OTHER, 1n] }] },
    ],
    traceTransfers: true,
  });
  assert.deepEqual(blocks.map(({ number }) => number), [head + 1n, head + 2n]);
  assert.equal(blocks[1].parentHash, blocks[0].hash);
  assert.deepEqual(blocks[1].calls.map(({ status }) => status), ["success", "success"]);
  assert.equal(blocks[1].calls[0].logs[0].address, "0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
  assert.equal(blocks[1].calls[0].logs[0].blockHash, blocks[1].hash);
  assert.equal(await http.getBlockNumber(), head);
  assert.equal(await contract.read.balanceOf([OTHER]), 0n);

  await assert.rejects(http.simulateBlocks({ blocks: [{ blockOverrides: { number: head }, calls: [] }] }), /in order/);
});

test("new heads, logs and pending transactions arrive over WebSocket", async () => {
  const client = viem.createPublicClient({ chain, transport: viem.webSocket() });
  const contract = await deploy();
  const seen = { heads: [], logs: [], pending: [] };
  const onError = (error) => assert.fail(error);
  const stops = [
    client.watchBlocks({ onBlock: (block) => seen.heads.push(block.hash), onError }),
    client.watchEvent({ address: contract.address, onLogs: (logs) => seen.logs.push(...logs), onError }),
    client.watchPendingTransactions({ onTransactions: (hashes) => seen.pending.push(...hashes), onError }),
  ];
  const { subscriptions } = await client.transport.getRpcClient();
  await until("the answers to three subscriptions", () => subscriptions.size === stops.length);

  const hash = await contract.write.transfer([OTHER, 1n]);
  const receipt = await client.waitForTransactionReceipt({ hash });
  await until("a head, a log and a pending transaction", () => seen.heads.length && seen.logs.length && seen.pending.length);

  assert.ok(seen.heads.includes(receipt.blockHash));
  assert.equal(seen.logs[0].transactionHash, hash);
  assert.deepEqual(seen.pending, [hash]);
  for (const stop of stops) stop();
  (await client.transport.getRpcClient()).close();
});

test("filters are polled over HTTP", async () => {
  const contract = await deploy();
  const filter = await http.createContractEventFilter({ address: contract.address, abi: token.abi });
  const blocks = await http.createBlockFilter();
  const receipt = await http.waitForTransactionReceipt({ hash: await contract.write.transfer([OTHER, 2n]) });

  assert.equal((await http.getFilterChanges({ filter }))[0].args.value, 2n);
  assert.equal((await http.getFilterChanges({ filter })).length, 0);
  assert.deepEqual(await http.getFilterChanges({ filter: blocks }), [receipt.blockHash]);
  assert.equal(await http.uninstallFilter({ filter }), true);
});

test("every transaction type that a wallet makes is accepted", async () => {
  const gasPrice = await http.getGasPrice();
  for (const fields of [{ type: "legacy", gasPrice }, { type: "eip2930", gasPrice, accessList: [] }, { type: "eip1559" }]) {
    const hash = await wallet.sendTransaction({ to: OTHER, value: 1n, ...fields });
    const receipt = await http.waitForTransactionReceipt({ hash });
    assert.deepEqual([receipt.status, receipt.type], ["success", fields.type]);
  }
  const authorization = await wallet.signAuthorization({ contractAddress: OTHER, executor: "self" });
  const hash = await wallet.sendTransaction({ to: ADDRESS, authorizationList: [authorization] });
  assert.equal((await http.waitForTransactionReceipt({ hash })).type, "eip7702");
});

test("a transaction is traced", async () => {
  const contract = await deploy();
  const hash = await contract.write.transfer([OTHER, 3n]);
  await http.waitForTransactionReceipt({ hash });

  const call = await http.request({ method: "debug_traceTransaction", params: [hash, { tracer: "callTracer" }] });

  assert.equal(call.type, "CALL");
  assert.equal(call.to, contract.address.toLowerCase());
  assert.equal(call.error, undefined);
});

test("the Unix socket serves the same chain", async () => {
  const client = viem.createPublicClient({ chain, transport: ipc(node.ipc) });

  assert.equal(await client.getChainId(), 31337);
  const [overSocket, overHttp] = await Promise.all([client, http].map((one) => one.getBlock({ blockNumber: 1n })));
  assert.deepEqual(overSocket, overHttp);
  (await client.transport.getRpcClient()).close();
});
