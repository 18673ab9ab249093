"""The PyTorch scripts that repeat convolutions: each is run, with a stand-in for PyTorch that checks
shapes, strides and bounds."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CONVOY, PROBLEMS = sys.argv[1:3]
FAKE = pathlib.Path(__file__).with_name("fake_torch")


def convoy(*arguments):
    done = subprocess.run([CONVOY, *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


class Scripts(unittest.TestCase):
    def run_script(self, problem, *arguments):
        code, script, err = convoy("repro", "--pytorch", problem)
        self.assertEqual(code, 0, err)
        compile(script, problem, "exec")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "script.py"
            path.write_text(script)
            done = subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PYTHONPATH": str(FAKE), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{problem}\n{done.stdout}")
        return done.stdout

    def test_forms(self):
        out = self.run_script("fprop:x=bf16,2x8x5x6,nhwc,align=16:w=bf16,8x4x3x3,nhwc:y=bf16,2x8x3x3,nhwc:pad=1x1:stride=2x2:groups=2")
        self.assertIn("asked: conv2d [2, 8, 5, 6] strides [240, 1, 48, 8] offset 8 bfloat16 on cuda groups 2 tf32 False benchmark False", out)
        self.assertIn("forward: done, [2, 8, 3, 3]", out)
        self.assertIn("forward and backward: done", out)
        out = self.run_script("dgrad:x=f32,2x8x6x6:w=f32,16x8x3x3:y=f32,2x16x3x3:pad=1x1:stride=2x2:math=tf32", "--benchmark")
        self.assertIn("asked: conv_transpose2d [2, 8, 6, 6]", out)
        self.assertIn("asked: convolution_backward [True, False, False]", out)
        self.assertIn("tf32 True benchmark True", out)
        out = self.run_script("wgrad:x=f16,2x8x4x6x6:w=f16,16x8x3x3x3:y=f16,2x16x4x6x6:pad=1x1x1:dilation=1x1x1", "--device", "cpu")
        self.assertIn("asked: convolution_backward [False, True, False]", out)
        self.assertIn("asked: conv3d", out)
        self.run_script("fprop:x=f64,1x3x9:w=f64,4x3x3:pad=1:dilation=2")
        out = self.run_script("fprop:x=f32,1x3x9x9:w=f32,4x3x3x3:pad=1x1/0x0")
        self.assertIn("conv2d [1, 3, 10, 10]", out)
        self.assertIn("cudnn_convolution_relu", self.run_script("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3:pad=1x1:bias=1:act=relu"))
        self.assertIn("cudnn_convolution_add_relu", self.run_script("fprop:x=f32,1x4x9x9:w=f32,4x4x3x3:pad=1x1:bias=1:gamma=1:act=relu"))
        out = self.run_script("dgrad:x=f32,1x4x12x12:w=f32,4x4x3x3:y=f32,1x4x3x3:stride=4x4")
        self.assertIn("asked: conv_transpose2d [1, 4, 12, 12]", out)

    def test_every_layer_of_a_network_in_every_pass(self):
        lines = (pathlib.Path(PROBLEMS) / "efficientnet_b0.txt").read_text().splitlines()
        problems = [word for line in lines if not line.startswith("#") for word in line.split() if word.startswith("fprop:")][:12]
        self.assertTrue(problems)
        for problem in problems:
            without = ":".join(field for field in problem.split(":") if not field.startswith(("bias=", "act=", "gamma=")))
            for what in ("fprop", "dgrad", "wgrad"):
                self.run_script(without.replace("fprop:", what + ":", 1))

    def test_what_has_no_script(self):
        code, _, err = convoy("repro", "--pytorch", "fprop:x=s8,2x8x5x5:w=s8,8x8x3x3:y=s32,2x8x3x3:compute=s32")
        self.assertEqual(code, 4)
        self.assertIn("x=s8", err)
        code, _, err = convoy("repro", "--pytorch", "no-such-file.json")
        self.assertEqual(code, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
