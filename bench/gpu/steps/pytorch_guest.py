"""What a program may do under `convoy exec` besides convolving: memory, streams, checkpoints, ranks, workers; torch.compile; JAX."""
import json
import os
import statistics
import subprocess

from steps import harness
from steps.pytorch import PROGRAMS, PYTHON, Driven, Programs, TorchTests, every_gpu, plain_environment, program, spread, together, under
from steps.pytorch_people import in_turns, ratio_of


def lines_of(record):
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def ran_in(record):
    """Of a record: its graphs, and the calls of what ran, plan or substitute."""
    calls, graphs = {}, [row for row in lines_of(record) if "operations" in row]
    for row in graphs:
        for plan in row.get("plans", []):
            for name, count in ((plan["candidate"], plan.get("calls", 0) - plan.get("substituted", 0)), (plan.get("substitute"), plan.get("substituted", 0))):
                if count:
                    calls[name] = calls.get(name, 0) + count
    return {"graphs": len(graphs), "problems": sum("problem" in row for row in graphs), "steered": sum("steered" in row for row in graphs),
            "calls": sum(calls.values()), "ran": calls}


class Guest(Programs):
    """what a program may rely on: switched off by a variable, side streams, checkpoints, DDP, FSDP, workers without CUDA"""

    def units(self):
        return ["off", "streams", "checkpointing", "workers", "ranks", "sharded", "streams --contiguous", "checkpointing --contiguous", "ranks --contiguous"]

    def streams(self, *more):
        return self.both("streams", *more)

    def checkpointing(self, *more):
        return self.both("checkpointing", *more)

    def workers(self):
        return self.both("workers")

    def sharded(self):
        return self.both("sharded", prefix=[PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2"], environment=every_gpu())

    def off(self):
        """A filter that permits knobs that no engine has, strictly: what is not switched off fails."""
        answers = {}
        for mode, more in (("on", {}), ("off", {"CONVOY_EXEC": "off"})):
            record = harness.OUT / f"switch-{mode}.jsonl"
            done = subprocess.run([*under("--record", record, "--no-db", "--engines", "cudnn.eng1{k2=77}", "--strict"), PYTHON, str(PROGRAMS / "strange.py"), "checkpointing"],
                                  capture_output=True, text=True, timeout=200, env={**plain_environment(), **more})
            answers[mode] = {"exit_code": done.returncode, "said": done.stdout[-300:], "errors": done.stderr[-600:], "recorded": ran_in(record)["graphs"]}
        return answers


class Jax(harness.Step):
    """JAX's convolutions, looked up by name: seen, tuned, steered, another engine by rule"""

    def units(self):
        return ["jax"]

    def run(self, unit):
        record = harness.OUT / "jax.jsonl"
        rules, engines, said = harness.OUT / "jax.rules", {}, {}

        def turn(mode, *before):
            done = subprocess.run([*before, PYTHON, str(PROGRAMS / "strange.py"), "jax"], capture_output=True, text=True, timeout=240,
                                  env={**plain_environment(), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
            lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            said[mode] = {"exit_code": done.returncode, "said": lines, "errors": done.stderr[-1500:]}

        turn("plain")
        turn("recorded", *under("--record", record))
        seen = ran_in(record)
        if not seen["graphs"]:
            return {"said": said, "seen": seen}
        _, out, err = harness.command([harness.CONVOY, "tune", record, "--device", "cuda", "--budget", 10, "--json"], seconds=200)
        tuned = json.loads(out) if out.startswith("{") else {"broken": err[-500:]}
        steered = harness.OUT / "jax-steered.jsonl"
        turn("steered", *under("--record", steered, "--steer", "--like-benchmark"))
        # Rules: of each problem an engine that the program built, and that is not the one it runs.
        for row in lines_of(record):
            built = sorted((plan for plan in row.get("plans", []) if plan.get("made") and "failure" not in plan), key=lambda plan: -plan.get("calls", 0))
            others = [engine for engine in (plan["candidate"].split("{")[0] for plan in built) if engine != built[0]["candidate"].split("{")[0]]
            if row.get("problem") and others:
                engines[row["problem"]] = others[0]
        rules.write_text("".join(f"{problem} -> {engine}\n" for problem, engine in engines.items()))
        ruled = harness.OUT / "jax-ruled.jsonl"
        turn("by rule", *under("--record", ruled, "--no-db", "--rules", rules, "--strict"))
        keep = ("problem", "operations", "reason", "calls", "plans", "steered", "not_placed", "benchmark")
        return {"said": said, "seen": seen, "rows": [{key: row[key] for key in keep if key in row} for row in lines_of(record) if "operations" in row],
                "queries": [row.get("queries") for row in lines_of(record)][:4], "tuned": {key: tuned.get(key) for key in ("measured", "seconds_of_what_ran", "gain_seconds", "elsewhere_seconds", "broken")},
                "steered": ran_in(steered), "steered_rows": [{key: row[key] for key in keep if key in row} for row in lines_of(steered) if "operations" in row],
                "rules": rules.read_text(), "ruled": ran_in(ruled)}

    def summary(self, rows):
        return {"rows": rows}


class Compiled(harness.Step):
    """torch.compile's programs, default and with CUDA graphs: what reaches cuDNN, steered beside plain and benchmark, all compiled"""
    ROUNDS, SECONDS = 7, 0.4
    TUNING = 8

    def units(self):
        return [[name, mode] for name in ("wav2letter", "r3d_18") for mode in ("default", "reduce-overhead")]

    def run(self, unit):
        name, mode = unit
        changes = {"CONVOY_DB": str(harness.OUT / f"compiled-{name}-{mode}.db"), "TORCHINDUCTOR_CACHE_DIR": str(harness.OUT / f"inductor-{name}")}
        before = {key: os.environ.get(key) for key in changes}
        os.environ.update(changes)
        try:
            return self.measured(name, mode)
        except (RuntimeError, BrokenPipeError, KeyError, ValueError) as error:
            return {"program": name, "mode": mode, "broken": str(error)[-2000:]}
        finally:
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})

    def measured(self, name, mode):
        record, steered = (harness.OUT / f"compiled-{name}-{mode}{end}.jsonl" for end in ("", "-steered"))
        script = program("programs.py", name, "--compile", mode)
        one = Driven(*under("--record", record), *script)
        one.said()
        first = one.ask("first")["seconds"]
        one.ask("steps 4")  # warms up, captures
        operators = one.ask("operators")
        said = {"recorded": one.end()[-600:]}
        _, out, err = harness.command([harness.CONVOY, "tune", record, "--device", "cuda", "--budget", self.TUNING, "--json"], seconds=300)
        tuned = json.loads(out)
        driven = together({"plain": script, "benchmark": [*script, "--benchmark"],
                           "steered": under("--record", steered, "--steer", "--like-benchmark") + script, "eager": program("programs.py", name)})
        losses = {}
        for which in ("benchmark", "plain", "steered", "eager"):
            losses[which] = driven[which].ask("first")["loss"]
            driven[which].ask("steps 5")
        rounds = in_turns(driven, tuple(driven), self.ROUNDS, self.SECONDS)
        kernels = {which: each.ask("kernels 3") for which, each in driven.items()}
        memory = {which: each.ask("memory") for which, each in driven.items()}
        said.update({which: each.end()[-300:] for which, each in driven.items()})
        return {"program": name, "mode": mode, "first_step_seconds": first, "operators": operators, "seen": ran_in(record), "steered": ran_in(steered),
                "tuned": {key: tuned.get(key) for key in ("measured", "partial", "seconds", "seconds_of_what_ran", "gain_seconds", "elsewhere_seconds")}, "losses": losses,
                "milliseconds": {which: spread([row[which] for row in rounds]) for which in driven}, "rounds": rounds, "ratio": ratio_of([rounds], "steered"),
                "kernels": kernels, "memory": memory, "said": said, "tune_said": err[-400:]}

    def summary(self, rows):
        table = [row if "broken" in row else
                 [row["program"], row["mode"], {which: round(each["median"], 2) for which, each in row["milliseconds"].items()},
                  [round(each, 3) for each in row["ratio"]], row["seen"]["graphs"], row["steered"]["steered"]] for row in rows]
        return {"table": table, "rows": rows}
