"""convoy exec, on a cuDNN that needs no GPU: what is recorded, and that the program runs on as if it weren't there."""
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CONVOY, PROGRAM, INTERPOSER = sys.argv[1:4]
PROBLEM = "fprop:x=bf16,2x8x5x5,nhwc,align=16:w=bf16,8x8x3x3,nhwc,align=16:y=bf16,2x8x5x5,nhwc,align=16:pad=1x1"


def run(*command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


class Exec(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.record = pathlib.Path(self.folder.name) / "r.jsonl"

    def tearDown(self):
        self.folder.cleanup()

    def exec(self, *arguments, **environment):
        code, out, err = run(CONVOY, "exec", "--record", str(self.record), "--", PROGRAM, *arguments, **environment)
        rows = [json.loads(line) for line in self.record.read_text().splitlines()] if self.record.exists() else []
        return code, out, err, [row for row in rows if "convoy_record" in row], [row for row in rows if "calls" in row]

    def test_heuristic_mode(self):
        plain = run(PROGRAM, "5")
        code, out, err, headers, graphs = self.exec("5")
        self.assertEqual((code, out), (plain[0], plain[1]))
        self.assertEqual(len(headers), 1)
        self.assertEqual(headers[0]["cudnn"], 91900)
        self.assertEqual(len(graphs), 1)
        graph = graphs[0]
        self.assertEqual(graph["problem"], PROBLEM)
        self.assertEqual(graph["calls"], 5)
        built = {plan["candidate"]: plan for plan in graph["plans"]}
        self.assertEqual(built["cudnn.eng5{k2=-1}"]["calls"], 5)
        self.assertEqual(built["cudnn.eng5{k2=-1}"]["workspace_bytes"], 500)
        self.assertIn("NOT_SUPPORTED", built["cudnn.eng7{k2=0}"]["failure"])
        offers = {query["mode"]: [offer["candidate"] for offer in query["offers"]] for query in graph["queries"]}
        self.assertEqual(offers, {"instant": ["cudnn.eng7{k2=0}", "cudnn.eng5{k2=-1}", "cudnn.eng9{k2=3}"], "fallback": ["cudnn.eng1"]})
        self.assertIn("1 graphs of 1 processes, cuDNN 9.19.0", err)
        listed = self.record.with_suffix(".txt").read_text().splitlines()[-1]
        self.assertTrue(listed.startswith("5 fprop:") and "math=reduced" in listed and "cudnn.eng5" in listed, listed)

    def test_benchmark_mode(self):
        code, out, _, _, graphs = self.exec("--benchmark", "5")
        self.assertEqual(collections.Counter(out.split("\n")[:-1]), {"ran eng5": 6, "ran eng9": 1, "ran eng1": 1})
        self.assertEqual(graphs[0]["calls"], 8)

    def test_what_is_no_convolution_passes_through(self):
        _, _, err, _, graphs = self.exec("--norm", "1")
        norm = [graph for graph in graphs if "problem" not in graph]
        self.assertEqual([graph["operations"] for graph in norm], ["NORM_FORWARD"])
        self.assertIn("NORM_FORWARD", err)

    def test_threads_and_fork(self):
        code, _, err, headers, graphs = self.exec("--threads", "8", "--fork", "3")
        self.assertEqual(code, 3, err)
        self.assertEqual(len(headers), 2, "a record a process")
        calls = collections.Counter()
        for graph in graphs:
            calls[graph["problem"].split(",")[1]] += graph["calls"]
        # 8 channels: the first and thread 4; thread 1 to 7 convolve 8 * (i % 4 + 1); the child 16 channels, twice.
        self.assertEqual(calls, {"2x8x5x5": 3 + 150, "2x16x5x5": 300 + 2, "2x24x5x5": 300, "2x32x5x5": 300})

    def test_the_programs_own_environment_and_exit_code(self):
        code, out, _ = run(CONVOY, "exec", "--record", str(self.record), "--", "sh", "-c", "echo $LD_PRELOAD; exit 7",
                           LD_PRELOAD="")
        self.assertEqual(code, 7)
        self.assertEqual(os.path.realpath(out.strip()), os.path.realpath(INTERPOSER))
        code, _, err = run(CONVOY, "exec", "--record", str(self.record), "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual(code, 128 + 15)
        self.assertIn("called no cuDNN", err)
        self.assertFalse(self.record.exists())

    def test_bad_input(self):
        code, _, err = run(CONVOY, "exec", "--record", "/nowhere/at/all/r.jsonl", "--", PROGRAM, "1")
        self.assertEqual(code, 2)
        self.assertIn("--record /nowhere/at/all/r.jsonl: there is no folder", err)
        code, _, err = run(CONVOY, "exec", "--record", self.folder.name, "--", PROGRAM, "1")
        self.assertEqual(code, 2)
        self.assertIn("it is a folder", err)
        code, _, err = run(CONVOY, "exec", "--record", str(self.record), "--", "no-such-program-anywhere")
        self.assertEqual(code, 127)
        self.assertIn("no-such-program-anywhere: No such file", err)

    def test_a_folder_that_vanishes_does_not_stop_the_program(self):
        code, out, err = run(PROGRAM, "2", LD_PRELOAD=INTERPOSER, CONVOY_RECORD="/nowhere/at/all/r.jsonl")
        self.assertEqual(code, 0)
        self.assertEqual(out, "ran eng5\nran eng5\n")
        self.assertIn("can't be written", err)

    def steered(self, times, *arguments):
        choices = pathlib.Path(self.folder.name) / "choices.txt"
        lines = [f"time\t\t9.19.0\t{PROBLEM}\t{candidate}\t{seconds}\n" for candidate, seconds in times.items()]
        choices.write_text("convoy-choices 1\n" + "".join(lines))
        return run(PROGRAM, *arguments, LD_PRELOAD=INTERPOSER, CONVOY_CHOICES=str(choices))

    def test_what_is_known_to_be_fast_is_offered_first(self):
        # What cuDNN leaves open (k2=-1) the choice file leaves out.
        failed = {"cudnn.eng7{k2=0}": "inf"}  # it can't be built
        self.assertEqual(self.steered({**failed, "cudnn.eng5": 2e-5, "cudnn.eng9{k2=3}": 1e-5}, "1"), (0, "ran eng9\n", ""))
        self.assertEqual(self.steered({**failed, "cudnn.eng5": 1e-5, "cudnn.eng9{k2=3}": 2e-5}, "1")[1], "ran eng5\n")
        self.assertEqual(self.steered({**failed, "cudnn.eng5": 2e-5, "cudnn.eng9{k2=4}": 1e-5}, "1")[1], "ran eng5\n",
                         "other knobs are another engine")
        self.assertEqual(self.steered({**failed, "cudnn.eng9{k2=3}": 1e-5}, "1")[1], "ran eng5\n", "which was not measured")
        out = self.steered({**failed, "cudnn.eng5": 2e-5, "cudnn.eng9{k2=3}": 1e-5}, "--benchmark", "1")[1]
        self.assertEqual(out, "ran eng9\nran eng5\nran eng1\nran eng9\n", "none is lost")

    def test_a_damaged_choice_file_is_ignored_with_a_line(self):
        choices = pathlib.Path(self.folder.name) / "choices.txt"
        for text in ("", "convoy-choices 7\n", "convoy-choices 1\nti"):
            choices.write_text(text)
            code, out, err = run(PROGRAM, "1", LD_PRELOAD=INTERPOSER, CONVOY_CHOICES=str(choices))
            self.assertEqual((code, out), (0, "ran eng5\n"))
            self.assertEqual(err.count("\n"), 1, err)
            self.assertIn("nothing is chosen by it", err)

    def test_it_exports_cudnns_names_only(self):
        _, out, _ = run("nm", "-D", "--defined-only", INTERPOSER)
        names = [line.split()[-1] for line in out.splitlines()]
        self.assertIn("cudnnBackendExecute", names)
        self.assertEqual([name for name in names if not name.startswith("cudnn")], [])
        _, out, _ = run("readelf", "-d", INTERPOSER)
        needed = [line.split("[")[1].rstrip("]") for line in out.splitlines() if "NEEDED" in line]
        self.assertLessEqual(set(needed), {"libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2", "libdl.so.2"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
