"""One side of the comparison: a process that runs training steps on request, and its times."""

import json
import math
import statistics
import subprocess
import tempfile
import time

WARM_UP_STEPS = 3
# OpenMP's idle workers spin for a moment (libgomp milliseconds, libomp 0.2 s) before they sleep.
PAUSE_S = 0.5


class Failure(Exception):
    pass


class Contender:
    """A process that runs training steps on request."""

    def __init__(self, name, command):
        self.name = name
        self.rounds = []  # milliseconds per step, a list for each round
        self.exposed = []  # of each step, milliseconds that communication took, where it is known
        self.last = {}
        self.first_loss = math.nan
        self.errors = tempfile.TemporaryFile(mode="w+")
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self.errors, text=True
            )
        except OSError as error:
            hint = "`make build` makes Tessera's programs"
            raise Failure(f"cannot start {command[0]}: {error.strerror}; {hint}") from error

    def request(self, steps):
        try:
            self.process.stdin.write(f"run {steps}\n")
            self.process.stdin.flush()
            self.last = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            self.errors.seek(0)
            raise Failure(f"{self.name} gave no answer:\n{self.errors.read()[-2000:]}") from error
        return self.last["ms"]

    def warm_up(self):
        self.request(1)
        self.first_loss = self.last["loss"]
        self.request(WARM_UP_STEPS - 1)

    def run_round(self, steps):
        time.sleep(PAUSE_S)
        self.rounds.append(self.request(steps))
        self.exposed += self.last.get("exposed_ms", [])

    def step_ms(self):
        return statistics.median(ms for round_ms in self.rounds for ms in round_ms)

    def speed_against(self, other):
        """How many times as fast as `other`, round by round."""
        pairs = zip(self.rounds, other.rounds)
        return [statistics.median(theirs) / statistics.median(own) for own, theirs in pairs]

    def memory_mib(self):
        return self.last.get("peak_device_mib", self.last["peak_rss_mib"])

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
