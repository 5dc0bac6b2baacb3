"""The mean change of the total under the distribution of the walk."""

from dp_transforms.mechanisms.partition.distributions.walk_sums import STEP, WalkSums


def expected_excess(blocks, rate, tilt, window):
    """E[sum x - sum f] where x has weight e**(-rate * ||x - f||_1 - tilt * (sum x - sum f)).

    With Z the total weight as a function of the rates above and below zero, it is -d ln Z along
    (1, -1).
    """
    positive, negative = complex(rate + tilt, STEP), complex(rate - tilt, -STEP)
    return -WalkSums(positive, negative, window).log_total(blocks).imag / STEP
