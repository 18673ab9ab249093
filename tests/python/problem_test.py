"""Problems: what they say, who can run them, what is chosen, and why."""
import pickle
import re

import numpy as np
import pytest

import convoy

TEXT = "fprop:x=f32,1x16x12x12,nhwc:w=f32,32x16x3x3:pad=1x1"


def test_a_problem_says_what_it_is():
    problem = convoy.Problem(TEXT)
    assert problem.text == "fprop:x=f32,1x16x12x12,nhwc:w=f32,32x16x3x3,nchw:y=f32,1x32x12x12,nhwc:pad=1x1"
    assert problem.x == convoy.Tensor("f32", (1, 16, 12, 12), (2304, 1, 192, 16), 1, 9216)
    assert problem.out == problem.y and problem.computes == "y"
    assert problem.flops == 2 * 32 * 16 * 9 * 144
    assert convoy.Problem(problem.text) == problem == pickle.loads(pickle.dumps(problem))


@pytest.mark.parametrize(
    "text, kind, said",
    [
        ("fprop:x=f32,1x16x12x12:w=f32,32x15x3x3", convoy.InvalidArgument, r"w.dims\[1\]"),
        ("nothing", convoy.InvalidArgument, "nothing"),
        (7, convoy.WrongType, "text is of type int, not str"),
        ("fprop:x=f32\0", convoy.InvalidArgument, "zero byte"),
    ],
)
def test_a_wrong_problem_is_an_exception_that_names_the_field(text, kind, said):
    with pytest.raises(kind, match=said):
        convoy.Problem(text)


def test_candidates_are_the_engines_answers():
    found = {candidate.engine: candidate for candidate in convoy.Problem(TEXT).candidates()}
    assert found["reference"].refusal is None and found["cpu.direct"].name.startswith("cpu.direct")
    assert found["cpu.direct"].predicted_seconds > 0
    assert found["cpu.depthwise"].name is None and "groups=1" in found["cpu.depthwise"].refusal


def test_an_explanation_is_data_and_text():
    explanation = convoy.Problem(TEXT).explain(engines="cpu.*", database=False)
    assert explanation.candidate == convoy.Problem(TEXT).select(engines="cpu.*", database=False).candidate
    assert explanation.reason == "heuristic" and "the heuristic" in explanation.decided_by
    verdicts = {verdict.engine: verdict for verdict in explanation.engines}
    assert verdicts["cpu.depthwise"].refusal_kind == "groups"
    assert "engines='cpu.*'" in verdicts["onednn.gemm"].excluded
    text = str(explanation)
    assert f"chosen: {explanation.candidate} (heuristic)" in text and "cpu.depthwise: groups=1" in text
    assert re.search(r"^  cpu\.direct +\S+ [um]s +\d+(\.\d+)? (B|KiB|MiB)$", text, re.M), text  # in units, as the command has it
    nothing = convoy.Problem(TEXT).explain(engines="cpu.depthwise", database=False)
    assert nothing.candidate is None and "chosen: none" in str(nothing)


def test_select_follows_rules_and_filters():
    problem = convoy.Problem(TEXT)
    assert problem.select(rules="filter=3x3 -> cpu.direct").reason == "rule 'filter=3x3'"
    assert problem.select(rules={"filter=3x3": "cpu.direct"}).candidate.startswith("cpu.direct")
    assert problem.select(engines=["cpu.*", "!cpu.winograd"], database=False).candidate.startswith("cpu.")
    planar = convoy.Problem("fprop:x=f32,1x32x28x28:w=f32,32x32x3x3:pad=1x1")
    named = planar.select(engines="cpu.nhwc{engine=cpu.winograd,m=2},cpu.depthwise", database=False).candidate
    assert named == "cpu.nhwc{engine=cpu.winograd,m=2}"
    assert "winograd" not in planar.select(engines=["cpu.nhwc", "!*winograd*"], database=False).candidate
    with pytest.raises(convoy.InvalidArgument, match="cpu.nhwc: knob engine has no value 'cpu.winogard'"):
        planar.select(engines="cpu.nhwc{engine=cpu.winogard}")
    fallen = problem.select(rules={"filter=3x3": "cpu.depthwise"}, fallback=True)
    assert fallen.warnings and "groups=1" in fallen.warnings[0]
    assert problem.select(workspace_limit=1 << 30, deterministic=True, database=False).workspace_bytes <= 1 << 30
    with pytest.raises(convoy.Unsupported, match="workspace_limit=0: this candidate needs"):
        problem.select(workspace_limit=0)
    with pytest.raises(convoy.Unsupported, match="groups=1"):
        problem.select(rules={"filter=3x3": "cpu.depthwise"})
    with pytest.raises(convoy.InvalidArgument, match="workspace_limit=-1"):
        problem.select(workspace_limit=-1)
    with pytest.raises(convoy.ConvoyError, match="nonsense"):
        problem.select(rules="nonsense")
    with pytest.raises(convoy.InvalidArgument, match="rules: 'a\\\\nb'"):
        problem.select(rules={"a\nb": "cpu.direct"})


def test_tuning_measures_and_is_remembered(tmp_path):
    problem = convoy.Problem(TEXT)
    database = tmp_path / "tuning.db"
    tuned = problem.tune(engines="cpu.*", database=database, threads=1)
    assert tuned.reason == "measured" and len(tuned.measurements) >= 2
    times = [m.median_seconds for m in tuned.measurements if m.failure is None]
    assert times == sorted(times) and times[0] > 0
    assert all(m.max_error <= 1 for m in tuned.measurements)
    chosen = problem.select(engines="cpu.*", database=database, threads=1)
    assert (chosen.candidate, chosen.reason) == (tuned.candidate, "stored")
    assert problem.select(engines="cpu.*", database=False, threads=1).reason == "heuristic"
    explained = {v.engine: v for v in problem.explain(engines="cpu.*", database=database, threads=1).engines}
    engine = tuned.candidate.partition("{")[0]  # of two that are nearly as fast the least median may be the other's
    own = [m.median_seconds for m in tuned.measurements if m.failure is None and m.candidate.partition("{")[0] == engine]
    assert explained[engine].measured_seconds == pytest.approx(min(own))
    with pytest.raises(convoy.InvalidArgument, match="budget=-1"):
        problem.tune(budget=-1)
    x, w = np.ones((1, 12, 12, 16), np.float32).transpose(0, 3, 1, 2), np.ones((32, 16, 3, 3), np.float32)
    assert tuned(x, w)[0, 0, 5, 5] == 16 * 9


def test_databases_are_exchanged_as_text(tmp_path):
    convoy.Problem(TEXT).tune(engines="cpu.direct", database=tmp_path / "a.db", threads=1)
    lines = convoy.export_database(tmp_path / "a.db")
    assert convoy.import_database(lines, tmp_path / "b.db") == 1
    assert convoy.export_database(tmp_path / "b.db") == lines
    assert convoy.export_database(tmp_path / "none.db") == ""
    with pytest.raises(convoy.Corrupt):
        convoy.import_database("nonsense", tmp_path / "c.db")
    with pytest.raises(convoy.InvalidArgument, match="database=False names no file"):
        convoy.export_database(False)


def test_a_gpu_that_is_not_there_is_an_exception():
    try:
        plan = convoy.Problem(TEXT).select(device="cuda")
    except convoy.Unsupported as error:
        assert "device=cuda" in str(error)
        return
    x, w = np.ones((1, 12, 12, 16), np.float32).transpose(0, 3, 1, 2), np.ones((32, 16, 3, 3), np.float32)
    with pytest.raises(convoy.InvalidArgument, match="x is on cpu, the plan is for cuda:0"):
        plan(x, w, out=x)
