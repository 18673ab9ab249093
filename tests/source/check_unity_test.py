"""check-unity finds constants and types that two files of a library define, where these are compiled together."""

import sys

import checked_folder

CHECK = sys.argv[1]
LISTING = "convoy_library(a\n  SOURCES\n    one.cc\n    two.cc\n  LOOPS three.cc\n  DEPENDS b\n  OPTIONS ${CONVOY_DECIDES})\n"
ONE = "namespace {\n\nconstexpr int kMost = 3;\nstruct Row {\n  int x;\n};\nint sum(int a) { return a; }\n}  // namespace\nstruct Public {\n};\n"
PASSES = [{"src/CMakeLists.txt": LISTING, "src/one.cc": ONE, "src/two.cc": "namespace {\nint sum(double a);\n}  // namespace\nstruct Public {\n};\n"},
          {"src/CMakeLists.txt": LISTING, "src/one.cc": ONE, "src/three.cc": ONE},
          {"src/CMakeLists.txt": LISTING.replace("OPTIONS ${CONVOY_DECIDES}", "UNITY") + "convoy_library(b SOURCES two.cc)\n",
           "src/one.cc": ONE, "src/two.cc": "constexpr int kOther = 3;\n"}]
FAILS = [("constexpr double kMost = 4;", "'kMost' is defined in src/one.cc and in src/two.cc"),
         ("class Row final : Base {", "'Row' is defined in src/one.cc and in src/two.cc")]


def check(files):
    return checked_folder.check(CHECK, files)


def main():
    for files in PASSES:
        said, passes = check(files)
        assert passes and "0 names defined twice" in said, (files, said)
    for line, expected in FAILS:
        said, passes = check({"src/CMakeLists.txt": LISTING, "src/one.cc": ONE, "src/two.cc": f"namespace {{\n{line}\n}}  // namespace\n"})
        assert not passes and expected in said and "1 names" in said, (line, said)
    said, passes = check({"src/CMakeLists.txt": LISTING, "src/one.cc": ONE, "src/two.cc": "constexpr int kMost = 4;\n"})
    assert not passes and "'kMost' is defined in" in said, said
    assert not check({})[1], "a folder without files"
    print(f"{len(PASSES) + len(FAILS) + 2} folders checked")


if __name__ == "__main__":
    main()
