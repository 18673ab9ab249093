"""If, Loop and Scan beside onnxruntime: each model in one session, for several values and sizes."""
import os
import subprocess

import numpy as np
import pytest

import convoy

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

HEAD = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1, "com.microsoft" : 1]>\n'
# By name: the text of a model, as onnx.parser reads it, and the feeds.
CASES = {}


def case(name, text, *feeds):
    CASES[name] = (HEAD + text, feeds)


def reals(*dims, seed=0):
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def count(value):
    return np.array(value, np.int64)


def flag(value):
    return np.array(value)


X = reals(2, 3)

# ---- If ----
case("branches of one size", """
m (float[N,3] x) => (float[N,3] y) {
  limit = Constant<value = float {0.0}>()
  s = ReduceSum<keepdims = 0>(x)
  c = Greater(s, limit)
  y = If(c)<then_branch = t () => (float[N,3] a) { a = Add(x, x) }, else_branch = e () => (float[N,3] b) { b = Neg(x) }>
}""", {"x": X}, {"x": -X}, {"x": np.abs(reals(5, 3))}, {"x": -np.abs(reals(5, 3))}, {"x": X})
case("branches of other sizes and ranks", """
m (float[N,3] x, bool c) => (float y, float z) {
  y, z = If(c)<
    then_branch = t () => (float[3] a, float[N,3] b) { a = ReduceMax<axes = [0], keepdims = 0>(x)
      b = Sqrt(x) },
    else_branch = e () => (float[N,1,3] a, float[3,N] b) { one = Constant<value_ints = [1]>()
      a = Unsqueeze(x, one)
      b = Transpose(x) }>
}""", {"x": np.abs(X), "c": flag(True)}, {"x": np.abs(X), "c": flag(False)}, {"x": np.abs(reals(4, 3)), "c": flag(True)})
case("a condition of one dim", """
m (float[2,3] x, bool[1] c) => (float[2,3] y) {
  y = If(c)<then_branch = t () => (float[2,3] a) { a = Exp(x) }, else_branch = e () => (float[2,3] b) { b = Neg(x) }>
}""", {"x": X, "c": flag([True])}, {"x": X, "c": flag([False])})
case("values from around as they are", """
m (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z, float[2,3] w) {
  h = Exp(x)
  y, z, w = If(c)<
    then_branch = t () => (float[2,3] a, float[2,3] a2, float[2,3] k) { a = Identity(x)
      a2 = Identity(a)
      k = Constant<value = float[2,3] {1, 2, 3, 4, 5, 6}>() },
    else_branch = e () => (float[2,3] b, float[2,3] b2, float[2,3] k) { b = Identity(h)
      b2 = Identity(x)
      k = Abs(x) }>
}""", {"x": X, "c": flag(True)}, {"x": X, "c": flag(False)})
case("sizes decide", """
m (float[N,3] x) => (float y) {
  s = Shape(x)
  zero = Constant<value_int = 0>()
  n = Gather(s, zero)
  one = Constant<value_int = 1>()
  c = Equal(n, one)
  y = If(c)<
    then_branch = t () => (float[3] a) { axes = Constant<value_ints = [0]>()
      a = Squeeze(x, axes) },
    else_branch = e () => (float[N,3] b) { b = Relu(x) }>
}""", {"x": reals(1, 3)}, {"x": X}, {"x": reals(1, 3, seed=1)}, {"x": reals(7, 3)})
case("an If that sizes decide within one that values decide, and the other way round", """
m (float[N,3] x, bool c) => (float y) {
  two = Constant<value_int = 2>()
  zero = Constant<value_int = 0>()
  y = If(c)<
    then_branch = t () => (float[N,3] a) {
      s = Shape(x)
      n = Gather(s, zero)
      d = Equal(n, two)
      a = If(d)<then_branch = t2 () => (float[N,3] p) { p = Add(x, x) }, else_branch = e2 () => (float[N,3] q) { q = Sub(x, x) }> },
    else_branch = e () => (float[N,3] b) {
      s2 = Shape(x)
      n2 = Gather(s2, zero)
      d2 = Greater(n2, two)
      b = If(d2)<
        then_branch = t3 () => (float[N,3] r) {
          low = ReduceMin<keepdims = 0>(x)
          fzero = Constant<value = float {0.0}>()
          e3 = Less(low, fzero)
          r = If(e3)<then_branch = t4 () => (float[N,3] p4) { p4 = Abs(x) }, else_branch = e4 () => (float[N,3] q4) { q4 = Neg(x) }> },
        else_branch = e5 () => (float[N,3] q5) { q5 = Exp(x) }> }>
}""", *({"x": x, "c": flag(c)} for c in (True, False) for x in (reals(1, 3), X, reals(3, 3), np.abs(reals(4, 3)))))
case("nothing is left", """
m (float[N,3] x, bool c) => (float[M,3] y, float s) {
  z = If(c)<then_branch = t () => (float[M,3] a) { a = Neg(x) },
    else_branch = e () => (float[M,3] b) { from = Constant<value_ints = [0]>()
      b = Slice(x, from, from) }>
  y = Mul(z, z)
  s = ReduceSum<keepdims = 0>(y)
}""", {"x": X, "c": flag(True)}, {"x": X, "c": flag(False)})
case("convolutions in branches and behind", """
m (float[N,3,H,W] x) => (float y) <float[4,3,3,3] w = {""" + ", ".join(f"{v:.3f}" for v in reals(108)) + """},
  float[3,4,1,1] turned = {""" + ", ".join(f"{v:.3f}" for v in reals(12, seed=1)) + """}> {
  u = Transpose<perm = [1, 0, 2, 3]>(turned)
  zero = Constant<value = float {0.0}>()
  s = ReduceMean<keepdims = 0>(x)
  c = Less(s, zero)
  h = If(c)<
    then_branch = t () => (float[N,4,H,W] a) { p = Conv<pads = [1, 1, 1, 1]>(x, w)
      a = Relu(p) },
    else_branch = e () => (float[N,4,H2,W2] b) { q = Conv<strides = [2, 2]>(x, u)
      b = Sigmoid(q) }>
  g = ConvTranspose<strides = [2, 2]>(h, u)
  r = Relu(g)
  sizes = Shape(h)
  from = Constant<value_ints = [2]>()
  to = Constant<value_ints = [4]>()
  hw = Slice(sizes, from, to)
  minus = Constant<value_ints = [-1]>()
  flat = Flatten<axis = 2>(r)
  t2 = ReduceMean<axes = [0]>(flat)
  y = Mul(t2, t2)
}""", *({"x": sign * np.abs(reals(*dims, seed=seed))} for sign in (1, -1) for dims in ((1, 3, 8, 8), (2, 3, 9, 6)) for seed in (0, 1)))
case("halves", """
m (float16[N,3,8,8] x, bool c) => (float16 y) <float[4,3,3,3] w32 = {""" + ", ".join(f"{v:.2f}" for v in reals(108)) + """},
  float[4] k32 = {1.0, 2.0, 3.0, 0.5}> {
  w = Cast<to = 10>(w32)
  k = Cast<to = 10>(k32)
  z = Conv<pads = [1, 1, 1, 1]>(x, w)
  h = ReduceMean<axes = [2, 3], keepdims = 0>(z)
  y = If(c)<
    then_branch = t () => (float16[N,4] a) { a = Mul(h, k) },
    else_branch = e () => (float16[N,4] b) { one32 = Constant<value = float {1.0}>()
      one = Cast<to = 10>(one32)
      v = Conv<pads = [1, 1, 1, 1]>(x, w)
      g = ReduceMean<axes = [2, 3], keepdims = 0>(v)
      b = Add(g, one) }>
}""", *({"x": reals(n, 3, 8, 8).astype(np.float16), "c": flag(c)} for n in (1, 2) for c in (True, False)))
case("integers behind", """
m (float[1,3,8,8] x, bool c) => (float[1,4,8,8] y) <float[4,3,3,3] w = {""" + ", ".join(f"{v:.3f}" for v in reals(108)) + """}> {
  h = If(c)<then_branch = t () => (float[1,3,8,8] a) { a = Abs(x) }, else_branch = e () => (float[1,3,8,8] b) { b = Neg(x) }>
  step = Constant<value = float {0.03}>()
  wstep = Constant<value = float {0.02}>()
  zero = Constant<value = int8 {0}>()
  middle = Constant<value = uint8 {128}>()
  q = QuantizeLinear(h, step, middle)
  d = DequantizeLinear(q, step, middle)
  wq = QuantizeLinear(w, wstep, zero)
  wd = DequantizeLinear(wq, wstep, zero)
  y = Conv<pads = [1, 1, 1, 1]>(d, wd)
}""", {"x": reals(1, 3, 8, 8), "c": flag(True)}, {"x": reals(1, 3, 8, 8), "c": flag(False)})
case("functions in branches, and branches in functions", """
m (float[2,3] x, bool c) => (float[2,3] y) {
  h = mine.choose(x, c)
  y = If(c)<then_branch = t () => (float[2,3] a) { a = mine.choose(h, c) }, else_branch = e () => (float[2,3] b) { b = mine.twice(h) }>
}
<domain: "mine", opset_import: ["" : 17]> twice (a) => (b) { b = Add(a, a) }
<domain: "mine", opset_import: ["" : 17, "mine" : 1]> choose (a, c) => (b) {
  k = Exp(a)
  b = If(c)<then_branch = t () => (p) { p = mine.twice(k) }, else_branch = e () => (q) { q = Neg(a) }>
}""", {"x": X, "c": flag(True)}, {"x": X, "c": flag(False)})
case("operators that are put in terms of others", """
m (float[N,4] x, bool c) => (float[M,4] y) {
  h = If(c)<then_branch = t () => (float[M,4] a) { a = com.microsoft.FastGelu(x) },
    else_branch = e () => (float[N,4] b) { b = com.microsoft.QuickGelu<alpha = 1.5>(x) }>
  k = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>()
  y = com.microsoft.BiasGelu(h, k)
}""", *({"x": reals(n, 4), "c": flag(c)} for n in (1, 3) for c in (True, False)))
case("what data decides within", """
m (float[N] x, bool c) => (float y, int64 k) {
  y, k = If(c)<
    then_branch = t () => (float[M] a, int64[1,M] i) { i = NonZero(x)
      two = Constant<value_ints = [-1]>()
      j = Reshape(i, two)
      a = Gather(x, j) },
    else_branch = e () => (float[K] b, int64[K] i2) { half = Constant<value_ints = [2]>()
      b, i2 = TopK(x, half) }>
}""", *({"x": np.array(x, np.float32), "c": flag(c)} for c in (True, False) for x in ([1, 0, 2, 0], [0, 0, 0], [3, 1, 2])))

# ---- Loop ----
STEP = """l (int64 i, bool go, float[2,3] h) => (bool go2, float[2,3] h2, float[2,3] row) {
    go2 = Identity(go)
    f = Cast<to = 1>(i)
    d = Add(h, f)
    h2 = Mul(d, x)
    row = Sub(h2, h) }"""
case("so many trips", """
m (float[2,3] x, int64 n) => (float[2,3] y, float[K,2,3] rows) {
  none = Constant<value = bool {1}>()
  y, rows = Loop(n, none, x)<body = """ + STEP + """>
}""", *({"x": X, "n": count(n)} for n in (3, 0, 1, 7, 3)))
case("a constant number of trips", """
m (float[2,3] x) => (float[2,3] y, float[4,2,3] rows) {
  n = Constant<value_int = 4>()
  y, rows = Loop(n, , x)<body = """ + STEP + """>
}""", {"x": X}, {"x": -X})
case("no trips at all", """
m (float[2,3] x) => (float[2,3] y, float[0,2,3] rows) {
  n = Constant<value_int = 0>()
  y, rows = Loop(n, , x)<body = """ + STEP + """>
}""", {"x": X})
case("no first trip", """
m (float[2,3] x, bool c) => (float[2,3] y, float[K,2,3] rows) {
  n = Constant<value_int = 2>()
  y, rows = Loop(n, c, x)<body = """ + STEP + """>
}""", {"x": X, "c": flag(True)}, {"x": X, "c": flag(False)})
case("while", """
m (float[N] x, float limit) => (float[N] y, int64 trips, float[K,N] all) {
  yes = Constant<value = bool {1}>()
  zero = Constant<value_int = 0>()
  y, trips, all = Loop(, yes, x, zero)<body = l (int64 i, bool go, float[N] h, int64 k) => (bool go2, float[N] h2, int64 k2, float[N] h3) {
    h2 = Add(h, h)
    h3 = Identity(h2)
    s = ReduceMax<keepdims = 0>(h2)
    go2 = Less(s, limit)
    one = Constant<value_int = 1>()
    k2 = Add(k, one) }>
}""", *({"x": np.abs(reals(n)), "limit": np.array(limit, np.float32)} for n in (2, 5) for limit in (0, 100, 1e6)))
case("while constants say so", """
m (float[3] x) => (float[3] y, int64 trips) {
  yes = Constant<value = bool {1}>()
  one = Constant<value_int = 1>()
  y, trips = Loop(, yes, x, one)<body = l (int64 i, bool go, float[3] h, int64 k) => (bool go2, float[3] h2, int64 k2) {
    h2 = Sin(h)
    k2 = Add(k, k)
    hundred = Constant<value_int = 100>()
    go2 = Less(k2, hundred) }>
}""", {"x": reals(3)})
case("trips and condition", """
m (float[2] x, int64 n, float limit) => (float[2] y) {
  yes = Constant<value = bool {1}>()
  y = Loop(n, yes, x)<body = l (int64 i, bool go, float[2] h) => (bool go2, float[2] h2) {
    h2 = Add(h, h)
    s = ReduceMax<keepdims = 0>(h2)
    go2 = Less(s, limit) }>
}""", *({"x": np.abs(reals(2)), "n": count(n), "limit": np.array(limit, np.float32)} for n in (0, 1, 5, 50) for limit in (0, 10)))
case("what is handed on grows", """
m (float[N,3] x, int64 n) => (float[M,3] y, float[K,3] rows) {
  yes = Constant<value = bool {1}>()
  y, rows = Loop(n, yes, x)<body = l (int64 i, bool go, float[A,3] h) => (bool go2, float[B,3] h2, float[3] row) {
    go2 = Identity(go)
    row = ReduceSum<keepdims = 0>(h, axis)
    one = Unsqueeze(row, axis)
    h2 = Concat<axis = 0>(h, one)
    axis = Constant<value_ints = [0]>() }>
}""".replace("    row = ReduceSum<keepdims = 0>(h, axis)\n    one = Unsqueeze(row, axis)\n    h2 = Concat<axis = 0>(h, one)\n    axis = Constant<value_ints = [0]>() }",
             "    axis = Constant<value_ints = [0]>()\n    row = ReduceMean<axes = [0], keepdims = 0>(h)\n    one = Unsqueeze(row, axis)\n    h2 = Concat<axis = 0>(h, one) }"),
     *({"x": reals(n, 3), "n": count(trips)} for n in (1, 4) for trips in (0, 1, 6, 90)))
case("what is only appended to", """
m (float[N,3] x, int64 n) => (float[M,3] y, float[N,K] wide, float[L,3] seen, float[T,P,3] last) {
  yes = Constant<value = bool {1}>()
  none = Constant<value = float[0,3] {}>()
  column = Constant<value_ints = [0]>()
  left = ReduceMax<axes = [1], keepdims = 1>(x)
  y, wide, seen, kept, last = Loop(n, yes, none, left, x, x)<body = l (int64 i, bool go, float[A,3] h, float[N,B] g, float[C,3] s, float[P,3] o)
    => (bool go2, float[A2,3] h2, float[N,B2] g2, float[C2,3] s2, float[P,3] o2, float[P,3] row) {
    go2 = Identity(go)
    f = Cast<to = 1>(i)
    v = Mul(x, f)
    h2 = Concat<axis = 0>(h, v)
    m2 = ReduceMin<axes = [1], keepdims = 1>(v)
    h0 = Identity(g)
    g2 = Concat<axis = 1>(h0, m2)
    s1 = Concat<axis = 0>(s, v)
    s2 = Identity(s1)
    size = Shape(s1)
    big = Cast<to = 1>(size)
    total = ReduceSum<keepdims = 0>(big)
    o2 = Add(o, total)
    row = Identity(o2) }>
}""", *({"x": reals(n, 3), "n": count(trips)} for n in (1, 4) for trips in (1, 0, 6)))
case("convolutions in a body", """
m (float[1,4,6,6] x, int64 n) => (float[1,4,6,6] y, float[K,4] means) <float[4,4,3,3] w = {""" + ", ".join(f"{v / 4:.3f}" for v in reals(144)) + """}> {
  yes = Constant<value = bool {1}>()
  y, means = Loop(n, yes, x)<body = l (int64 i, bool go, float[1,4,6,6] h) => (bool go2, float[1,4,6,6] h2, float[4] mean) {
    go2 = Identity(go)
    c = Conv<pads = [1, 1, 1, 1]>(h, w)
    r = Relu(c)
    h2 = Add(r, x)
    m = ReduceMean<axes = [0, 2, 3], keepdims = 0>(h2)
    mean = Identity(m) }>
}""", *({"x": reals(1, 4, 6, 6), "n": count(n)} for n in (0, 1, 5)))
case("what data decides in each trip", """
m (float[N,4] x) => (int64[K,1] counts, float[M] all) {
  yes = Constant<value = bool {1}>()
  s = Shape(x)
  zero = Constant<value_int = 0>()
  n = Gather(s, zero)
  empty = Constant<value = float[0] {}>()
  all, counts = Loop(n, yes, empty)<body = l (int64 i, bool go, float[A] h) => (bool go2, float[B] h2, int64[1] found) {
    go2 = Identity(go)
    row = Gather<axis = 0>(x, i)
    at = NonZero(row)
    flat = Constant<value_ints = [-1]>()
    j = Reshape(at, flat)
    found = Shape(j)
    v = Gather(row, j)
    h2 = Concat<axis = 0>(h, v) }>
}""", {"x": np.maximum(X @ reals(3, 4), 0)}, {"x": np.maximum(reals(5, 4), 0)}, {"x": np.zeros((2, 4), np.float32)})
case("rows of no known rank, and no trips", """
m (float[N,3] x, int64 n) => (float[] rows) {
  yes = Constant<value = bool {1}>()
  rows = Loop(n, yes)<body = l (int64 i, bool go) => (bool go2, float[] row) {
    go2 = Identity(go)
    r = Gather<axis = 0>(x, i)
    row = Loop(i, yes, r)<body = l2 (int64 j, bool go3, float[] h) => (bool go4, float[] h2) {
      go4 = Identity(go3)
      h2 = Add(h, r) }> }>
}""", *({"x": X, "n": count(n)} for n in (2, 0, 1)), {"x": reals(0, 3), "n": count(0)})
case("a size that data decides, and no trips", """
m (float[N] x, int64 n) => (int64[K,M] rows) {
  yes = Constant<value = bool {1}>()
  rows = Loop(n, yes)<body = l (int64 i, bool go) => (bool go2, int64[M] row) {
    go2 = Identity(go)
    at = NonZero(x)
    flat = Constant<value_ints = [-1]>()
    row = Reshape(at, flat) }>
}""", {"x": np.array([1, 0, 2], np.float32), "n": count(2)}, {"x": np.array([1, 0, 2], np.float32), "n": count(0)})
case("If in Loop in If", """
m (float[2,3] x, int64 n, bool c) => (float[2,3] y) {
  yes = Constant<value = bool {1}>()
  y = If(c)<
    then_branch = t () => (float[2,3] a) {
      a = Loop(n, yes, x)<body = l (int64 i, bool go, float[2,3] h) => (bool go2, float[2,3] h2) {
        go2 = Identity(go)
        two = Constant<value_int = 2>()
        zero = Constant<value_int = 0>()
        rest = Mod(i, two)
        odd = Equal(rest, zero)
        h2 = If(odd)<then_branch = t2 () => (float[2,3] p) { p = Add(h, x) }, else_branch = e2 () => (float[2,3] q) { q = Mul(h, x) }> }> },
    else_branch = e () => (float[2,3] b) { b = Neg(x) }>
}""", *({"x": X, "n": count(n), "c": flag(c)} for n in (0, 1, 4) for c in (True, False)))
case("If in Loop, all constant", """
m (float[2,3] x) => (float[2,3] y) {
  n = Constant<value_int = 5>()
  yes = Constant<value = bool {1}>()
  y = Loop(n, yes, x)<body = l (int64 i, bool go, float[2,3] h) => (bool go2, float[2,3] h2) {
    go2 = Identity(go)
    two = Constant<value_int = 2>()
    zero = Constant<value_int = 0>()
    rest = Mod(i, two)
    odd = Equal(rest, zero)
    h2 = If(odd)<then_branch = t2 () => (float[2,3] p) { p = Add(h, x) }, else_branch = e2 () => (float[2,3] q) { q = Mul(h, x) }> }>
}""", {"x": X})
case("Loop in Loop", """
m (float[3] x, int64 n) => (float[3] y, float[A,B,3] all) {
  yes = Constant<value = bool {1}>()
  y, all = Loop(n, yes, x)<body = l (int64 i, bool go, float[3] h) => (bool go2, float[3] h2, float[B,3] rows) {
    go2 = Identity(go)
    three = Constant<value_int = 3>()
    h2, rows = Loop(three, go, h)<body = l2 (int64 j, bool on, float[3] g) => (bool on2, float[3] g2, float[3] row) {
      on2 = Identity(on)
      s = Add(i, j)
      f = Cast<to = 1>(s)
      d = Add(g, f)
      g2 = Mul(d, x)
      row = Identity(g2) }> }>
}""", *({"x": reals(3), "n": count(n)} for n in (1, 4)))
case("only a condition is handed on", """
m (bool[2] x, int64 n) => (int64[K] all, bool[2] y) {
  yes = Constant<value = bool {1}>()
  y, all = Loop(n, yes, x)<body = l (int64 i, bool go, bool[2] h) => (bool go2, bool[2] h2, int64 row) {
    h2 = Not(h)
    five = Constant<value_int = 5>()
    go2 = Less(i, five)
    row = Mul(i, i) }>
}""", *({"x": np.array([True, False]), "n": count(n)} for n in (0, 3, 20)))
case("values that trade places", """
m (float[2] x, float[2] z, int64 n) => (float[2] p, float[2] q, float[K,2] all) {
  yes = Constant<value = bool {1}>()
  p, q, all = Loop(n, yes, x, z)<body = l (int64 i, bool go, float[2] a, float[2] b) => (bool go2, float[2] b2, float[2] a2, float[2] row) {
    go2 = Identity(go)
    b2 = Identity(b)
    a2 = Identity(a)
    row = Identity(a) }>
}""", *({"x": reals(2), "z": reals(2, seed=1), "n": count(n)} for n in (0, 1, 2, 5)))
case("a number as one dim", """
m (float[2] x, int64[1] n, bool[1] c) => (float[2] y) {
  y = Loop(n, c, x)<body = l (int64[1] i, bool[1] go, float[2] h) => (bool[1] go2, float[2] h2) {
    go2 = Identity(go)
    f = Cast<to = 1>(i)
    h2 = Add(h, f) }>
}""", *({"x": reals(2), "n": ints(n), "c": flag([True])} for n in (0, 4)))
case("what all trips would fail on, of which there are none", """
m (float[1,1,4,4] x, float[1,4] rois, int64[1] image, int64[2] lens, float[A] p, float[B] q, float f) => (float[3] y) {
  n = Cast<to = 7>(f)
  yes = Constant<value = bool {1}>()
  zeros = Constant<value = float[3] {0, 0, 0}>()
  y = Loop(n, yes, zeros)<body = l (int64 i, bool go, float[3] h) => (bool go2, float[3] h2) {
    go2 = Identity(go)
    three = Constant<value_ints = [3]>()
    pool = RoiAlign(x, rois, image)
    r = ReduceSum<keepdims = 0>(pool)
    pair = Constant<value_ints = [8, 2]>()
    pairs = Reshape(x, pair)
    turned = ReverseSequence(pairs, lens)
    s = ReduceSum<keepdims = 0>(turned)
    t = Add(p, q)
    best, at = TopK(t, three)
    a = Add(best, r)
    b = Add(a, s)
    h2 = Add(h, b) }>
}""", *({"x": reals(1, 1, 4, 4), "rois": np.array([[0, 0, 2, 2]], np.float32), "image": ints(image), "lens": ints(lens, 1),
         "p": reals(p), "q": reals(q), "f": np.array(n, np.float32)}
        for image, lens, p, q, n in ((0, 3, 4, 4, 2), (7, 3, 4, 4, 0), (0, 30, 4, 4, 0), (0, 3, 4, 5, 0), (0, 3, 0, 0, 0))))
case("many trips", """
m (float[2] x) => (float[2] y) {
  n = Constant<value_int = 5000>()
  yes = Constant<value = bool {1}>()
  y = Loop(n, yes, x)<body = l (int64 i, bool go, float[2] h) => (bool go2, float[2] h2) {
    go2 = Identity(go)
    s = Sin(h)
    h2 = Add(s, x) }>
}""", {"x": reals(2)})

# ---- Scan ----
case("a scan with a state", """
m (float[3] h, float[T,3] x) => (float[3] last, float[T,3] sums) {
  last, sums = Scan<num_scan_inputs = 1, body = b (float[3] s, float[3] row) => (float[3] next, float[3] out) {
    next = Add(s, row)
    out = Mul(next, next) }>(h, x)
}""", {"h": reals(3), "x": reals(4, 3)}, {"h": reals(3), "x": reals(1, 3)}, {"h": reals(3), "x": reals(1500, 3)})
case("a scan without a state, and what is around it", """
m (float[N,5] x, float[5] w) => (float[N] dots) {
  dots = Scan<num_scan_inputs = 1, body = b (float[5] row) => (float d) {
    each = Mul(row, w)
    d = ReduceSum<keepdims = 0>(each) }>(x)
}""", {"x": reals(4, 5), "w": reals(5)}, {"x": reals(7, 5), "w": reals(5)})
case("axes and directions of a scan", """
m (float[2,T,3] x, float[2,3,T] z, float[2,3] h) => (float[2,3] last, float[2,T,3] y, float[2,3,T] back, float[T,2,3] rows) {
  last, y, back, rows = Scan<num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [1, 0],
      scan_output_axes = [1, -1, 0], scan_output_directions = [0, 1, 1],
      body = b (float[2,3] s, float[2,3] a, float[2,3] c) => (float[2,3] next, float[2,3] o, float[2,3] p, float[2,3] q) {
    d = Sub(a, c)
    next = Add(s, d)
    o = Neg(next)
    p = Identity(a)
    q = Mul(next, c) }>(h, x, z)
}""", {"x": reals(2, 4, 3), "z": reals(2, 3, 4), "h": reals(2, 3)}, {"x": reals(2, 9, 3), "z": reals(2, 3, 9), "h": reals(2, 3)})
case("a scan in a scan", """
m (float[A,B] x) => (float[A,B] y) {
  y = Scan<num_scan_inputs = 1, body = b (float[B] row) => (float[B] sums) {
    zero = Constant<value = float {0.0}>()
    last, sums = Scan<num_scan_inputs = 1, body = c (float s, float v) => (float next, float out) {
      next = Add(s, v)
      out = Identity(next) }>(zero, row) }>(x)
}""", {"x": reals(3, 4)}, {"x": reals(2, 7)})

# Neither has a name, and both are the first node of their graph.
case("scans without names", """
m (float[A,B] x) => (float[A,B] y) {
  y = Scan<num_scan_inputs = 1, body = b (float[B] row) => (float[B] out) {
    out = Scan<num_scan_inputs = 1, body = c (float v) => (float square) {
      square = Mul(v, v) }>(row) }>(x)
}""", {"x": reals(3, 4)}, {"x": reals(2, 7)})


def model_of(name):
    return onnx.parser.parse_model(CASES[name][0]).SerializeToString()


def check(model, feeds, **keywords):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ours = convoy.InferenceSession(model, **keywords)
    for feed in feeds:
        kept = {name: value.copy() for name, value in feed.items()}
        for output, got, expected in zip(theirs.get_outputs(), ours.run(None, feed), theirs.run(None, feed)):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), output.name
            if got.dtype == np.float16:
                np.testing.assert_allclose(got.astype(np.float32), expected.astype(np.float32), rtol=2e-2, atol=2e-2)
            elif got.dtype.kind == "f":
                np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max(initial=0)))
            else:
                np.testing.assert_array_equal(got, expected)
            got[...] = 0  # nobody else's memory
        for name, value in kept.items():
            np.testing.assert_array_equal(feed[name], value)


@pytest.mark.parametrize("name", CASES)
def test_as_onnxruntime(name):
    check(model_of(name), CASES[name][1])


@pytest.mark.parametrize("first, second, axis", [(2, 4, 0), (4, 2, 0), (3, 4, -1), (4, 3, -1)])
def test_scan_inputs_of_other_lengths_are_refused(first, second, axis):
    model = onnx.parser.parse_model(HEAD + f"""
m (float[T,3] x, float[P,Q] z) => (float[T,3] y) {{
  y = Scan<num_scan_inputs = 2, scan_input_axes = [0, {axis}], body = b (float[3] s, float[3] row) => (float[3] out) {{
    out = Mul(s, row) }}>(x, z)
}}""").SerializeToString()
    shape = (second, 3) if axis == 0 else (3, second)
    with pytest.raises(convoy.ConvoyError, match="as many slices of scan inputs 0 and 1|outside"):
        convoy.InferenceSession(model).run(None, {"x": reals(first, 3), "z": reals(*shape)})


# Whatever sizes decide is then decided when it runs.
@pytest.mark.parametrize("name", CASES)
def test_the_same_without_the_pass(name, tmp_path):
    program = os.environ.get("CONVOY")
    if program is None:
        pytest.skip("CONVOY does not say where the command is")
    (tmp_path / "model.onnx").write_bytes(model_of(name))
    for feed in CASES[name][1][-2:]:
        words = []
        for key, value in feed.items():
            np.save(tmp_path / f"{key}.npy", value)
            words += ["--input", f"{key}={tmp_path / key}.npy"]
        found = {}
        for skip in ([], ["--skip-pass", "control_flow"]):
            command = [program, "run", tmp_path / "model.onnx", *words, *skip, "--output-dir", tmp_path / "out"]
            run = subprocess.run(command, capture_output=True, text=True)
            assert run.returncode == 0, run.stderr
            for path in (tmp_path / "out").glob("*.npy"):
                found.setdefault(path.stem, []).append(np.load(path))
        for first, second in found.values():
            assert (first.dtype, first.shape) == (second.dtype, second.shape)
            np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-4)


def test_each_trip_of_a_loop_draws_its_own_numbers():
    model = onnx.parser.parse_model(HEAD + """
m (float[2,3] x, int64 n) => (float[T,2,3] y, float[T,2,2,3] z) {
  go = Constant<value = bool {1}>()
  y, z = Loop(n, go)<body = b (int64 i, bool c) => (bool d, float[2,3] r, float[2,2,3] s) { d = Identity(c)
    r = RandomNormalLike(x)
    two = Constant<value = int64 {2}>()
    s = Loop(two, c)<body = e (int64 j, bool f) => (bool g, float[2,3] t) { g = Identity(f)
      t = RandomUniform<shape = [2,3]>() }> }>
}""")
    session = convoy.InferenceSession(model.SerializeToString())
    first, second = (session.run(None, {"x": X, "n": count(4)}) for _ in range(2))
    for one, again in zip(first, second):
        np.testing.assert_array_equal(one, again)
        rows = one.reshape(-1, 6)
        assert len(np.unique(rows, axis=0)) == len(rows)
