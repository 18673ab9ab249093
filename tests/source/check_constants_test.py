"""check-constants finds constants that are written otherwise than their language's, and lets traits, locals and public names pass."""

import sys

import checked_folder

CHECK = sys.argv[1]
PASSES = {"src/a.cc": "constexpr int kMost = 3;\ntemplate <class T>\nconstexpr bool is_half = false;\n  constexpr int local = 3;\n",
          "src/b.h": "  static constexpr std::array<int, 0> knobs{};\nconstexpr int twice(int x) { return 2 * x; }\n",
          "include/convoy/c.h": "constexpr int public_name = 3;\n",
          "src/engines/cuda/kernels/d.cu": "constexpr int rows = 3;\n"}
FAILS = {"src/a.cc": ("\nconstexpr int most = 3;\n", "src/a.cc:2: constant 'most' is written kPascal"),
         "src/b.h": ("  static constexpr const char* names[] = {\n", "src/b.h:1: constant 'names'"),
         "src/c.inc": ("inline constexpr double reach{1};\n", "src/c.inc:1: constant 'reach'"),
         "src/engines/cuda/kernels/d.cu": ("constexpr int kRows = 3;\n", "d.cu:1: constant 'kRows' is written snake_case")}


def check(files):
    return checked_folder.check(CHECK, files)


def main():
    said, passes = check(PASSES)
    assert passes and "3 constants, 0 otherwise" in said, said
    for name, (text, expected) in FAILS.items():
        said, passes = check({name: text})
        assert not passes and expected in said and "1 otherwise" in said, (name, said)
    assert not check({})[1], "a folder without constants"
    print(f"{1 + len(FAILS)} folders checked")


if __name__ == "__main__":
    main()
