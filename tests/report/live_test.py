"""convoy exec --report and --diagnose, over a cuDNN that needs no GPU: the report while the program runs, at a signal and at its end."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CONVOY, PROGRAM, INTERPOSER = sys.argv[1:4]
FOREVER = "2000000000"  # calls


class Live(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = pathlib.Path(self.folder.name)
        self.environment = {**os.environ, "CONVOY_DB": str(self.at / "none.db")}

    def tearDown(self):
        self.folder.cleanup()

    def start(self, *arguments):
        return subprocess.Popen([CONVOY, "exec", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                cwd=self.at, env=self.environment)

    def report(self, name, wanted):
        """The report once it is there and `wanted` says yes."""
        for _ in range(600):
            path = self.at / name
            if path.exists():
                found = json.loads(path.read_text())
                if wanted(found):
                    return found
            time.sleep(0.1)
        self.fail(f"{name} is not as it should be after a minute")

    def test_a_part_is_renewed_while_the_program_runs(self):
        record = self.at / "r.jsonl"
        program = subprocess.Popen([PROGRAM, FOREVER], stdout=subprocess.DEVNULL,
                                   env={**self.environment, "LD_PRELOAD": INTERPOSER, "CONVOY_RECORD": str(record), "CONVOY_RECORD_EVERY": "0.2"})
        try:
            part, calls = pathlib.Path(f"{record}.{program.pid}"), []
            for _ in range(600):
                if part.exists():
                    calls.append(json.loads(part.read_text().splitlines()[1])["calls"])
                    if calls[-1] > calls[0]:
                        break
                time.sleep(0.1)
            self.assertGreater(calls[-1], calls[0])
        finally:
            program.kill()
            program.wait()

    def test_every_second_and_at_the_end(self):
        command = self.start("--report", "r.json", "--report", "r.html", "--every", "1s", "--", PROGRAM, FOREVER)
        first = self.report("r.json", lambda found: found["unfinished"])
        self.report("r.json", lambda found: found["calls"] > first["calls"])
        command.send_signal(signal.SIGTERM)  # for the program
        _, err = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 128 + 15)
        self.assertIn("<!doctype html>", (self.at / "r.html").read_text())
        self.assertEqual([path.name for path in self.at.iterdir() if ".jsonl" in path.name], [], "no record was asked for")

    def test_at_a_signal(self):
        self.environment["CONVOY_RECORD_EVERY"] = "0.5"
        command = self.start("--record", "r.jsonl", "--report", "r.json", "--every", "2h", "--", "sh", "-c", f"touch started; exec {PROGRAM} {FOREVER}")
        try:
            while not (self.at / "started").exists():
                time.sleep(0.05)
            self.assertFalse((self.at / "r.json").exists())
            for _ in range(600):
                command.send_signal(signal.SIGUSR2)
                if (self.at / "r.json").exists():
                    break
                self.assertIsNone(command.poll(), "the signal is not for the program, which it would end")
                time.sleep(0.1)
            self.assertTrue(json.loads((self.at / "r.json").read_text())["unfinished"])
        finally:
            command.send_signal(signal.SIGTERM)
            command.communicate(timeout=60)

    def test_at_the_end_only(self):
        command = self.start("--report", "r.json", "--diagnose", "why", "--", PROGRAM, "5")
        _, err = command.communicate(timeout=60)
        self.assertEqual(command.returncode, 0, err)
        report = json.loads((self.at / "r.json").read_text())
        self.assertEqual((report["unfinished"], report["calls"]), (False, 5))
        self.assertIn("plan of cudnn.eng7{k2=0}: CUDNN_STATUS_NOT_SUPPORTED", err)
        self.assertEqual(len(list((self.at / "why").glob("repro-fprop-bf16-*.py"))), 1)

    def test_bad_input(self):
        for flags, said in ((["--report", "no/such/r.html"], "--report no/such/r.html: there is no folder"),
                            (["--report", "."], "it is a folder"), (["--every", "5m"], "--report"),
                            (["--report", "r.html", "--every", "5 minutes"], "--every: '5 minutes' is no time"),
                            (["--report", "r.html", "--every", "0.1s"], "--every: '0.1s' is no time")):
            command = self.start(*flags, "--", PROGRAM, "1")
            _, err = command.communicate(timeout=60)
            self.assertEqual(command.returncode, 2, err)
            self.assertIn(said, err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
