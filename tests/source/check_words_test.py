"""check-words finds old words in pages, strings and identifiers, and lets comments, other words and records' keys pass."""

import sys

import checked_folder

CHECK = sys.argv[1]
GLOSSARY = """# Words

| word | meaning | not |
|---|---|---|
| engine | an implementation | |
| poison | fill with NaN | soil |
| interleaved | alternating | in turns, turn outcome |
"""
PASSES = {"README.md": "Runs are interleaved. It turns soiled.\n",
          "docs/page.md": 'A [1.5](record.json "soil.median").\n<!-- figures a.json\nx = soil[0]\n-->\n',
          "src/a.cc": "// in turns\nint poison;  // soil\n/* soil\n */\n",
          "python/convoy/a.py": "x = 1  # soil\n"}
FAILS = {"README.md": ("Runs go in turns.\n", "README.md:1: 'in turns' is called 'interleaved'"),
         "docs/page.md": ("One\n\nSoil.\n", "docs/page.md:3: 'soil'"),
         "src/a.cc": ('/* a\n */ call("soils // it");\n', "src/a.cc:2: 'soil'"),
         "src/b.h": ("struct TurnOutcome {};\n", "src/b.h:1: 'turn outcome'"),
         "include/convoy/c.h": ("int turn_outcome();\n", "include/convoy/c.h:1: 'turn outcome'"),
         "python/convoy/a.py": ('"""Soil."""\n', "python/convoy/a.py:1: 'soil'")}


def check(files):
    return checked_folder.check(CHECK, {"docs/glossary.md": GLOSSARY, **files})


def main():
    said, passes = check(PASSES)
    assert passes and "4 files, 3 old words, 0 found" in said, said
    for name, (text, expected) in FAILS.items():
        said, passes = check({name: text})
        assert not passes and expected in said and "1 found" in said, (name, said)
    assert not check({})[1], "a folder without files"
    print(f"{1 + len(FAILS)} folders checked")


if __name__ == "__main__":
    main()
