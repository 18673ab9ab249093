"""Judges what scripts/test-sanitize left in its build folder and records it in bench/results."""
import datetime
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml


def tests(path):
    cases = [(case.get("name"), case.get("status")) for case in xml.parse(path).getroot().iter("testcase")]
    return {"programs": len(cases), "not_passed": sorted(name for name, status in cases if status != "run")}


def conformance(path):
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text())
    except json.JSONDecodeError:
        return {"unexpected": [{"name": "all", "reason": "the command gave no document"}]}
    failed = [case for case in document["cases"] if case["status"] == "failed"]
    return {
        **{key: document[key] for key in ("passed", "failed", "unsupported")},
        "unexpected": [{key: case[key] for key in ("name", "reason")} for case in failed],
    }


def random_graphs(path):
    if not path.exists():
        return {"wrong": "the script ended without a document"}
    document = json.loads(path.read_text())
    return {key: document[key] for key in ("graphs", "runs", "wrong")}


folder, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
doctor = json.loads(subprocess.run([folder / "bin/convoy", "doctor", "--json"], capture_output=True, text=True).stdout)
compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
record = {
    "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    "command": "make test-sanitize",
    "commit": commit,
    "sanitizers": ["address", "leak", "undefined"],
    "compiler": compiler,
    "device": doctor["processor"],
    "versions": doctor["libraries"],
    "tests": tests(folder / "tests.xml"),
    **{name: conformance(folder / f"{name}.json") for name in ("conformance", "models")},
    "random_graphs": random_graphs(folder / "random_graphs.json"),
}
target = pathlib.Path(f"bench/results/sanitizers-{datetime.date.today()}.json")
target.write_text(json.dumps(record, indent=1) + "\n")
print(f"recorded in {target}")
clean = not record["tests"]["not_passed"] and record["random_graphs"]["wrong"] == 0 and all(
    not record[name] or not record[name]["unexpected"] for name in ("conformance", "models")
)
print("clean" if clean else json.dumps(record, indent=1))
sys.exit(0 if clean else 1)
