#!/bin/sh
# Runs quantized_test.py in the environment $CONVOY_VENV, or says that there is none (77: CTest shows "skipped").
if ! "$CONVOY_VENV/bin/python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null; then
  echo "skipped: $CONVOY_VENV has no numpy, onnx and onnxruntime (scripts/setup test installs them)"
  exit 77
fi
exec "$CONVOY_VENV/bin/python" "$(dirname "$0")/quantized_test.py" "$@"
