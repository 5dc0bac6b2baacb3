"""PRIVATE: what is computed from the private list. For experiments and audits; never publish it."""

from dp_transforms.evaluation.expectations import expected_l1 as expected_l1
from dp_transforms.mechanisms.laws.marginals import Marginals as Marginals
