"""scripts/gpu-check on a machine that need not have a GPU: its steps, how it goes on, what it loads.

    gpu_check_test.py LIBRARY PROGRAM FAKE_DRIVER      libconvoy.so, convoy, a driver without a GPU
"""
import array
import concurrent.futures
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def gpu_check():
    """scripts/gpu-check as a module, and its steps."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "scripts/gpu-check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


CHECK = gpu_check()
sys.modules.setdefault("torch", unittest.mock.MagicMock())  # nothing here computes with it
import beside_torch  # noqa: E402  where gpu-check found its steps
import convoy_c  # noqa: E402
import floor  # noqa: E402
import peers  # noqa: E402
from steps import beside, commands, generations, network_plans, networks, sm_count  # noqa: E402


def texts_in(unit):
    """The problem strings of a unit, however deep."""
    if isinstance(unit, str):
        return [unit] if unit.split(":")[0] in ("fprop", "dgrad", "wgrad") else []
    return [text for each in unit for text in texts_in(each)] if isinstance(unit, (list, tuple)) else []


class GpuCheck(unittest.TestCase):
    library = program = driver = None

    def test_units_are_the_same_each_time_and_problems(self):
        convoy, seen = convoy_c.Convoy(self.library), 0
        for name, step in CHECK.STEPS.items():
            units = step().units()
            self.assertTrue(units, name)
            self.assertEqual(json.dumps(units), json.dumps(step().units()), name)
            for text in texts_in(units):
                problem = convoy.problem(text)
                self.assertTrue(convoy.text(problem).startswith(text.split(":")[0]))
                convoy.destroy(problem)
                seen += 1
        self.assertGreater(seen, 2000)

    def test_plans_are_compared_by_their_spreads_and_predictions(self):
        plan = lambda name, over, uncertainty, predicted: {  # noqa: E731
            "name": name, "turns": 12, "seconds": over * 1e-3, "over_first": over, "over_first_uncertainty": uncertainty, "predicted_seconds": predicted * 1e-3,
            "lines": 9, "conversions": 1, "activation_bytes": 7}
        steps = [{"runs_on": "cudnn.eng1{k=2}", "reads": {"type": "f16", "layout": "nhwc"}, "seconds": 1.0, "predicted_seconds": 0.5},
                 {"runs_on": "copy", "reads": None, "seconds": 1.0, "predicted_seconds": None}]
        cell = lambda name, tuned, *plans: {"unit": [name, 1, "f16", tuned], "plans": list(plans), "steps": steps}  # noqa: E731
        greedy = plan("greedy", 1, 0, 0.9)
        rows = [cell("near", False, greedy, plan("global", 1.01, 0.02, 1.01), plan("local", 1.3, 0.01, 0.95)),
                cell("alike", False, greedy, plan("global", 1.02, 0, 0.9)),
                cell("behind", False, greedy, plan("global", 1.03, 0.01, 1.03), plan("uniform:nhwc", 0.9, 0.05, 0.95)),
                {"unit": ["lost", 1, "f16", False], "broken": {}},
                {**cell("tuned", True, plan("tuned", 1, 0, 1), plan("global", 0.99, 0.02, 1)), "tune": {"timed": None}}]
        told = network_plans.Plans().summary(rows)
        self.assertEqual((told["not_measured"], told["turns"]), ([["lost", 1, "f16", False]], 12))
        self.assertEqual(told["tuned_and_raced"], 0)
        untuned = told["untuned"]
        self.assertEqual((untuned["cells"], untuned["plans"], untuned["global_is_fastest_or_within_the_spread"]), (3, 8, 2 / 3))
        self.assertAlmostEqual(untuned["most_between_plans_of_the_same_choices"], 1.02)
        self.assertEqual([each[0] for each in untuned["global_is_slower_than"]], ["behind", "behind"])
        self.assertEqual([each[::3] for each in untuned["handed_out_is_slower_than"]], [["behind", "uniform:nhwc"]])
        self.assertEqual(untuned["predicted_within"]["share"], 7 / 8)
        self.assertEqual(untuned["predicted_within_by_plan"]["local"], 0)
        self.assertEqual((told["tuned"]["global_is_fastest_or_within_the_spread"], told["tuned"]["handed_out_is_slower_than"]), (1, []))
        self.assertEqual(told["kinds"], [{"runs_on": "cudnn.eng1 f16,nhwc", "steps": 3, "seconds": 3.0, "predicted_seconds": 1.5}])
        self.assertNotIn("steps", told["rows"][0])

    def test_the_two_apis_of_cudnn_are_compared_by_their_best(self):
        candidate = lambda engine, seconds, notes=(), status="ok": {  # noqa: E731
            "engine": engine, "candidate": engine, "seconds": seconds, "notes": list(notes), "status": status}
        entry = {"candidates": [candidate("cudnn.eng7", 1.0, ["NONDETERMINISTIC"]), candidate("cudnn.legacy.fprop1", 1.5),
                                candidate("cudnn.eng1", 2.0), candidate("cudnn.legacy.fprop0", 0.1, status="wrong_result")]}
        best = generations.best_of(entry)
        self.assertEqual((best["graph"]["seconds"], best["legacy"]["seconds"], best["legacy_right"]), (1.0, 1.5, 1))
        row = {"problem": "fprop:x=f16,1x1x1x1,nhwc:w=f16,1x1x1x1", "partial": False, **best}
        self.assertEqual(generations.ratio(row), 1.5)
        self.assertEqual(generations.ratio(row, "_deterministic"), 0.75)
        alone = {**row, "problem": "wgrad:x=f32,1x1x1x1,nchw:w=f32,1x1x1x1", "legacy": None, "legacy_deterministic": None}
        summary = CHECK.STEPS["api-generations"]().summary([{"rows": [row, alone]}, {"broken": "unit 3"}])
        self.assertEqual((summary["in_both"], summary["only_in_one"]), (1, [[alone["problem"], "graph"]]))
        self.assertAlmostEqual(summary["by_pass_type_layout"]["fprop f16 nhwc"]["least"], 1.5)
        self.assertAlmostEqual(summary["geomean_deterministic_only"], 0.75)
        self.assertEqual(summary["broken"], ["unit 3"])

    def test_the_c_interface_is_described_as_it_is(self):
        convoy = convoy_c.Convoy(self.library)
        problem = convoy.problem("fprop:x=f32,1x1x1x16,nhwc,align=4:w=f32,1x1x1x1,align=4:y=f32,1x1x1x16,nhwc,align=4")
        plan = convoy.plan(problem, "reference", "cpu")
        x, w, y = array.array("f", range(16)), array.array("f", [3]), array.array("f", [-1] * 16)
        address = lambda values: values.buffer_info()[0]  # noqa: E731
        convoy.execute(plan, convoy_c.Arguments(x=address(x), w=address(w), out=address(y)))
        self.assertEqual(list(y), [3 * value for value in range(16)])
        with self.assertRaisesRegex(RuntimeError, "stream"):  # of the arguments
            convoy.execute(plan, convoy_c.Arguments(x=address(x), w=address(w), out=address(y), stream=8))
        with self.assertRaisesRegex(RuntimeError, "device.*'gpu'"):  # of the options
            convoy.plan(problem, "reference", "gpu")
        convoy.destroy(problem, [plan])

    def test_a_step_goes_on_where_it_was_cut_off(self):
        class Counting(CHECK.harness.Step):
            """counts"""
            jobs = 2
            ran = []

            def units(self):
                return [1, 2, 3]

            def run(self, unit):
                self.ran.append(unit)
                return {"twice": 2 * unit}

            def summary(self, rows):
                return {"sum": sum(row["twice"] for row in rows)}

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            CHECK.harness.OUT = pathlib.Path(folder)
            CHECK.STEPS["counting"] = Counting
            (CHECK.harness.OUT / "results").mkdir()
            (CHECK.harness.OUT / "counting.jsonl").write_text(json.dumps({"index": 1, "twice": 4, "unit_seconds": 0.1}) + "\n")
            self.assertFalse(CHECK.run_step("counting", 0))  # no time
            self.assertEqual(Counting.ran, [])
            self.assertTrue(CHECK.run_step("counting", float("inf"), ["3"]), "other steps have their turn")
            self.assertEqual(Counting.ran, [3])
            self.assertEqual(list(CHECK.harness.OUT.glob("results/*")), [], "there is a unit left")
            self.assertTrue(CHECK.run_step("counting", float("inf")))
            self.assertEqual(sorted(Counting.ran), [1, 3])
            result = json.loads(next(CHECK.harness.OUT.glob("results/gpu-counting-*.json")).read_text())
            self.assertEqual(result["sum"], 12)

    def test_what_random_problems_need_is_compiled_before(self):
        asked, folder = [], str(ROOT / "build/no-kernels")

        def command(arguments, seconds, **environment):
            asked.append((arguments[0].name, arguments[-1], environment["CONVOY_TEST_FULL"], os.environ["CONVOY_KERNEL_CACHE"]))
            return 1 if arguments[-1].endswith("/3") else 0, "", "what it says"

        with unittest.mock.patch.object(CHECK.harness, "command", command), unittest.mock.patch.dict(os.environ), \
                contextlib.redirect_stdout(io.StringIO()) as told:
            self.assertEqual(CHECK.main(["kernels", "product-random", folder, "--only", "cuda_gemm;gemv"]), 1)
        self.assertEqual(sorted(asked), [(f"cuda_{name}_test", f"--gtest_filter=Part/*/{part}", "kernels", folder)
                                         for name in ("gemm", "gemv") for part in range(10)], "not for the sanitizers")
        self.assertEqual(told.getvalue().count("ended with 1: what it says"), 2)

    def test_the_bundles_programs_find_its_libraries(self):
        if CHECK.patchelf() is None:
            self.skipTest("no patchelf: scripts/setup bundle")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            CHECK.add(self.program, self.program.parents[1], folder)
            environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
            told = subprocess.run(["ldd", folder / "bin/convoy"], capture_output=True, text=True, check=True, env=environment).stdout
            found = dict(re.findall(r"(\S+) => (\S+)", told))
            self.assertIn("libdnnl.so.3", found)
            elsewhere = {library: path for library, path in found.items() if (folder / "lib" / library).exists() and not path.startswith(name)}
            self.assertEqual(elsewhere, {}, told)
            self.assertEqual(subprocess.run([folder / "bin/convoy", "--version"], env=environment, capture_output=True).returncode, 0)

    def test_both_ends_of_a_long_message_are_kept(self):
        self.assertEqual(sm_count.both_ends("short"), "short")
        kept = sm_count.both_ends("first " + "x" * 9000 + " last")
        self.assertTrue(kept.startswith("first") and kept.endswith("last") and len(kept) < 3100)

    def test_a_program_that_there_is_not_is_an_exit_code(self):
        self.assertEqual(CHECK.harness.command(["no-such-program"])[0], 127)

    def test_problems_whose_budget_ended_get_another_try(self):
        asked, partial = [], {"a": 1, "b": 9}  # so many tries end early

        def bench(what, texts, *flags, **environment):
            asked.append(list(texts))
            return {"problems": [{"problem": t, "partial": sum(t in each for each in asked) <= partial.get(t, 0), "candidates": []} for t in texts]}

        with unittest.mock.patch.object(CHECK.harness, "convoy", bench):
            found = CHECK.STEPS["depthwise"]().run([128, ["a", "b", "c"]])
        self.assertEqual(asked, [["a", "b", "c"], ["a", "b"], ["b"]])
        self.assertEqual([(row["problem"], row["partial"]) for row in found["rows"]], [("a", False), ("b", True), ("c", False)])

    def test_what_is_compared_with_pytorch_was_chosen_in_other_rounds(self):
        rounds = [{"torch": 3.0, "a": 1.0, "b": 2.0, "own": 0.5}] * 2 + [{"torch": 3.0, "a": 4.0, "b": 2.0, "own": 0.5}] * 2
        found = beside_torch.compared(rounds, ["a", "b"])
        self.assertEqual((found["best"], found["best_seconds"], found["torch_over_best"]), ("a", 4.0, 0.75))
        self.assertEqual(sorted(found["seconds"]), ["a", "b", "own", "torch"])

    def test_pytorch_gets_the_problem(self):
        text = "dgrad:x=bf16,2x4x9x9,nhwc:w=bf16,4x1x3x3,nhwc:y=bf16,2x4x5x5,nhwc:pad=1x1:stride=2x2:groups=4:math=reduced"
        what, tensors, window, groups, math = beside_torch.parse(text)
        self.assertEqual((what, window, groups, math), ("dgrad", [[1, 1], [2, 2], [1, 1]], 4, "reduced"))
        self.assertEqual(tensors["w"], ("bf16", [4, 1, 3, 3], "nhwc"))

    def test_plans_are_compared_by_the_knobs_that_are_chosen(self):
        entry = {"candidates": [{"candidate": "cudnn.eng5"}, {"candidate": "cudnn.eng20{k2=-1,k3=0}"}]}
        same = beside.same_plan
        self.assertEqual(same(entry, "cudnn.eng20{k3=0}")["candidate"], "cudnn.eng20{k2=-1,k3=0}")
        self.assertIsNone(same(entry, "cudnn.eng20{k2=6,k3=0}"))
        self.assertIsNone(same(entry, None))

    def test_peers_are_compared_by_the_rounds_ratios(self):
        rounds = [{"graph": {"single": 2.0, "row": 1.0}, "jit": {"single": 1.0, "row": 1.0}, "convoy": {"single": 0.5}},
                  {"graph": {"single": 4.0, "row": 1.0}, "jit": {"single": 1.0, "row": 0.5}},
                  {"graph": {"single": 6.0, "row": 1.0}, "jit": {"single": 1.0, "row": 2.0}, "convoy": {"single": 1.0}}]
        found = peers.compared(rounds)
        self.assertEqual(found["jit"]["single_over_graph"], {"median": 4.0, "least": 2.0, "most": 6.0})
        self.assertEqual(found["jit"]["row_ms"], {"median": 1000.0, "least": 500.0, "most": 2000.0})
        self.assertEqual(found["convoy"]["single_over_graph"]["median"], 5.0, "where it had a turn")
        self.assertNotIn("row_ms", found["convoy"])

    def test_peers_of_a_row_are_measured_once(self):
        row = {"peers": {"graph": {"single_ms": 1}, "jit": {"single_ms": 2}, "onnxruntime": {"not_measured": "no"}, "compile": {"relative_error": 0}}}
        self.assertEqual(peers.missing(row, ["graph", "jit", "onnxruntime", "compile", "convoy"]), ["onnxruntime", "compile", "convoy"])
        self.assertEqual(peers.missing(None, ["graph"]), ["graph"])
        new = {"peers": {"graph": {"single_ms": 9}, "onnxruntime": {"single_ms": 3}, "convoy": {"not_measured": "no"}}}
        self.assertEqual({name: each.get("single_ms") for name, each in peers.added(row, new)["peers"].items()},
                         {"graph": 1, "jit": 2, "onnxruntime": 3, "compile": None, "convoy": None})

    def test_a_floor_is_the_larger_of_arithmetic_and_memory_layer_by_layer(self):
        peaks = {"f16": 1e12, "tf32": 5e11, "f32": 1e11, "bandwidth": 1e12, "edge_seconds": 3.5e-3}
        found = [floor.Layer("a", "dense", 4e9, 1e9, 0), floor.Layer("b", "dense", 1e9, 1e9, 0.5e9), floor.Layer("c", "depthwise", 1e9, 1e9, 0)]
        kinds = floor.floor(found, "f16", peaks)
        self.assertEqual({name: round(each, 6) for name, each in kinds["by_kind_ms"].items()}, {"dense": 7, "depthwise": 10})
        self.assertEqual((round(kinds["floor_ms"], 6), round(kinds["with_edges_ms"], 6), kinds["layers"]), (17, 17.5, 3))
        self.assertEqual(round(floor.floor(found, "tf32", peaks)["by_kind_ms"]["dense"], 6), 8 + 6)
        row = {"peers": {"graph": {"single_ms": {"median": 50}, "row_ms": {"median": 34}}, "convoy": {"single_ms": {"median": 20}}, "jit": {"not_measured": "no"}}}
        self.assertEqual(floor.shares(row, 17), {"graph": 0.5, "convoy": 0.85})

    def test_rows_of_networks_are_asked_of_one_process_and_merged(self):
        script = """import json, sys, time
print(json.dumps({"device": "fake"}), flush=True)
for line in sys.stdin:
    network, type_, batch, peers = json.loads(line)
    if network == "dies": sys.exit("all is lost")
    if network == "hangs": time.sleep(60)
    ratio = {"graph": 1.0, "jit": 2.0, "convoy": 3.0}
    print(json.dumps({"network": network, "type": type_, "batch": batch, "peers": {
        name: {"row_over_graph": {"median": ratio[name]}, "single_ms": {"median": 7.0}, "row_ms": {"median": 6 / ratio[name]}} for name in ("graph", *peers)}}), flush=True)
"""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "bench/gpu").mkdir(parents=True)
            (pathlib.Path(folder) / "bench/gpu/peers.py").write_text(script)
            with unittest.mock.patch.object(CHECK.harness, "HERE", pathlib.Path(folder)):
                step = networks.Networks()
                first = step.run(["resnet50", "f16", 1, ["jit"]])
                process = CHECK.harness.PLACE.serving.process
                again = step.run(["resnet50", "f16", 1, ["convoy"]])
                self.assertIs(CHECK.harness.PLACE.serving.process, process)
                dead = step.run(["dies", "f16", 1, ["jit"]])
                step.SECONDS = 0.5
                late = step.run(["hangs", "f16", 1, ["jit"]])
                self.assertIsNone(CHECK.harness.PLACE.serving)
        self.assertIn("all is lost", dead["broken"])
        self.assertIn("exit code -9", late["broken"])
        floors = {"floor": {"peaks": {}, "rows": [{"network": "resnet50", "type": "f16", "batch": 1, "floor_ms": 0.5}]}}
        summary = step.summary([floors, first, again, dead, late])
        self.assertEqual(summary["table"], [["resnet50", "f16", 1, 0.5, {"graph": [7.0, 6.0, 0.083], "convoy": [7.0, 2.0, 0.25], "jit": [7.0, 3.0, 0.167]}]])
        self.assertEqual(summary["convoy_over_best"], {"geomean": 1.5, "least": 1.5, "each": {"resnet50 f16 1": 1.5}})
        self.assertEqual((len(summary["broken"]), summary["about"]), (2, {"device": "fake"}))

    def test_every_option_has_a_unit_and_every_unit_an_option(self):
        offers = commands.offered(self.program)
        self.assertIn("db verify", offers)
        self.assertIn("--sm-count", offers["bench"])
        self.assertIn("-o", offers["tune"])
        self.assertEqual(commands.without_unit(offers), [], "add a unit to bench/gpu/steps/commands.py")
        unknown = {what: sorted(options - offers.get(what, set())) for what, options in commands.used().items()}
        self.assertEqual({what: options for what, options in unknown.items() if options}, {}, "units with options that there aren't")
        # It can fail.
        self.assertEqual(commands.without_unit({**offers, "db shuffle": {"--twice"}, "bench": offers["bench"] | {"--new"}}),
                         ["bench --new", "db shuffle", "db shuffle --twice"])

    def test_units_are_commands_that_can_be_read(self):
        """On a driver whose GPU computes nothing: whatever goes wrong there, the command line is understood."""
        step = commands.Commands()
        environment = {"CONVOY_CUDA_DRIVER": str(self.driver), "CONVOY_CUDNN": "off", "CONVOY_NVRTC": "off", "CONVOY_NVML": "off"}
        units = [each for each in commands.all_units() if each.get("exit", 0) == 0 and not each["command"].startswith(("tune", "explain", "verify"))]
        # What all subcommands share is read by one of them.
        with unittest.mock.patch.object(CHECK.harness, "CONVOY", self.program), unittest.mock.patch.object(CHECK.harness, "multiprocessors", lambda: 7):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                for found in pool.map(lambda each: step.run({**each, "before": []}, **environment), units):
                    self.assertNotRegex(found["output"], rf"{commands.FAULTS[-1]}|not expected|not a subcommand|is required|--help\)", found["command"])

    def test_what_a_user_would_stumble_over_is_a_fault(self):
        bench = {"command": "bench {dense} --sm-count 66"}
        row = "  cudnn.eng4{k2=1}  12.3 us  1%\n"
        self.assertEqual(commands.faults_of(bench, 0, row, []), [])
        self.assertEqual(commands.faults_of(bench, 0, "", []), ["no candidate has a time"])
        self.assertEqual(commands.faults_of(bench, 0, "  cudnn.eng4  -  cudnnCreate for cuda:0: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", []),
                         [f"says {commands.FAULTS[0]}", "no candidate has a time"])
        self.assertEqual(commands.faults_of(bench, 0, "  cuda.reference  49.1 ms\n" + row, []), ["the oracle is the first"])
        self.assertEqual(commands.faults_of(bench, 4, row, []), ["exit code 4 instead of 0"])
        self.assertEqual(commands.faults_of({**bench, "exit": None}, -11, row, []), ["it did not end by itself: -11"])
        self.assertEqual(commands.faults_of({"command": "db verify", "says": ["checked [1-9]"]}, 0, "checked 0 of 0", []), ["does not say checked [1-9]"])
        self.assertEqual(commands.faults_of({"command": "tune x", "makes": ["a.rules"]}, 0, row, []), ["a.rules is not made"])
        self.assertEqual(len(commands.faults_of({"command": "verify x"}, 0, "0 right, 0 failed, 0 not checked", [])), 1)


if __name__ == "__main__":
    GpuCheck.library, GpuCheck.program, GpuCheck.driver = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(3))
    unittest.main()
