"""convoy report: of a record beside a database, the same in text, JSON and HTML."""
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CONVOY = sys.argv[1]
LAYER = "x=bf16,2x8x5x5,nhwc,align=16:w=bf16,8x8x3x3,nhwc,align=16:y=bf16,2x8x5x5,nhwc,align=16:pad=1x1"
CLASS = "cuda NVIDIA H200 sms=132 l2=60M mem=139G"


def record(pid=1):
    graph = {"operations": "CONVOLUTION_FORWARD", "device": "NVIDIA H200"}
    ran = {"candidate": "cudnn.eng5{k2=-1}", "notes": ["TENSOR_CORE"], "calls": 10, "made": 1, "workspace_bytes": 64}
    offers = [{"candidate": "cudnn.eng9{k2=3}", "notes": ["TENSOR_CORE"]}, {"candidate": "cudnn.eng5{k2=-1}", "notes": ["TENSOR_CORE"]}]
    rows = [{"convoy_record": 1, "pid": pid, "program": "python <train>.py", "cudnn": 91900, "seconds": 1.5},
            {"problem": "fprop:" + LAYER, **graph, "calls": 10, "steered": "cudnn.eng5{k2=-1}", "plans": [ran],
             "queries": [{"mode": "instant", "asked": 1, "offers": offers}]},
            {"problem": "wgrad:" + LAYER, **graph, "calls": 3, "plans": [{**ran, "candidate": "cudnn.eng1", "calls": 3}]}]
    return "".join(json.dumps(row) + "\n" for row in rows)


class Tags(html.parser.HTMLParser):
    """Which elements are there, that they are closed in order, and the page's text."""
    EMPTY = {"meta", "input"}

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.links, self.ids, self.text = [], [], [], [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src")]
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text += data + " "


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.at = pathlib.Path(self.folder.name)
        self.record = self.at / "r.jsonl"
        self.record.write_text(record())

    def tearDown(self):
        self.folder.cleanup()

    def run_convoy(self, *arguments, **environment):
        done = subprocess.run([CONVOY, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=self.at,
                              env={**os.environ, "CONVOY_DB": str(self.at / "t.db"), **environment})
        return done.returncode, done.stdout, done.stderr

    def import_times(self, times):
        """Times of fprop, as convoy tune would have measured them."""
        rows = [{"format": "convoy-tuning", "version": 1}]
        for candidate, seconds in times.items():
            rows.append({"problem": f"fprop:{LAYER}:math=reduced", "device": CLASS, "isa": "sm_90", "driver": "580", "threads": 1,
                         "weights": "variable", "caches": "cold", "candidate": candidate, "revision": 2, "provider": "cuDNN 9.19.0",
                         "state": "complete", "seconds": seconds, "spread": 0.01, "samples": 30, "workspace_bytes": 128, "error": 0.1,
                         "error_absolute": 0.0, "rule": 2, "date": "2026-11-23T00:00:00Z"})
        (self.at / "times.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, _, err = self.run_convoy("db", "import", "times.jsonl")
        self.assertEqual(code, 0, err)

    def test_without_a_database(self):
        code, out, err = self.run_convoy("report", "r.jsonl")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("none of the calls has a time", out)
        self.assertIn("none: ", out)

    def test_text_json_and_html_say_the_same(self):
        self.import_times({"cudnn.eng5": 2e-5, "cudnn.eng9{k2=3}": 3e-5})
        code, out, err = self.run_convoy("report", "r.jsonl")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("10 of the calls (76.9%) have a time; they took 200 us", out)
        self.assertIn("gain taken 100 us (33.3%", out)
        code, out, err = self.run_convoy("report", "r.jsonl", "--json")
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        self.assertAlmostEqual(report["gain_taken"], 1e-4)
        self.assertEqual([c["used"] for c in report["convolutions"]], ["cudnn.eng5{k2=-1}", "cudnn.eng1"])
        self.assertEqual(self.run_convoy("report", "r.jsonl", "--html", "r.html", "-o", "r.json", "-o", "r.txt")[:2], (0, ""))
        self.assertEqual(json.loads((self.at / "r.json").read_text()), report)
        page = Tags((self.at / "r.html").read_text())
        self.assertEqual(page.open, [])
        self.assertIn("python <train>.py", page.text)
        self.assertIn("gain taken 100 us", page.text)
        self.assertTrue(page.links and all(link.startswith("#") and link[1:] in page.ids for link in page.links), page.links)
        self.assertEqual({"script", "table", "details"} - set(page.seen), set())

    @unittest.skipUnless(shutil.which("node"), "skipped: no node, the page's script is not run")
    def test_the_script_of_the_page_sorts_and_searches(self):
        self.assertEqual(self.run_convoy("report", "r.jsonl", "--html", "r.html")[0], 0)
        script = (self.at / "r.html").read_text().split("<script>")[1].split("</script>")[0]
        done = subprocess.run(["node", pathlib.Path(__file__).with_name("page_script_test.js")], input=script, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_layer_has_all_its_passes(self):
        self.import_times({"cudnn.eng5": 2e-5})
        code, out, err = self.run_convoy("report", "r.jsonl", "--node", "wgrad:*")
        self.assertEqual(code, 0, err)
        self.assertIn("fprop:" + LAYER, out)
        self.assertIn("wgrad:" + LAYER, out)
        self.assertEqual(self.run_convoy("report", "r.jsonl", "--node", "2")[1], out)
        code, _, err = self.run_convoy("report", "r.jsonl", "--problem", "dgrad:*")
        self.assertEqual(code, 2)
        self.assertIn("--node: 'dgrad:*' is no convolution of the record", err)

    def test_missing_twins_are_a_problem_list(self):
        self.import_times({"cudnn.eng5": 2e-5})
        self.assertEqual(self.run_convoy("report", "r.jsonl", "--twins", "twins.txt")[0], 0)
        out = (self.at / "twins.txt").read_text()
        self.assertEqual(sum(line.startswith(("10 fprop:x=bf16,2x8x5x5,nchw", "3 wgrad:")) for line in out.splitlines()), 3, out)

    def test_while_the_program_runs(self):
        for pid in (7, 8):
            (self.at / f"running.jsonl.{pid}").write_text(record(pid))
        (self.at / "running.jsonl.9.part").write_text("half a li")
        code, out, err = self.run_convoy("report", "running.jsonl")
        self.assertEqual(code, 0, err)
        self.assertIn("in 2 processes, and still runs", out)
        self.assertIn("26 calls", out)
        # What an earlier run left that was killed is older than the record.
        (self.at / "r.jsonl.5").write_text(record(5))
        os.utime(self.at / "r.jsonl.5", (1e9, 1e9))
        self.assertNotIn("still runs", self.run_convoy("report", "r.jsonl")[1])

    def test_failures_are_explained_and_get_scripts(self):
        code, _, err = self.run_convoy("report", "r.jsonl", "--diagnose", "why")
        self.assertEqual(code, 0, err)
        self.assertIn("no descriptor and no plan failed", err)
        self.assertFalse((self.at / "why").exists())
        failed = {"candidate": "cudnn.eng7", "calls": 0, "made": 1, "failure": "CUDNN_STATUS_NOT_SUPPORTED", "failure_detail": "no such tile"}
        tensor = {"descriptor": "CUDNN_BACKEND_TENSOR_DESCRIPTOR", "status": "CUDNN_STATUS_BAD_PARAM", "message": "_nbDims != _nbStrides",
                  "count": 2, "attributes": {"CUDNN_ATTR_TENSOR_DIMENSIONS": [1, 2, 3, 4], "CUDNN_ATTR_TENSOR_STRIDES": [24, 12, 4]}}
        graph = {"operations": "CONVOLUTION_FORWARD", "device": "NVIDIA H200", "calls": 0, "plans": [failed]}
        rows = [{"problem": "dgrad:" + LAYER, **graph}, {"problem": "fprop:x=s8,2x8x5x5:w=s8,8x8x3x3:y=s32,2x8x3x3:compute=s32", **graph},
                {"failure": tensor}]
        self.record.write_text(record() + "".join(json.dumps(row) + "\n" for row in rows))
        code, _, err = self.run_convoy("report", "r.jsonl", "--diagnose", "why")
        self.assertEqual(code, 0, err)
        for said in ("4 dims, but 3 strides", "_nbDims != _nbStrides", "(2 times)", "no such tile", "no script of fprop:x=s8", "x=s8"):
            self.assertIn(said, err)
        names = sorted(path.name for path in (self.at / "why").iterdir())
        self.assertEqual(len(names), 2, names)
        self.assertEqual(names[0], "diagnosis.txt")
        self.assertTrue(names[1].startswith("repro-dgrad-bf16-"), names)
        script = (self.at / "why" / names[1]).read_text()
        compile(script, names[1], "exec")
        self.assertIn("what went wrong: plan of cudnn.eng7: CUDNN_STATUS_NOT_SUPPORTED no such tile", script)
        self.assertIn("program: python <train>.py", script)

    def test_bad_input(self):
        code, _, err = self.run_convoy("report", "none.jsonl")
        self.assertEqual(code, 2)
        self.assertIn("none.jsonl", err)
        (self.at / "bad.jsonl").write_text(record()[:-20])
        code, _, err = self.run_convoy("report", "bad.jsonl")
        self.assertEqual(code, 2)
        self.assertIn("bad.jsonl:3", err)
        self.assertEqual(self.run_convoy("report", "r.jsonl", "--html", "no/such/folder/r.html")[0], 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
