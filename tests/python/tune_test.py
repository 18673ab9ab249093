"""Tuning of many problems, here and on two workers of a dask.distributed client."""
import os
import signal
import threading

import pytest

import convoy
from conftest import run_script

TEXTS = [f"fprop:x=f32,1x{channels}x10x10:w=f32,8x{channels}x3x3" for channels in (4, 8, 12, 16)]


def test_problems_are_tuned_here(tmp_path):
    database = tmp_path / "tuning.db"
    depthwise_only = "fprop:x=f8_e4m3,1x4x10x10:w=f8_e4m3,8x4x3x3"
    done = convoy.tune([TEXTS[0], depthwise_only, TEXTS[0]], engines="cpu.*", database=database, threads=1, budget=20)
    assert [one.error is None for one in done] == [True, False, True]
    assert done[0] is done[2] and done[0].seconds > 0 and done[0].worker == "here"
    assert "f64" in done[1].error
    assert convoy.Problem(TEXTS[0]).select(engines="cpu.*", database=database, threads=1).reason == "stored"
    with pytest.raises(convoy.InvalidArgument, match="budget=-2"):
        convoy.tune(TEXTS, budget=-2)
    with pytest.raises(convoy.ConvoyError, match="w.dims"):
        convoy.tune(["fprop:x=f32,1x4x10x10:w=f32,8x5x3x3"])
    with pytest.raises(convoy.WrongType, match="client is of type int"):
        convoy.tune(TEXTS, client=3)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    import dask

    dask.config.set({"distributed.comm.timeouts.connect": "20s", "distributed.worker.daemon": True})
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp") as cluster:
        with distributed.Client(cluster) as client:
            yield client


def test_two_workers_share_the_problems_and_one_database_knows_all(client, tmp_path):
    database = tmp_path / "tuning.db"
    known = convoy.tune(TEXTS[:1], engines="cpu.*", database=database, threads=1)[0]
    done = convoy.tune(TEXTS, client=client, engines="cpu.*", database=database, threads=1)
    assert [one.problem for one in done] == [convoy.Problem(text).text for text in TEXTS]
    assert [one.error for one in done] == [None] * 4
    assert {one.worker for one in done} == set(client.nthreads())
    assert done[0].seconds == known.seconds, "what the database knew was measured again"
    for one in done:
        chosen = convoy.Problem(one.problem).select(engines="cpu.*", database=database, threads=1)
        assert (chosen.candidate, chosen.reason) == (one.candidate, "stored")


def test_each_worker_of_a_host_gets_a_gpu_of_its_own(client):
    workers = convoy._tune._Workers(client, False, {"device": "cuda"})
    workers.tune([], 0)
    assert sorted(workers.devices.values()) == ["cuda:0", "cuda:1"]
    version = convoy.__version__
    for worker, place in {"a": ("host", ""), "b": ("host", ""), "c": ("other", ""), "d": ("host", "3")}.items():
        workers.meet(worker, (*place, version))
    own = {worker: device for worker, device in workers.devices.items() if worker in "abcd"}
    assert own == {"a": "cuda:0", "b": "cuda:1", "c": "cuda:0", "d": "cuda:0"}
    workers.look()  # none of them is there
    assert not set("abcd") & {*workers.devices, *workers.idle}
    workers.meet("b", ("host", "", version))
    workers.meet("e", ("host", "", version))
    assert (workers.devices["b"], workers.devices["e"], workers.idle[-2:]) == ("cuda:0", "cuda:1", ["b", "e"])
    with pytest.raises(convoy.InvalidArgument, match="worker a has Convoy 9.9"):
        workers.meet("a", ("host", "", "9.9"))


def test_a_worker_that_dies_takes_no_problem_with_it(client, tmp_path):
    worker, pid = sorted(client.run(os.getpid).items())[0]
    killer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    killer.start()
    texts = [f"fprop:x=f32,1x64x{size}x28:w=f32,64x64x3x3:pad=1x1" for size in range(20, 26)]
    done = convoy.tune(texts, client=client, engines="cpu.*", database=tmp_path / "tuning.db", threads=1)
    killer.join()
    assert [one.error for one in done] == [None] * len(texts)
    assert worker not in client.nthreads()


def test_a_result_that_goes_with_its_worker_is_measured_again(client, tmp_path, monkeypatch):
    client.wait_for_workers(2, timeout=60)
    pids, killed = client.run(os.getpid), []
    look = convoy._tune._Workers.look

    def look_and_kill(self):
        look(self)
        finished = [task for future, task in self.running.items() if task.problem and future.status == "finished"]
        if finished and not killed:
            killed.append(finished[0])
            os.kill(pids[finished[0].worker], signal.SIGKILL)

    monkeypatch.setattr(convoy._tune._Workers, "look", look_and_kill)
    done = convoy.tune(TEXTS, client=client, engines="cpu.*", database=tmp_path / "tuning.db", threads=1)
    assert killed and [one.error for one in done] == [None] * 4
    # What it had given before stays its own.
    assert [one.worker for one in done if one.problem == killed[0].problem] != [killed[0].worker]


def test_two_gpus_measure_side_by_side(tmp_path):
    """Two workers, each with a GPU of its own: on a machine that has two."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    text = "fprop:x=f32,4x64x{0}x{0}:w=f32,64x64x3x3:pad=1x1:math=strict"
    try:
        convoy.Problem(text.format(8)).select(device="cuda:1", database=False)
    except convoy.ConvoyError as error:
        pytest.skip(f"no second GPU: {error}")
    texts = [text.format(size) for size in range(12, 28, 2)]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp") as cluster:
        with distributed.Client(cluster) as client:
            workers = convoy._tune._Workers(client, False, {"device": "cuda"})
            workers.tune([], 0)
            assert sorted(workers.devices.values()) == ["cuda:0", "cuda:1"]
            done = convoy.tune(texts, client=client, device="cuda", database=tmp_path / "tuning.db", budget=40)
    assert [one.error for one in done] == [None] * len(texts)
    assert len({one.worker for one in done}) == 2
    for one in done:
        chosen = convoy.Problem(one.problem).select(device="cuda:1", database=tmp_path / "tuning.db")
        assert (chosen.candidate, chosen.reason) == (one.candidate, "stored")


def test_tuning_a_problem_says_how_far_it_is_and_ends_when_told_to(tmp_path):
    problem = convoy.Problem("fprop:x=f32,1x16x20x20:w=f32,32x16x3x3:pad=1x1")
    told = []
    problem.tune(database=tmp_path / "a.db", threads=1, progress=lambda fraction, what: told.append((fraction, what)))
    assert len(told) > 2 and all(0 <= fraction <= 1 for fraction, _ in told) and told[-1][1].split("{")[0].count(".") == 1

    def enough(fraction, what):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        problem.tune(database=tmp_path / "b.db", threads=1, progress=enough)
    assert len(convoy.export_database(tmp_path / "b.db").splitlines()) < len(convoy.export_database(tmp_path / "a.db").splitlines())


CTRL_C = """
import signal, threading, time, numpy, os, convoy
def press(): os.kill(os.getpid(), signal.SIGINT)
start = time.monotonic()
threading.Timer(SECONDS, press).start()
try:
    CALL
    print("it was swallowed")
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - start < SECONDS + 10)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize("call", (
    "convoy.Network('zoo:squeezenet1_1', threads=1).tune({'input': numpy.zeros((1, 3, 64, 64), numpy.float32)}, budget=60, PROGRESS)",
    "convoy.Problem('fprop:x=f32,4x256x56x56:w=f32,256x256x3x3:pad=1x1').tune(threads=1, database=False, PROGRESS)",
))
@pytest.mark.parametrize("progress", ("progress=lambda fraction, what: sum(range(20000))", ""))
def test_ctrl_c_ends_tuning(call, progress):
    out, err, code = run_script(CTRL_C.replace("SECONDS", "1.5").replace("CALL", call.replace("PROGRESS", progress)), timeout=90)
    assert (out, code) == ("interrupted True\nTrue\n", 0), err
