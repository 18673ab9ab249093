"""check-figures finds each kind of wrong figure, and lets right ones pass."""

import json
import pathlib
import subprocess
import sys
import tempfile

CHECK = sys.argv[1]
RECORD = {"mean": 1.446, "most": 12345.4,
          "rows": [{"network": "zoo:a", "threads": 1, "ratio": 0.5}, {"network": "zoo:b", "threads": 1, "ratio": 0.8},
                   {"network": "zoo:b", "threads": 2, "ratio": 0.25}]}
TABLE = """<!-- figures record.json
one = 1/rows[network=*{row} threads=1].ratio
both = rows[network=*b threads=1].ratio; max rows[threads=1].ratio
-->
| network | one | both |
|---|---|---|
| a | %s | %s |

More text, with | a bar.
| another | table |
|---|---|
| 7 | 8 |
"""


def check(text):
    """What check-figures says of a page, and whether it passes."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "record.json").write_text(json.dumps(RECORD))
        (folder / "page.md").write_text(text)
        done = subprocess.run([CHECK, folder / "page.md"], capture_output=True, text=True)
        return done.stdout, done.returncode == 0


def inline(figure, key, record="record.json"):
    return f'About [{figure}]({record} "{key}") times.'


def main():
    right = [inline("1.45", "mean"), inline("1.4", "mean"), inline("12,345", "most"), inline("2", "1/rows[0].ratio"),
             inline("0.25", "min rows[].ratio"), inline("0.63", "geomean rows[threads=1].ratio"),
             inline("3", "count rows[]"), inline("2.892", "mean / rows[0].ratio"), TABLE % ("2.0", "0.80 (0.8)"),
             inline("1.45", "average|mean")]
    wrong = [(inline("1.44", "mean"), "1.44 is 1.4460"), (inline("1.45", "median"), "0 values"),
             (inline("0.8", "rows[network=zoo:b].ratio"), "2 values"), (inline("1.45", "mean", "none.json"), "no record"),
             (inline("1", "min rows[threads=9].ratio"), "nothing in the record fits"),
             (TABLE % ("1.9", "0.80 (0.8)"), "row 'a', column 'one': 1.9 is 2.000"),
             (TABLE % ("2.0", "0.80"), "1 figures and 2 keys"),
             ((TABLE % ("2.0", "0.80 (0.8)")).replace("both =", "neither ="), "no column 'neither'")]
    bad = 0
    for text in right:
        said, passes = check(text)
        if not passes or "0 figures" in said:
            bad += 1
            print(f"FAILED: right, but refused:\n{text}\n{said}")
    for text, words in wrong:
        said, passes = check(text)
        if passes or words not in said:
            bad += 1
            print(f"FAILED: wrong, but says:\n{text}\n{said}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
