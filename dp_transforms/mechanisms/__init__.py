"""Exact mechanisms for one machine: pure Python, numpy and gmpy2. Imports no Beam and no Arrow."""

from dp_transforms.mechanisms.base2 import Eta as Eta
from dp_transforms.mechanisms.frequency_list import FrequencyList as FrequencyList
from dp_transforms.mechanisms.randomness import RandomTape as RandomTape
