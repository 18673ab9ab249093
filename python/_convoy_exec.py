"""Under `convoy exec` the wheel's convoy_exec.pth imports this when Python starts: it brings the hook in, also where PYTHONPATH is not
heeded (docs/pytorch.md). Nothing is raised here."""
try:
    import os
    from importlib.machinery import SourceFileLoader

    _name, _file = "convoy_exec_hook", os.path.join(os.path.dirname(os.path.abspath(__file__)), "convoy", "_exec", "sitecustomize.py")
    exec(SourceFileLoader(_name, _file).get_code(_name), {"__name__": _name, "__file__": _file})
except Exception:  # the package is gone, or this Python is none that can read it: no hook
    pass
