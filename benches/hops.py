"""The cost of a call into a plugin and back, in the node's process and without a front-end."""

import criterion
from targets import Target

NAMES = ("hop without parameters or bus", "hop with a bus read", "hop with a parameter")


def run():
    """Microseconds by bench."""
    return {name: found["seconds"] * 1e6 for name, found in criterion.run("tenon-modules", "plugin_hop", NAMES).items()}


def targets(found):
    """Rows of the table of targets."""
    for name, micros in found.items():
        yield Target(f"plugin: {name}, µs", micros, 1.0, 0.5, is_less_better=True)
