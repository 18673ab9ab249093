"""dlsym under the interposer: cuDNN's functions by name are ours, every other lookup is as if it were not there."""
import ctypes.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CONVOY, INTERPOSER, LOOKUP, LIBRARIES, PROGRAM, CUDNN = sys.argv[1:7]
OURS, THEIRS = "libconvoy-interposer.so", "libcudnn.so.9"


def run(*command, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={k: v for k, v in environment.items() if v is not None})


def exported():
    lines = run("nm", "-D", "--defined-only", INTERPOSER).stdout.splitlines()
    return {line.split()[-1] for line in lines}


class Dlsym(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.libraries = {name: shutil.copy(f"{LIBRARIES}/liblookup_caller.so", f"{self.folder.name}/{name}")
                          for name in ("libcaller.so", "libcudnn_caller.so", "libconvoy_caller.so")}
        shutil.copy(f"{LIBRARIES}/liblookup_next.so", self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def look(self, *lookups, early=False, preload=INTERPOSER, allocations=True):
        """The file that each was found in."""
        done = run(LOOKUP, *["--early"] * early, *(word for lookup in lookups for word in lookup), LD_PRELOAD=preload,
                   LD_LIBRARY_PATH=self.folder.name)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return [line if allocations else re.sub(", .*", "", line) for line in done.stdout.splitlines()], done.stderr

    def test_every_function_that_is_exported(self):
        names = sorted(exported() - {"dlsym"})
        self.assertGreaterEqual(len(names), 12)
        self.assertTrue(all(name.startswith("cudnn") for name in names), names)
        lookups = [("main", CUDNN, name) for name in names]
        for early in False, True:
            self.assertEqual(self.look(*lookups, early=early)[0], [OURS + ", 0 allocations"] * len(names))
            self.assertEqual(self.look(*lookups, early=early, preload=None)[0], [THEIRS + ", 0 allocations"] * len(names))
        self.assertEqual(self.look(("main", CUDNN, "cudnnGetVersion"), (self.libraries["libcaller.so"], CUDNN, "cudnnCreate"))[0],
                         [THEIRS + ", 0 allocations", OURS + ", 0 allocations"])

    def test_everything_else_is_as_without(self):
        caller = self.libraries["libcaller.so"]
        lookups = [(who, handle, name) for who in ("main", caller, "deep:" + caller) for handle in ("default", "next", caller, "libm.so.6")
                   for name in ("marker", "malloc", "cudnnGetVersion", "no_such_name", "look", "cudnn")] + [("main", "libm.so.6", "cos")]
        # From no library that is linked but from one that is opened: found where its own scope says.
        self.assertEqual(self.look((caller, "next", "marker"), (caller, "default", "marker"))[0],
                         ["liblookup_next.so, 0 allocations", "libcaller.so, 0 allocations"])
        for early in False, True:
            self.assertEqual(self.look(*lookups, early=early), self.look(*lookups, early=early, preload=None))

    def test_names_of_cudnn_that_are_not_cudnns(self):
        caller = self.libraries["libcaller.so"]
        self.assertEqual(self.look(("main", caller, "cudnnCreate"), (caller, caller, "cudnnCreate"), allocations=False)[0], ["libcaller.so"] * 2)
        # RTLD_DEFAULT finds what is preloaded, as a linked program does.
        self.assertEqual(self.look(("main", "default", "cudnnCreate"), ("main", "next", "cudnnCreate"), allocations=False)[0], [OURS] * 2)

    def test_who_gets_cudnns_own(self):
        """cuDNN, which finds its parts by name, and Convoy's libraries; what is opened with RTLD_DEEPBIND is not seen."""
        for who in "libcudnn_caller.so", "libconvoy_caller.so":
            self.assertEqual(self.look((self.libraries[who], CUDNN, "cudnnCreate"))[0], [THEIRS + ", 0 allocations"], who)
        self.assertEqual(self.look(("deep:" + self.libraries["libcaller.so"], CUDNN, "cudnnCreate"), allocations=False)[0], [THEIRS])

    def test_two_cudnns_in_a_process(self):
        """A function of the interposer calls one cuDNN: with a second one there each caller gets what it asks for."""
        other = shutil.copy(CUDNN, self.folder.name)
        self.assertEqual(self.look(("main", CUDNN, "cudnnCreate"), ("main", other, "cudnnCreate"), ("main", CUDNN, "cudnnCreate"),
                                   allocations=False)[0], [OURS, THEIRS, THEIRS])
        # Another part of cuDNN, from another folder, is none.
        self.assertEqual(self.look((self.libraries["libcudnn_caller.so"], CUDNN, "cudnnGetVersion"), ("main", CUDNN, "cudnnCreate"),
                                   allocations=False)[0], [THEIRS, OURS])

    def test_beside_other_preloaded_libraries(self):
        caller = self.libraries["libcaller.so"]
        lookups = [(caller, "next", "marker"), ("main", "next", "malloc"), ("main", CUDNN, "cudnnCreate")]
        tool, allocator = (f"{LIBRARIES}/liblookup_preload_{name}.so" for name in ("dlsym", "malloc"))
        alone, said = self.look(*lookups, preload=tool)
        self.assertIn("preload: 1", said)
        # What stands in front and goes to the C library itself passes the interposer by; `convoy exec` puts it first.
        for preload, cudnns in (f"{INTERPOSER}:{tool}", OURS), (f"{tool}:{INTERPOSER}", THEIRS):
            found, also_said = self.look(*lookups, preload=preload)
            self.assertEqual(found, alone[:2] + [alone[2].replace(THEIRS, cudnns)], preload)
            self.assertEqual(also_said, said, "it is asked as often as without")
        for preload in allocator, f"{INTERPOSER}:{allocator}", f"{allocator}:{INTERPOSER}":
            done = run(PROGRAM, "2", LD_PRELOAD=preload)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ran eng5\n" * 2, "preload: 1\n"), preload)

    def jemalloc(self):
        name = ctypes.util.find_library("jemalloc")
        if name is None:
            self.skipTest("libjemalloc is not installed (Debian: libjemalloc2)")
        return name

    def test_beside_jemalloc(self):
        jemalloc = self.jemalloc()
        plain = run(PROGRAM, "--threads", "8", "2")
        for preload in f"{INTERPOSER}:{jemalloc}", f"{jemalloc}:{INTERPOSER}":
            done = run(PROGRAM, "--threads", "8", "2", LD_PRELOAD=preload)
            self.assertEqual((done.returncode, done.stderr), (0, ""), preload)
            self.assertEqual(sorted(done.stdout.splitlines()), sorted(plain.stdout.splitlines()))
            done = run(sys.executable, "-c", "import ctypes, hashlib, sqlite3, ssl, threading; print(ctypes.CDLL(None).getpid() > 0)", LD_PRELOAD=preload)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))

    def seen(self, *command, flags=(), **environment):
        done = run(CONVOY, "exec", *flags, "--", *command, CONVOY_DB=self.folder.name + "/none.db", **environment)
        return [line for line in done.stderr.splitlines() if "has no measurement" not in line]

    def test_exec_says_what_it_could_not_see(self):
        record = ("--record", self.folder.name + "/r.jsonl")
        choosing = ("--deterministic",)
        for flags, said in ((choosing, "was not seen to call cuDNN: "), (record, "called no cuDNN of version 9, so there is no ")):
            self.assertIn(said, self.seen("true", flags=flags)[0])
            self.assertIn("none of its processes had a libcudnn in it", self.seen("true", flags=flags)[0])
            deep = (LOOKUP, "deep:" + self.libraries["libcaller.so"], CUDNN, "cudnnCreate")
            (line,) = self.seen(*deep, flags=flags, LD_LIBRARY_PATH=self.folder.name)
            self.assertIn(said, line)
            self.assertRegex(line, rf"process \d+ \({LOOKUP} deep:.*\) loaded {CUDNN}, and called none of the functions")
            self.assertIn("RTLD_DEEPBIND", line)
        self.assertEqual(self.seen(PROGRAM, "1", flags=choosing), [])
        # A process that called it, and is another program then.
        first = f"import ctypes, os; ctypes.CDLL({CUDNN!r}).cudnnBackendCreateDescriptor(17, ctypes.byref(ctypes.c_void_p()))"
        after = (sys.executable, "-c", f"{first}; os.execv({LOOKUP!r}, {list(deep)!r})")
        self.assertEqual(self.seen(*after, flags=choosing, LD_LIBRARY_PATH=self.folder.name), [])
        self.assertEqual(self.seen("true"), [], "nothing was to be done")
        self.assertEqual(self.seen("true", flags=choosing, CONVOY_EXEC="off"), [])
        self.assertIn("CONVOY_EXEC is off", self.seen("true", flags=record, CONVOY_EXEC="off")[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
