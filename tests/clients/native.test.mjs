// viem and cast against a native development network: system contracts, fees, epochs, sponsored tokens.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { ADDRESS, KEY, OTHER, load, program, startDevelopmentNetwork, token } from "./support.mjs";

const viem = load("viem");
const { privateKeyToAccount } = load("viem/accounts");
const account = privateKeyToAccount(KEY);
const execute = promisify(execFile);

const VALIDATOR = "0x0000000000000000000000000000000000000088";
const validatorAbi = viem.parseAbi([
  "function getCandidates() view returns (address[])",
  "function getCandidateOwner(address) view returns (address)",
  "function getVoterCap(address, address) view returns (uint256)",
  "function vote(address) payable",
  "event Vote(address _voter, address _candidate, uint256 _cap)",
]);
const issuerAbi = viem.parseAbi(["function apply(address) payable", "function getTokenCapacity(address) view returns (uint256)"]);
const sponsored = readFileSync(new URL("../data/contracts/SponsoredToken.hex", import.meta.url), "utf8").trim();
const tokenAbi = viem.parseAbi(["function transfer(address, uint256) returns (bool)", "function balanceOf(address) view returns (uint256)", "function issuer() view returns (address)"]);

let node, http, wallet, masternode;

before(async () => {
  node = await startDevelopmentNetwork("--profile", "native", "--epoch", "10");
  const nativeCurrency = { name: "Coin", symbol: "COIN", decimals: 18 };
  const chain = viem.defineChain({ id: 5151, name: "Tenon native", nativeCurrency, rpcUrls: { default: { http: [node.http] } } });
  http = viem.createPublicClient({ chain, transport: viem.http(), pollingInterval: 50 });
  wallet = viem.createWalletClient({ account, chain, transport: viem.http() });
  [masternode] = await http.readContract({ address: VALIDATOR, abi: validatorAbi, functionName: "getCandidates" });
});

after(async () => assert.equal(await node.stop(), 0));

const done = async (hash) => {
  const receipt = await http.waitForTransactionReceipt({ hash: await hash });
  assert.equal(receipt.status, "success");
  return receipt;
};

test("the banner shows the masternode, and its keys have no funded accounts", async () => {
  assert.equal(await http.getChainId(), 5151);
  assert.ok(node.output().includes(masternode), node.output());
  assert.equal(await http.getBalance({ address: masternode }), 0n);
});

test("a vote is counted by the validator contract", async () => {
  const receipt = await done(
    wallet.writeContract({ address: VALIDATOR, abi: validatorAbi, functionName: "vote", args: [masternode], value: viem.parseEther("25") }),
  );

  const [event] = viem.parseEventLogs({ abi: validatorAbi, logs: receipt.logs });
  assert.deepEqual([event.args._voter, event.args._cap], [ADDRESS, viem.parseEther("25")]);
  const args = [masternode, ADDRESS];
  assert.equal(await http.readContract({ address: VALIDATOR, abi: validatorAbi, functionName: "getVoterCap", args }), viem.parseEther("25"));
});

test("fees go to the masternode's owner", async () => {
  const owner = await http.readContract({ address: VALIDATOR, abi: validatorAbi, functionName: "getCandidateOwner", args: [masternode] });
  const before = await http.getBalance({ address: owner });
  const receipt = await done(wallet.sendTransaction({ to: OTHER, value: 1n }));
  const block = await http.getBlock({ blockNumber: receipt.blockNumber });

  assert.equal(block.miner, masternode.toLowerCase());
  assert.equal(block.baseFeePerGas, 12_500_000_000n);
  assert.equal(await http.getBalance({ address: owner }), before + receipt.gasUsed * receipt.effectiveGasPrice);
});

test("transfers of a registered token cost its sender no coins", async () => {
  const deployed = await done(wallet.sendTransaction({ data: sponsored, gas: 4_000_000n }));
  const address = deployed.contractAddress;
  assert.equal(await http.readContract({ address, abi: tokenAbi, functionName: "issuer" }), ADDRESS);
  const issuer = viem.getAddress(/token issuer (0x[0-9a-fA-F]{40})/.exec(node.output())[1]);
  await done(wallet.writeContract({ address: issuer, abi: issuerAbi, functionName: "apply", args: [address], value: viem.parseEther("20") }));
  const capacity = () => http.readContract({ address: issuer, abi: issuerAbi, functionName: "getTokenCapacity", args: [address] });
  const [coins, deposit] = [await http.getBalance({ address: ADDRESS }), await capacity()];

  const receipt = await done(wallet.writeContract({ address, abi: tokenAbi, functionName: "transfer", args: [OTHER, 1000n], gas: 200_000n, gasPrice: 12_500_000_000n }));

  assert.equal(await http.getBalance({ address: ADDRESS }), coins);
  assert.equal(await capacity(), deposit - receipt.gasUsed * 12_500_000_000n);
  assert.equal(await http.readContract({ address, abi: tokenAbi, functionName: "balanceOf", args: [OTHER] }), 1000n);
});

test("cast deploys and sends through several epoch switches", async () => {
  const env = { ...process.env, ETH_RPC_URL: node.http };
  const cast = async (...args) => (await execute(program("cast"), args, { env })).stdout.trim();
  const send = async (...args) => JSON.parse(await cast("send", "--json", "--private-key", KEY, ...args));
  const deployed = await send("--create", token.bytecode + "0".repeat(61) + "3e8");
  assert.equal(deployed.status, "0x1");

  const start = Number(await cast("block-number"));
  for (let sent = 0; sent < 25; sent++) await done(wallet.sendTransaction({ to: OTHER, value: BigInt(sent) }));

  const head = Number(await cast("block-number"));
  let switches = 0;
  for (let number = start; number <= head; number++) {
    const block = JSON.parse(await cast("rpc", "eth_getBlockByNumber", `0x${number.toString(16)}`, "false"));
    if (block.validators !== "0x") {
      assert.equal(block.validators, masternode.toLowerCase());
      assert.equal(number % 10, 0);
      switches += 1;
    }
  }
  assert.ok(switches >= 2, `${switches} epoch switches between ${start} and ${head}`);
  assert.equal(await cast("call", deployed.contractAddress, "balanceOf(address)(uint256)", ADDRESS), "1000");
});
