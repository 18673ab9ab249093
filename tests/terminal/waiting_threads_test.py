"""Threads that wait spin briefly, unless the user says how; programs that `convoy exec` starts don't get the variable.
A user who has OpenMP bind its threads keeps all processors."""
import json
import os
import subprocess
import sys

CONVOY = sys.argv[1]
WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "CONVOY_STARTED_AGAIN")
BARE = {name: value for name, value in os.environ.items() if name not in WAITING}


def spin_count(**environment):
    """What GNU OpenMP says of itself; the last word is that of the program that went on."""
    done = subprocess.run([CONVOY, "--version"], env=BARE | {"OMP_DISPLAY_ENV": "verbose"} | environment, capture_output=True,
                          text=True, check=True)
    assert done.stdout.startswith("convoy "), done.stdout
    return [line.split("'")[1] for line in done.stderr.splitlines() if "GOMP_SPINCOUNT" in line][-1]


def processors(**environment):
    done = subprocess.run([CONVOY, "doctor", "--json"], env=BARE | environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["processor"]["logical_cpus"]


assert spin_count() == "10000"
assert spin_count(GOMP_SPINCOUNT="77") == "77"
assert spin_count(OMP_WAIT_POLICY="passive") == "0"
assert processors(OMP_PROC_BIND="true") == processors()
given = subprocess.run([CONVOY, "exec", "--no-db", "--", sys.executable, "-c", "import os; print(*os.environ)"], env=BARE,
                       capture_output=True, text=True, check=True).stdout.split()
assert "PATH" in given and not set(WAITING) & set(given), given
