"""Networks, and InferenceSession beside onnxruntime's."""
import collections
import concurrent.futures
import os
import threading
import time

import numpy as np
import pytest

import convoy
from convoy import _network

# Five models of different kinds: a classifier of digits, one with depthwise convolutions and one without, a picture as the result,
# and a volume.
MODELS = ("mnist-8", "squeezenet1.1-7", "selfie-segmentation-landscape", "super-resolution-10", "fastestdet")
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(uint8)": np.uint8}


def input_of(argument, rng, free=1):
    dims = [size if isinstance(size, int) else free for size in argument.shape]
    return rng.random(dims).astype(TYPES[argument.type])


def close(got, expected):
    largest = np.abs(expected).max() if expected.size else 0
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4 * max(largest, 1e-6))


@pytest.fixture
def zoo():
    return convoy.Network("zoo:squeezenet1_1", threads=1)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_names_shapes_and_results_as_onnxruntime(models, rng, name):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = models / name / "model.onnx"
    theirs = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for ours in (convoy.InferenceSession(str(path), providers=["CPUExecutionProvider"]), convoy.InferenceSession(path.read_bytes())):
        for mine, other in ((ours.get_inputs(), theirs.get_inputs()), (ours.get_outputs(), theirs.get_outputs())):
            assert [a.name for a in mine] == [a.name for a in other]
            assert [a.type for a in mine] == [a.type for a in other]
        assert [a.shape for a in ours.get_inputs()] == [a.shape for a in theirs.get_inputs()]
        assert ours.get_providers() == theirs.get_providers()
    feed = {argument.name: input_of(argument, rng) for argument in theirs.get_inputs()}
    expected = theirs.run(None, feed)
    got = ours.run(None, feed)
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        close(a, b)
    last = theirs.get_outputs()[-1].name
    close(ours.run([last], feed)[0], expected[-1])
    named = convoy.Network(path).run(feed)
    assert list(named) == [a.name for a in theirs.get_outputs()]
    for a, b in zip(named.values(), expected):
        close(a, b)


def test_sizes_may_change_from_run_to_run(models, rng):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = str(models / "super-resolution-10" / "model.onnx")
    ours, theirs = convoy.InferenceSession(path), onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (1, 3, 1):
        feed = {ours.get_inputs()[0].name: input_of(ours.get_inputs()[0], rng, free=batch)}
        close(ours.run(None, feed)[0], theirs.run(None, feed)[0])


def test_a_batch_may_be_empty(rng):
    """A detector's second half on a picture without objects; with objects before and after."""
    zoo = convoy.Network("zoo:squeezenet1_1", threads=2)
    for batch in (1, 0, 2):
        logits = zoo.run({"input": rng.random((batch, 3, 48, 48), dtype=np.float32)})["flatten_out"]
        assert logits.shape == (batch, 1000)
        assert np.isfinite(logits).all()


def test_a_network_says_what_it_takes(zoo):
    (value,) = zoo.inputs
    assert (value.name, value.type, value.dims) == ("input", "f32", (-1, 3, -1, -1))
    assert value.dim_names == ("N", "", "H", "W") and value.proposed_dims == (-1, 3, 224, 224)


def test_prepare_then_run_and_see_the_steps(zoo, rng):
    session = zoo.prepare({"input": (1, 3, 64, 64)})
    assert session.seconds == 0 and all(step.seconds == 0 for step in session.steps())
    assert repr(session) == f"<convoy.Session of 'zoo:squeezenet1_1': 1x3x64x64, {len(session.steps())} steps>"
    x = rng.standard_normal((1, 3, 64, 64), np.float32)
    (output,) = session.run({"input": x}).values()
    assert output.shape == (1, 1000)
    np.testing.assert_array_equal(zoo.run({"input": x})["flatten_out"], output)
    convolutions = [step for step in zoo.steps() if step.kind == "conv"]
    assert len(convolutions) == 26 and all(step.problem.startswith("fprop:x=f32") for step in convolutions)
    assert 0 < sum(step.seconds for step in session.steps()) <= session.seconds
    assert {step.threads for step in session.steps()} == {1}
    shared = convoy.Network("zoo:squeezenet1_1", threads=3, database=False).prepare({"input": (1, 3, 128, 128)})
    assert {step.threads for step in shared.steps()} in ({3}, {1, 3})
    assert session.memory["weights"] > 0
    with pytest.raises(convoy.InvalidArgument, match="has the sizes 2x3x64x64, the session was prepared for 1x3x64x64"):
        session.run({"input": np.zeros((2, 3, 64, 64), np.float32)})


def test_an_output_outlives_the_next_run(zoo, rng):
    first = zoo.run({"input": rng.standard_normal((1, 3, 64, 64), np.float32)})["flatten_out"]
    kept = first.copy()
    zoo.run({"input": rng.standard_normal((1, 3, 64, 64), np.float32)})
    np.testing.assert_array_equal(first, kept)


def test_rules_and_math_reach_the_convolutions():
    network = convoy.Network("zoo:squeezenet1_1", rules={"filter=3x3": "cpu.direct", "filter=9x9": "cpu.direct"}, database=False)
    session = network.prepare([(1, 3, 64, 64)])
    ruled = [step for step in session.steps() if step.reason and "rule" in step.reason]
    assert len(ruled) == 9 and all(step.engine.startswith("cpu.direct") for step in ruled)
    assert session.warnings == ("rule 'filter=9x9 -> cpu.direct' matched no convolution",)
    with pytest.raises(convoy.InvalidArgument, match="math='fast' is not one of strict, tf32, reduced"):
        convoy.Network("zoo:squeezenet1_1", math="fast").prepare([(1, 3, 64, 64)])


def test_a_precision_is_asked_for_or_refused():
    with pytest.raises(convoy.InvalidArgument, match="precision='s8' is not one of f32, tf32, bf16, f16"):
        convoy.Network("zoo:squeezenet1_1", precision="s8").prepare([(1, 3, 64, 64)])
    session = convoy.Network("zoo:squeezenet1_1", threads=1, database=False, precision="bf16").prepare([(1, 3, 64, 64)])
    runs_so = any("x=bf16" in (step.problem or "") for step in session.steps())
    assert runs_so or any("bf16" in warning for warning in session.warnings)  # as the processor has it


def test_a_batch_runs_as_a_whole_or_in_parts(rng):
    x = {"input": rng.standard_normal((6, 3, 64, 64), dtype=np.float32)}
    shape = [x["input"].shape]

    def network(**given):
        return convoy.Network("zoo:squeezenet1_1", threads=2, database=False, **given)

    whole = network(batch_parts="whole").prepare(shape)
    expected, = whole.run(x).values()
    assert whole.batch_parts == "whole"
    for parts, images in (("2", 2), ("3/thread", 3), ("1/thread", 1)):
        session = network(batch_parts=parts).prepare(shape)
        answer, = session.run(x).values()
        assert np.abs(answer - expected).max() < 1e-5 * np.abs(expected).max()
        assert session.batch_parts == parts
        assert all(step.output_shape.startswith(f"{images}x") for step in session.steps())
        assert not parts.endswith("thread") or all(step.threads == 1 for step in session.steps())
        plan = network(batch_parts=parts).plan(shape)
        assert f"\nparts {parts}\n" in plan
        assert network(plan=plan).prepare(shape).batch_parts == parts
    one_by_one = network(batch_parts="1").prepare(shape)
    assert 5 * one_by_one.memory["activations"] < whole.memory["activations"]
    with pytest.raises(convoy.InvalidArgument, match="batch_parts: parts of a batch: 'half' is not whole, a number"):
        network(batch_parts="half").prepare(shape)
    with pytest.raises(convoy.InvalidArgument, match="parts 4 don't make up a batch of 6 images"):
        network(batch_parts="4").prepare(shape)


def test_memory_of_activations_is_limited_or_least():
    shape = [(1, 3, 64, 64)]
    fast = convoy.Network("zoo:squeezenet1_1", threads=1, database=False, how="uniform:nchw16c").prepare(shape)
    least = convoy.Network("zoo:squeezenet1_1", threads=1, database=False, how="global", objective="memory").prepare(shape)
    assert least.memory["activations"] < fast.memory["activations"]
    limit = least.memory["activations"]
    kept = convoy.Network("zoo:squeezenet1_1", threads=1, database=False, how="global", activation_limit=limit).prepare(shape)
    assert kept.memory["activations"] <= limit
    both = convoy.Network("zoo:squeezenet1_1", threads=1, database=False, how="global", objective="time=1,memory=100").prepare(shape)
    assert both.memory["activations"] == limit
    with pytest.raises(convoy.Unsupported, match="no plan was found within 1000 bytes"):
        convoy.Network("zoo:squeezenet1_1", threads=1, database=False, how="global", activation_limit=1000).prepare(shape)
    with pytest.raises(convoy.InvalidArgument, match="activation_limit is for how='global'"):
        convoy.Network("zoo:squeezenet1_1", activation_limit=limit).prepare(shape)
    with pytest.raises(convoy.InvalidArgument, match="activation_limit=-1 is not a number of bytes"):
        convoy.Network("zoo:squeezenet1_1", how="global", activation_limit=-1)
    with pytest.raises(convoy.Unsupported, match="no choice of engines keeps less than"):
        convoy.Network("zoo:squeezenet1_1", threads=1, database=False, how="global", weight_limit=1000).prepare(shape)
    few = convoy.Network("zoo:squeezenet1_1", threads=1, database=False, how="global", weight_limit=6_000_000).prepare(shape)
    assert few.memory["weights"] <= 6_000_000
    with pytest.raises(convoy.InvalidArgument, match="objective is for how='global': 'tuned' goes by time, and by no limit"):
        convoy.Network("zoo:squeezenet1_1", objective="energy").prepare(shape)


def test_tuned_once_it_runs_by_the_plan_that_was_kept(rng, tmp_path):
    x = {"input": rng.standard_normal((1, 3, 64, 64), dtype=np.float32)}
    given = {"threads": 1, "database": tmp_path / "tuning.db"}
    network = convoy.Network("zoo:squeezenet1_1", **given)
    answer = network.run(x)
    told = []
    network.tune(x, budget=120, progress=lambda fraction, what: told.append((fraction, what)))  # some seconds, more where others have the cores
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions) and 0 <= fractions[0] and fractions[-1] <= 1
    assert any("what the lines of" in what for _, what in told)
    kept, = (tmp_path / "tuning.plans").iterdir()
    for one in (network, convoy.Network("zoo:squeezenet1_1", **given)):
        lines = [line.split("  ")[0] for line in one.plan([x["input"].shape]).splitlines() if not line.startswith("#")]
        assert lines == [line.split("  ")[0] for line in kept.read_text().splitlines() if not line.startswith("#")]
        for name, value in one.run(x).items():
            np.testing.assert_allclose(value, answer[name], rtol=1e-3, atol=1e-3)


def test_restricted_engines_are_tuned_and_no_plan_is_kept(rng, tmp_path):
    x = {"input": rng.standard_normal((1, 3, 64, 64), dtype=np.float32)}
    fractions = []
    network = convoy.Network("zoo:squeezenet1_1", threads=1, database=tmp_path / "tuning.db", engines="cpu.*")
    start = time.monotonic()
    network.tune(x, budget=5, progress=lambda fraction, what: fractions.append(fraction))
    assert 5 * fractions[-1] > 0.75 * (time.monotonic() - start)  # of the whole budget, since nothing comes after convolutions
    assert not (tmp_path / "tuning.plans").exists()


def test_tuning_ends_when_it_is_told_to(rng, tmp_path):
    x = {"input": rng.standard_normal((1, 3, 64, 64), dtype=np.float32)}

    def enough(fraction, what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convoy.Network("zoo:squeezenet1_1", threads=1, database=tmp_path / "tuning.db").tune(x, budget=0, progress=enough)
    assert not (tmp_path / "tuning.plans").exists()
    with pytest.raises(convoy.InvalidArgument, match="database is null"):
        convoy.Network("zoo:squeezenet1_1", database=False).tune(x)
    with pytest.raises(convoy.InvalidArgument, match="how='greedy': tuning finds how"):
        convoy.Network("zoo:squeezenet1_1", database=tmp_path / "tuning.db", how="greedy").tune(x)
    with pytest.raises(convoy.InvalidArgument, match="budget=-1 is not a number of seconds"):
        convoy.Network("zoo:squeezenet1_1", database=tmp_path / "tuning.db").tune(x, budget=-1)


def test_a_plan_is_written_and_obeyed(rng):
    shape = {"input": (1, 3, 64, 64)}
    x = {"input": rng.standard_normal((1, 3, 64, 64), dtype=np.float32)}
    one = convoy.Network("zoo:mobilenet_v2", threads=1, database=False, how="uniform:nhwc")
    plan = one.plan(shape)
    assert plan == one.plan([shape["input"]]) and plan.startswith("convoy-plan 1")
    other = convoy.Network("zoo:mobilenet_v2", threads=1, database=False, plan=plan)
    assert other.plan(shape) == plan
    for name, value in one.run(x).items():
        np.testing.assert_array_equal(other.run(x)[name], value)
    with pytest.raises(convoy.ConvoyError, match="the plan is for threads 1"):
        convoy.Network("zoo:mobilenet_v2", threads=2, database=False, plan=plan).prepare(shape)
    lenient = convoy.Network("zoo:mobilenet_v2", threads=2, database=False, plan=plan, lenient_plan=True).prepare(shape)
    assert any("threads" in warning for warning in lenient.warnings)


def test_a_plan_stays_within_an_error(rng):
    x = {"input": rng.standard_normal((1, 3, 64, 64), dtype=np.float32)}
    given = {"threads": 1, "database": False}
    network = convoy.Network("zoo:squeezenet1_1", precision="bf16", **given)
    exact, (name,) = convoy.Network("zoo:squeezenet1_1", **given).run(x), [value.name for value in network.outputs]
    plans = {bound: network.plan(inputs=x, max_error=bound) for bound in (0, 1)}
    assert "bf16" not in plans[0]
    for bound, plan in plans.items():
        got = convoy.Network("zoo:squeezenet1_1", plan=plan, **given).run(x)[name]
        assert np.linalg.norm(got - exact[name]) <= (bound + 1e-5) * np.linalg.norm(exact[name])
    with pytest.raises(TypeError, match="inputs and max_error together"):
        network.plan(max_error=0.1)


def test_a_plan_has_steps():
    network = convoy.Network("zoo:resnet18", threads=2, database=False, how="uniform:nchw16c")
    plan = network.plan({"input": (1, 3, 64, 64)})
    steps = plan.steps
    assert len(steps) == len(plan.partition("\n\n")[2].splitlines()) > 20
    assert {step.nodes for step in steps if step.kind == "conv"} == {s.nodes for s in network.prepare(
        {"input": (1, 3, 64, 64)}).steps() if s.kind == "conv"}
    convert, first = steps[:2]
    assert (convert.kind, convert.nodes, convert.runs_on, convert.reads) == ("convert", "input", "-", "f32,nchw")
    assert first.nodes == "stem.conv+stem.bn+stem.act" and first.writes == "f32,nchw16c" and 0 < first.seconds < 1
    assert first.known_by == "predicted" and {step.threads for step in steps} <= {None, 1}
    odd, bare = convoy.NetworkPlan('convoy-plan 1\nthreads 2\n# conv\n\n'
                                   'op  "a\\"b\\\\c\\x09 d"  Relu  f32,nhwc -> f32,nhwc  threads=1  12.5us measured  # mine\n'
                                   'relabel "t" Transpose - -> f32,nchw - -\n').steps
    assert odd == convoy.PlannedStep("op", 'a"b\\c\t d', "Relu", "f32,nhwc", "f32,nhwc", 1, 12.5e-6, "measured")
    assert bare == convoy.PlannedStep("relabel", "t", "Transpose", "-", "f32,nchw", None, None, "-")
    with pytest.raises(convoy.InvalidArgument, match="line 1: 'op x'"):
        convoy.NetworkPlan("op x").steps


def bytes_of(outputs):
    return {name: (value.shape, value.dtype, value.tobytes()) for name, value in outputs.items()}


def test_eight_threads_run_one_session(rng):
    """Of sizes that are new to it and sizes that are not: each gets the bits of the one that runs alone."""
    network = convoy.InferenceSession("zoo:squeezenet1_1", threads=1, sessions=8)
    feeds = [{"input": rng.random((1, 3, size, size), dtype=np.float32)} for size in (64, 80, 64, 96, 64, 80, 112, 64)]
    alone = convoy.InferenceSession("zoo:squeezenet1_1", threads=1, sessions=8)
    expected = [[value.tobytes() for value in alone.run(None, feed)] for feed in feeds]
    wrong, start = [], threading.Barrier(8)

    def work(own):
        start.wait()
        for run in range(12):
            index = (own + run) % len(feeds)
            if [value.tobytes() for value in network.run(None, feeds[index])] != expected[index]:
                wrong.append(index)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert not wrong
    assert len(network.network._sessions) == 4  # each size was prepared once
    session = network.network.prepare([(1, 3, 64, 64)])
    assert 1 <= session.runs_at_once <= len(os.sched_getaffinity(0))
    assert session.seconds > 0 and all(step.seconds >= 0 for step in session.steps())


def slow_sessions(monkeypatch, prepared, ready):
    """Sessions of 96x96 are begun, and wait until `ready`."""
    make = _network.Session

    def slow(network, shapes, options):
        prepared.append(shapes)
        if shapes[0][2] == 96:
            assert ready.wait(30)
        return make(network, shapes, options)

    monkeypatch.setattr(_network, "Session", slow)


def test_preparing_a_size_holds_up_those_that_ask_for_it_only(zoo, monkeypatch):
    small, large = ({"input": np.ones((1, 3, size, size), np.float32)} for size in (64, 96))
    expected = bytes_of(zoo.run(small))
    prepared, ready = [], threading.Event()
    slow_sessions(monkeypatch, prepared, ready)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(zoo.run, large) for _ in range(3)]
        while not prepared:
            time.sleep(0.01)
        assert bytes_of(zoo.run(small)) == expected
        assert not any(each.done() for each in waiting)
        ready.set()
        assert len({str(bytes_of(each.result())) for each in waiting}) == 1
    assert len(prepared) == 1


def test_who_waits_for_a_size_that_cannot_be_prepared_is_told(zoo, monkeypatch):
    tries, ready = [], threading.Event()

    def fails(*_):
        tries.append(ready.wait(30))
        raise convoy.Unsupported("not today")

    large = {"input": np.ones((1, 3, 96, 96), np.float32)}
    with monkeypatch.context() as patched, concurrent.futures.ThreadPoolExecutor(2) as pool:
        patched.setattr(_network, "Session", fails)
        waiting = [pool.submit(zoo.run, large) for _ in range(2)]
        while len(tries) + sum(each.running() for each in waiting) < 2:
            time.sleep(0.01)
        ready.set()
        for each in waiting:
            with pytest.raises(convoy.Unsupported, match="not today"):
                each.result()
    assert zoo.run(large)


def test_few_sessions_are_kept(rng):
    network = convoy.Network("zoo:squeezenet1_1", sessions=2, threads=1)
    for size in (64, 80, 96):
        network.run({"input": np.zeros((1, 3, size, size), np.float32)})
    assert [shapes[0][2] for shapes in network._sessions] == [80, 96]


@pytest.mark.parametrize(
    "inputs, kind, said",
    [
        ({}, ValueError, "input 'input' is missing"),
        ({"input": np.zeros((1, 4, 64, 64), np.float32)}, ValueError, "'input' has the sizes 1x4x64x64, the model takes [?]x3x[?]x[?]"),
        ({"input": np.zeros((3, 64, 64), np.float32)}, ValueError, "'input' has the sizes 3x64x64, the model takes"),
        ({"input": np.zeros((1, 3, 64, 64))}, TypeError, "'input' has elements of type f64, the model takes f32"),
        ({"input": np.zeros((1, 3, 64, 64), np.float32).transpose(0, 1, 3, 2)}, ValueError, "'input' has the strides"),
        ({"input": [1.0]}, TypeError, "'input' is of type list"),
        ({"input": np.zeros((1, 3, 64, 64), np.dtype(np.float32).newbyteorder())}, TypeError, "'input'.dtype=.f4 is none"),
        ({"x": 1}, ValueError, "input 'x' is given, the model's are 'input'"),
        ({"x": 1, "input": np.zeros((1, 3, 64, 64), np.float32)}, ValueError, "input 'x' is given, the model's are 'input'"),
        ([], TypeError, "inputs is of type list"),
    ],
)
def test_a_wrong_input_is_named_with_both_values(zoo, inputs, kind, said):
    with pytest.raises(kind, match=said):
        zoo.run(inputs)
    zoo.run({"input": np.zeros((1, 3, 64, 64), np.float32)})
    with pytest.raises(kind, match=said):  # where a session for these sizes is there, too
        zoo.run(inputs)


def test_inputs_of_each_kind_give_what_the_first_run_gave(zoo, rng):
    x = rng.standard_normal((1, 3, 64, 64), np.float32)
    expected = bytes_of(zoo.run({"input": x}))
    frozen = x.copy()
    frozen.flags.writeable = False
    for given in ({"input": x}, {"input": frozen}, {"input": x.view(np.recarray)}, collections.ChainMap({"input": x})):
        assert bytes_of(zoo.run(given)) == expected


def test_a_missing_or_damaged_model_is_named(tmp_path):
    with pytest.raises(convoy.NotFound, match="missing.onnx"):
        convoy.Network("missing.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"nonsense")
    with pytest.raises(convoy.ConvoyError, match="bad.onnx"):
        convoy.Network(tmp_path / "bad.onnx")
    with pytest.raises(convoy.ConvoyError):
        convoy.Network(b"nonsense")
    with pytest.raises(convoy.WrongType, match="model is of type int"):
        convoy.Network(3)
    with pytest.raises(convoy.InvalidArgument, match="shapes: 'y' is no input"):
        convoy.Network("zoo:squeezenet1_1").prepare({"y": (1,)})


def test_inference_session_takes_what_scripts_give(rng):
    options = convoy.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = convoy.GraphOptimizationLevel.ORT_ENABLE_ALL
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        session = convoy.InferenceSession("zoo:squeezenet1_1", options, providers=["CUDAExecutionProvider"], enable_fallback=False)
    assert session.get_session_options() is options and convoy.get_available_providers() == session.get_providers()
    x = rng.standard_normal((1, 64, 64, 3), np.float32).transpose(0, 3, 1, 2)  # a view, which onnxruntime takes too
    (a,), (b,) = session.run(None, {"input": x}), session.run(["flatten_out"], {"input": np.ascontiguousarray(x).tolist()})
    np.testing.assert_array_equal(a, b)
    assert repr(session.get_inputs()[0]) == "NodeArg(name='input', type='tensor(float)', shape=['N', 3, 'H', 'W'])"
    with pytest.raises(convoy.InvalidArgument, match="output_names has 'y', the model's outputs are 'flatten_out'"):
        session.run(["y"], {"input": x})
    with pytest.raises(TypeError, match="elements of type f64"):
        session.run(None, {"input": x.astype(np.float64)})


def test_large_outputs_are_the_callers_own():
    network = convoy.Network("zoo:yolo_tiny", threads=1)
    session = network.prepare({"input": (1, 3, 96, 96)})
    feeds = [{"input": np.full((1, 3, 96, 96), value, np.float32)} for value in (0.25, 0.75)]
    first, second = [session.run(feed)["transpose_out"] for feed in feeds]
    assert first.shape == (1, 189, 85) and first.ctypes.data % 64 == 0  # where nothing was copied
    kept = first.copy()
    assert not np.array_equal(first, second)
    again = session.run(feeds[0])["transpose_out"]
    del session, network
    np.testing.assert_array_equal(again, kept)
    np.testing.assert_array_equal(first, kept)
    second[:] = 0
    np.testing.assert_array_equal(again, kept)


# Whatever the model declares of an output, data decides how large it is.
@pytest.mark.parametrize("ones", [4000, 5000, 6000])
def test_a_large_output_has_the_size_that_data_gives_it(ones):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        m (float[12000] x, bool c) => (int64[1,5000] found, float[] z) {
            found = NonZero(x)
            z = If(c)<
                then_branch = t () => (float[] a) { a = Abs(x) },
                else_branch = e () => (float[] b) { b = ReduceSum<keepdims = 0>(x) }>
        }""").SerializeToString()
    network = convoy.Network(model, database=False)
    x = np.zeros(12000, np.float32)
    x[np.random.default_rng(ones).permutation(12000)[:ones]] = 1
    feed = {"x": x, "c": np.array(ones == 4000)}
    for _ in range(2):
        made = network.run(feed)
        np.testing.assert_array_equal(made["found"], [np.flatnonzero(x)])
        np.testing.assert_array_equal(made["z"], x if ones == 4000 else ones)
    with pytest.raises(convoy.Unsupported, match="known only when it has run"):
        network.run(feed, out={"found": np.empty((1, 5000), np.int64)})


def test_a_network_that_nobody_uses_is_gone_at_once():
    import gc
    import weakref

    network = convoy.Network("zoo:squeezenet1_1", database=False)
    network.run({"input": np.zeros((1, 3, 32, 32), np.float32)})
    gone = [weakref.ref(network), weakref.ref(network.prepare({"input": (1, 3, 32, 32)}))]
    gc.disable()
    try:
        del network
        assert [each() for each in gone] == [None, None]
    finally:
        gc.enable()
