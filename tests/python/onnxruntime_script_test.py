"""A script that was written for onnxruntime runs with one import changed, and gives the same."""
import numpy as np
import pytest

import convoy

# Each line of results is a call of the script's: what it gives is compared.
SCRIPT = """
import IMPORTED as ort

options = ort.SessionOptions()
options.intra_op_num_threads = 2  # run_async of onnxruntime's needs more than one
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.log_severity_level = 3
options.add_session_config_entry("session.intra_op.allow_spinning", "1")
results["config entry"] = options.get_session_config_entry("session.intra_op.allow_spinning")
ort.set_default_logger_severity(3)
ort.set_seed(1)
ort.disable_telemetry_events()

session = ort.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])
results["inputs"] = [(a.name, a.type, a.shape) for a in session.get_inputs()]
results["outputs"] = [(a.name, a.type) for a in session.get_outputs()]
results["initializers"] = session.get_overridable_initializers()
results["providers"] = session.get_providers()
results["threads"] = session.get_session_options().intra_op_num_threads
meta = session.get_modelmeta()
results["model"] = (meta.producer_name, meta.graph_name, meta.domain, meta.description, meta.graph_description,
                    meta.version % (2**63 - 1),  # which onnxruntime has where the file says nothing
                    dict(meta.custom_metadata_map))
name, out = session.get_inputs()[0].name, session.get_outputs()[0].name

results["run"] = session.run(None, {name: x})
results["one output"] = session.run([out], {name: x})
run_options = ort.RunOptions()
run_options.log_severity_level = 3
run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
results["run options"] = session.run([out], {name: x}, run_options)
results["list"] = session.run([out], {name: x.tolist()})

value = ort.OrtValue.ortvalue_from_numpy(x)
results["value"] = (value.shape(), value.data_type(), value.element_type(), value.device_name(), value.is_tensor(),
                    value.has_value(), value.data_ptr() == x.ctypes.data)
results["ort values"] = [v.numpy() for v in session.run_with_ort_values([out], {name: value})]
value.update_inplace(y)
results["updated"] = value.numpy().copy()

binding = session.io_binding()
binding.bind_cpu_input(name, x)
binding.bind_output(out)
session.run_with_iobinding(binding)
results["bound"] = binding.copy_outputs_to_cpu()
results["bound values"] = [v.numpy() for v in binding.get_outputs()]
binding.clear_binding_inputs()
binding.clear_binding_outputs()
made = ort.OrtValue.ortvalue_from_shape_and_type(list(results["run"][0].shape), np.float32)
binding.bind_input(name, "cpu", 0, np.float32, y.shape, y.ctypes.data)
binding.bind_ortvalue_output(out, made)
binding.synchronize_inputs()
session.run_with_iobinding(binding, run_options)
binding.synchronize_outputs()
results["in place"] = made.numpy().copy()
buffer = np.empty_like(results["run"][0])
binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(x))
binding.bind_output(out, "cpu", 0, np.float32, buffer.shape, buffer.ctypes.data)
session.run_with_iobinding(binding)
results["buffer"] = buffer

done = threading.Event()
def finished(found, user_data, error):
    results["async"], results["async data"], results["async error"] = found, user_data, error
    done.set()
session.run_async([out], {name: x}, finished, "mine")
results["async came"] = done.wait(60)
results["profile"] = session.end_profiling() if options.enable_profiling else ""
"""


def results_of(module, model, x, y):
    import threading

    results = {}
    exec(compile(SCRIPT.replace("IMPORTED", module), f"script with {module}", "exec"),
         {"results": results, "model": str(model), "x": x.copy(), "y": y.copy(), "np": np, "threading": threading})
    return results


def same(ours, theirs, what):
    if isinstance(theirs, np.ndarray):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), what
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max(), err_msg=what)
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), what
        for a, b in zip(ours, theirs):
            same(a, b, what)
    else:
        assert ours == theirs, what


@pytest.mark.parametrize("name", ("mnist-8", "squeezenet1.1-7"))
def test_a_script_runs_with_one_import_changed(models, rng, name):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = models / name / "model.onnx"
    declared = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs()[0].shape
    x, y = (rng.random([size if isinstance(size, int) else 1 for size in declared]).astype(np.float32) for _ in range(2))
    theirs, ours = results_of("onnxruntime", model, x, y), results_of("convoy", model, x, y)
    assert list(ours) == list(theirs) and len(theirs) >= 20
    for what, expected in theirs.items():
        same(ours[what], expected, what)


def test_misspelt_options_are_errors():
    with pytest.raises(AttributeError, match="no attribute 'intra_op_num_thread'; 'intra_op_num_threads'"):
        convoy.SessionOptions().intra_op_num_thread = 1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        convoy.RunOptions().nonsense = 1
    options = convoy.SessionOptions()
    options.optimized_model_filepath = "x.onnx"
    with pytest.raises(convoy.Unsupported, match="optimized_model_filepath='x.onnx'"):
        convoy.InferenceSession("zoo:squeezenet1_1", options)
    with pytest.raises(convoy.Unsupported, match="register_custom_ops_library"):
        options.register_custom_ops_library("ops.so")


def test_free_dimensions_are_overridden(rng):
    options = convoy.SessionOptions()
    options.add_free_dimension_override_by_name("H", 64)
    session = convoy.InferenceSession("zoo:squeezenet1_1", options)
    assert session.get_inputs()[0].shape == ["N", 3, 64, "W"]
    session.run(None, {"input": rng.random((1, 3, 64, 96), np.float32)})
    with pytest.raises(convoy.InvalidArgument, match="has 96 for 'H', which the session options say is 64"):
        session.run(None, {"input": rng.random((1, 3, 96, 64), np.float32)})
    options.add_free_dimension_override_by_name("batch", 1)
    with pytest.raises(convoy.InvalidArgument, match="'batch'.*: the model's free dimensions are 'H', 'N', 'W'"):
        convoy.InferenceSession("zoo:squeezenet1_1", options)


def test_wrong_bindings_are_named(rng):
    session = convoy.InferenceSession("zoo:squeezenet1_1")
    binding = session.io_binding()
    with pytest.raises(convoy.InvalidArgument, match="no output is bound"):
        session.run_with_iobinding(binding)
    with pytest.raises(convoy.InvalidArgument, match="'x' is no input, the model's are 'input'"):
        binding.bind_cpu_input("x", np.zeros(1))
    with pytest.raises(convoy.Unsupported, match="cuda:0"):
        binding.bind_output("flatten_out", "cuda")
    binding.bind_cpu_input("input", rng.random((1, 3, 64, 64), np.float32))
    binding.bind_ortvalue_output("flatten_out", convoy.OrtValue(np.zeros((1, 10), np.float32)))
    with pytest.raises(convoy.InvalidArgument, match="is bound to float32 of .1, 10., the model gives float32 of .1, 1000."):
        session.run_with_iobinding(binding)
    options = convoy.RunOptions()
    options.terminate = True
    with pytest.raises(convoy.ConvoyError, match="terminate"):
        session.run(None, {"input": np.zeros((1, 3, 64, 64), np.float32)}, options)
