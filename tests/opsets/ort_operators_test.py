"""Operators beside ONNX Runtime, a model each: those of its own domain, as its optimizer and quantizer write them, weights of
few bits, and ONNX's attention and Fourier transforms.

    ort_operators_test.py [--keep FOLDER] [NAME ...]     cases whose names contain a NAME; $CONVOY is the program

The models and ONNX Runtime's answers are written as conformance cases, which `convoy conformance` then runs.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(7)


def real(*dims, size=1.0, dtype=np.float32):
    return (RANDOM.standard_normal(dims) * size).astype(dtype)


def integers(low, high, *dims, dtype=np.int32):
    return RANDOM.integers(low, high, dims, dtype=np.int64).astype(dtype)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


class Case:
    """`inputs` in order, None where one is left out; those in `constant` (by index) are initializers."""

    def __init__(self, name, op, inputs, outputs=1, constant=(), version=17, domain=MICROSOFT, **attributes):
        self.name, self.op, self.inputs, self.outputs = name, op, inputs, outputs
        self.constant, self.version, self.domain, self.attributes = constant, version, domain, attributes

    def model(self):
        names = [f"i{i}" if value is not None else "" for i, value in enumerate(self.inputs)]
        outs = [f"o{i}" for i in range(self.outputs)] if isinstance(self.outputs, int) else list(self.outputs)
        node = helper.make_node(self.op, names, outs, name="op", domain=self.domain, **self.attributes)
        fed = {f"i{i}": value for i, value in enumerate(self.inputs) if value is not None and i not in self.constant}
        graph = helper.make_graph(
            [node], "g",
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in fed.items()],
            [onnx.ValueInfoProto(name=name) for name in outs if name],
            [numpy_helper.from_array(self.inputs[i], f"i{i}") for i in self.constant if self.inputs[i] is not None])
        imports = [helper.make_opsetid("", self.version), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10), fed, [name for name in outs if name]


def convolutions():
    x, w, b = real(2, 6, 9, 8), real(8, 6, 3, 3, size=0.3), real(8)
    z = real(2, 8, 9, 8)
    pads = [1, 1, 1, 1]
    for activation, parameters in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]), ("Clip", [-0.4, 0.7]),
                                   ("HardSigmoid", [0.25, 0.4])):
        more = {"activation_params": parameters} if parameters else {}
        yield Case(f"FusedConv {activation}", "FusedConv", [x, w, b], constant=(1, 2), activation=activation, pads=pads, **more)
    yield Case("FusedConv sum", "FusedConv", [x, w, b, z], constant=(1, 2), activation="Relu", pads=pads)
    yield Case("FusedConv sum alone", "FusedConv", [x, w, None, z], constant=(1,), pads=pads)
    yield Case("FusedConv grouped", "FusedConv", [x, real(8, 3, 3, 3), b], constant=(1, 2), activation="Relu", group=2,
               strides=[2, 2], dilations=[1, 2])
    for kind in (np.uint8, np.int8):
        q = integers(0, 100, 1, 8, 7, 6, dtype=kind)
        yield Case(f"NhwcMaxPool {kind.__name__}", "NhwcMaxPool", [q], kernel_shape=[3, 3], strides=[2, 2], pads=pads)
        yield Case(f"NhwcMaxPool ceil {kind.__name__}", "NhwcMaxPool", [q], kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1)
    # Two products fit 16 bits: without VNNI ONNX Runtime adds them there, and they saturate.
    quantized = [integers(0, 255, 2, 9, 8, 6, dtype=np.uint8), scalar(0.02), scalar(120, np.uint8),
                 integers(-60, 60, 8, 6, 3, 3, dtype=np.int8), real(8, size=0.001) + np.float32(0.01), np.zeros(8, np.int8),
                 scalar(0.1), scalar(131, np.uint8), integers(-500, 500, 8)]
    yield Case("QLinearConv last", "QLinearConv", quantized, constant=range(1, 9), channels_last=1, pads=pads)
    first = [quantized[0].transpose(0, 3, 1, 2).copy(), *quantized[1:]]
    yield Case("QLinearConv first", "QLinearConv", first, constant=range(1, 9), channels_last=0, pads=pads)


def products():
    a, b = real(2, 3, 5, 7), real(2, 3, 7, 4)
    yield Case("FusedMatMul", "FusedMatMul", [a, b], alpha=0.25)
    yield Case("FusedMatMul transA", "FusedMatMul", [a.swapaxes(2, 3).copy(), b], transA=1)
    yield Case("FusedMatMul transB", "FusedMatMul", [a, b.swapaxes(2, 3).copy()], transB=1, alpha=-2.0)
    yield Case("FusedMatMul constant", "FusedMatMul", [real(5, 7), real(4, 7)], constant=(1,), transB=1, alpha=0.3)
    yield Case("FusedMatMul batch A", "FusedMatMul", [real(5, 2, 3, 7), b], transBatchA=1)
    yield Case("FusedMatMul batch A transA", "FusedMatMul", [real(7, 2, 3, 5), b], transBatchA=1, transA=1)
    yield Case("FusedMatMul batch B transB", "FusedMatMul", [a, real(4, 2, 3, 7)], transBatchB=1, transB=1)
    yield Case("FusedMatMul vector", "FusedMatMul", [real(7), real(7, 4)], transA=1)
    yield Case("TransposeMatMul", "TransposeMatMul", [a, b.swapaxes(2, 3).copy()], transB=1, alpha=0.5)
    for activation, more in (("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.3}),
                             ("HardSigmoid", {"activation_alpha": 0.2, "activation_beta": 0.6}), ("Elu", {"activation_alpha": 0.7}),
                             ("Softsign", {}), ("Softplus", {}), ("ThresholdedRelu", {"activation_alpha": 0.4})):
        yield Case(f"FusedGemm {activation}", "FusedGemm", [real(5, 7), real(4, 7), real(4)], constant=(1, 2), transB=1, alpha=0.5,
                   beta=0.25, activation=activation, **more)
    for bits, zeros, bias in ((4, None, False), (4, "packed", True), (4, "real", False), (8, "packed", False), (8, None, True),
                              (2, None, False), (2, "packed", False)):
        n, k, block = 12, 80, 32
        blocks = -(-k // block)
        packed = integers(0, 256, n, blocks, block * bits // 8, dtype=np.uint8)
        zero = (integers(0, 256, n * -(-blocks * bits // 8), dtype=np.uint8) if zeros == "packed" else
                real(n * blocks, size=3) if zeros == "real" else None)
        inputs = [real(2, 3, k), packed, np.abs(real(n * blocks, size=0.1)), zero, None, real(n) if bias else None]
        while inputs[-1] is None:
            inputs.pop()
        yield Case(f"MatMulNBits {bits} bits, zeros {zeros}, bias {bias}", "MatMulNBits", inputs, constant=range(1, len(inputs)), K=k,
                   N=n, bits=bits, block_size=block)


    for bits, zeros in ((4, False), (4, True), (8, False), (8, True), (2, True)):
        rows, depth, block = 11, 64, 16
        inputs = [integers(0, 256, rows, depth * bits // 8, dtype=np.uint8), integers(0, rows, 2, 5, dtype=np.int64),
                  np.abs(real(rows, depth // block, size=0.1))]
        if zeros:
            inputs.append(integers(0, 256, rows, -(-depth // block * bits // 8), dtype=np.uint8))
        yield Case(f"GatherBlockQuantized {bits} bits, zeros {zeros}", "GatherBlockQuantized", inputs, constant=(0, 2, 3)[:2 + zeros],
                   bits=bits, block_size=block, quantize_axis=1, gather_axis=0)


def quantized():
    for kind in (np.uint8, np.int8):
        low, high = (0, 255) if kind == np.uint8 else (-127, 127)
        b = integers(*((-60, 60) if kind == np.int8 else (low, high)), 9, 6, dtype=kind)  # as above
        for per_column in (False, True):
            scale = np.abs(real(6, size=0.01)) + np.float32(0.001) if per_column else scalar(0.02)
            zero = integers(-3 if kind == np.int8 else 120, 4 if kind == np.int8 else 130, *((6,) if per_column else ()), dtype=kind)
            what = f"{kind.__name__}{' columns' if per_column else ''}"
            yield Case(f"DynamicQuantizeMatMul {what}", "DynamicQuantizeMatMul", [real(2, 4, 9), b, scale, zero, real(6)],
                       constant=(1, 2, 3, 4))
            yield Case(f"DynamicQuantizeMatMul {what} plain", "DynamicQuantizeMatMul", [real(4, 9), b, scale], constant=(1, 2))
            a = integers(0, 255, 2, 4, 9, dtype=np.uint8)
            yield Case(f"MatMulIntegerToFloat {what}", "MatMulIntegerToFloat",
                       [a, b, scalar(0.03), scale, scalar(127, np.uint8), zero, real(6)], constant=(1, 3, 5, 6))
            yield Case(f"MatMulIntegerToFloat {what} variable", "MatMulIntegerToFloat", [a, b, scalar(0.03), scale])
    for kind in (np.uint8, np.int8):
        def q(*dims):
            return integers(0 if kind == np.uint8 else -128, 256 if kind == np.uint8 else 128, *dims, dtype=kind)
        one, two = scalar(3, kind), scalar(-2 if kind == np.int8 else 130, kind)
        x, y = q(2, 4, 5, 6), q(2, 4, 5, 6)
        name = kind.__name__
        for op in ("QLinearAdd", "QLinearMul"):
            yield Case(f"{op} {name}", op, [x, scalar(0.1), one, y, scalar(0.2), two, scalar(0.3), one])
            yield Case(f"{op} {name} spread", op, [x, scalar(0.1), one, q(6), scalar(0.2), two, scalar(0.3), one])
        for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
            yield Case(f"{op} {name}", op, [x, scalar(0.05), one, scalar(1 / 256), two])
        yield Case(f"QLinearSoftmax {name}", "QLinearSoftmax", [q(2, 9), scalar(0.05), one, scalar(1 / 256), scalar(
            0 if kind == np.uint8 else -128, kind)], axis=-1, opset=13)
        yield Case(f"QLinearConcat {name}", "QLinearConcat",
                   [scalar(0.2), one, x, scalar(0.1), one, q(2, 3, 5, 6), scalar(0.3), two], axis=1)
        yield Case(f"QLinearGlobalAveragePool {name}", "QLinearGlobalAveragePool", [x, scalar(0.1), one, scalar(0.02), two])
        yield Case(f"QLinearGlobalAveragePool {name} last", "QLinearGlobalAveragePool", [x, scalar(0.1), one, scalar(0.02), two],
                   channels_last=1)
        for last in (0, 1):
            yield Case(f"QLinearAveragePool {name} last={last}", "QLinearAveragePool", [x, scalar(0.1), one, scalar(0.05), two],
                       kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], channels_last=last)
        yield Case(f"QLinearWhere {name}", "QLinearWhere",
                   [real(2, 4, 5, 6) > 0, x, scalar(0.1), one, y, scalar(0.2), two, scalar(0.25), one], constant=range(2, 9))
        yield Case(f"QGemm {name}", "QGemm", [q(4, 9), scalar(0.05), one, integers(-60, 60, 9, 6, dtype=np.int8), scalar(0.02),
                                              scalar(0, np.int8), integers(-99, 99, 6), scalar(0.2), two])
        yield Case(f"QuantizeLinear {name}", "QuantizeLinear", [real(2, 3, 4), scalar(0.02), one])
        yield Case(f"DequantizeLinear {name}", "DequantizeLinear", [x, scalar(0.02), one])
    for kind in (np.uint16, np.int16):
        yield Case(f"QuantizeLinear {kind.__name__}", "QuantizeLinear", [real(2, 3, 4), scalar(0.0002), scalar(77, kind)])
        yield Case(f"DequantizeLinear {kind.__name__}", "DequantizeLinear", [integers(0, 9999, 2, 3, dtype=kind), scalar(0.02),
                                                                             scalar(77, kind)])


def activations():
    x, bias = real(2, 3, 8, size=3), real(8)
    for op in ("BiasGelu", "FastGelu"):
        yield Case(op, op, [x, bias])
    yield Case("FastGelu plain", "FastGelu", [x])
    yield Case("Gelu", "Gelu", [x])
    yield Case("QuickGelu", "QuickGelu", [x])
    yield Case("QuickGelu alpha", "QuickGelu", [x], alpha=0.8)


def normalizations():
    x, skip, gamma, beta, bias = real(2, 5, 16), real(2, 5, 16), real(16), real(16), real(16)
    yield Case("SkipLayerNormalization", "SkipLayerNormalization", [x, skip, gamma, beta, bias], epsilon=1e-5)
    yield Case("SkipLayerNormalization sum", "SkipLayerNormalization", [x, skip, gamma, beta], outputs=("y", "", "", "s"), epsilon=1e-5)
    yield Case("SkipLayerNormalization plain", "SkipLayerNormalization", [x, skip, gamma], epsilon=1e-5)
    yield Case("SkipLayerNormalization one skip", "SkipLayerNormalization", [x, skip[:1].copy(), gamma, beta], epsilon=1e-5)
    yield Case("SkipSimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", [x, skip, gamma], epsilon=1e-5)
    yield Case("SkipSimplifiedLayerNormalization bias", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias],
               outputs=("y", "", "", "s"), epsilon=1e-5)
    yield Case("SimplifiedLayerNormalization", "SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=1e-5, axis=-1)
    yield Case("SimplifiedLayerNormalization axis", "SimplifiedLayerNormalization", [x, real(5, 16)], domain="", epsilon=1e-5, axis=1)
    ids, segments = integers(0, 30, 2, 6), integers(0, 2, 2, 6)
    tables = [real(30, 16), real(9, 16), real(2, 16), gamma, beta]
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    yield Case("EmbedLayerNormalization", "EmbedLayerNormalization", [ids, segments, *tables, mask], outputs=2)
    yield Case("EmbedLayerNormalization sum", "EmbedLayerNormalization", [ids, segments, *tables], outputs=3)
    yield Case("EmbedLayerNormalization plain", "EmbedLayerNormalization",
               [ids, None, tables[0], tables[1], None, gamma, beta, None, integers(0, 9, 2, 6)], outputs=2)


def attentions():
    n, s, heads, size = 2, 5, 4, 6
    width = heads * size
    x, w, b = real(n, s, 10), real(10, 3 * width, size=0.3), real(3 * width, size=0.3)
    raw = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    yield Case("Attention", "Attention", [x, w, b], num_heads=heads)
    yield Case("Attention scale", "Attention", [x, w, b], num_heads=heads, scale=0.2)
    yield Case("Attention raw mask", "Attention", [x, w, b, raw], num_heads=heads)
    yield Case("Attention lengths", "Attention", [x, w, b, np.array([3, 5], np.int32)], num_heads=heads)
    yield Case("Attention ends and starts", "Attention", [x, w, b, np.array([4, 5, 1, 2], np.int32)], num_heads=heads)
    yield Case("Attention mask of pairs", "Attention", [x, w, b, integers(0, 2, n, s, s)], num_heads=heads, mask_filter_value=-50.0)
    yield Case("Attention unidirectional", "Attention", [x, w, b], num_heads=heads, unidirectional=1)
    yield Case("Attention unidirectional masked", "Attention", [x, w, b, np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)],
               num_heads=heads, unidirectional=1)
    yield Case("Attention bias", "Attention", [x, w, b, None, None, real(n, heads, s, s)], num_heads=heads)
    yield Case("Attention bias for all", "Attention", [x, w, b, None, None, real(1, heads, s, s)], num_heads=heads)
    yield Case("Attention sizes", "Attention", [x, real(10, 2 * 24 + 32, size=0.3), real(2 * 24 + 32)], num_heads=heads,
               qkv_hidden_sizes=[24, 24, 32])
    past = real(2, n, heads, 3, size)
    yield Case("Attention past", "Attention", [x, w, b, None, past], outputs=2, num_heads=heads, unidirectional=1)
    yield Case("Attention past masked", "Attention", [x, w, b, integers(0, 2, n, s + 3) | 1, past], outputs=2, num_heads=heads)
    yield Case("Attention present", "Attention", [x, w, b], outputs=2, num_heads=heads)

    q, k, v = real(n, s, width), real(n, 7, width), real(n, 7, 2 * width)
    bias = real(4 * width)
    yield Case("MultiHeadAttention", "MultiHeadAttention", [q, k, v], num_heads=heads)
    yield Case("MultiHeadAttention bias", "MultiHeadAttention", [q, k, v, bias], num_heads=heads)
    yield Case("MultiHeadAttention mask", "MultiHeadAttention", [q, k, v, None, np.array([4, 7], np.int32)], num_heads=heads)
    yield Case("MultiHeadAttention raw mask", "MultiHeadAttention", [q, k, v, None, integers(0, 2, n, 7) | np.eye(n, 7, dtype=np.int32)],
               num_heads=heads)
    yield Case("MultiHeadAttention added", "MultiHeadAttention", [q, k, v, None, None, real(n, heads, s, 7)], num_heads=heads, scale=0.3)
    yield Case("MultiHeadAttention unidirectional", "MultiHeadAttention", [q, real(n, s, width), real(n, s, width)], num_heads=heads,
               unidirectional=1)
    pasts = [real(n, heads, 3, size), real(n, heads, 3, size)]
    yield Case("MultiHeadAttention past", "MultiHeadAttention",
               [q, real(n, s, width), real(n, s, width), None, None, None, *pasts], outputs=3, num_heads=heads)
    yield Case("MultiHeadAttention heads apart", "MultiHeadAttention", [q, real(n, heads, 7, size), real(n, heads, 7, size)],
               num_heads=heads)
    zero = scalar(128, np.uint8)
    yield Case("QAttention", "QAttention",
               [integers(0, 255, n, s, 10, dtype=np.uint8), integers(-60, 60, 10, 3 * width, dtype=np.int8), b, scalar(0.02),
                scalar(0.005), raw, zero, scalar(0, np.int8)], constant=(1, 2), num_heads=heads)
    cos, sin = np.cos(real(12, 3)), np.sin(real(12, 3))
    positions = np.array([[0, 1, 2, 3, 4], [3, 5, 7, 9, 11]], np.int64)
    for interleaved in (0, 1):
        yield Case(f"RotaryEmbedding {interleaved}", "RotaryEmbedding", [real(n, s, width), positions, cos, sin], interleaved=interleaved)
        yield Case(f"RotaryEmbedding heads {interleaved}", "RotaryEmbedding",
                   [real(n, heads, s, size), np.array([2], np.int64), cos, sin], interleaved=interleaved)
        yield Case(f"RotaryEmbedding part {interleaved}", "RotaryEmbedding",
                   [real(n, s, width), positions, np.ascontiguousarray(cos[:, :2]), np.ascontiguousarray(sin[:, :2])],
                   interleaved=interleaved, num_heads=heads, rotary_embedding_dim=4)


def onnx_attentions():
    def case(name, inputs, version=23, **more):
        return Case(f"onnx Attention {name}", "Attention", inputs, domain="", version=version, **more)
    n, heads, groups, s, t, size = 2, 6, 2, 5, 7, 8
    q, k, v = real(n, heads, s, size), real(n, groups, t, size), real(n, groups, t, 4)
    flat = [real(n, s, heads * size), real(n, t, groups * size), real(n, t, groups * 4)]
    counts = {"q_num_heads": heads, "kv_num_heads": groups}
    mask = RANDOM.random((s, t)) > 0.4
    mask[:, 0] = True
    yield case("4D shared", [q, k, v])
    yield case("3D shared", flat, **counts)
    yield case("3D causal", flat, is_causal=1, **counts)
    yield case("softcap", flat, softcap=1.5, scale=0.4, **counts)
    yield case("boolean mask", [q, k, v, mask])
    yield case("float mask", [q, k, v, real(n, heads, s, t)])
    yield case("mask for all heads", [q, k, v, real(n, 1, s, t)])
    yield case("mask of rank 3", [q, k, v, real(heads, s, t)])
    yield case("mask and causal", [q, k, v, mask], is_causal=1)
    pasts = [real(n, groups, 3, size), real(n, groups, 3, 4)]
    yield case("past", [q, k, v, None, *pasts], outputs=3)
    yield case("past masked", [q, k, v, RANDOM.random((s, t + 3)) > 0.3, *pasts], outputs=3)
    for mode in range(4):
        yield case(f"scores {mode}", [q, k, v, real(s, t)], outputs=("y", "", "", "qk"), qk_matmul_output_mode=mode, softcap=2.0)
    half = [value.astype(np.float16) for value in (q, k, v)]
    yield case("f16", half)
    for interleaved in (0, 1):
        angles = real(n, s, 4)
        yield Case(f"onnx RotaryEmbedding {interleaved}", "RotaryEmbedding", [q, np.cos(angles), np.sin(angles)], domain="",
                   version=23, interleaved=interleaved)
        caches = real(20, 3)
        yield Case(f"onnx RotaryEmbedding part {interleaved}", "RotaryEmbedding",
                   [flat[0], np.cos(caches), np.sin(caches), integers(0, 20, n, s, dtype=np.int64)], domain="", version=23,
                   interleaved=interleaved, rotary_embedding_dim=6, num_heads=heads)
    for axis in (-1, 1):
        x = real(3, 5, 7)
        yield Case(f"onnx RMSNormalization {axis}", "RMSNormalization", [x, real(*x.shape[axis:])], domain="", version=23, axis=axis,
                   epsilon=1e-4)


def transforms():
    for length in (16, 15, 22, 37):
        for width in (1, 2):
            x = real(2, 18, width)
            fixed = np.array(length, np.int64)
            yield Case(f"DFT 17 {length} {width}", "DFT", [x, fixed], constant=(1,), domain="", version=17)
            yield Case(f"DFT 20 {length} {width}", "DFT", [x, fixed, np.array(-2, np.int64)], constant=(1, 2), domain="", version=20)
            if width == 2:
                yield Case(f"DFT inverse {length}", "DFT", [x, fixed], constant=(1,), domain="", version=17, inverse=1)
            else:
                yield Case(f"DFT onesided {length}", "DFT", [x, fixed], constant=(1,), domain="", version=17, onesided=1)
    yield Case("DFT axis", "DFT", [real(3, 4, 5, 2)], domain="", version=17, axis=2)
    signal, window = real(2, 200, 1), np.hanning(30).astype(np.float32)
    steps = np.array(12, np.int64)
    for onesided in (0, 1):
        yield Case(f"STFT window {onesided}", "STFT", [signal, steps, window], constant=(1,), domain="", onesided=onesided)
        yield Case(f"STFT length {onesided}", "STFT", [signal, steps, None, np.array(32, np.int64)], constant=(1, 3), domain="",
                   onesided=onesided)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            yield Case(f"{op} {periodic}", op, [np.array(25, np.int64)], constant=(0,), domain="", periodic=periodic)
    yield Case("MelWeightMatrix", "MelWeightMatrix",
               [np.array(20, np.int64), np.array(512, np.int64), np.array(16000, np.int64), scalar(80.0), scalar(7000.0)],
               constant=range(5), domain="")


def renamed():
    x = real(1, 2, 5, 6)
    yield Case("GridSample", "GridSample", [x, real(1, 4, 3, 2, size=0.7)], mode="bilinear", padding_mode="border", align_corners=1)
    yield Case("Pad", "Pad", [real(3, 4), np.array([1, 0, 0, 2], np.int64), scalar(0.5)], constant=(1, 2), mode="constant")
    yield Case("Range", "Range", [scalar(1.0), scalar(4.0), scalar(0.5)], constant=(0, 1, 2))
    yield Case("Trilu", "Trilu", [real(2, 5, 5)], upper=0)
    yield Case("GatherND", "GatherND", [real(3, 4, 2), integers(0, 3, 5, 2, dtype=np.int64)])


FAMILIES = (convolutions, products, quantized, activations, normalizations, attentions, onnx_attentions, transforms,
            renamed)


def write(case, folder):
    """The model, its inputs and ONNX Runtime's outputs."""
    model, fed, outputs = case.model()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    answers = session.run(outputs, fed)
    for value, answer in zip(model.graph.output, answers):
        kind = helper.np_dtype_to_tensor_dtype(answer.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, kind, answer.shape))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for kind, values in (("input", list(fed.values())), ("output", answers)):
        for i, value in enumerate(values):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())


def main():
    words = sys.argv[1:]
    keep = None
    if words[:1] == ["--keep"]:
        keep, words = pathlib.Path(words[1]), words[2:]
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = keep or pathlib.Path(name)
        for family in FAMILIES:
            for case in family():
                if words and not any(word in case.name for word in words):
                    continue
                try:
                    write(case, folder / case.name.replace(" ", "_").replace(",", ""))
                except Exception as error:
                    raise AssertionError(f"{case.name}: ONNX Runtime: {error}") from error
                count += 1
        run = subprocess.run([CONVOY, "conformance", folder], capture_output=True, text=True)
    print(run.stdout[-4000:], run.stderr[-2000:])
    assert run.returncode == 0, f"convoy conformance: exit code {run.returncode}"
    print(f"{count} models of ONNX Runtime's operators")


if __name__ == "__main__":
    main()
