"""The recorded native chain `load` in Tenon and in the reference client, each pinned to the first core."""

import contextlib
import gzip
import json
import os
import subprocess

import importing
import servers

NAMESPACES = "eth,net,web3,debug,txpool,admin,XDPoS"


def unpacked(folder):
    """Genesis and blocks as files."""
    source = (folder / "genesis.json", folder / "chain.rlp")
    for path, name in zip(source, ("load.genesis.json.gz", "load.rlp.gz")):
        path.write_bytes(gzip.decompress((importing.CHAINS / name).read_bytes()))
    return source


def keys():
    """Address and private key of an account of the chain, by its number."""
    found = json.loads(gzip.decompress((importing.CHAINS / "load.keys.json.gz").read_bytes()))
    return {one["n"]: (one["address"].lower(), one["privateKey"]) for one in found["accounts"]}


@contextlib.contextmanager
def tenon(folder, source, *arguments):
    """Tenon with the chain imported, every namespace open."""
    importer = [str(servers.TENON), "import", "--genesis", str(source[0]), "--datadir", str(folder / "tenon"), str(source[1])]
    done = subprocess.run(importer, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(importer)}: {done.stderr}")
    everything = ["--genesis", str(source[0]), "--http.api", NAMESPACES, "--auth.namespaces", ""]
    with servers.tenon(folder / "tenon", *everything, *arguments, command="run") as server:
        yield server


@contextlib.contextmanager
def reference(folder, source, *arguments):
    """The reference client with the imported chain, restarted because it knows no finalized block before that."""
    binary = os.environ["TENON_REFERENCE"]
    home = folder / "reference"
    home.mkdir()
    files = importing.files_of_blocks(home, source[1])
    with importing.reference_node(binary, home, source[0], "admin,eth") as (_, port):
        for path in files:
            importing.ask(port, "admin_importChain", [str(path)])
    with importing.reference_node(binary, home, source[0], NAMESPACES, "--store-reward", *arguments, core=0) as (node, port):
        yield servers.Server("reference", node, HTTP=["--http", f"127.0.0.1:{port}"])
