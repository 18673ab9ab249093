"""Whether the plan that --how chooses is the fastest: plans of whole networks timed side by side in one process."""
import json

from steps import harness

NETWORKS = {"resnet50": 32, "resnext50_32x4d": 32, "mobilenet_v2": 32, "efficientnet_b0": 32, "convnext_tiny": 32, "unet": 2, "unet3d": 1}
OTHERS = ("global", "local", "uniform:nhwc", "uniform:nchw")
TUNED = ("resnet50", "mobilenet_v2", "efficientnet_b0", "unet")
TUNE_SECONDS = 30


class Plans(harness.Step):
    """greedy plans of networks in f16 beside global, local and uniform ones, untuned, and beside those that convoy tune keeps"""

    def units(self):
        return ([[network, batch, other] for network, batch in NETWORKS.items() for other in OTHERS]
                + [[network, 1, "global"] for network in NETWORKS] + [[network, NETWORKS[network], "tuned"] for network in TUNED])

    def run(self, unit):
        network, batch, other = unit
        of = [f"zoo:{network}", "--batch", batch, "--precision", "f16", "--device", "cuda"]
        told = {"unit": unit}
        own = ["--no-db"]
        if other == "tuned":
            own = []
            code, out, err = harness.command([harness.CONVOY, "tune", *of, "--budget", TUNE_SECONDS, "--json"])
            told["tune"] = {"exit_code": code, "told": out[-1500:] if code == 0 else err[-1500:]}
        # greedy without what was tuned, but for the last: there both have it, and only the kept plan differs
        code, out, err = harness.command([harness.CONVOY, "compare", of[0], "greedy", other, *of[1:], "--random-inputs", "--json", *own])
        return {**told, **(json.loads(out) if code == 0 else {"broken": {"exit_code": code, "stderr": err[-1500:]}})}

    def summary(self, rows):
        cells = [[*row["unit"], round(row["b_over_a"], 4), round(row["relative_uncertainty"], 4)] for row in rows if "b_over_a" in row]
        slower = [cell for cell in cells if cell[2] != "tuned" and cell[3] < 1 - max(cell[4], 0.01)]
        return {"greedy_is_beaten_by": slower, "b_over_a": cells, "rows": rows}
