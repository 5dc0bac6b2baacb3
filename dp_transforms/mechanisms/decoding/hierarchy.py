"""Decodes the noisy coordinates of all groups of a hierarchy into lists that add up."""

from __future__ import annotations

from collections.abc import Sequence

from dp_transforms.mechanisms.decoding.adding_up import combined, list_of_curve, parts_of
from dp_transforms.mechanisms.decoding.group_posteriors import curve_alone, curves_of_groups
from dp_transforms.mechanisms.decoding.shapes import Curve, Shape
from dp_transforms.mechanisms.frequency_list import FrequencyList
from dp_transforms.mechanisms.noisy_coordinates import NoisyCoordinates


def decode_hierarchy(
    levels: Sequence[Sequence[NoisyCoordinates]],
    parents: Sequence[Sequence[int]],
    most_partitions: Sequence[int] | None = None,
) -> list[list[FrequencyList]]:
    """Returns the lists of all groups, level by level; each is the union of its children's lists.

    Three passes go over the tree:

    1. From the top down, each group gets a curve (``shapes.Curve``) from its noisy coordinates and
       the shape of its parent.
    2. From the bottom up, each curve is combined with the sum of its children's curves.
    3. From the top down, the list of everything is that nearest to its curve, and each list is
       distributed over the children.

    Args:
      levels: the coordinates of each group, level by level from the single group at the top down.
      parents: for each level below the top, the place of each group's parent in the level above.
      most_partitions: public upper bounds on the numbers of partitions of the lowest groups. The
        lists keep them, and so each other list keeps the sum of the bounds below it.
    """
    most = _bounds_of_levels(parents, most_partitions)
    most_in_all = None if most[0] is None else most[0][0]
    curves: list[list[Curve]] = [[curve_alone(levels[0][0], most_in_all)]]
    for depth, coordinates in enumerate(levels[1:], 1):
        shapes = [Shape(curve) for curve in curves[-1]]
        curves.append(curves_of_groups(coordinates, shapes, parents[depth - 1], most[depth]))
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
        bounds = most[depth + 1]
        for whole, groups in zip(lists[-1], members, strict=True):
            most_of_parts = None if bounds is None else [bounds[group] for group in groups]
            curves_of_parts = [curves[depth + 1][group] for group in groups]
            parts = parts_of(whole, curves_of_parts, most_of_parts)
            for group, part in zip(groups, parts, strict=True):
                of_level[group] = part
        lists.append(of_level)
    return lists


def _bounds_of_levels(
    parents: Sequence[Sequence[int]], most_partitions: Sequence[int] | None
) -> list[list[int] | None]:
    """Returns the upper bounds of the groups of each level, from the top down.

    The bound of a group is the sum of its children's. Without bounds, each level has None.
    """
    if most_partitions is None:
        return [None] * (len(parents) + 1)
    bounds = [[*most_partitions]]
    for above in reversed(parents):
        sums = [0] * (max(above) + 1)
        for most, parent in zip(bounds[0], above, strict=True):
            sums[parent] += most
        bounds.insert(0, sums)
    return [*bounds]
