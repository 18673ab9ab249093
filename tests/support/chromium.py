"""A headless Chromium that a test opens pages in: it speaks the DevTools protocol over two pipes, so no package of Python is needed."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def path():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """`messages` has what the page says of itself: console, exceptions, what the browser logs."""

    def __init__(self, timeout=60):
        self.timeout = timeout
        self.profile = tempfile.TemporaryDirectory(prefix="convoy_chromium_")
        to_read, self.to = os.pipe()
        self.out, from_write = os.pipe()

        def place():  # Chromium reads from 3 and writes to 4
            read, write = os.dup(to_read), os.dup(from_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen([path(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        close_fds=False, preexec_fn=place)
        os.close(to_read)
        os.close(from_write)
        self.numbers, self.buffer, self.messages, self.session, self.loaded = itertools.count(1), b"", [], None, False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        for pipe in (self.to, self.out):
            os.close(pipe)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _next(self, end):
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.out], [], [], left)[0]:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self.out, 1 << 16)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def _hear(self, message):
        method, values = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.messages.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.messages.append(" ".join(str(each.get("value", each.get("description"))) for each in values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.messages.append(values["entry"]["text"])

    def call(self, method, **values):
        number, end = next(self.numbers), time.monotonic() + self.timeout
        request = {"id": number, "method": method, "params": values, **({"sessionId": self.session} if self.session else {})}
        rest = json.dumps(request).encode() + b"\0"
        while rest:
            rest = rest[os.write(self.to, rest):]
        while True:
            message = self._next(end)
            if message.get("id") != number:
                self._hear(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']['message']}")
            else:
                return message["result"]

    def open(self, file, width=1280, height=800, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.messages, self.loaded, end = [], False, time.monotonic() + self.timeout
        self.call("Page.navigate", url=f"file://{file}")
        while not self.loaded:
            self._hear(self._next(end))

    def run(self, script):
        """The value of an expression of JavaScript in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def picture(self, file, whole=False):
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                                                 **({"clip": self.box()} if whole else {}))["data"]))

    def box(self):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}

    def print(self, file):
        with open(file, "wb") as out:
            out.write(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))
