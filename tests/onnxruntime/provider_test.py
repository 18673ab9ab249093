"""Convoy as an execution provider: right answers, threads, sizes, options and errors, on models that are made here."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import convoy.onnxruntime

HERE = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r}); import provider_test as t\n"  # of another process
RANDOM = np.random.default_rng(3)


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(name, *shape):
    values = np.random.default_rng(len(shape)).standard_normal(shape)  # the same whenever a model is made
    return onnx.numpy_helper.from_array(values.astype(np.float32), name)


def model(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "made", inputs, outputs, list(constants))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def small(batch="n"):
    """A convolution, an activation, a pool and a product, each with an attribute of another kind."""
    return model([helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], auto_pad="NOTSET"),
                  helper.make_node("LeakyRelu", ["c"], ["r"], alpha=0.1),
                  helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                  helper.make_node("GlobalAveragePool", ["p"], ["g"]), helper.make_node("Flatten", ["g"], ["f"]),
                  helper.make_node("Gemm", ["f", "v"], ["y"], transB=1)],
                 [tensor("x", [batch, 3, 16, 16])], [tensor("y", [batch, 5])],
                 [weights("w", 16, 3, 3, 3), weights("b", 16), weights("v", 5, 16)])


def parted():
    """Nodes that Convoy runs around two that it does not (a sequence), and a path beside them."""
    return model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("SequenceConstruct", ["a"], ["s"]),
                  helper.make_node("SequenceAt", ["s", "first"], ["d"]), helper.make_node("Exp", ["a"], ["e"]),
                  helper.make_node("Add", ["e", "d"], ["y"])],
                 [tensor("x", [2, 3, 3])], [tensor("y", [2, 3, 3])], [helper.make_tensor("first", TensorProto.INT64, [], [0])])


def growing():
    """A Loop whose body declares a size that is right in its first iteration alone, as exporters write it."""
    body = helper.make_graph([helper.make_node("Concat", ["a", "x"], ["b"], axis=0), helper.make_node("Identity", ["c"], ["d"])],
                             "body", [tensor("i", [], TensorProto.INT64), tensor("c", [], TensorProto.BOOL), tensor("a", [0, 4])],
                             [tensor("d", [], TensorProto.BOOL), tensor("b", ["p", "q"])])
    return model([helper.make_node("Loop", ["n", "go", "none"], ["y"], body=body)],
                 [tensor("n", [], TensorProto.INT64), tensor("x", [1, 4])], [tensor("y", ["r", 4])],
                 [helper.make_tensor("go", TensorProto.BOOL, [], [True]), helper.make_tensor("none", TensorProto.FLOAT, [0, 4], [])])


def branching():
    """An If whose branches read what nodes around it make, and a weight around it."""
    def branch(name, op):
        return helper.make_graph([helper.make_node("Conv", ["r", "w"], [f"{name}_c"], pads=[1, 1, 1, 1]),
                                  helper.make_node(op, [f"{name}_c", "r"], [name])], name, [], [tensor(name, None)])
    return model([helper.make_node("Relu", ["x"], ["r"]), helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
                  helper.make_node("Greater", ["s", "zero"], ["p"]),
                  helper.make_node("If", ["p"], ["c"], then_branch=branch("added", "Add"), else_branch=branch("subtracted", "Sub")),
                  helper.make_node("Exp", ["c"], ["y"])],
                 [tensor("x", [1, 8, 6, 6])], [tensor("y", [1, 8, 6, 6])],
                 [weights("w", 8, 8, 3, 3), helper.make_tensor("zero", TensorProto.FLOAT, [], [0])])


def version():
    return tuple(int(part) for part in onnxruntime.__version__.split(".")[:3])


def session(made, with_convoy=True, configuration=None, **options):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    for key, value in (configuration or {}).items():
        settings.add_session_config_entry(key, value)
    if with_convoy:
        convoy.onnxruntime.add_to(settings, **options)
    return onnxruntime.InferenceSession(made, settings, enable_fallback=0)  # else a wrong option is printed, and no error


def events(made, feeds, **options):
    """What ONNX Runtime writes into a profile."""
    with tempfile.TemporaryDirectory() as folder:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        settings.enable_profiling = True
        settings.profile_file_prefix = f"{folder}/profile"
        convoy.onnxruntime.add_to(settings, **options)
        profiled = onnxruntime.InferenceSession(made, settings, enable_fallback=0)
        profiled.run(None, feeds)
        return json.loads(pathlib.Path(profiled.end_profiling()).read_text())


def profile(made, feeds, **options):
    """The kinds of node that each provider ran."""
    ran = {convoy.onnxruntime.get_ep_name(): set(), "CPUExecutionProvider": set()}
    for event in events(made, feeds, **options):
        arguments = event.get("args", {})
        if "provider" in arguments and event["cat"] == "Node":
            ran[arguments["provider"]].add(arguments["op_name"])
    return ran


def random_input(batch):
    return {"x": RANDOM.standard_normal((batch, 3, 16, 16)).astype(np.float32)}


class Provider(unittest.TestCase):
    def same(self, made, feeds, **options):
        expected = session(made, with_convoy=False).run(None, feeds)
        for got, want in zip(session(made, **options).run(None, feeds), expected):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def test_free_sizes_are_tuned_when_they_come(self):
        with tempfile.TemporaryDirectory() as folder:
            database = pathlib.Path(folder) / "tuned.sqlite"

            def measurements():
                if not database.exists():
                    return 0
                with contextlib.closing(sqlite3.connect(database)) as opened:
                    return opened.execute("SELECT count(*) FROM measurements").fetchone()[0]

            made = session(small(), database=database, tune_seconds=1, threads=1)
            self.assertEqual(measurements(), 0)
            made.run(None, random_input(2))
            self.assertGreater(measurements(), 0)

    def test_answers_are_those_of_onnxruntime(self):
        self.same(small(), random_input(2), threads=1)
        self.same(small(4), random_input(4), threads=2)
        self.same(small(), random_input(0))
        self.same(parted(), {"x": RANDOM.standard_normal((2, 3, 3)).astype(np.float32)})
        self.same(growing(), {"n": np.array(5), "x": np.ones((1, 4), np.float32)})

    def test_it_is_convoy_that_runs(self):
        # By ONNX Runtime's own profile: right answers alone would also come of a provider that takes nothing.
        square = {"x": RANDOM.standard_normal((2, 3, 3)).astype(np.float32)}
        for made, feeds, others in [(small(), random_input(2), set()), (small(2), random_input(2), set()), (parted(), square, {"SequenceConstruct", "SequenceAt"})]:
            ran = profile(made, feeds)
            self.assertTrue(ran[convoy.onnxruntime.get_ep_name()], ran)
            self.assertEqual(ran["CPUExecutionProvider"], others)

    def test_convolutions_alone(self):
        self.same(small(), random_input(2), claim="convolutions")
        self.same(parted(), {"x": RANDOM.standard_normal((2, 3, 3)).astype(np.float32)}, claim="convolutions")

    def test_more_sizes_than_are_kept(self):
        few, plain = session(small(), max_shapes=2), session(small(), with_convoy=False)
        for batch in [1, 2, 3, 4, 1, 5, 2, 1]:
            feeds = random_input(batch)
            np.testing.assert_allclose(few.run(None, feeds)[0], plain.run(None, feeds)[0], rtol=1e-4, atol=1e-5)

    def test_many_threads_on_a_session(self):
        feeds = [random_input(1 + k % 3) for k in range(8)]
        for pool in ("convoy", "onnxruntime"):
            shared, plain = session(small(), threads=1, thread_pool=pool), session(small(), with_convoy=False)
            expected = [plain.run(None, each)[0] for each in feeds]
            with concurrent.futures.ThreadPoolExecutor(8) as pool_of_threads:
                for _ in range(10):
                    for got, want in zip(pool_of_threads.map(lambda each: shared.run(None, each)[0], feeds), expected):
                        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def test_many_sessions(self):
        feeds = random_input(2)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            sessions = list(pool.map(lambda _: session(small(), threads=1), range(8)))
            for _ in range(10):
                answers = list(pool.map(lambda each: each.run(None, feeds)[0], sessions))
                for each in answers:
                    np.testing.assert_array_equal(each, answers[0])
        np.testing.assert_allclose(answers[0], session(small(), with_convoy=False).run(None, feeds)[0], rtol=1e-4, atol=1e-5)

    def test_two_hundred_shapes(self):
        made = model([helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])],
                     [tensor("x", [1, 3, "h", "w"])], [tensor("y", [1, 16, "h", "w"])], [weights("w", 16, 3, 3, 3)])
        few, plain = session(made, threads=1), session(made, with_convoy=False)
        for k in range(200):
            feeds = {"x": RANDOM.standard_normal((1, 3, 4 + k % 20, 4 + k // 20)).astype(np.float32)}
            np.testing.assert_allclose(few.run(None, feeds)[0], plain.run(None, feeds)[0], rtol=1e-4, atol=1e-5)

    def test_bodies_read_what_is_around_them(self):
        for sign in (1, -1):
            feeds = {"x": (sign * (1 + RANDOM.random((1, 8, 6, 6)))).astype(np.float32)}
            self.same(branching(), feeds)
            ran = profile(branching(), feeds)
            self.assertTrue(ran[convoy.onnxruntime.get_ep_name()])
            if version() >= (1, 24, 4):  # before it, sets of nodes in two graphs get one name
                self.assertLessEqual(ran["CPUExecutionProvider"], {"If"}, ran)

    def test_compiled_models(self):
        for embedded, made in [("0", small(2)), ("1", small(2)), ("0", small()), ("1", small()), ("0", parted())]:
            with self.subTest(embedded=embedded, bytes=len(made)), tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/compiled.onnx"
                session(made, configuration={"ep.context_enable": "1", "ep.context_file_path": path, "ep.context_embed_mode": embedded})
                compiled = onnx.load(path, load_external_data=False)
                nodes = {node.op_type for node in compiled.graph.node}
                self.assertEqual(nodes - {"SequenceConstruct", "SequenceAt"}, {"EPContext"})
                self.assertEqual(bool(list(pathlib.Path(folder).glob("*.bin"))), embedded == "0")
                feeds = {"x": RANDOM.standard_normal((2, 3, 3)).astype(np.float32)} if made == parted() else random_input(2)
                expected = session(made, with_convoy=False).run(None, feeds)[0]
                np.testing.assert_allclose(session(path).run(None, feeds)[0], expected, rtol=1e-4, atol=1e-5)
                self.assertLessEqual(profile(path, feeds)["CPUExecutionProvider"], {"SequenceConstruct", "SequenceAt"})
                # On another processor the plan in it doesn't fit, and is decided anew.
                code = (f"{HERE}import numpy\nnumpy.save({folder + '/y.npy'!r}, t.session({path!r}).run(None, {{'x': numpy.load({folder + '/x.npy'!r})}})[0])")
                np.save(f"{folder}/x.npy", feeds["x"])
                subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "CONVOY_ISA": "avx2"})
                np.testing.assert_allclose(np.load(f"{folder}/y.npy"), expected, rtol=1e-4, atol=1e-5)

    def test_damaged_compiled_models_say_so(self):
        with tempfile.TemporaryDirectory() as folder:
            path, context = f"{folder}/compiled.onnx", pathlib.Path(f"{folder}/compiled_convoy_0.bin")
            session(small(2), configuration={"ep.context_enable": "1", "ep.context_file_path": path})
            whole = context.read_bytes()
            self.assertIn(b"\nconv ", whole, "a plan")
            for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:40], b"", whole.replace(b"convoy-context 1", b"convoy-context 2")):
                context.write_bytes(damaged)
                with self.assertRaisesRegex(Exception, "EPContext: "):
                    session(path)
            context.unlink()
            with self.assertRaisesRegex(Exception, "compiled_convoy_0.bin' can't be read"):
                session(path)
            compiled = onnx.load(path)
            for attribute in compiled.graph.node[0].attribute:
                if attribute.name == "ep_cache_context":
                    attribute.s = b"../elsewhere.bin"
            onnx.save(compiled, path)
            with self.assertRaisesRegex(Exception, "elsewhere.bin' is not in the model's folder"):
                session(path)
            with self.assertRaisesRegex(Exception, "can't be written"):
                session(small(2), configuration={"ep.context_enable": "1", "ep.context_file_path": "/nowhere/c.onnx"})

    @unittest.skipIf(version() < (1, 25), "older versions take no events of a provider")
    def test_profiles_have_the_steps(self):
        made = [event for event in events(small(2), random_input(2)) if event["cat"] == "Kernel"]
        self.assertTrue(any("GlobalAveragePool" in event["name"] or "Conv" in event["name"] for event in made), made)
        for event in made:
            self.assertEqual(event["args"]["provider"], convoy.onnxruntime.get_ep_name())
            self.assertIn("engine", event["args"])

    def test_wrong_options_say_so(self):
        for options, words in [({"thread": 1}, "no option 'thread'.*threads"), ({"threads": "two"}, "threads='two'"),
                               ({"threads": -1}, "threads='-1'"), ({"thread_pool": "mine"}, "convoy or onnxruntime"),
                               ({"plan": "/nowhere.plan"}, "plan='/nowhere.plan'.*cannot be opened"),
                               ({"engines": "cpu.gem"}, "did you mean cpu.gemm"), ({"precision": "f17"}, "f17"),
                               ({"max_shapes": 0}, "max_shapes='0'"), ({"max_error": 0.1}, "max_error.*precision=bf16, f16 or tf32"),
                               ({"max_error": -1, "precision": "bf16"}, "max_error='-1'")]:
            with self.subTest(options), self.assertRaisesRegex(Exception, words):
                session(small(), **options)

    def test_precision_stays_within_an_error(self):
        def wide(batch):
            nodes = [helper.make_node("Conv", [a, f"w{k}"], [b], pads=[0, 0, 0, 0]) for k, (a, b) in enumerate(["xc", "cd", "dy"])]
            return model(nodes, [tensor("x", [batch, 128, 28, 28])], [tensor("y", [batch, 128, 28, 28])],
                         [weights(f"w{k}", 128, 128, 1, 1) for k in range(3)])

        feeds = {"x": RANDOM.standard_normal((1, 128, 28, 28)).astype(np.float32)}
        expected = session(wide(1), with_convoy=False).run(None, feeds)[0]
        for made in (wide(1), wide("n")):
            errors = {}
            for bound in (None, 1, 1e-6):
                options = {"precision": "bf16", "threads": 1, **({} if bound is None else {"max_error": bound})}
                got = session(made, **options).run(None, feeds)[0]
                errors[bound] = np.linalg.norm(got - expected) / np.linalg.norm(expected)
            processor = pathlib.Path("/proc/cpuinfo").read_text()
            if "avx512" in processor:  # with AVX2 alone nothing runs in bf16
                self.assertGreater(errors[None], 1e-4)
            if "avx512_bf16" in processor:  # elsewhere it may not be worth while
                self.assertGreater(errors[1], 1e-4)
            self.assertLess(errors[1e-6], 1e-5)

    def test_with_a_plan_of_another_network_the_runtime_goes_on_without(self):
        path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"provider-{os.getpid()}.plan"
        path.write_text("convoy-plan 1\nnetwork \"other\"\ninput \"x\" f32,1x3x16x16,nchw\nthreads 1\nisa avx2\nmath strict\n"
                        "graph 0123456789abcdef\n")
        try:
            self.same(small(1), random_input(1), plan=str(path))
            self.assertFalse(profile(small(1), random_input(1), plan=str(path))[convoy.onnxruntime.get_ep_name()])
        finally:
            path.unlink()

    def test_with_a_broken_plan_the_runtime_goes_on_without_and_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "broken.plan"
            for text in ("convoy-plan 1\n", "no plan at all\n", "convoy-plan 99\nnetwork \"x\"\n"):
                path.write_text(text)
                with self.subTest(text):
                    self.same(small(1), random_input(1), plan=str(path))
                    self.assertFalse(profile(small(1), random_input(1), plan=str(path))[convoy.onnxruntime.get_ep_name()])
                    code = (f"{HERE}t.onnxruntime.set_default_logger_severity(3); s = t.onnxruntime.SessionOptions()\n"
                            f"t.convoy.onnxruntime.add_to(s, plan={str(path)!r}); t.onnxruntime.InferenceSession(t.small(1), s)")
                    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
                    self.assertRegex(done.stderr, "Convoy: plan: (line 1|it has no line)")

    def test_the_librarys_path_is_absolute(self):
        named = os.environ["CONVOY_LIBRARY"]
        try:
            os.environ["CONVOY_LIBRARY"] = os.path.relpath(named)  # ONNX Runtime would look for it beside itself
            self.assertTrue(os.path.isabs(convoy.onnxruntime.get_library_path()))
        finally:
            os.environ["CONVOY_LIBRARY"] = named

    def test_a_missing_library_and_an_old_runtime(self):
        with self.assertRaisesRegex(Exception, "nowhere"):
            onnxruntime.register_execution_provider_library("none", "/nowhere/libconvoy-ort.so")
        version = onnxruntime.__version__
        try:
            onnxruntime.__version__ = "1.22.1"
            with self.assertRaisesRegex(ImportError, "1.23.2 or newer, this is 1.22.1"):
                convoy.onnxruntime.register()
        finally:
            onnxruntime.__version__ = version
        self.same(small(), random_input(1))


class Memory(unittest.TestCase):
    def test_code_that_planning_took_is_given_back(self):
        code = (f"{HERE}s = t.session(t.small(2), threads=1); resident = 0; ours = False\n"
                "for line in open('/proc/self/smaps'):\n"
                "    if '-' in line.split()[0]: ours = 'libdnnl' in line and ' r-xp ' in line\n"
                "    elif ours and line.startswith('Rss:'): resident += int(line.split()[1])\n"
                "print(resident)")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertTrue(done.stdout.strip(), done.stderr)
        self.assertLess(int(done.stdout), 4096, "KiB of 39 MB; without it 11 MB and more")


class Threads(unittest.TestCase):
    def test_on_the_runtimes_pool_no_threads_are_started(self):
        code = ("import os, sys; sys.path.insert(0, %r); import provider_test as t\n"
                "plain = t.session(t.small(), with_convoy=False, ); count = lambda: len(os.listdir('/proc/self/task'))\n"
                "before = count(); s = t.session(t.small(), threads=2, thread_pool='onnxruntime')\n"
                "s.run(None, t.random_input(2)); print(count() - before)" % str(pathlib.Path(__file__).parent))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "0", done.stderr)


if __name__ == "__main__":
    unittest.main()
