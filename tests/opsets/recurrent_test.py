"""LSTM, GRU and RNN beside ONNX Runtime, one model for each combination of what the operators have.

    recurrent_test.py [NAME ...]     cases whose names contain a NAME; $CONVOY is the program

What ONNX Runtime doesn't have: layout=1 (its answer for layout=0 is transposed); f64 and the 16-bit types (its answer for f32
is compared); the specification's default of ThresholdedRelu, which is 1 (there it is 0); defaults of Affine and ScaledTanh, which
the specification doesn't have either; a Softplus that doesn't overflow. Like it, clip leaves what h gets of an LSTM's cell alone.
"""

import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONVOY = os.environ.get("CONVOY", str(ROOT / "build/bin/convoy"))
STEPS, INPUTS, HIDDEN = 7, 5, 37
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
OUTPUTS = {"LSTM": ("Y", "Y_h", "Y_c"), "GRU": ("Y", "Y_h"), "RNN": ("Y", "Y_h")}
# |a - b| <= TOLERANCE * max(1, |b|), of the largest: f32 sums of some 50 products through a few steps. Halves: the output's
# rounding. Gates that are no part of 1 make more of it in each step (UNBOUNDED).
TOLERANCE = {np.float32: 2e-6, np.float64: 2e-6, np.float16: 4e-3}
UNBOUNDED = 1e-4


class Case:
    def __init__(self, name, op, direction="forward", batch=3, layout=0, opset=14, dtype=np.float32, bias=True,
                 lens=None, initial=False, peepholes=False, constant=True, outputs=None, threads=1, hidden=HIDDEN,
                 tolerance=None,
                 **attributes):
        self.name, self.op, self.direction, self.batch, self.layout = name, op, direction, batch, layout
        self.opset, self.dtype, self.attributes, self.constant, self.threads = opset, dtype, attributes, constant, threads
        self.tolerance = tolerance or TOLERANCE[dtype]
        self.outputs = outputs or OUTPUTS[op]
        random = np.random.default_rng(5)
        directions = 2 if direction == "bidirectional" else 1
        rows = GATES[op] * hidden
        self.attributes |= {"direction": direction, "hidden_size": hidden}

        def values(*dims, size=1.0):
            return (random.standard_normal(dims) * size).astype(dtype)

        self.x = values(STEPS, batch, INPUTS)
        self.inputs = {"W": values(directions, rows, INPUTS, size=0.5),
                       "R": values(directions, rows, hidden, size=1 / np.sqrt(hidden))}
        if bias:
            self.inputs["B"] = values(directions, 2 * rows, size=0.3)
        if lens is not None:
            self.inputs["sequence_lens"] = np.array(lens, np.int32)
        if initial:
            self.inputs["initial_h"] = values(directions, batch, hidden, size=0.5)
            if op == "LSTM":
                self.inputs["initial_c"] = values(directions, batch, hidden)
        if peepholes:
            self.inputs["P"] = values(directions, 3 * hidden, size=0.3)

    def model(self, layout, dtype):
        """`layout` as the attribute has it; states are inputs, and all else where `constant` is off."""
        order = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"]
        given = {"X": self.x.swapaxes(0, 1) if layout else self.x}
        for name, value in self.inputs.items():
            given[name] = value.swapaxes(0, 1) if layout and name.startswith("initial") else value
        given = {name: value.astype(dtype) if value.dtype == self.dtype else value for name, value in given.items()}
        names = [name if name in given else "" for name in order]
        while not names[-1]:
            names.pop()
        attributes = self.attributes | ({"layout": 1} if layout else {})
        outs = [name if name in self.outputs else "" for name in OUTPUTS[self.op]]
        while not outs[-1]:
            outs.pop()
        node = helper.make_node(self.op, names, outs, name="layer", **attributes)
        fed = {name: np.ascontiguousarray(value) for name, value in given.items()
               if not self.constant or name == "X" or name.startswith("initial")}
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph = helper.make_graph(
            [node], "recurrent",
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
             for name, value in fed.items()],
            [helper.make_tensor_value_info(name, kind, None) for name in self.outputs],
            [numpy_helper.from_array(value, name) for name, value in given.items() if name not in fed])
        imports = [helper.make_opsetid("", self.opset)]
        ir_version = 4 if self.opset < 10 else helper.find_min_ir_version_for(imports)
        return helper.make_model(graph, opset_imports=imports, ir_version=ir_version), fed


def cases():
    directions = ("forward", "reverse", "bidirectional")
    for op, direction in itertools.product(GATES, directions):
        yield Case(f"{op} {direction}", op, direction)
        yield Case(f"{op} {direction} plain", op, direction, batch=1, bias=False, opset=7)
        yield Case(f"{op} {direction} lens", op, direction, lens=[3, STEPS, 1], initial=True)
        yield Case(f"{op} {direction} lens none empty", op, direction, lens=[0, STEPS, 2], initial=True)
        yield Case(f"{op} {direction} layout", op, direction, layout=1, lens=[3, STEPS, 1], initial=True)
        yield Case(f"{op} {direction} clip", op, direction, clip=0.4, initial=True)
        yield Case(f"{op} {direction} variable", op, direction, constant=False, initial=True, opset=22)
        yield Case(f"{op} {direction} f16", op, direction, dtype=np.float16, initial=True, opset=22, lens=[3, STEPS, 1])
        yield Case(f"{op} {direction} last only", op, direction, outputs=("Y_h",))
        yield Case(f"{op} {direction} last only f16", op, direction, outputs=("Y_h",), dtype=np.float16)
        yield Case(f"{op} {direction} all only", op, direction, outputs=("Y",))
        yield Case(f"{op} {direction} threads", op, direction, threads=2, hidden=160, batch=1)
        yield Case(f"{op} {direction} many", op, direction, threads=2, batch=45, initial=True)
        yield Case(f"{op} {direction} f64", op, direction, dtype=np.float64, initial=True)
    for direction in directions:
        yield Case(f"LSTM {direction} peepholes", "LSTM", direction, peepholes=True, initial=True)
        yield Case(f"LSTM {direction} peepholes clip lens", "LSTM", direction, peepholes=True, clip=0.5, lens=[2, 7, 5])
        yield Case(f"LSTM {direction} input_forget", "LSTM", direction, peepholes=True, input_forget=1)
        yield Case(f"GRU {direction} linear", "GRU", direction, linear_before_reset=1, initial=True)
        yield Case(f"GRU {direction} linear clip lens", "GRU", direction, linear_before_reset=1, clip=0.5, lens=[2, 7, 5])
        yield Case(f"GRU {direction} linear layout", "GRU", direction, linear_before_reset=1, layout=1, initial=True)
        yield Case(f"GRU {direction} linear threads", "GRU", direction, linear_before_reset=1, threads=2, hidden=160)
    functions = {"Relu": 0, "Tanh": 0, "Sigmoid": 0, "Affine": 2, "LeakyRelu": 1, "ThresholdedRelu": 1, "ScaledTanh": 2,
                 "HardSigmoid": 2, "Elu": 1, "Softsign": 0, "Softplus": 0}
    for op, (name, parameters) in itertools.product(GATES, functions.items()):
        used = FUNCTIONS[op]
        given = {}
        if parameters > 0:
            given["activation_alpha"] = [0.3] * (2 * used)
        if parameters > 1:
            given["activation_beta"] = [0.2] * (2 * used)
        names = [name] * min(used, 2) + ["Tanh"] * (used - 2)
        yield Case(f"{op} {name}", op, "bidirectional", activations=names * 2, clip=2.0, tolerance=UNBOUNDED, **given)
        if name not in ("Affine", "ScaledTanh", "ThresholdedRelu"):
            yield Case(f"{op} {name} defaults", op, activations=names, clip=2.0, tolerance=UNBOUNDED)
    yield Case("LSTM mixed", "LSTM", "bidirectional", activation_alpha=[0.3, 0.1], activation_beta=[0.4],
               activations=["HardSigmoid", "LeakyRelu", "Tanh", "Sigmoid", "Elu", "Softsign"])


def convoy(case, model, fed, folder):
    path = folder / "model.onnx"
    onnx.save(model, path)
    files = []
    for name, value in fed.items():
        np.save(folder / f"{name}.npy", value)
        files += ["--input", f"{name}={folder / name}.npy"]
    out = folder / "out"
    for old in out.glob("*.npy"):
        old.unlink()
    run = subprocess.run([CONVOY, "run", path, *files, "--output-dir", out, "--threads", str(case.threads)],
                         capture_output=True, text=True)
    assert run.returncode == 0, f"{case.name}: convoy run: exit code {run.returncode}\n{run.stderr}{run.stdout}"
    return {name: np.load(out / f"{name}.npy") for name in case.outputs}


def onnx_runtime(model, fed, case):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(case.outputs, session.run(list(case.outputs), fed)))


def main():
    chosen = sys.argv[1:]
    count, failures = 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in cases():
            if chosen and not any(word in case.name for word in chosen):
                continue
            got = convoy(case, *case.model(case.layout, case.dtype), folder)
            wanted = onnx_runtime(*case.model(0, np.float32), case)
            count += 1
            for output in case.outputs:
                want = wanted[output]
                if case.layout:
                    want = want.transpose(2, 0, 1, 3) if output == "Y" else want.swapaxes(0, 1)
                have = got[output]
                if (have.shape, have.dtype) != (want.shape, case.dtype):
                    failures.append(f"{case.name}: {output} is {have.dtype}{have.shape}, not {case.dtype}{want.shape}")
                    continue
                error = np.abs(have.astype(np.float64) - want).max() / max(1, np.abs(want).max())
                if not error <= case.tolerance:
                    failures.append(f"{case.name}: {output} is off by {error:.2e}, {case.tolerance} is allowed")
    for failure in failures:
        print(failure)
    assert not failures, f"{len(failures)} of {count} cases' outputs differ"
    assert count > 0
    print(f"{count} recurrent layers agree with ONNX Runtime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
