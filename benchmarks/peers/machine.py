"""What the machine is, and what other programs do on it meanwhile."""

import os
import platform
import re
import resource
import time
from pathlib import Path


def processor():
    """The processor's name and the instruction sets that matter to int8 and 16-bit products."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.M)
    known = ["avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm"]
    found = [flag for flag in known if flags and flag in flags[1].split()]
    family = [re.search(rf"^{key}\s*:\s*(\d+)$", text, re.M) for key in ("cpu family", "model")]
    numbers = f", family {family[0][1]} model {family[1][1]}" if all(family) else ""
    return f"{name[1] if name else platform.machine()}{numbers} ({' '.join(found)})"


def available_processors():
    return len(os.sched_getaffinity(0))


class Load:
    """The share of the processors that other programs use between start and `others`. Others are all
    but this process, its children that end meanwhile, and those whose ids `running()` lists."""

    def __init__(self, running=lambda: []):
        self._running = running
        self._begin = _snapshot(running())

    def others(self):
        """0 ... 1; None where the system does not say."""
        begin, end = self._begin, _snapshot(self._running())
        if begin is None or end is None or end[0] <= begin[0]:
            return None
        busy = end[1] - begin[1] - (end[2] - begin[2])
        return min(max(busy / (end[0] - begin[0]), 0.0), 1.0)


def wait_until_calm(share, most_seconds):
    """Waits until others use less than `share` of the processors for a second."""
    deadline = time.monotonic() + most_seconds
    while time.monotonic() < deadline:
        load = Load()
        time.sleep(1)
        others = load.others()
        if others is None or others < share:
            return


def _snapshot(running):
    """Seconds of all processors: in all, busy, busy for this process and its children."""
    try:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    own = sum(map(_ticks_of, running)) / ticks
    own += sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime
              for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(fields) / ticks, (sum(fields) - fields[3] - fields[4]) / ticks, own


def _ticks_of(process):
    try:
        after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return int(after_name[11]) + int(after_name[12])  # utime, stime
    except (OSError, ValueError):
        return 0
