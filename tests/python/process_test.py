"""What a process may do to Convoy: end, fork, and raise in a callback. Each in a Python of its own, which must end by itself."""
import logging
import sys

import pytest
from conftest import run_script

import convoy

SETUP = """
import numpy as np, os, sys, threading, time, convoy
problem = convoy.Problem("fprop:x=f32,1x32x28x28:w=f32,32x32x3x3:pad=1x1")
x, w = np.ones((1, 32, 28, 28), np.float32), np.ones((32, 32, 3, 3), np.float32)
plans = [problem.plan(c.name, threads=2) for c in problem.candidates(threads=2) if c.refusal is None]
network = convoy.Network("zoo:squeezenet1_1", threads=2)
feed = {"input": np.ones((1, 3, 64, 64), np.float32)}
"""


def ran(script, timeout=60):
    out, err, code = run_script(SETUP + script, timeout)
    assert code == 0, f"exit code {code}\n{err}"
    return out, err


def test_the_interpreter_ends_with_live_plans_and_networks():
    out, err = ran("""
for plan in plans: plan(x, w)
network.run(feed)
y = plans[0](x, w) * 0
plan = convoy.Problem("fprop:x=f32,1x32x28x28,align=4:w=f32,32x32x3x3,align=4:y=f32,1x32x28x28,align=4:pad=1x1").select(threads=2)
addresses = {"x": x.ctypes.data, "w": w.ctypes.data, "out": y.ctypes.data}
class Late:
    def __del__(self):  # while modules are taken down, when NumPy can do little any more
        plan.execute(**addresses)
        print("late", round(float(y[0, 0, 5, 5]), 2))  # whichever engine it is, Winograd among them
late = Late()
cycle = [plans, network]; cycle.append(cycle)
""")
    assert (out, err) == ("late 288.0\n", "")


def test_the_interpreter_ends_while_threads_compute_and_log():
    out, err = ran("""
convoy.set_log("debug", lambda level, message: None)
def forever():
    while True: plans[0](x, w); network.run(feed); problem.select()
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.3)
print("end")
""")
    assert out == "end\n" and "Fatal" not in err


@pytest.mark.skipif(sys.platform != "linux", reason="no fork")
def test_a_forked_process_computes_the_same():
    out, _ = ran("""
import warnings; warnings.simplefilter("ignore")
before = [plan(x, w) for plan in plans], network.run(feed)
for _ in range(2):
    child = os.fork()
    if child == 0:
        same = all(np.array_equal(plan(x, w), one) for plan, one in zip(plans, before[0]))
        same &= np.array_equal(network.run(feed)["flatten_out"], before[1]["flatten_out"])
        same &= bool(problem.tune(budget=0.2, database=False, threads=2).measurements)
        try: plans[0](x[:, :1], w)
        except convoy.InvalidArgument: pass
        else: same = False
        os._exit(0 if same else 3)
    assert os.waitpid(child, 0)[1] == 0
    assert all(np.array_equal(plan(x, w), one) for plan, one in zip(plans, before[0]))
print("end")
""")
    assert out == "end\n"


@pytest.mark.skipif(sys.platform != "linux", reason="no fork")
def test_a_forked_process_waits_for_nothing_that_its_parents_threads_did():
    """They run the network, and prepare another size, where it forks."""
    out, _ = ran("""
import warnings; warnings.simplefilter("ignore")
from convoy import _network
large = {"input": np.ones((1, 3, 96, 96), np.float32)}
begun, ready, make = threading.Event(), threading.Event(), _network.Session
def slow(*arguments):
    begun.set(); ready.wait()
    return make(*arguments)
before = network.run(feed)
_network.Session = slow
threads = [threading.Thread(target=network.run, args=(large,))]
threads += [threading.Thread(target=lambda: [network.run(feed) for _ in range(50)]) for _ in range(3)]
for thread in threads: thread.start()
begun.wait()
child = os.fork()
if child == 0:
    _network.Session = make
    same = np.array_equal(network.run(feed)["flatten_out"], before["flatten_out"])
    os._exit(0 if same and network.run(large) else 3)
assert os.waitpid(child, 0)[1] == 0
ready.set()
for thread in threads: thread.join()
print("end")
""")
    assert out == "end\n"


@pytest.mark.skipif(sys.platform != "linux", reason="no fork")
def test_a_forked_process_prepares_where_its_parents_threads_do(tmp_path):
    """SQLite, oneDNN and tables that sessions share have mutexes of their own: a fork waits until no thread has one."""
    out, _ = ran(f"database = {str(tmp_path / 'tuning.db')!r}" + """
import warnings; warnings.simplefilter("ignore")
problem.tune(budget=0.1, database=database, threads=1)
network = convoy.Network("zoo:squeezenet1_1", threads=1, database=database)
ended = threading.Event()
def prepare():
    size = 32
    while not ended.is_set():
        size = 32 + (size - 31) % 64
        network.prepare({"input": (1, 3, size, size)})
threads = [threading.Thread(target=prepare, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(40):
    child = os.fork()
    if child == 0:
        convoy.Network("zoo:squeezenet1_1", threads=1, database=database).prepare({"input": (1, 3, 40, 40)})
        os._exit(0)
    limit = time.monotonic() + 60
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < limit: time.sleep(0.01)
    if not done[0]: os.kill(child, 9)
    assert done[0] and done[1] == 0, "the forked process waits for ever" if not done[0] else done
ended.set()
for thread in threads: thread.join()
print("end")
""", timeout=300)
    assert out == "end\n"


def test_workers_of_multiprocessing_compute():
    out, _ = ran("""
import multiprocessing, warnings; warnings.simplefilter("ignore")
def work(index): return float(plans[0](x, w)[0, 0, 5, 5]), float(network.run(feed)["flatten_out"].sum()) is not None
expected = work(0)
with multiprocessing.get_context("fork").Pool(2) as pool: assert pool.map(work, range(8)) == [expected] * 8
print("end")
""")
    assert out == "end\n"


def test_an_exception_in_the_log_goes_no_further():
    out, err = ran("""
def broken(level, message): raise KeyError(message[:12])
convoy.set_log("info", broken)
print(problem.select().candidate != "")
convoy.set_log("off")
plans[0](x, w)
""")
    assert out == "True\n" and "KeyError" in err and "event=select" in err


def test_the_log_goes_to_logging_or_a_function(caplog):
    problem = convoy.Problem("fprop:x=f32,1x8x6x6:w=f32,8x8x3x3")
    try:
        with caplog.at_level(logging.INFO, "convoy"):
            convoy.set_log("info")
            problem.select()
        assert any(record.getMessage().startswith("event=select") for record in caplog.records)
        events = []
        convoy.set_log("debug", lambda level, message: events.append((level, message)))
        problem.select()
        assert events and all(level in ("error", "warning", "info", "debug") for level, _ in events)
        convoy.set_log("off")
        seen = len(events)
        problem.select()
        assert len(events) == seen
    finally:
        convoy.reset_log()
    with pytest.raises(convoy.InvalidArgument, match="level='loud' is not one of off, error"):
        convoy.set_log("loud")
    with pytest.raises(convoy.WrongType, match="receiver is of type int"):
        convoy.set_log("info", 3)


@pytest.mark.parametrize("home", sorted(convoy._HOMES))
def test_names_are_loaded_when_they_are_asked_for(home):
    # Each first in a process: none relies on another's being there.
    out, err, code = run_script(f"""
import sys, convoy
print("convoy.{home}" in sys.modules, "asyncio" in sys.modules)
for name in convoy._HOMES[{home!r}].split():
    assert name in dir(convoy) and getattr(convoy, name) is not None
print(set(convoy._HOME_OF) <= set(convoy.__all__))
try:
    convoy.nothing
except AttributeError as error:
    print(error)
""", 60)
    assert (out, code) == ("False False\nTrue\nmodule 'convoy' has no attribute 'nothing'\n", 0), err
