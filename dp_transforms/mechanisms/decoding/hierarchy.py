"""Decodes the noisy coordinates of all groups of a hierarchy into lists that add up."""

from __future__ import annotations

from collections.abc import Sequence

from dp_transforms.mechanisms.decoding.adding_up import combined, list_of_curve, parts_of
from dp_transforms.mechanisms.decoding.group_posteriors import curve_alone, curves_of_groups
from dp_transforms.mechanisms.decoding.shapes import Curve, Shape
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates


def decode_hierarchy(
    levels: Sequence[Sequence[NoisyCoordinates]], parents: Sequence[Sequence[int]]
) -> list[list[FrequencyList]]:
    """Returns lists of all groups, each of which is the union of its children's."""
    curves: list[list[Curve]] = [[curve_alone(levels[0][0])]]
    for coordinates, above in zip(levels[1:], parents, strict=True):
        shapes = [Shape(curve) for curve in curves[-1]]
        curves.append(curves_of_groups(coordinates, shapes, above))
    for depth in range(len(levels) - 2, -1, -1):
        children: list[list[Curve]] = [[] for _ in curves[depth]]
        for parent, curve in zip(parents[depth], curves[depth + 1], strict=True):
            children[parent].append(curve)
        curves[depth] = [combined(*both) for both in zip(curves[depth], children, strict=True)]
    lists = [[list_of_curve(curves[0][0])]]
    for depth, above in enumerate(parents):
        members: list[list[int]] = [[] for _ in lists[-1]]
        for group, parent in enumerate(above):
            members[parent].append(group)
        of_level: list[FrequencyList] = [FrequencyList()] * len(above)
        for whole, groups in zip(lists[-1], members, strict=True):
            parts = parts_of(whole, [curves[depth + 1][group] for group in groups])
            for group, part in zip(groups, parts, strict=True):
                of_level[group] = part
        lists.append(of_level)
    return lists
