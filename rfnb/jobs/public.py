"""Several processes: names of `rf`, imported when one is first asked for."""

from rfnb.jobs.job import attach as attach
from rfnb.jobs.launch import launch as launch
