// Starts the real program for the JavaScript clients, on ports chosen by the system.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, dirname } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const modules = process.env.TENON_NODE_MODULES ?? join(here, "../node_modules");

/** Loads a client from the folder in which the set-up installed it. */
export const load = createRequire(join(modules, "resolve-from-here.js"));

/** The program of an npm package such as `@foundry-rs/cast`. */
export const program = (name) => join(modules, `@foundry-rs/${name}-${process.platform}-amd64/bin/${name}`);

export const token = JSON.parse(readFileSync(join(here, "../data/contracts/Token.json"), "utf8"));

/** First account of the mnemonic that development tools share. */
export const KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
export const ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
export const OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/** Name of a folder of these tests. It contains the process id, so that later runs can check whether the process ended. */
const FOLDER = /^tenon-clients-(\d+)-/;

const remove = (folder) => rmSync(folder, { recursive: true, force: true });

const isAlive = (process_id) => {
  try {
    return process.kill(process_id, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
};

/** Running nodes with their folders: a test that is ended by a signal ends and removes them. */
const running = new Map();

process.on("exit", () => {
  for (const [child, folder] of running) {
    child.kill("SIGKILL");
    remove(folder);
  }
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => process.exit(1));

/** A folder for a node. Also removes those of earlier tests that were killed. */
function freshFolder() {
  for (const name of readdirSync(tmpdir())) {
    const owner = FOLDER.exec(name);
    if (owner && !isAlive(Number(owner[1]))) remove(join(tmpdir(), name));
  }
  return mkdtempSync(join(tmpdir(), `tenon-clients-${process.pid}-`));
}

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Waits until `holds` returns true. After the time limit the test fails with the name of the condition. */
export async function until(what, holds) {
  for (let waited = 0; !(await holds()); waited += 10) {
    if (waited > 60_000) throw new Error(`${what}: did not come in a minute`);
    await pause(10);
  }
}

/** Starts `tenon dev`; returns its endpoints and a function that stops it and returns its exit code. */
export async function startDevelopmentNetwork(...args) {
  const folder = freshFolder();
  const datadir = join(folder, "data");
  const binary = process.env.TENON_BIN ?? join(here, "../../dist/tenon");
  const child = spawn(binary, ["dev", "--datadir", datadir, "--http.port", "0", "--ws.port", "0", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.set(child, folder);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text));
  const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
  // The test runner ends a file that takes too long with this signal; the network must end with it.
  process.once("SIGTERM", () => {
    child.kill("SIGKILL");
    process.exit(1);
  });
  const file = join(datadir, "endpoints.json");
  for (let waited = 0; !existsSync(file); waited += 10) {
    if (child.exitCode !== null || waited > 60_000) throw new Error(`tenon dev did not start:\n${output}`);
    await pause(10);
  }
  const endpoints = JSON.parse(readFileSync(file, "utf8"));
  const stop = async () => {
    child.kill("SIGTERM");
    const code = await ended;
    running.delete(child);
    remove(folder);
    return code;
  };
  return { ...endpoints, output: () => output, stop };
}
