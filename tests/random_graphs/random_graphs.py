"""Random graphs on Convoy beside ONNX Runtime without optimisations, and f64 with error bounds where they differ.

    random_graphs.py [--count 40] [--first 0] [--jobs 2] [--json FILE]     seeds FIRST to FIRST+COUNT-1
    random_graphs.py --seed SEED [--show]                                  one of them, its graph and what is wrong

Every graph (graphs.py) runs with up to four sets of sizes, a batch of 0 among them, one after another on one network, by a rule, layout and
number of threads that its seed says. Right is what lies within the bounds of bounded.py around f64's value; ONNX Runtime is held to the
same: ORT_IS_WRONG says at which operators it is known to be off, anywhere else that fails, too, and is to be looked into.

$CONVOY_LIBRARY and PYTHONPATH say which Convoy. Exit code 1: something is wrong; the command that repeats it is printed.
"""

import argparse
import collections
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import sys

import numpy as np
import onnxruntime

import convoy
from bounded import wrong
from graphs import Graph, Invalid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOW = ["tuned", "greedy", "global", "uniform:nchw", "uniform:nhwc", "uniform:nchw16c", "uniform:nchw8c"]
# Where ONNX Runtime 1.31 without optimisations is off by itself: the operator whose inputs are right and whose output is not.
ORT_IS_WRONG = {
    "MaxPool": "a window with a NaN: the NaN or another element, as the window lies in its vectors",
    "GlobalMaxPool": "likewise",
    "AveragePool": "auto_pad=SAME with strides larger than windows: pads below 0, where ONNX's formula has none",
    "Resize": "linear: an infinity beside its pixel gives NaN by a weight of 0; align_corners with a scale that gives no whole size goes by "
              "the size rounded down, where ONNX's reference and node tests take the size before that",
    "refused": "wrap of an empty batch, auto_pad=SAME with strides larger than windows, maps of which a size other than N's is 0",
}


def onnxruntime_session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def of_ort(session, graph, k):
    try:
        return session.run(graph.outputs, graph.inputs(k))
    except Exception as error:  # pylint: disable=broad-except
        return f"refused: {str(error).splitlines()[0][-160:]}"


def first_off(graph, k, outputs_of):
    """The first node whose output is wrong, all values being outputs: its operator, "refused" where that is what comes, or None."""
    whole = Graph(graph.seed)
    whole.outputs = [name for _, _, outputs, _ in whole.nodes for name in outputs]
    right, given = whole.evaluate(k), outputs_of(whole)
    if isinstance(given, str):
        return "refused"
    given = dict(zip(whole.outputs, given))
    return next((op for op, _, outputs, _ in whole.nodes if any(wrong(given[n], right[n]) for n in outputs)), None)


def check(seed):
    """One graph: what is wrong, and what ONNX Runtime does otherwise, with the graph's operators."""
    graph = Graph(seed)
    result = {"seed": seed, "wrong": [], "ort": [], "runs": 0, "empty": 0, "operators": sorted({op for op, *_ in graph.nodes})}
    if not graph.outputs:
        return result
    model = graph.model()
    random = np.random.default_rng((seed, 99))
    how, threads = HOW[random.integers(len(HOW))], int(random.integers(1, 3))
    session = onnxruntime_session(model)
    try:
        network = convoy.Network(model, how=None if how == "tuned" else how, threads=threads, database=False)
    except convoy.ConvoyError as error:
        result["wrong"].append(f"load: {error}")
        return result
    for k in range(4 if graph.free != "none" else 1):
        try:
            right = graph.evaluate(k)
        except Invalid:
            continue
        theirs = of_ort(session, graph, k)
        result["runs"] += 1
        result["empty"] += any(array.size == 0 for array in graph.inputs(k).values())
        try:
            ours = network.run(graph.inputs(k))
        except convoy.ConvoyError as error:
            result["wrong"].append(f"set {k}, how={how}, threads={threads}: {str(error).splitlines()[0]}"
                                   + (" (ONNX Runtime refuses, too)" if isinstance(theirs, str) else ""))
            continue
        for i, name in enumerate(graph.outputs):
            text = wrong(ours[name], right[name])
            if text:
                result["wrong"].append(f"set {k}, how={how}, threads={threads}, output {name}: {text}")
            text = theirs if isinstance(theirs, str) else wrong(theirs[i], right[name])
            if text:
                op = first_off(graph, k, lambda whole: of_ort(onnxruntime_session(whole.model()), whole, k))  # noqa: B023
                result["ort"].append([op, f"set {k}, output {name}: {text}"])
                break
    return result


def command(seed):
    return f"tests/random_graphs/run --seed {seed} --show"


def check_all(seeds, jobs):
    """Results in order. A worker that ends takes its seed with it, and is said so."""
    # A process each of some seeds, so that a crash is a result of one of few.
    def one_by_one(part):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            for seed in part:
                try:
                    yield alone.submit(check, seed).result()
                except concurrent.futures.process.BrokenProcessPool:
                    yield {"seed": seed, "wrong": ["the process ended"], "ort": [], "runs": 0, "empty": 0, "operators": []}
                    yield from one_by_one(part[part.index(seed) + 1:])
                    return

    parts = [seeds[i:i + 50] for i in range(0, len(seeds), 50)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for results in pool.map(lambda part: list(one_by_one(part)), parts):
            yield from results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) // 2))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--show", action="store_true", help="print the graph")
    options = parser.parse_args()
    if options.seed is not None:
        if options.show:
            print(Graph(options.seed).text())
        result = check(options.seed)
        print(json.dumps(result, indent=1))
        sys.exit(1 if result["wrong"] else 0)
    total = collections.Counter()
    operators, ort = collections.Counter(), collections.Counter()
    failed = []
    for result in check_all(list(range(options.first, options.first + options.count)), options.jobs):
        total.update(graphs=1, runs=result["runs"], empty=result["empty"], wrong=bool(result["wrong"]), ort_differs=bool(result["ort"]))
        operators.update(result["operators"])
        if result["wrong"]:
            failed.append(result)
            print(f"seed {result['seed']} is wrong ({', '.join(result['operators'])}):", *result["wrong"][:3], command(result["seed"]), sep="\n  ",
                  flush=True)
        ort.update({str(op) for op, _ in result["ort"]})
        unknown = [f"{op}, {text}" for op, text in result["ort"] if op not in ORT_IS_WRONG]
        if unknown:
            failed.append(result)
            print(f"seed {result['seed']}: ONNX Runtime gives something else, and nothing says why "
                  f"({', '.join(result['operators'])}):", *unknown[:3], command(result["seed"]), sep="\n  ", flush=True)
    print(f"{total['graphs']} graphs, {total['runs']} runs ({total['empty']} of them of a batch of 0): {total['wrong']} wrong; "
          f"ONNX Runtime differs in {total['ort_differs']}")
    if options.json:
        options.json.write_text(json.dumps({
            **total, "first": options.first, "operators": dict(sorted(operators.items())), "failed": failed,
            "onnxruntime": {"version": onnxruntime.__version__, "is_wrong": ORT_IS_WRONG, "graphs": dict(sorted(ort.items()))}},
            indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
