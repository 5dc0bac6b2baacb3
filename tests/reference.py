"""Row by row, in plain Python: what the columnar kernels and the transforms must agree with."""

import collections
import hashlib

M64 = 2**64 - 1


def mix(word, multiplier):
    word = word * multiplier & M64
    return word ^ word >> 32


def row_hash(value, key):
    """``columnar.hashing.hash_rows`` of one value: an integer, a string, bytes or a tuple."""
    seed, multiplier = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    multiplier |= 1
    if isinstance(value, tuple):
        state = seed
        for field in value:
            state = mix(state * multiplier & M64 ^ row_hash(field, key), multiplier)
        return state
    if isinstance(value, int):
        return mix(mix(value & M64 ^ seed, multiplier), multiplier)
    data = value.encode() if isinstance(value, str) else value
    if len(data) > 256:
        digest = hashlib.blake2b(data, key=key[:64], digest_size=8).digest()
        return mix(int.from_bytes(digest, "little"), multiplier)
    state = seed ^ len(data)
    for start in range(0, len(data), 8):
        # The bytes of a last, short word are its high ones.
        state = mix(
            state ^ int.from_bytes(data[start : start + 8].rjust(8, b"\0"), "little"), multiplier
        )
    return mix(state, multiplier)


def siphash_2_4(key, message):
    """J.-P. Aumasson and D. J. Bernstein, "SipHash" (INDOCRYPT 2012), section 2."""
    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    constants = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [k ^ c for k, c in zip((k0, k1, k0, k1), constants, strict=True)]

    def rotate(i, bits):
        v[i] = (v[i] << bits | v[i] >> (64 - bits)) & M64

    def rounds(count):
        for _ in range(count):
            for a, b, bits, c, d, more in ((0, 1, 13, 2, 3, 16), (2, 1, 17, 0, 3, 21)):
                v[a], v[c] = (v[a] + v[b]) & M64, (v[c] + v[d]) & M64
                rotate(b, bits), rotate(d, more)
                v[b], v[d] = v[b] ^ v[a], v[d] ^ v[c]
                rotate(a, 32)

    padded = message + b"\0" * (7 - len(message) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def bound(records, kappa, key):
    """The distinct records, and of each user the kappa of smallest priority."""

    def priority(record):
        hashes = (row_hash(part, key).to_bytes(8, "little") for part in record)
        return siphash_2_4(key[16:], b"".join(hashes)), record

    kept = collections.defaultdict(list)
    for record in sorted(set(records), key=priority):
        if len(kept[record[0]]) < kappa:
            kept[record[0]].append(record)
    return {record for records in kept.values() for record in records}


def count(records):
    """{partition: number of distinct users}."""
    return collections.Counter(partition for _, partition in set(records))
