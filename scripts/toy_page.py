"""What toy-operator, toy-engine and toy-kernel share: a copy of the sources to which a page's example is added as it stands there."""
import pathlib
import re
import subprocess
import sys


def add(page: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the page's files (blocks that begin with a comment of their path) and runs its first block of edits (sh)."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", page.read_text(), re.S)
    edits_at = next(i for i, (kind, _) in enumerate(blocks) if kind == "sh")
    edits, added = blocks[edits_at][1], []
    for _, text in blocks[:edits_at]:
        path = re.match(r"(?://|#) (src/[\w./]+)", text)
        if path:
            (folder / path[1]).parent.mkdir(exist_ok=True)
            (folder / path[1]).write_text(text)
            added.append(path[1])
    edited = sorted(set(re.findall(r"(\S+)$", edits, re.M)))
    for line in filter(None, edits.splitlines()):
        name = line.split()[-1]
        before = (folder / name).read_text()
        subprocess.run(["bash", "-euc", line], cwd=folder, check=True)
        assert (folder / name).read_text() != before, f"nothing changed: {line}"
    print(f"opened: {page.name}; added: {' '.join(added)}; edited: {' '.join(edited)}")


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    (folder / "build").mkdir(parents=True, exist_ok=True)
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=root, capture_output=True, check=True).stdout
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", folder], cwd=root, input=names, check=True)
    for brought in ("pypi", "js"):
        if (root / "build" / brought).exists() and not (folder / "build" / brought).exists():
            (folder / "build" / brought).symlink_to((root / "build" / brought).resolve())
    add(folder / "docs" / name, folder)
    subprocess.run(["cmake", "--preset", "release"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(folder / "build/build.log", "w+") as log:
        target = sys.argv[3] if len(sys.argv) > 3 else "convoy"
        if subprocess.run(["cmake", "--build", "build", "--target", target], cwd=folder, stdout=log, stderr=log).returncode:
            log.seek(0)
            sys.exit("".join(log.readlines()[-20:]))


if __name__ == "__main__":
    main()
