"""libconvoy.so exports its public names and nothing else: every function of convoy.h, and of namespace convoy only what
the headers of include/convoy/ declare; nothing of the libraries that are linked into it.

  exports.py LIBCONVOY INCLUDE_FOLDER
"""
import pathlib
import re
import subprocess
import sys

library, include = sys.argv[1], pathlib.Path(sys.argv[2])
# The bodies of comments say nothing about what is declared.
c_header = re.sub(r"/\*.*?\*/", "", (include / "convoy.h").read_text(), flags=re.DOTALL)
cpp_headers = "\n".join(re.sub(r"//.*", "", p.read_text()) for p in sorted((include / "convoy").glob("*.h")))
wanted = set(re.findall(r"\b(convoy_\w+)\(", c_header))
words = set(re.findall(r"\w+", cpp_headers))

lines = subprocess.run(["nm", "-D", "-C", "--defined-only", library], check=True, capture_output=True, text=True).stdout
names = [line.split(" ", 2)[2] for line in lines.splitlines()]
found, wrong = set(), []
for name in names:
    if re.fullmatch(r"convoy_\w+", name):
        found.add(name)
        continue
    name = re.sub(r"^(vtable|typeinfo|typeinfo name) for ", "", name)
    # convoy::A::b<..>(..): each part of the name must be one that a public header has.
    match = re.match(r"convoy::([\w:~]+)", name)
    parts = match.group(1).strip(":").split("::") if match else []
    if not parts or any(part.lstrip("~") not in words and part != "Impl" for part in parts):
        wrong.append(name)
for name in sorted(found - wanted):
    wrong.append(f"{name}, which convoy.h does not declare")
for name in sorted(wanted - found):
    wrong.append(f"{name} is declared in convoy.h and not exported")
if wrong:
    print(f"{library}: {len(wrong)} of {len(names)} exported names are wrong:", *wrong[:40], sep="\n  ")
    sys.exit(1)
if len(names) - len(found) < 50:
    print(f"{library}: only {len(names) - len(found)} C++ names are exported; the interface has more")
    sys.exit(1)
print(f"{library}: {len(found)} C functions and {len(names) - len(found)} C++ names, all of them public")
