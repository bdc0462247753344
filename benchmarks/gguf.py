"""Reads the header of a GGUF file and writes GGUF files (version 3, little endian)."""

import struct

ALIGNMENT = 32

# Name: (id, elements of a block, bytes of a block).
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2),
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "MXFP4": (39, 32, 17),
}

# general.file_type: what the tensors mostly are.
FILE_TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10,
    "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16,
    "Q5_K_M": 17, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "BF16": 32, "MXFP4": 38,
}

_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
            11: "<q", 12: "<d"}


def tensor_bytes(type_name, dimensions):
    """Bytes of a tensor; `dimensions` begins with the row's length."""
    _, elements, size = TYPES[type_name]
    rows = 1
    for count in dimensions[1:]:
        rows *= count
    return dimensions[0] // elements * size * rows


# --- reading -------------------------------------------------------------------------------------

class Header:
    """`metadata` without the values of arrays (their lengths instead), and `tensors`, a list of
    (name, dimensions, name of the type or its id)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self._file = file
            magic, version = file.read(4), self._number("<I")
            if magic != b"GGUF" or version not in (2, 3):
                raise ValueError(f"{path}: not a GGUF file of version 2 or 3")
            tensors, keys = self._number("<Q"), self._number("<Q")
            self.metadata = {}
            for _ in range(keys):
                key = self._string()
                self.metadata[key] = self._value(self._number("<I"))
            self.tensors = [self._tensor() for _ in range(tensors)]
            del self._file

    def _number(self, form):
        return struct.unpack(form, self._file.read(struct.calcsize(form)))[0]

    def _string(self):
        return self._file.read(self._number("<Q")).decode(errors="replace")

    def _value(self, kind):
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._number(_FORMATS[kind])
        kind, count = self._number("<I"), self._number("<Q")
        if kind in (_STRING, _ARRAY):
            for _ in range(count):
                self._value(kind)
        else:
            self._file.seek(count * struct.calcsize(_FORMATS[kind]), 1)
        return count

    def _tensor(self):
        name = self._string()
        dimensions = [self._number("<Q") for _ in range(self._number("<I"))]
        kind, _ = self._number("<I"), self._number("<Q")
        names = [known for known, (number, _, _) in TYPES.items() if number == kind]
        return name, dimensions, names[0] if names else kind

    @property
    def weights(self):
        """Name of what the tensors mostly are, such as Q4_K_M."""
        number = self.metadata.get("general.file_type")
        return next((name for name, value in FILE_TYPES.items() if value == number), str(number))

    def bytes_per_token(self):
        """Bytes of the weights that a decoded token reads, or None if a type is not known here."""
        tied = not any(name == "output.weight" for name, _, _ in self.tensors)
        total = 0
        for name, dimensions, kind in self.tensors:
            if kind not in TYPES:
                return None
            if name != "token_embd.weight" or tied:
                total += tensor_bytes(kind, dimensions)
        return total


# --- writing -------------------------------------------------------------------------------------

def _packed_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _packed_value(value):
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _packed_string(value)
    if value and isinstance(value[0], str):
        head = struct.pack("<IIQ", _ARRAY, _STRING, len(value))
        return head + b"".join(map(_packed_string, value))
    return struct.pack(f"<IIQ{len(value)}i", _ARRAY, _INT32, len(value), *value)


def write(path, metadata, tensors):
    """Writes `metadata` (booleans, integers, floats, strings, lists of strings or integers) and
    `tensors`, a list of (name, dimensions, type name, function that returns an iterable of bytes)."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        head.append(_packed_string(key) + _packed_value(value))
    offset = 0
    for name, dimensions, kind, _ in tensors:
        head.append(_packed_string(name) + struct.pack("<I", len(dimensions)) +
                    struct.pack(f"<{len(dimensions)}Q", *dimensions) +
                    struct.pack("<IQ", TYPES[kind][0], offset))
        offset += _padded(tensor_bytes(kind, dimensions))
    with open(path, "wb") as file:
        header = b"".join(head)
        file.write(header.ljust(_padded(len(header)), b"\0"))
        for name, dimensions, kind, make in tensors:
            size, written = tensor_bytes(kind, dimensions), 0
            for data in make():
                written += file.write(data)
            if written != size:
                raise ValueError(f"{name}: {written} bytes made, {size} needed")
            file.write(b"\0" * (_padded(size) - size))


def _padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT
