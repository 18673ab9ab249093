"""The choosing flags of convoy exec: what they hand to the program's processes, and what is said of rules at the end."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CONVOY, PROGRAM = sys.argv[1:3]
PROBLEM = "fprop:x=bf16,2x8x5x5,nhwc,align=16:w=bf16,8x8x3x3,nhwc,align=16:y=bf16,2x8x5x5,nhwc,align=16:pad=1x1"


class Choices(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "CONVOY_DB": self.path("tuning.db"), "TMPDIR": self.path("tmp")}
        os.mkdir(self.path("tmp"))

    def tearDown(self):
        self.assertEqual(os.listdir(self.path("tmp")), [], "nothing is left behind")
        self.folder.cleanup()

    def path(self, name):
        return str(pathlib.Path(self.folder.name) / name)

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text)
        return self.path(name)

    def convoy(self, *arguments):
        done = subprocess.run([CONVOY, *arguments], capture_output=True, text=True, timeout=300, env=self.environment)
        return done.returncode, done.stdout, done.stderr

    def choices(self, *flags):
        """The choice file that a program gets."""
        code, out, err = self.convoy("exec", *flags, "--", "sh", "-c", 'cat "$CONVOY_CHOICES"')
        self.assertEqual(code, 0, err)
        lines = out.splitlines()
        self.assertEqual(lines[0], "convoy-choices 2")
        return lines[1:], err

    def measured(self, name, problem, times):
        """A database's rows, as another machine would send them."""
        rows = [{"problem": problem, "device": "cuda NVIDIA H200 sms=132 l2=60M mem=139G", "isa": "sm_90",
                 "driver": "580.159.04 CUDA 13.0", "threads": 1, "weights": "variable", "caches": "cold",
                 "candidate": candidate, "revision": 2, "provider": "cuDNN 9.19.0", "state": "complete",
                 "seconds": seconds, "spread": 0.01, "samples": 20, "workspace_bytes": 0, "error": 0.1,
                 "error_absolute": 1e-6, "date": "2026-11-23T00:00:00Z"} for candidate, seconds in times.items()]
        lines = [json.dumps(line) for line in [{"format": "convoy-tuning", "version": 1}, *rows]]
        return self.write(name, "\n".join(lines) + "\n")

    def test_every_flag_is_a_line(self):
        rules = self.write("some.rules", "filter=3x3 -> cudnn.eng9{k2=3}  # by name\n")
        lines, err = self.choices("--rules", rules, "--deterministic", "--engines", "*,!cudnn.eng7", "--notes", "!FFT",
                                  "--workspace-limit", "1M", "--sm-count", "66", "--strict", "--like-benchmark")
        self.assertEqual(lines, ["rule\tfilter=3x3\tcudnn.eng9{k2=3}", "filter\tengines\t*,!cudnn.eng7",
                                 "filter\tdeterministic", "filter\tnotes\t!FFT", "filter\tworkspace\t1048576",
                                 "filter\tsm-count\t66", "strict", "like-benchmark"])
        self.assertIn("no measurement of cuDNN's engines with 66 SMs, so only the flags decide", err)

    def test_a_tuner_answers_what_it_knows_and_is_gone_at_the_end(self):
        """Without a GPU that is nothing."""
        ask = ("import os, socket; s = socket.socket(socket.AF_UNIX); s.connect(os.environ['CONVOY_TUNER']); "
               f"s.sendall(b'measure\\t0\\t{PROBLEM}\\n'); print(s.makefile().read())")
        code, out, err = self.convoy("exec", "--tune", "5", "--", sys.executable, "-c", ask)
        self.assertEqual((code, out), (0, "end\n\n"), err)
        self.assertIn("convoy exec: nothing was measured while the program waited; --device cuda:0: no CUDA device", err)
        self.assertNotIn("the program chooses as ever", err)
        code, _, err = self.convoy("exec", "--tune", "soon", "true")
        self.assertEqual(code, 2)
        self.assertIn("--tune", err)

    def test_nothing_known_and_nothing_asked_for(self):
        code, out, err = self.convoy("exec", "--", "sh", "-c", "echo ${CONVOY_CHOICES-none}")
        self.assertEqual((code, out), (0, "none\n"))
        self.assertIn("the program chooses as ever", err)
        self.assertEqual(self.convoy("exec", "--no-db", "--", "true"), (0, "", ""))

    def test_databases_of_several_runs(self):
        other = PROBLEM.replace("5x5,", "7x7,")
        for name, problem in (("a", PROBLEM), ("b", other)):
            code, _, err = self.convoy("db", "import", self.measured(name, problem + ":math=reduced", {"cudnn.eng5": 2e-5, "cudnn.eng9{k2=3}": 1e-5}))
            self.assertEqual(code, 0, err)
        lines, _ = self.choices()
        self.assertEqual(lines, [f"time\tNVIDIA H200\t9.19.0\t{problem}\t{candidate}\t{seconds}"
                                 for problem in (PROBLEM, other)
                                 for candidate, seconds in (("cudnn.eng5", "2e-05"), ("cudnn.eng9{k2=3}", "1e-05"))])
        lines, err = self.choices("--objective", "energy", "--deterministic")
        self.assertEqual(lines, ["filter\tdeterministic"], "nobody has measured energy")
        self.assertIn("for the objective energy=1", err)

    def test_mistakes_end_it_before_the_program_starts(self):
        def refuses(says, *flags):
            code, out, err = self.convoy("exec", *flags, "--", "echo", "started")
            self.assertEqual((code, out), (2, ""))
            self.assertIn(says, err)
        rules = self.write("some.rules", "filter=3x3 -> cudnn.eng5\nfiltr=3x3 -> cudnn.eng5\n")
        refuses("rules line 2: 'filtr=3x3': 'filtr' is not a field; did you mean filter?", "--rules", rules)
        refuses("'cudnn.engine5' does not exist", "--rules", self.write("some.rules", "filter=3x3 -> cudnn.engine5\n"))
        refuses("--rules: " + self.path("none.rules"), "--rules", self.path("none.rules"))
        refuses("--engines: 'cudnn.en5' matches no engine", "--engines", "cudnn.en5")
        refuses("--engines: 'cuda.*' matches none of cuDNN's engines", "--engines", "cuda.*")
        refuses("--notes: 'FTT' matches no note", "--notes", "!FTT")
        refuses("--objective", "--objective", "speed")

    def test_rules_are_obeyed_and_those_that_match_nothing_are_named(self):
        rules = self.write("some.rules", "filter=5x5 -> cudnn.eng5\npass=fprop\tfilter=3x3 -> cudnn.eng9{k2=3}\n")
        code, out, err = self.convoy("exec", "--rules", rules, "--no-db", "--", PROGRAM, "2")
        self.assertEqual((code, out), (0, "ran eng9\nran eng9\n"), err)
        self.assertIn("--rules: 1 of 2 rules matched no convolution:\n  filter=5x5 -> cudnn.eng5", err)
        code, out, err = self.convoy("exec", "--rules", rules, "--no-db", "--", "true")
        self.assertIn("called no cuDNN of version 9, so no rule matched anything", err)

    def test_a_flag_that_chooses_steers_while_recording(self):
        rules = self.write("some.rules", f"{PROBLEM}:math=reduced -> cudnn.eng9{{k2=3}}\n")
        record = self.path("r.jsonl")
        code, out, err = self.convoy("exec", "--record", record, "--rules", rules, "--", PROGRAM, "1")
        self.assertEqual((code, out), (0, "ran eng9\n"), err)
        self.assertEqual(json.loads(pathlib.Path(record).read_text().splitlines()[0])["rules"][0]["obeyed"], 1)
        self.assertNotIn("matched no convolution", err)

    def test_what_cannot_be_obeyed_is_said(self):
        rules = self.write("some.rules", "filter=3x3 -> cudnn.eng7{k2=0}\n")  # it can't be built
        code, out, err = self.convoy("exec", "--rules", rules, "--no-db", "--", PROGRAM, "1")
        self.assertEqual((code, out), (0, "ran eng5\n"), err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
