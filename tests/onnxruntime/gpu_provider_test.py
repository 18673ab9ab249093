"""The provider on a GPU: a driver that needs none, whose memory is the host's, and kernels that are compiled for this processor."""

import concurrent.futures
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

FAKES = pathlib.Path(os.environ["CONVOY_FAKES"])
os.environ.update({"CONVOY_CUDA_DRIVER": str(FAKES / "fake_driver/libcuda.so.1"), "CONVOY_NVRTC": str(FAKES / "fake_nvrtc/libnvrtc.so.13"),
                   "CONVOY_KERNEL_CACHE": "off", "FAKE_MEMORY": str(256 << 20), "CONVOY_NVML": "off", "CONVOY_CUDNN": "off",
                   "CONVOY_CUBLASLT": "off"})

import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import provider_test as made  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

import convoy  # noqa: E402
import convoy.onnxruntime  # noqa: E402

NVIDIA = 0x10DE
HERE = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r}); import gpu_provider_test as t\n"  # of another process
RANDOM = np.random.default_rng(4)
WAITS = ctypes.c_int.in_dll(ctypes.CDLL(os.environ["CONVOY_CUDA_DRIVER"]), "fake_waits")


def chain(batch="n"):
    return made.model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["b"]), helper.make_node("Add", ["b", "x"], ["y"])],
                      [made.tensor("x", [batch, 3, 3])], [made.tensor("y", [batch, 3, 3])])


def summed():
    """CumSum, which only the processor runs, behind what the GPU does."""
    return made.model([helper.make_node("Exp", ["x"], ["a"]), helper.make_node("CumSum", ["a", "axis"], ["y"])],
                      [made.tensor("x", ["n", 3, 3])], [made.tensor("y", ["n", 3, 3])], [helper.make_tensor("axis", TensorProto.INT64, [], [2])])


def branching():
    def branch(op):
        return helper.make_graph([helper.make_node(op, ["r", "x"], [op])], op, [], [made.tensor(op, None)])
    return made.model([helper.make_node("Exp", ["x"], ["r"]), helper.make_node("If", ["p"], ["c"], then_branch=branch("Add"), else_branch=branch("Sub")),
                       helper.make_node("Relu", ["c"], ["y"])],
                      [made.tensor("x", [2, 3]), made.tensor("p", [], TensorProto.BOOL)], [made.tensor("y", [2, 3])])


def session(model, device="cuda:1", configuration=None, **options):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = int(os.environ.get("SEVERITY", 4))
    for key, value in (configuration or {}).items():
        settings.add_session_config_entry(key, value)
    if device != "none":
        # The stand-in doesn't compile the engines' kernels, which change layouts.
        convoy.onnxruntime.add_to(settings, device=device, how="uniform:nchw", **options)
    return onnxruntime.InferenceSession(model, settings, enable_fallback=0)


def x(batch=2):
    return RANDOM.standard_normal((batch, 3, 3)).astype(np.float32)


def on_gpu(values, index=1):
    return onnxruntime.OrtValue.ortvalue_from_numpy(values, "gpu", index, NVIDIA)


@unittest.skipIf(made.version() < (1, 24), "older versions take no operators of a provider")
class OnGpu(unittest.TestCase):
    def same(self, model, feeds, **options):
        expected, ours = session(model, "none").run(None, feeds), session(model, **options)
        for _ in range(3):  # the second run is captured as a graph, the third launches it
            for got, want in zip(ours.run(None, feeds), expected):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def test_there_is_a_device_for_each_gpu(self):
        convoy.onnxruntime.register()
        named = [each for each in onnxruntime.get_ep_devices() if each.ep_name == convoy.onnxruntime.get_ep_name("cuda")]
        self.assertEqual([each.ep_metadata["device"] for each in named], ["cuda:0", "cuda:1"])

    def test_tensors_of_the_processor(self):
        for device in ("cuda", "cuda:1"):
            self.same(chain(), {"x": x()}, device=device)
        self.same(chain(2), {"x": x()})
        self.same(chain(), {"x": x(0)})

    @unittest.skipIf(made.version() < (1, 25), "older versions take no provider of a library by name")
    def test_by_name_it_is_the_first(self):
        convoy.onnxruntime.register()
        named, values = [(convoy.onnxruntime.get_ep_name("cuda"), {"how": "uniform:nchw"}), "CPUExecutionProvider"], x()
        ours = onnxruntime.InferenceSession(chain(), providers=named, enable_fallback=0)
        self.assertEqual([each.device_id for each in ours.get_input_memory_infos()], [0])
        np.testing.assert_allclose(ours.run(None, {"x": values})[0], session(chain(), "none").run(None, {"x": values})[0], rtol=1e-5)

    def test_it_is_convoy_that_runs(self):
        settings = onnxruntime.SessionOptions()
        with tempfile.TemporaryDirectory() as folder:
            settings.enable_profiling, settings.profile_file_prefix = True, f"{folder}/profile"
            convoy.onnxruntime.add_to(settings, device="cuda:1", how="uniform:nchw")
            profiled = onnxruntime.InferenceSession(chain(2), settings)
            profiled.run(None, {"x": x()})
            text = pathlib.Path(profiled.end_profiling()).read_text()
        self.assertIn('"ConvoyCUDAExecutionProvider"', text)
        self.assertNotIn('"CPUExecutionProvider"', text)

    def test_tensors_of_the_gpu_are_not_copied_and_not_waited_for(self):
        ours, values = session(chain()), x()
        binding, given = ours.io_binding(), on_gpu(values)
        output = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 3, 3], np.float32, "gpu", 1, NVIDIA)
        binding.bind_ortvalue_input("x", given)
        binding.bind_ortvalue_output("y", output)
        enqueued = onnxruntime.RunOptions()
        enqueued.add_run_config_entry("disable_synchronize_execution_providers", "1")
        ours.run_with_iobinding(binding, enqueued)
        for _ in range(3):
            before = WAITS.value
            ours.run_with_iobinding(binding, enqueued)
            self.assertEqual(WAITS.value, before)
        before = WAITS.value
        ours.run_with_iobinding(binding)
        self.assertGreater(WAITS.value, before, "ONNX Runtime waits, where it is not told otherwise")
        np.testing.assert_allclose(output.numpy(), session(chain(), "none").run(None, {"x": values})[0], rtol=1e-5)

    @unittest.skipIf(made.version() < (1, 31), "in older versions of the processor's package 'cuda' is nobody's")
    def test_outputs_are_made_on_the_gpu_without_waiting(self):
        ours, values = session(chain()), x()
        binding, enqueued = ours.io_binding(), onnxruntime.RunOptions()
        enqueued.add_run_config_entry("disable_synchronize_execution_providers", "1")
        binding.bind_ortvalue_input("x", on_gpu(values))
        for k in range(3):
            binding.clear_binding_outputs()
            binding.bind_output("y", "cuda", 1)
            before = WAITS.value
            ours.run_with_iobinding(binding, enqueued)
            if k > 0:
                self.assertEqual(WAITS.value, before)
        self.assertEqual(binding.get_outputs()[0].device_name(), "cuda")
        np.testing.assert_allclose(binding.get_outputs()[0].numpy(), session(chain(), "none").run(None, {"x": values})[0], rtol=1e-5)

    def test_outputs_may_be_left_on_the_gpu(self):
        ours, values = session(chain()), x()
        binding = ours.io_binding()
        binding.bind_ortvalue_input("x", on_gpu(values))
        output = onnxruntime.OrtValue.ortvalue_from_shape_and_type([2, 3, 3], np.float32, "gpu", 1, NVIDIA)
        binding.bind_ortvalue_output("y", output)
        ours.run_with_iobinding(binding)
        again = ours.io_binding()  # what came out goes in
        again.bind_ortvalue_input("x", output)
        again.bind_output("y")
        ours.run_with_iobinding(again)
        plain = session(chain(), "none")
        expected = plain.run(None, {"x": plain.run(None, {"x": values})[0]})[0]
        np.testing.assert_allclose(again.copy_outputs_to_cpu()[0], expected, rtol=1e-4)

    def test_tensors_of_another_gpu_come_over(self):
        ours, values = session(chain()), x()
        binding = ours.io_binding()
        binding.bind_ortvalue_input("x", on_gpu(values, 0))
        binding.bind_output("y")
        ours.run_with_iobinding(binding)
        np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], session(chain(), "none").run(None, {"x": values})[0], rtol=1e-5)

    def test_nodes_of_others_are_given_copies(self):
        self.same(made.parted(), {"x": x()})
        for branch in (True, False):
            self.same(branching(), {"x": RANDOM.standard_normal((2, 3)).astype(np.float32), "p": np.array(branch)})

    def test_a_step_on_the_processor_is_waited_for(self):
        self.same(summed(), {"x": x()})
        code = f"{HERE}t.session(t.summed())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "SEVERITY": "2"}, check=True)
        self.assertRegex(done.stderr, "runs wait for copies.*CumSum.*on the processor")

    def test_many_sizes_and_no_memory_that_stays(self):
        ours, plain = session(chain(), max_shapes=2), session(chain(), "none")
        for batch in [1, 2, 3, 1, 5, 200000, 2, 200000] + [100000] * 40:  # 7 MB each, of 256
            feeds = {"x": x(batch)}
            np.testing.assert_allclose(ours.run(None, feeds)[0], plain.run(None, feeds)[0], rtol=1e-4, atol=1e-5)

    def test_more_memory_than_there_is_is_an_error(self):
        ours = session(chain())
        with self.assertRaises(Exception):
            ours.run(None, {"x": np.zeros((8 << 20, 3, 3), np.float32)})
        values = x()
        np.testing.assert_allclose(ours.run(None, {"x": values})[0], session(chain(), "none").run(None, {"x": values})[0], rtol=1e-5)

    def test_many_threads(self):
        ours, plain = session(chain()), session(chain(), "none")
        feeds = [{"x": x(1 + k % 3)} for k in range(8)]
        expected = [plain.run(None, each)[0] for each in feeds]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for _ in range(10):
                for got, want in zip(pool.map(lambda each: ours.run(None, each)[0], feeds), expected):
                    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def test_compiled_models(self):
        with tempfile.TemporaryDirectory() as folder:
            path, feeds = f"{folder}/compiled.onnx", {"x": x()}
            session(chain(2), configuration={"ep.context_enable": "1", "ep.context_file_path": path})
            expected = session(chain(2), "none").run(None, feeds)[0]
            for device in ("cuda:1", "cpu"):  # there the plan in it doesn't fit, and is decided anew
                np.testing.assert_allclose(session(path, device).run(None, feeds)[0], expected, rtol=1e-5)

    def test_an_error_of_precision_is_measured(self):
        ours, feeds = session(chain(), precision="f16", max_error=1), {"x": x()}
        np.testing.assert_allclose(ours.run(None, feeds)[0], session(chain(), "none").run(None, feeds)[0], rtol=1e-2, atol=1e-2)

    def test_wrong_devices_and_options_say_so(self):
        with self.assertRaisesRegex(convoy.InvalidArgument, "cuda:7: there is cuda:0 to cuda:1"):
            session(chain(), "cuda:7")
        with self.assertRaisesRegex(Exception, "no option 'thread'.*threads"):
            session(chain(), thread=1)
        convoy.onnxruntime.register()
        settings = onnxruntime.SessionOptions()
        named = [each for each in onnxruntime.get_ep_devices() if each.ep_name == convoy.onnxruntime.get_ep_name("cuda")]
        settings.add_provider_for_devices(named, {})
        with self.assertRaisesRegex(Exception, "a session takes one GPU, given are cuda:0, cuda:1"):
            onnxruntime.InferenceSession(chain(), settings, enable_fallback=0)

    def test_without_a_driver(self):
        code = (f"{HERE}import os; os.environ['CONVOY_CUDA_DRIVER'] = 'off'\n"
                "try: t.session(t.chain())\nexcept t.convoy.Unsupported as error: print(error)\n"
                "print(t.session(t.chain(), 'none').run(None, {'x': t.x()})[0].shape)")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"(?s)no CUDA device.*\(2, 3, 3\)")


class OnOldVersions(unittest.TestCase):
    @unittest.skipIf(made.version() >= (1, 24), "it is new enough")
    def test_they_say_so(self):
        with self.assertRaisesRegex(ImportError, "1.24 or newer for device='cuda'"):
            session(chain(), "cuda")


if __name__ == "__main__":
    unittest.main()
