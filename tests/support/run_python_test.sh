#!/bin/sh
# run_python_test.sh SCRIPT [ARGUMENT ...]: runs a test in the environment $CONVOY_VENV, or says that there is none (77:
# CTest shows "skipped").
if ! "$CONVOY_VENV/bin/python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
  echo "skipped: $CONVOY_VENV has no numpy, onnx and onnxruntime (scripts/setup test installs them)"
  exit 77
fi
exec "$CONVOY_VENV/bin/python" "$@"
