// Starts the real program for the JavaScript clients, on ports that the system chose.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, dirname } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = process.env.TENON_NODE_MODULES ?? join(here, "../node_modules");

/** Loads an installed client, wherever the set-up put it. */
export const load = createRequire(join(modules, "resolve-from-here.js"));

/** The program of an npm package such as `@foundry-rs/cast`. */
export const program = (name) => join(modules, `@foundry-rs/${name}-${process.platform}-amd64/bin/${name}`);

export const token = JSON.parse(readFileSync(join(here, "../data/contracts/Token.json"), "utf8"));

/** First account of the mnemonic that every development tool knows. */
export const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
export const ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
export const OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/** Starts `tenon dev`; gives its endpoints and a function that stops it and tells its exit code. */
export async function startDevelopmentNetwork(...args) {
  const folder = mkdtempSync(join(tmpdir(), "tenon-clients-"));
  const datadir = join(folder, "data");
  const binary = process.env.TENON_BIN ?? join(here, "../../dist/tenon");
  const child = spawn(binary, ["dev", "--datadir", datadir, "--http.port", "0", "--ws.port", "0", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text));
  const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
  // The test runner ends a file that takes too long with this signal; the network must not outlive it.
  process.once("SIGTERM", () => {
    child.kill("SIGKILL");
    process.exit(1);
  });
  const file = join(datadir, "endpoints.json");
  for (let waited = 0; !existsSync(file); waited += 10) {
    if (child.exitCode !== null || waited > 60_000) throw new Error(`tenon dev did not start:\n${output}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const endpoints = JSON.parse(readFileSync(file, "utf8"));
  const stop = async () => {
    child.kill("SIGTERM");
    const code = await ended;
    rmSync(folder, { recursive: true, force: true });
    return code;
  };
  return { ...endpoints, output: () => output, stop };
}
