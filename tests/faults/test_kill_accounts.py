"""Commands that create and change key files, killed at random: acknowledged files open, and unfinished ones do not
count as keys."""

import json
import os
import subprocess
import time

from eth_account import Account

from kills import dice, kills
from tenon_node import BINARY, folder, run

KILLS = kills(30)


def test_a_killed_command_leaves_whole_key_files_only(dice):
    with folder() as path:
        (path / "password").write_text("pass\n")
        (path / "passwords").write_text("pass\npass\n")
        common = ["--datadir", path / "data", "--lightkdf"]
        begun = time.monotonic()
        first = run("account", "new", *common, "--password", path / "password").stdout.split()[0]
        duration = time.monotonic() - begun
        answered, landed = {first.lower()}, 0
        for number in range(KILLS):
            makes = number % 2 == 0
            command = ["new"] if makes else ["update", first]
            arguments = [str(BINARY), "account", *command, *map(str, common), "--password", str(path / "passwords")]
            with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
                time.sleep(dice.random() * 1.5 * duration)
                landed += process.poll() is None
                process.kill()
                said = process.stdout.read()
            if makes and said.endswith("lost.\n"):
                answered.add(said.split()[0].lower())

        print(f"{landed} of {KILLS} commands were still running when killed")
        assert landed, "every command had ended before it was killed"
        listed = json.loads(run("account", "list", "--json", *common).stdout)
        assert answered <= {entry["address"].lower() for entry in listed}
        for entry in listed:
            with open(entry["path"]) as file:
                assert Account.from_key(Account.decrypt(file.read(), "pass")).address.lower() == entry["address"].lower()
            assert not os.path.basename(entry["path"]).startswith(".")
