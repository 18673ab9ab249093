"""Convoy as an execution provider: right answers, threads, sizes, options and errors, on models that are made here."""

import concurrent.futures
import json
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import convoy.onnxruntime

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
                 [weights("w", 8, 3, 3, 3), weights("b", 8), weights("v", 5, 8)])


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


def session(made, with_convoy=True, **options):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    if with_convoy:
        convoy.onnxruntime.add_to(settings, **options)
    return onnxruntime.InferenceSession(made, settings, enable_fallback=0)  # else a wrong option is printed, and no error


def profile(made, feeds, **options):
    """The kinds of node that each provider ran."""
    with tempfile.TemporaryDirectory() as folder:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        settings.enable_profiling = True
        settings.profile_file_prefix = f"{folder}/profile"
        convoy.onnxruntime.add_to(settings, **options)
        profiled = onnxruntime.InferenceSession(made, settings, enable_fallback=0)
        profiled.run(None, feeds)
        events = json.loads(pathlib.Path(profiled.end_profiling()).read_text())
    ran = {convoy.onnxruntime.get_ep_name(): set(), "CPUExecutionProvider": set()}
    for event in events:
        arguments = event.get("args", {})
        if "provider" in arguments:
            ran[arguments["provider"]].add(arguments["op_name"])
    return ran


def random_input(batch):
    return {"x": RANDOM.standard_normal((batch, 3, 16, 16)).astype(np.float32)}


class Provider(unittest.TestCase):
    def same(self, made, feeds, **options):
        expected = session(made, with_convoy=False).run(None, feeds)
        for got, want in zip(session(made, **options).run(None, feeds), expected):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

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
        sessions = [session(small(), threads=1) for _ in range(8)]
        answers = [each.run(None, feeds)[0] for each in sessions]
        for each in answers:
            np.testing.assert_array_equal(each, answers[0])

    def test_wrong_options_say_so(self):
        for options, words in [({"thread": 1}, "no option 'thread'.*threads"), ({"threads": "two"}, "threads='two'"),
                               ({"threads": -1}, "threads='-1'"), ({"thread_pool": "mine"}, "convoy or onnxruntime"),
                               ({"plan": "/nowhere.plan"}, "plan='/nowhere.plan'.*cannot be opened"),
                               ({"engines": "cpu.gem"}, "did you mean cpu.gemm"), ({"precision": "f17"}, "f17"),
                               ({"max_shapes": 0}, "max_shapes='0'")]:
            with self.subTest(options), self.assertRaisesRegex(Exception, words):
                session(small(), **options)

    def test_with_a_plan_of_another_network_the_runtime_goes_on_without(self):
        path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"provider-{os.getpid()}.plan"
        path.write_text("convoy-plan 1\nnetwork \"other\"\ninput \"x\" f32,1x3x16x16,nchw\nthreads 1\nisa avx2\nmath strict\n"
                        "graph 0123456789abcdef\n")
        try:
            self.same(small(1), random_input(1), plan=str(path))
            self.assertFalse(profile(small(1), random_input(1), plan=str(path))[convoy.onnxruntime.get_ep_name()])
        finally:
            path.unlink()

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


class Threads(unittest.TestCase):
    def test_on_the_runtimes_pool_no_threads_are_started(self):
        import subprocess

        code = ("import os, sys; sys.path.insert(0, %r); import provider_test as t\n"
                "plain = t.session(t.small(), with_convoy=False, ); count = lambda: len(os.listdir('/proc/self/task'))\n"
                "before = count(); s = t.session(t.small(), threads=2, thread_pool='onnxruntime')\n"
                "s.run(None, t.random_input(2)); print(count() - before)" % str(pathlib.Path(__file__).parent))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "0", done.stderr)


if __name__ == "__main__":
    unittest.main()
