#!/usr/bin/env python3
"""What versions of cuDNN say of their engines for convolutions, on an H200 that they are told of (no GPU is needed): how many
there are, each one's notes and knobs, and where two versions differ. What Convoy knows of one version's engines
(src/engines/cudnn/known.cc) can hold for another where the engine of that index says the same of itself.

    bench/cudnn_versions.py libcudnn.so.9 [libcudnn.so.9 ...] [--out FILE]

9.28 needs the driver's library: CUDA's stub of it serves (LD_LIBRARY_PATH with its folder, under the name libcuda.so.1).
"""
import argparse
import ctypes
import datetime
import itertools
import json
import multiprocessing
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSES = {"fprop": (10, 700, {"x": 704, "w": 703, "y": 705, "conv": 702, "alpha": 700, "beta": 701}),
          "dgrad": (12, 706, {"x": 710, "w": 709, "y": 711, "conv": 708, "alpha": 706, "beta": 707}),
          "wgrad": (11, 712, {"x": 716, "w": 715, "y": 717, "conv": 714, "alpha": 712, "beta": 713})}
TYPES = {"f32": 0, "f16": 2, "bf16": 9, "s8": 3, "f8_e4m3": 12}
H200 = {"deviceVer": 900, "deviceName": "NVIDIA H200", "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0, "isTccDriver": 0,
        "supportCoopLaunch": 1, "multiProcessorCount": 132, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64], "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32, "regsPerBlock": 65536,
        "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
        "reservedSharedMemoryPerBlock": 1024, "totalGlobalMem": 150109880320, "l2CacheSize": 62914560, "smClockRateKHz": 1980000,
        "memClockRateKHz": 3201000, "memoryBusWidth": 6144}
# (dims of x, filters, window, groups): what engines are told apart by.
SHAPES = [((8, 64, 56, 56), 64, (3, 3), 1), ((8, 256, 14, 14), 512, (1, 1), 1), ((8, 64, 28, 28), 64, (3, 3), 64),
          ((8, 128, 28, 28), 128, (3, 3), 32), ((2, 32, 16, 16, 16), 32, (3, 3, 3), 1), ((8, 16, 1, 512), 32, (1, 5), 1)]


class Cudnn:
    def __init__(self, file):
        self.library = ctypes.CDLL(file)
        self.library.cudnnGetVersion.restype = ctypes.c_size_t
        self.version = self.library.cudnnGetVersion()

    def make(self, kind, attributes=()):
        raw = ctypes.c_void_p()
        self.check(self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(raw)))
        for name, kind_of_value, values in attributes:
            self.check(self.library.cudnnBackendSetAttribute(raw, name, kind_of_value, ctypes.c_int64(len(values)), values))
        status = self.library.cudnnBackendFinalize(raw)
        if status != 0:
            self.library.cudnnBackendDestroyDescriptor(raw)
            raise ValueError(status)
        return raw

    def check(self, status):
        if status != 0:
            raise RuntimeError(f"cuDNN: status {status}")

    def get(self, raw, name, kind, values):
        count = ctypes.c_int64()
        status = self.library.cudnnBackendGetAttribute(raw, name, kind, ctypes.c_int64(len(values)), ctypes.byref(count), values)
        return values[:min(count.value, len(values))] if status == 0 else []


def ints(*values):
    return (ctypes.c_int64 * len(values))(*values)


def words(*values):
    return (ctypes.c_int32 * len(values))(*values)


def pointers(*values):
    return (ctypes.c_void_p * len(values))(*[value.value for value in values])


def tensor(cudnn, uid, dims, kind, last):
    order = [0, *range(2, len(dims)), 1] if last else list(range(len(dims)))
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis]
    return cudnn.make(17, [(901, 1, words(TYPES[kind])), (902, 3, ints(*dims)), (903, 3, ints(*strides)), (906, 3, ints(uid)), (900, 3, ints(16))])


def graph(cudnn, which, kind, last, shape):
    x, filters, window, groups = shape
    spatial = len(window)
    pads = [size // 2 for size in window]
    y = (x[0], filters, *x[2:])
    made = {"x": tensor(cudnn, 1, x, kind, last), "w": tensor(cudnn, 2, (filters, x[1] // groups, *window), kind, last),
            "y": tensor(cudnn, 3, y, kind, last),
            "conv": cudnn.make(1, [(106, 3, ints(spatial)), (100, 1, words(4 if kind == "s8" else 0)), (101, 7, words(1)),
                                   (105, 3, ints(*pads)), (104, 3, ints(*pads)), (103, 3, ints(*[1] * spatial)), (102, 3, ints(*[1] * spatial))])}
    descriptor, _, names = PASSES[which]
    attributes = [(names[name], 15, pointers(made[name])) for name in ("x", "w", "y", "conv")]
    attributes += [(names["alpha"], 4, (ctypes.c_float * 1)(1)), (names["beta"], 4, (ctypes.c_float * 1)(0))]
    operation = cudnn.make(descriptor, attributes)
    return cudnn.make(15, [(801, 15, pointers(operation))])


def engines(cudnn, made, device):
    """Of each index that takes the graph its notes, and its knobs with their bounds."""
    found = {}
    total = cudnn.get(made, 802, 3, ints(0))[0]
    for index in range(total):
        try:
            engine = cudnn.make(2, [(1300, 15, pointers(made)), (1301, 3, ints(index)), (1307, 15, pointers(device))])
        except ValueError:
            continue
        notes = [f"n{note}" for note in cudnn.get(engine, 1303, 11, words(*[0] * 32))] + [f"b{note}" for note in cudnn.get(engine, 1305, 19, words(*[0] * 32))]
        infos = (ctypes.c_void_p * 32)()
        for place in range(32):
            raw = ctypes.c_void_p()
            cudnn.library.cudnnBackendCreateDescriptor(8, ctypes.byref(raw))
            infos[place] = raw.value
        knobs = {}
        for raw in cudnn.get(engine, 1302, 15, infos):
            raw = ctypes.c_void_p(raw)
            kind = cudnn.get(raw, 1200, 9, words(0))[0]
            knobs[f"k{kind}"] = [cudnn.get(raw, name, 3, ints(0))[0] for name in (1202, 1201, 1203)]
        for raw in infos:
            cudnn.library.cudnnBackendDestroyDescriptor(ctypes.c_void_p(raw))
        found[index] = {"notes": sorted(notes), "knobs": dict(sorted(knobs.items()))}
        cudnn.library.cudnnBackendDestroyDescriptor(engine)
    return total, found


def survey(file):
    cudnn = Cudnn(file)
    text = json.dumps(H200).encode()
    device = cudnn.make(38, [(2702, 24, (ctypes.c_char * len(text)).from_buffer_copy(text))])
    result = {"version": cudnn.version, "counts": {}, "graphs": {}}
    for which, kind, last, shape in itertools.product(PASSES, TYPES, (True, False), SHAPES):
        if kind == "s8" and which != "fprop":
            continue
        try:
            made = graph(cudnn, which, kind, last, shape)
        except ValueError:
            continue
        total, found = engines(cudnn, made, device)
        result["counts"].setdefault(which, set()).add(total)
        sizes = "x".join(map(str, shape[0]))
        name = f"{which} {kind} {'nhwc' if last else 'nchw'} {sizes} to {shape[1]}, {'x'.join(map(str, shape[2]))}, groups {shape[3]}"
        result["graphs"][name] = found
    result["counts"] = {which: sorted(counts) for which, counts in result["counts"].items()}
    return result


def differences(older, newer):
    """Per pass the engines that say something else of themselves in the newer version, take other graphs there, or are new."""
    changed, taken, added, gone = {}, {}, {}, {}
    for name, before in older["graphs"].items():
        after = newer["graphs"].get(name, {})
        which = name.split()[0]
        for index in before.keys() & after.keys():
            if before[index] != after[index]:
                changed.setdefault(which, {}).setdefault(index, {"graph": name, "before": before[index], "after": after[index], "graphs": 0})["graphs"] += 1
        for index in before.keys() - after.keys():
            gone.setdefault(which, {}).setdefault(index, []).append(name)
        for index in after.keys() - before.keys():
            is_new = index >= max(older["counts"][which])
            (added if is_new else taken).setdefault(which, {}).setdefault(index, []).append(name)

    def counted(some):
        return {which: {index: len(names) for index, names in sorted(of.items())} for which, of in some.items()}

    return {"changed": {which: dict(sorted(of.items())) for which, of in changed.items()}, "takes_more_graphs": counted(taken),
            "takes_fewer_graphs": counted(gone), "new": counted(added)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    surveys = []
    for file in arguments.files:  # a process has one cuDNN
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            surveys.append(pool.apply(survey, (file,)))
    first = surveys[0]
    result = {"date": datetime.date.today().isoformat(), "command": "bench/cudnn_versions.py", "device": "NVIDIA H200, described",
              "graphs": len(first["graphs"]), "engine_counts": {each["version"]: each["counts"] for each in surveys},
              f"beside {first['version']}": {each["version"]: differences(first, each) for each in surveys[1:]}}
    text = json.dumps(result, indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
