"""Row by row, in plain Python: what the columnar kernels and the transforms must agree with."""

import collections
import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.cmac import CMAC


def cmac(key, message):
    """The first 64 bits of AES-CMAC, by OpenSSL."""
    mac = CMAC(algorithms.AES(key))
    mac.update(message)
    return mac.finalize()[:8]


def subkey(key, purpose):
    return hashlib.blake2b(purpose, key=key, digest_size=32).digest()


def row_hash(value, key):
    """``columnar.hashing.hash_rows`` of one value: an integer, a string, bytes or a tuple."""
    if isinstance(value, tuple):
        fields = b"".join(row_hash(field, key).to_bytes(8, "little") for field in value)
        return int.from_bytes(cmac(subkey(key, b"struct"), fields), "little")
    if isinstance(value, int):
        value = value.to_bytes(8, "little", signed=True)
    data = value.encode() if isinstance(value, str) else value
    return int.from_bytes(cmac(key, data), "little")


def pair_prf(key, left, right):
    """``columnar.hashing.prf`` of one pair of hashes."""
    block = left.to_bytes(8, "little") + right.to_bytes(8, "little")
    encryptor = Cipher(algorithms.AES(subkey(key, b"pair")), modes.ECB()).encryptor()
    return int.from_bytes(encryptor.update(block)[:8], "little")


def bound(records, max_partitions, key, shared_order=False):
    """The distinct records, and of each user the kappa of smallest priority."""

    def priority(record):
        if shared_order:
            return row_hash(record[1], key), record
        return pair_prf(key, *(row_hash(part, key) for part in record)), record

    kept = collections.defaultdict(list)
    for record in sorted(set(records), key=priority):
        if len(kept[record[0]]) < max_partitions:
            kept[record[0]].append(record)
    return {record for records in kept.values() for record in records}


def count(records):
    """{partition: number of distinct users}."""
    return collections.Counter(partition for _, partition in set(records))
