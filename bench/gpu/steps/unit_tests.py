"""The test programs: those of the device layer, engines and selection, and the long ones of depthwise."""
import re
import shutil

from steps import harness


TESTS = ("cuda_test", "cuda_fake_test", "cuda_compiler_test", "cuda_reference_test", "cuda_depthwise_test", "cuda_direct_test", "cuda_pointwise_test", "cuda_stem_test", "cuda_gemm_test", "cuda_gemv_test", "cuda_igemm_test", "cuda_volume_test", "cuda_integer_test", "cuda_layout_test", "cudnn_test",
         "select_device_test", "gpu_streams_test", "gpu_c_interface_test")
# They read the sources, or need a compiler for the processor; CI runs them.
NO_GPU_NEEDED = ("DepthwiseKernels.CompileWithoutSpills", "*OnTheProcessor*", "WithCudnn.EveryListGivesGraphsInAllPassesAndTypes")


class Tests(harness.Step):
    """the unit tests of the device layer, engines and selection"""
    # One at a time: beside others a handle of cuDNN's may not get its streams.

    def units(self):
        return list(TESTS)

    def run(self, name):
        program = harness.ROOT / "tests" / name
        if not program.exists():
            return {"test": name, "missing": True}
        code, out, err = harness.command([program, f"--gtest_filter=-{':'.join(NO_GPU_NEEDED)}"], CONVOY_DATA="/nonexistent")
        skipped = sorted(set(re.findall(r"SKIPPED \] (\S+\.\S+)", out)))
        passed = re.search(r"PASSED\s+\] (\d+)", out)
        return {"test": name, "exit_code": code, "passed": int(passed[1]) if passed else 0, "skipped": skipped,
                "failed": sorted(set(re.findall(r"FAILED  \] (\S+\.\S+)", out)))[:50], "tail": "" if code == 0 else (out + err)[-2000:]}

    def summary(self, rows):
        return {"tests": rows, "failed": [row["test"] for row in rows if row.get("exit_code")],
                "skipped": [name for row in rows for name in row.get("skipped", [])],
                "missing": [row["test"] for row in rows if row.get("missing")]}


class Random(harness.Step):
    """Random problems in parts, with CONVOY_TEST_FULL; the sanitizers on a part each, of fewer problems."""

    jobs = 16  # each part compiles its kernels one after another, which is nearly all of its time
    parts = 10  # of a test's problems

    def programs(self, programs, alone=(), rest=False):
        """Units: what of `alone` is a filter of tests runs by itself, with `rest` all others together."""
        filters = [f"Part/*/{part}" for part in range(self.parts)] + [*alone]
        filters += ["-" + ":".join(["Part/*", *alone, *NO_GPU_NEEDED])] if rest else []
        return [unit for program in programs for unit in ([["test", program, each] for each in filters] +
                                                          [["memcheck", program, "Part/*/0"], ["racecheck", program, "Part/*/1"]])]

    def run(self, unit):
        what, name, filter = unit
        program = [harness.ROOT / "tests" / name, "--gtest_brief=1", f"--gtest_filter={filter}"]
        if what == "test":
            code, out, err = harness.command(program, 540, CONVOY_TEST_FULL="1")
        elif shutil.which("compute-sanitizer") is None:
            return {"what": what, "test": name, "not_run": "there is no compute-sanitizer here"}
        else:
            code, out, err = harness.command(["compute-sanitizer", "--tool", what, "--error-exitcode", "9", *program], 540)
        return {"what": what, "test": name, "tests": filter, "exit_code": code, "tail": (out + err)[-1500:]}

    def compile(self, unit):
        """Without a GPU: what the unit's problems need, into CONVOY_KERNEL_CACHE. Sanitizers are given problems that a test has, too."""
        what, name, filter = unit
        return harness.command([harness.ROOT / "tests" / name, "--gtest_brief=1", f"--gtest_filter={filter}"], None,
                               CONVOY_TEST_FULL="kernels") if what == "test" else (0, "", "")

    def summary(self, rows):
        return {"units": rows}


class DepthwiseRandom(Random):
    """5,000 random depthwise problems, more than 2^31 elements, the same bits over 100 runs; the sanitizers on a sample"""

    jobs = 2  # sizes are compiled, so a part has as many kernels as problems, which it compiles side by side

    def units(self):
        return self.programs(["cuda_depthwise_test"],
                             ["*OnTensorCores*", "*Bands*", "*OfSignals*", "*OfLongSignals*", "*TheSameBits*", "*RightAbove*"], rest=True)


class ProductRandom(Random):
    """5,000 random problems of each engine that is a product in tiles; the sanitizers on a sample"""

    def units(self):
        return self.programs(["cuda_direct_test", "cuda_gemm_test", "cuda_gemv_test", "cuda_igemm_test", "cuda_pointwise_test", "cuda_stem_test", "cuda_volume_test"])
