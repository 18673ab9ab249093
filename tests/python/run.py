"""All tests of this folder, by pytest, with a line for each that is skipped and why: run.py [PYTEST'S ARGUMENT ...]."""
import pathlib
import sys


def main():
    try:
        import pytest
    except ImportError:
        print("skipped: pytest is not installed (scripts/setup test installs it)")
        return 77
    here = pathlib.Path(__file__).resolve().parent
    return pytest.main(["-q", "-rs", "-p", "no:cacheprovider", "--tb=short", "--show-capture=no", *sys.argv[1:], str(here)])


if __name__ == "__main__":  # workers of dask and multiprocessing import it again
    sys.exit(main())
