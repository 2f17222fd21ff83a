"""`python -m runner.simulator …`: the built-in engine as a process of its own."""

import argparse
import sys

from runner.simulator.command import add_arguments, run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="goodput engine", description="Serves the built-in engine.")
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
