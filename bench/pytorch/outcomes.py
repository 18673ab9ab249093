"""Runs a file of unittests and writes each test's outcome.

    outcomes.py FILE.py OUTCOMES.json [--without PART_OF_A_NAME] [--patch] [unittest's arguments]

--patch: on convoy.torch.
"""
import json
import runpy
import sys
import unittest

outcomes = {}


class Recording(unittest.TextTestResult):
    def addSuccess(self, test):
        super().addSuccess(test)
        outcomes.setdefault(test.id(), "ok")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        outcomes[test.id()] = "failed"

    def addError(self, test, error):
        super().addError(test, error)
        outcomes[test.id()] = "error"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        outcomes[test.id()] = "skipped"

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        outcomes[test.id()] = "expected failure"

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        outcomes[test.id()] = "unexpected success"

    def stopTest(self, test):
        super().stopTest(test)
        with open(written, "w") as file:
            json.dump(outcomes, file)


script, written, *arguments = sys.argv[1:]
if arguments[:1] == ["--without"]:
    left_out, arguments = arguments[1], arguments[2:]
    names = unittest.TestLoader.getTestCaseNames
    unittest.TestLoader.getTestCaseNames = lambda self, case: [name for name in names(self, case) if left_out not in name]
if "--patch" in arguments:
    arguments.remove("--patch")
    import convoy.torch
    convoy.torch.patch()
unittest.TextTestRunner.resultclass = Recording
sys.argv = [script, *arguments]
runpy.run_path(script, run_name="__main__")
