"""`convoy bench --sm-count` on problems of all kinds: what it finds, and what that takes beside a kernel on the other SMs."""
import json

from steps import harness

KINDS = {
    "bf16 fprop": "fprop:x=bf16,64x64x56x56,nhwc:w=bf16,64x64x3x3,nhwc:pad=1x1:math=reduced",
    "f16 dgrad": "dgrad:x=f16,32x128x28x28,nhwc:w=f16,128x128x3x3,nhwc:y=f16,32x128x28x28,nhwc:pad=1x1",
    "bf16 wgrad, 1x1": "wgrad:x=bf16,32x256x28x28,nhwc:w=bf16,128x256x1x1,nhwc:y=bf16,32x128x28x28,nhwc",
    "tf32 fprop": "fprop:x=f32,16x128x28x28,nhwc:w=f32,128x128x3x3,nhwc:pad=1x1:math=tf32",
    "f32 fprop": "fprop:x=f32,8x64x56x56,nhwc:w=f32,64x64x3x3,nhwc:pad=1x1",
    "f32 wgrad": "wgrad:x=f32,8x64x28x28,nhwc:w=f32,64x64x3x3,nhwc:y=f32,8x64x28x28,nhwc:pad=1x1",
    "f16 fprop, NCHW": "fprop:x=f16,32x64x56x56:w=f16,64x64x3x3:pad=1x1",
    "bf16 grouped": "fprop:x=bf16,32x128x28x28,nhwc:w=bf16,128x4x3x3,nhwc:pad=1x1:groups=32",
    "bf16 depthwise": "fprop:x=bf16,64x96x56x56,nhwc:w=bf16,96x1x3x3:pad=1x1:groups=96",
    "f32 depthwise wgrad, NCHW": "wgrad:x=f32,32x96x28x28:w=f32,96x1x5x5:y=f32,32x96x28x28:pad=2x2:groups=96",
    "bf16 3D": "fprop:x=bf16,2x64x16x28x28,ndhwc:w=bf16,64x64x3x3x3,ndhwc:pad=1x1x1",
    "bf16 fused": "fprop:x=bf16,32x128x28x28,nhwc:w=bf16,128x128x3x3,nhwc:pad=1x1:bias=1:act=relu:math=reduced",
    "tf32 wgrad": "wgrad:x=f32,16x128x28x28,nhwc:w=f32,128x128x3x3,nhwc:y=f32,16x128x28x28,nhwc:pad=1x1:math=tf32",
    "bf16 dgrad": "dgrad:x=bf16,32x128x28x28,nhwc:w=bf16,128x128x3x3,nhwc:y=bf16,32x128x28x28,nhwc:pad=1x1:math=reduced",
    "f16 fprop, stride 2": "fprop:x=f16,32x128x28x28,nhwc:w=f16,128x128x3x3,nhwc:pad=1x1:stride=2x2",
    "f16 1D": "fprop:x=f16,16x256x2000,nwc:w=f16,256x256x3,nwc:pad=1",
}
BUDGET = 4


def both_ends(text, most=3000):
    """The first lines say what happened to whom, the last ones how it ended."""
    return text if len(text) <= most else f"{text[:most // 2]}\n...\n{text[-most // 2:]}"


def best(entry):
    """The fastest right candidate; an oracle is none."""
    return next((c for c in harness.right(entry) if c["engine"] != "cuda.reference"), None)


class SmCount(harness.Step):
    """convoy bench --sm-count with half of the SMs, on problems of all kinds; both choices beside a kernel on the other half"""
    jobs = 3

    def units(self):
        return list(KINDS.items())

    def bench(self, text, *flags):
        code, out, err = harness.command([harness.CONVOY, "bench", text, "--device", "cuda", "--budget", BUDGET, "--json", *flags],
                                         CONVOY_NVML="off")
        try:
            entry = json.loads(out)["problems"][0]
        except (ValueError, LookupError):
            entry = {"candidates": [], "refusals": []}
        refused = [[r["candidate"], r["refusal"]["reason"]] for r in entry["refusals"] if "candidate" in r]
        if code != 0 or best(entry) is None:
            return {"exit_code": code, "failure": both_ends(entry.get("failure", "") + err), "refused": refused,
                    "failed": [c for c in entry["candidates"] if c["status"] != "ok"][:5]}
        kept = ("candidate", "seconds", "spread")
        return {"exit_code": code, "best": {key: best(entry)[key] for key in kept}, "right": len(harness.right(entry)),
                "refused": refused,
                "reference_seconds": next((c["seconds"] for c in harness.right(entry) if c["engine"] == "cuda.reference"), None),
                "failed": [[c["candidate"], c.get("reason")] for c in entry["candidates"] if c["status"] != "ok"][:5]}

    def run(self, unit):
        kind, text = unit
        sms = harness.multiprocessors()
        found = {"all": self.bench(text), "part": self.bench(text, "--sm-count", sms // 2)}
        names = [found[which].get("best", {}).get("candidate", "-") for which in ("all", "part")]
        code, out, err = harness.command([harness.ROOT / "tests/gpu_carveout", text, *names])
        cases = json.loads(out)["cases"] if code == 0 else []
        timed = {"part" if case["target_sms"] else "all": case for case in cases}
        ratio = timed["part"]["beside"] / timed["all"]["beside"] if len(timed) == 2 else None
        return {"kind": kind, "problem": text, "sm_count": sms, "found": found, "beside": timed, "part_over_all_beside": ratio,
                "carveout_error": None if code == 0 else both_ends(out + err)}

    def summary(self, rows):
        works = [row["kind"] for row in rows if "best" in row["found"]["part"] and "part" in row["beside"]]
        return {"works": works, "fails": [row["kind"] for row in rows if row["kind"] not in works],
                "table": [{"kind": row["kind"],
                           **{f"{which}_{key}": row["beside"].get(which, {}).get(key) for which in ("all", "part")
                              for key in ("candidate", "alone", "beside", "kernel_beside")},
                           "part_over_all_beside": row["part_over_all_beside"]} for row in rows],
                "rows": rows}
