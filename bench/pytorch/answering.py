"""A program that is driven from outside, a command a line, so that several take turns on one GPU: see beside() in gpu/steps/pytorch.py."""
import json
import sys


def answer(commands):
    """Answers each line of standard input with a line of JSON: commands[first word](other words...)."""
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        if name == "end":
            return
        print(json.dumps(commands[name](*words)), flush=True)
