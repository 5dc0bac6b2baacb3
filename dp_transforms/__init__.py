"""Differentially private partition selection and frequency lists on Apache Beam."""

from dp_transforms.contributions import BoundContributions as BoundContributions
from dp_transforms.counting import CountDistinctUsers as CountDistinctUsers
from dp_transforms.frequency_release import ReleaseFrequencyList as ReleaseFrequencyList
from dp_transforms.frequency_release import release_frequency_list as release_frequency_list
from dp_transforms.job_secret import JobSecret as JobSecret
from dp_transforms.records import ToRecords as ToRecords
from dp_transforms.selection import SelectFromCounts as SelectFromCounts
from dp_transforms.selection import SelectPartitions as SelectPartitions
