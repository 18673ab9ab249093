"""Lists of tensors and optional values beside onnxruntime, and random numbers, which are the same in each run."""
import numpy as np
import pytest

import convoy

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
X = np.arange(24, dtype=np.float32).reshape(4, 6)
# By name: the text of a model, as onnx.parser reads it, and the feeds of each run.
CASES = {
    "parts of one, read from both ends": ("""
m (float[N,6] x) => (float y, float z, int64 n) {
  s = SplitToSequence(x)
  first = Constant<value_int = 0>()
  last = Constant<value_int = -1>()
  y = SequenceAt(s, first)
  z = SequenceAt(s, last)
  n = SequenceLength(s)
}""", [{"x": X}, {"x": X[:1]}]),
    "parts without their dim": ("""
m (float[4,N] x) => (float y) {
  s = SplitToSequence<axis = -1, keepdims = 0>(x)
  y = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}""", [{"x": X}, {"x": X[:, :3]}]),
    "parts of a size, the last smaller": ("""
m (float[N,6] x) => (float y) {
  three = Constant<value_int = 3>()
  s = SplitToSequence<axis = 0>(x, three)
  at = Constant<value_int = 1>()
  y = SequenceAt(s, at)
}""", [{"x": X}]),
    "parts of given sizes, one taken out and one put in": ("""
m (float[4,6] x) => (float y) {
  sizes = Constant<value_ints = [1, 2, 3]>()
  s = SplitToSequence<axis = 1>(x, sizes)
  one = Constant<value_int = 1>()
  shorter = SequenceErase(s, one)
  twice = Add(x, x)
  longer = SequenceInsert(shorter, twice, one)
  all = SequenceInsert(longer, x)
  last = SequenceErase(all)
  y = ConcatFromSequence<axis = 1>(last)
}""", [{"x": X}]),
    "a list that a Loop fills": ("""
m (float[4,6] x, int64 unused) => (float y) {
  empty = SequenceEmpty()
  three = Constant<value_int = 3>()
  go = Constant<value = bool {1}>()
  s = Loop(three, go, empty)<body = b (int64 i, bool c, seq(float) list) => (bool c2, seq(float) more) {
    c2 = Identity(c)
    f = Cast<to = 1>(i)
    row = Mul(x, f)
    more = SequenceInsert(list, row)
  }>
  y = ConcatFromSequence<axis = 0>(s)
}""", [{"x": X, "unused": np.array(0)}]),
    "a Loop with a trip for each tensor of a list": ("""
m (float[N,6] x) => (float y) {
  s = SplitToSequence<axis = 0>(x)
  n = SequenceLength(s)
  go = Constant<value = bool {1}>()
  zero = Constant<value = float {0.0}>()
  y = Loop(n, go, zero)<body = b (int64 i, bool c, float h) => (bool c2, float sum) {
    c2 = Identity(c)
    row = SequenceAt(s, i)
    sum = Add(h, row)
  }>
}""", [{"x": X}, {"x": X[:2]}]),
    "which of equal tensors data decides": ("""
m (float[4,6] x, int64 at) => (float y) {
  s = SplitToSequence<axis = 0>(x)
  y = SequenceAt(s, at)
}""", [{"x": X, "at": np.array(2)}, {"x": X, "at": np.array(-1)}]),
    "a position in a tensor of one dim": ("""
m (float[4,6] x, int64[K] at) => (float y) {
  s = SplitToSequence<axis = 0>(x)
  y = SequenceAt(s, at)
}""", [{"x": X, "at": np.array([2])}, {"x": X, "at": np.array([-1])}]),
    "the branch of a constant If gives a list": ("""
m (float[4,6] x) => (float y) {
  c = Constant<value = bool {1}>()
  s = If(c)<
    then_branch = t () => (seq(float) a) { a = SequenceConstruct(x, x) },
    else_branch = e () => (seq(float) b) { b = SplitToSequence(x) }>
  y = ConcatFromSequence<axis = 0>(s)
}""", [{"x": X}]),
    "a body for each tensor of two lists": ("""
m (float[N,6] x, float[6] bias) => (float y, float z) {
  s = SplitToSequence<axis = 0>(x)
  t, u = SequenceMap<body = b (float[P,Q] row, float[P,Q] other, float[R] add) => (float[P,Q] sum, float[P,Q] neg) {
    h = Mul(row, other)
    sum = Add(h, add)
    out = Add(sum, bias)
    neg = Neg(out)
  }>(s, s, bias)
  y = ConcatFromSequence<axis = 0>(t)
  z = ConcatFromSequence<axis = 0>(u)
}""", [{"x": X, "bias": X[0]}, {"x": X[:2], "bias": X[1]}]),
    "optional values": ("""
m (float[4,6] x) => (float y, bool has, bool hasnt) {
  o = Optional(x)
  none = Optional<type = float>()
  has = OptionalHasElement(o)
  hasnt = OptionalHasElement(none)
  y = OptionalGetElement(o)
}""", [{"x": X}]),
}


def model_of(text):
    return onnx.parser.parse_model(HEAD + text).SerializeToString()


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name):
    text, feeds = CASES[name]
    model = model_of(text.replace("<type = float>", ""))
    if "Optional()" in text or "<type = float>" in text:
        # The parser has no attributes of types.
        proto = onnx.load_from_string(model)
        node = next(n for n in proto.graph.node if n.op_type == "Optional" and not n.input)
        node.attribute.append(onnx.helper.make_attribute("type", onnx.helper.make_tensor_type_proto(1, [4, 6])))
        model = proto.SerializeToString()
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    ours = convoy.InferenceSession(model)
    for feed in feeds:
        for value, got in zip(theirs.run(None, feed), ours.run(None, feed)):
            assert got.dtype == value.dtype and got.shape == value.shape
            np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("text, message", [
    ("m (float[4,6] x) => (float y) {\n s = SplitToSequence(x)\n at = Constant<value_int = 4>()\n y = SequenceAt(s, at)\n}",
     "position 4 in a sequence of 4 tensors"),
    ("m (float[4,6] x, int64 at) => (float y) {\n s = SequenceConstruct(x, at)\n y = SequenceAt(s, at)\n}", "data decides"),
    ("m (float[4,6] x, bool c) => (float y) {\n s = If(c)<then_branch = t () => (seq(float) a) { a = SequenceEmpty() }, "
     "else_branch = e () => (seq(float) b) { b = SplitToSequence(x) }>\n y = ConcatFromSequence<axis = 0>(s)\n}",
     "data decides"),
    ("m (float[4,6] x) => (float y) {\n s = SequenceEmpty()\n y = ConcatFromSequence<axis = 0>(s)\n}",
     "the sequence is empty"),
    ("m (float[4,6] x) => (seq(float) y) {\n y = SplitToSequence(x)\n}", "graph output 'y': only tensors are supported"),
])
def test_what_is_refused_is_named(text, message):
    with pytest.raises(convoy.ConvoyError, match=message):
        session = convoy.InferenceSession(model_of(text))
        feed = {"x": X, "at": np.array(0), "c": np.array(True)}
        session.run(None, {key.name: feed[key.name] for key in session.get_inputs()})


def test_random_numbers():
    text = """
m (float[N] x, float[2,3] weights) => (float n, float l, float u, float s, int32 b, int64 c) {
  n = RandomNormal<shape = [100, 1000], mean = 2.0, scale = 3.0>()
  l = RandomNormalLike<seed = 1.0>(x)
  u = RandomUniformLike<low = -1.0, high = 3.0>(x)
  s = RandomNormalLike<seed = 1.0>(x)
  half = Constant<value = float {0.25}>()
  p = Mul(x, half)
  b = Bernoulli<dtype = 6>(p)
  c = Multinomial<sample_size = 50000, dtype = 7>(weights)
}"""
    weights = np.log(np.array([[1, 2, 5], [4, 4, 0]], np.float64) + 1e-300).astype(np.float32)
    feed = {"x": np.ones(100000, np.float32), "weights": weights}
    session = convoy.InferenceSession(model_of(text))
    first = dict(zip("nlusbc", session.run(None, feed)))
    for value, again in zip(first.values(), session.run(None, feed)):
        np.testing.assert_array_equal(value, again)
    assert first["n"].shape == (100, 1000) and abs(first["n"].mean() - 2) < 0.05 and abs(first["n"].std() - 3) < 0.05
    np.testing.assert_array_equal(first["l"], first["s"])
    assert abs(first["l"].mean()) < 0.02 and abs(first["l"].std() - 1) < 0.02
    assert -1 <= first["u"].min() < -0.99 and 2.99 < first["u"].max() <= 3 and abs(first["u"].mean() - 1) < 0.02
    assert first["b"].dtype == np.int32 and set(first["b"]) == {0, 1} and abs(first["b"].mean() - 0.25) < 0.01
    assert first["c"].dtype == np.int64 and first["c"].shape == (2, 50000)
    shares = np.stack([np.bincount(row, minlength=3) / row.size for row in first["c"]])
    np.testing.assert_allclose(shares, [[0.125, 0.25, 0.625], [0.5, 0.5, 0]], atol=0.01)


def test_each_trip_draws_its_own_numbers():
    text = """
m (float[1000] x) => (float y) {
  three = Constant<value_int = 3>()
  go = Constant<value = bool {1}>()
  y = Loop(three, go)<body = b (int64 i, bool c) => (bool c2, float row) {
    c2 = Identity(c)
    row = RandomNormalLike(x)
  }>
}"""
    rows, = convoy.InferenceSession(model_of(text)).run(None, {"x": np.ones(1000, np.float32)})
    correlations = np.corrcoef(rows)
    assert np.abs(correlations - np.eye(3)).max() < 0.2


def test_infinite_weights():
    text = """
m (float[3,3] x) => (int64 y) {
  y = Multinomial<sample_size = 10000, dtype = 7>(x)
}"""
    inf = np.inf
    x = np.array([[0, inf, 0], [inf, 1, inf], [0, -inf, -inf]], np.float32)
    drawn, = convoy.InferenceSession(model_of(text)).run(None, {"x": x})
    shares = np.stack([np.bincount(row, minlength=3) / row.size for row in drawn])
    np.testing.assert_allclose(shares, [[0, 1, 0], [0.5, 0, 0.5], [1, 0, 0]], atol=0.02)
