"""What each precision takes and loses, and what is the fastest within an error."""
import os

from steps import harness

BATCH = 32
# Of each network: precisions, and the share of the whole network's error in it that is allowed.
ALLOWED = {"mobilenet_v2": {"f16": 0.5, "tf32": 0.5}, "efficientnet_b0": {"f16": 0.5}}


class Precision(harness.Step):
    """networks in f32, tf32, f16 and bf16 side by side: times and errors, and of the plans within half of an error"""

    def units(self):
        return [[network, BATCH, allowed] for network, allowed in ALLOWED.items()]

    def run(self, unit):
        folders = [str(harness.HERE / "python"), str(harness.HERE / "bench/gpu"), os.environ.get("PYTHONPATH", "")]
        return {"unit": unit, **harness.ask(harness.HERE / "bench/gpu/precision.py", unit, PYTHONPATH=":".join(folders),
                                            CONVOY_LIBRARY=str(harness.ROOT / "lib/libconvoy.so"))}

    def summary(self, rows):
        broken = [[row["unit"][0], each["precision"]] for row in rows for each in row["rows"] if each.get("kept") is False]
        return {"errors_not_kept": broken, "networks": [{"network": row["unit"][0], "batch": row["unit"][1], **row} for row in rows]}
