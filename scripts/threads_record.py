"""Records in bench/results what scripts/test-threads ran."""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

results, commit = sys.argv[1:]


def program(case):
    def count(how):
        found = re.search(rf"^\[ +{how} +\] (\d+) tests?", case.findtext("system-out", ""), re.MULTILINE)
        return int(found[1]) if found else 0

    return {
        "name": case.get("name"),
        "passed": case.get("status") == "run",
        "tests": count("PASSED") + count("FAILED"),
        "skipped": count("SKIPPED"),
        "seconds": float(case.get("time")),
    }


record = {
    "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    "command": "make test-threads",
    "commit": commit,
    "sanitizer": "thread",
    "compiler": subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.splitlines()[0],
    "logical_cpus": os.cpu_count(),
    "programs": [program(case) for case in xml.parse(results).getroot().iter("testcase")],
}
target = pathlib.Path(f"bench/results/threads-{datetime.date.today()}.json")
target.write_text(json.dumps(record, indent=1) + "\n")
print(f"recorded in {target}")
