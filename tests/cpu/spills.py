"""Checks compiled matrix kernels: no vector register goes to the stack inside an innermost loop.

    spills.py OBJDUMP [--functions REGEX] OBJECT...

A tile keeps its sums in registers; a compiler that runs out of them, or leaves a lambda out of line,
silently makes it several times slower. Looked at are the loops without another loop in them of every
function (or of those whose name matches) that multiplies (by vpdpbusd, vpmaddubsw, vdpbf16ps, a fused
multiply-add, ...).
"""
import argparse
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(\S+)\s*(.*)$")
JUMP = re.compile(r"^j\w+$|^b(\.\w+)?$|^cbn?z$|^tbn?z$")
TARGET = re.compile(r"\b([0-9a-f]+) <")
MULTIPLIES = re.compile(r"^(vpdpbusd|vpmaddubsw|vdpbf16ps|vfmadd\w+ps|tdp\w+|sdot|smmla|fmla|smull|smlal2?)$")
X86_STORE = re.compile(r"^%[xyz]mm\d+,-?(0x[0-9a-f]+)?\(%r[sb]p")
ARM_STORE = re.compile(r"^(q\d+|v\d+\S*)(, q\d+)?, \[(sp|x29)")


def functions(objdump, path):
    """Yields (name, [(address, mnemonic, operands)])."""
    text = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    name, body = None, []
    for line in text.splitlines():
        start = FUNCTION.match(line)
        if start:
            if body:
                yield name, body
            name, body = start.group(1), []
            continue
        found = INSTRUCTION.match(line)
        if found:
            body.append((int(found.group(1), 16), found.group(2), found.group(3)))
    if body:
        yield name, body


def innermost_loops(body):
    """Ranges of addresses from the target of a backward jump to the jump, without such a range inside."""
    loops = set()
    first = body[0][0]
    for address, mnemonic, operands in body:
        target = TARGET.search(operands)
        if JUMP.match(mnemonic) and target and first <= int(target.group(1), 16) <= address:
            loops.add((int(target.group(1), 16), address))
    return [a for a in loops
            if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]


def stores_vector(mnemonic, operands):
    if mnemonic.startswith("vmov"):
        return X86_STORE.match(operands)
    return mnemonic in ("str", "stp", "stur") and ARM_STORE.match(operands)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("objdump")
    parser.add_argument("objects", nargs="+")
    parser.add_argument("--functions", type=re.compile, default=re.compile(""))
    arguments = parser.parse_args()
    checked = bad = 0
    for path in arguments.objects:
        for name, body in functions(arguments.objdump, path):
            if not arguments.functions.search(name):
                continue
            for first, last in innermost_loops(body):
                loop = [i for i in body if first <= i[0] <= last]
                if not any(MULTIPLIES.match(m) for _, m, _ in loop):
                    continue
                checked += 1
                stores = [i for i in loop if stores_vector(i[1], i[2])]
                if stores:
                    bad += 1
                    print(f"{path}: {len(stores)} vectors stored to the stack in a loop at "
                          f"{first:#x} of {name}")
    print(f"{checked} loops of {len(arguments.objects)} objects, {bad} with vectors on the stack")
    return 0 if checked and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
