"""The page of convoy report MODEL, opened in a headless Chromium: nothing goes wrong, tables sort and search, drawings are complete and
can be read, on a desk, on a phone and in print. With a folder as argument it also leaves pictures there."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import numpy
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import chromium  # noqa: E402

CONVOY = os.path.abspath(os.environ["CONVOY"])
DESK, PHONE = (1280, 900), (390, 844)

NODES = 'document.querySelector("#nodes ~ .searched table")'
SEARCH = 'document.querySelector("#nodes + input")'


def large_network(path, blocks):
    """Three steps a block, that can't be fused: a pool, two convolutions beside each other; and a Concat, in place in nchw."""
    helper, random = onnx.helper, numpy.random.default_rng(1)
    nodes, constants, value = [], [], "x"
    for i in range(blocks):
        nodes.append(helper.make_node("MaxPool", [value], [f"p{i}"], f"block{i}.pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        for side, size in (("a", 1), ("b", 3)):
            weights = (random.standard_normal((4, 8, size, size)) / 8).astype(numpy.float32)
            constants.append(onnx.numpy_helper.from_array(weights, f"w{i}{side}"))
            nodes.append(helper.make_node("Conv", [f"p{i}", f"w{i}{side}"], [f"c{i}{side}"], f"block{i}.conv_{side}",
                                          kernel_shape=[size, size], pads=[size // 2] * 4))
        nodes.append(helper.make_node("Concat", [f"c{i}a", f"c{i}b"], [f"y{i}"], f"block{i}.concat", axis=1))
        value = f"y{i}"
    tensor = lambda name: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8, 16, 16])
    graph = helper.make_graph(nodes, "large", [tensor("x")], [tensor(value)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = pathlib.Path(cls.folder.name)
        large_network(cls.at / "large.onnx", 170)
        cls.pages = {}
        for name, subject in (("resnet18", ["zoo:resnet18", "global", "local", "uniform:nchw", "uniform:nhwc", "--peer", "another=50ms"]),
                              ("densenet121", ["zoo:densenet121", "global", "local"]), ("large", [str(cls.at / "large.onnx"), "greedy", "uniform:nchw"])):
            outputs = [cls.at / f"{name}.html", cls.at / f"{name}.json"]
            done = subprocess.run([CONVOY, "report", *subject, "--threads", "1", "--no-db", "--rounds", "5" if name == "resnet18" else "2",
                                   "-o", outputs[0], "-o", outputs[1]], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            cls.pages[name] = (outputs[0], json.loads(outputs[1].read_text()))
        cls.browser = chromium.Chromium()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def open(self, name, size=DESK, dark=False):
        self.browser.open(self.pages[name][0], *size, dark=dark)
        self.assertEqual(self.browser.messages, [])
        return self.pages[name][1]

    def run_in_page(self, script):
        value = self.browser.run(script)
        self.assertEqual(self.browser.messages, [])
        return value

    def test_what_goes_wrong_in_a_page_is_heard(self):
        for script in ("console.error('one')", "throw new Error('two')", "document.createElement('img').src = 'https://example.invalid/a.png'"):
            (self.at / "wrong.html").write_text(
                f"<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; script-src 'unsafe-inline'\"><script>{script}</script>")
            self.browser.open(self.at / "wrong.html")
            self.browser.run("new Promise(done => setTimeout(done, 100))")
            self.assertNotEqual(self.browser.messages, [], script)

    def test_nothing_goes_wrong_and_nothing_sticks_out(self):
        for name in self.pages:
            for size, dark in ((DESK, False), (PHONE, True)):
                self.open(name, size, dark)
                self.assertEqual(self.run_in_page("document.documentElement.scrollWidth"), size[0], (name, size))
        background = self.run_in_page("getComputedStyle(document.body).backgroundColor")
        self.open("resnet18")
        self.assertNotEqual(self.run_in_page("getComputedStyle(document.body).backgroundColor"), background)

    def column(self, head):
        """Of the nodes that are shown, what the column has, and what it is sorted by."""
        return self.run_in_page(f"""(() => {{
          const table = {NODES}, at = [...table.tHead.rows[0].cells].findIndex(cell => cell.textContent === {json.dumps(head)});
          return [...table.tBodies[0].rows].filter(row => row.offsetParent !== null).map(row => row.cells[at])
            .map(cell => cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v));
        }})()""")

    def click(self, head):
        self.run_in_page(f"""[...{NODES}.tHead.rows[0].cells].find(cell => cell.textContent === {json.dumps(head)}).querySelector("button").click()""")

    def test_a_click_sorts(self):
        report = self.open("resnet18")
        times = [step["seconds"] for step in report["plans"][0]["steps"]]
        self.assertEqual(self.column("time"), times)
        self.click("time")
        self.assertEqual(self.column("time"), sorted(times, reverse=True))
        self.click("time")
        self.assertEqual(self.column("time"), sorted(times))
        self.assertNotEqual(times, sorted(times))
        self.click("nodes")
        names = self.column("nodes")
        self.assertEqual(names, sorted(names, key=str.lower))
        self.assertEqual(sorted(names), sorted(step["nodes"] for step in report["plans"][0]["steps"]))

    def search(self, text):
        self.run_in_page(f"""(() => {{ const box = {SEARCH}; box.value = {json.dumps(text)}; box.dispatchEvent(new Event("input")); }})()""")

    def test_the_box_searches(self):
        names = [step["nodes"] for step in self.open("resnet18")["plans"][0]["steps"]]
        self.search("layer2")
        found = self.column("nodes")
        self.assertEqual(found, [name for name in names if "layer2" in name])
        self.assertTrue(0 < len(found) < len(names))
        self.search("layer2 no-such-word")
        self.assertEqual(self.column("nodes"), [])
        self.search("")
        self.assertEqual(self.column("nodes"), names)

    def boxes(self, drawing=0):
        return self.run_in_page(f"""[...document.querySelectorAll("svg.network")[{drawing}].querySelectorAll(".node")].map(node => {{
          const box = node.querySelector(".box").getBoundingClientRect(), view = node.ownerSVGElement.viewBox.baseVal;
          const scale = node.ownerSVGElement.getBoundingClientRect().width / view.width;
          return {{left: box.left / scale, right: box.right / scale, top: box.top / scale, bottom: box.bottom / scale, kinds: node.getAttribute("class"),
                   name: node.dataset.name, size: scale * 12, texts: [...node.querySelectorAll("text")].map(text => text.getBoundingClientRect().width / scale)}};
        }})""")

    def test_the_whole_network_is_drawn_and_can_be_read(self):
        for name in self.pages:
            for size in (DESK, PHONE):
                report = self.open(name, size)
                steps = report["plans"][0]["steps"]
                if name == "large":
                    self.assertGreaterEqual(len(steps), 500)
                boxes = self.boxes()
                self.assertEqual(len(boxes), len(steps) + 1)  # the network's input
                self.assertEqual([box["name"] for box in boxes[:-1]], [step["nodes"] for step in steps])
                self.assertEqual(sum("convert" in box["kinds"] for box in boxes), report["plans"][0]["conversions"])
                edges = self.run_in_page('document.querySelector("svg.network").querySelectorAll(".edge").length')
                self.assertEqual(edges, sum(len(step["inputs"]) for step in steps))
                for box in boxes:
                    self.assertGreaterEqual(box["size"], 9, "letters of so many pixels")
                    for width in box["texts"]:
                        self.assertLessEqual(width, box["right"] - box["left"], box["name"])
                boxes.sort(key=lambda box: box["top"])
                for i, box in enumerate(boxes):
                    for other in boxes[i + 1:]:
                        if other["top"] >= box["bottom"]:
                            break
                        self.assertTrue(other["left"] >= box["right"] or other["right"] <= box["left"], (box["name"], other["name"]))

    def test_a_large_network_is_there_soon(self):
        begin = time.monotonic()
        self.open("large")
        self.assertLess(time.monotonic() - begin, 30)

    def test_plans_side_by_side(self):
        report = self.open("resnet18")
        heads = lambda: self.run_in_page('[...document.querySelectorAll(".graphs h3")].map(head => head.textContent.split(":").slice(0, -1).join(":"))')
        shown = heads()
        self.assertEqual(len(shown), 2)
        self.assertEqual(shown[0], "global")
        self.run_in_page('document.getElementById("beside").click()')
        self.assertEqual(heads(), ["global"])
        which = [plan["name"] for plan in report["plans"]].index("uniform:nchw")
        self.run_in_page(f"""(() => {{ const box = document.querySelector("#graph select"); box.value = {which}; box.dispatchEvent(new Event("change")); }})()""")
        self.assertEqual(heads(), ["uniform:nchw"])
        kinds = {kind for box in self.boxes() for kind in box["kinds"].split()}
        self.assertIn("row-major", kinds)
        self.assertNotIn("channels-last", kinds)

    def test_finding_a_node(self):
        steps = self.open("large")["plans"][0]["steps"]
        name = steps[len(steps) - 10]["nodes"]
        self.run_in_page(f"""(() => {{ const box = document.getElementById("find"); box.value = {json.dumps(name)}; box.dispatchEvent(new Event("input")); }})()""")
        self.assertTrue(self.run_in_page("""(() => {
          const node = document.querySelector(".node.chosen .box").getBoundingClientRect(), pane = document.querySelector(".scroll").getBoundingClientRect();
          return node.top >= pane.top && node.bottom <= pane.bottom;
        })()"""))
        self.assertIn(name, self.run_in_page('document.querySelector(".detail").textContent'))

    def test_drawings_have_a_bar_for_each_plan_and_memory_for_each_step(self):
        report = self.open("resnet18")
        self.assertEqual(self.run_in_page('document.querySelectorAll("#times .measured").length'), len(report["plans"]))
        self.assertEqual(self.run_in_page('document.querySelectorAll("#times .peer").length'), 1)
        self.assertEqual(self.run_in_page('document.querySelectorAll("#live title").length'), len(report["plans"][0]["steps"]))

    def test_the_words_of_drawings_are_whole(self):
        """Also on a phone: what a drawing says lies inside it."""
        for name in self.pages:
            for size in (DESK, PHONE):
                self.open(name, size)
                outside = self.run_in_page("""[...document.querySelectorAll("#times svg text, #live svg text")].filter(text => {
                  const word = text.getBoundingClientRect(), drawing = text.ownerSVGElement.getBoundingClientRect();
                  return word.left < drawing.left - 1 || word.right > drawing.right + 1 || word.bottom > drawing.bottom + 1;
                }).map(text => text.textContent)""")
                self.assertEqual(outside, [], (name, size))
        self.assertIn("planned in all", self.run_in_page('document.querySelector("#live").textContent'))

    def test_refusals_are_a_click_away(self):
        self.open("resnet18")
        self.run_in_page(f"""{NODES}.querySelector("a[href='#p2']").click()""")
        self.run_in_page("new Promise(done => setTimeout(done, 200))")
        self.assertTrue(self.run_in_page('document.getElementById("p2").open'))
        self.assertFalse(self.run_in_page('document.getElementById("p1").open'))

    def test_print(self):
        self.open("resnet18")
        self.browser.print(self.at / "page.pdf")
        pdf = (self.at / "page.pdf").read_bytes()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(len(pdf), 50_000)
        self.browser.call("Emulation.setEmulatedMedia", media="print")
        self.assertEqual(self.run_in_page('getComputedStyle(document.querySelector(".controls")).display'), "none")
        self.browser.call("Emulation.setDeviceMetricsOverride", width=1080, height=700, deviceScaleFactor=1, mobile=False)  # a landscape page
        self.assertLessEqual(self.run_in_page("document.documentElement.scrollWidth"), 1080)
        self.browser.call("Emulation.setEmulatedMedia", media="")

    def test_pictures(self):
        if len(PICTURES) == 0:
            self.skipTest("no folder for pictures is given")
        for name in self.pages:
            for what, size, dark in (("desk", (1280, 1400), False), ("phone", (390, 844), True)):
                self.open(name, size, dark)
                self.browser.picture(pathlib.Path(PICTURES[0]) / f"{name}-{what}.png")
                self.run_in_page('document.querySelector("#network").scrollIntoView()')
                self.browser.picture(pathlib.Path(PICTURES[0]) / f"{name}-{what}-network.png")


PICTURES = sys.argv[1:]
if chromium.path() is None:
    print("skipped: there is no chromium (scripts/setup test installs it)")
    sys.exit(77)
unittest.main(argv=sys.argv[:1])
