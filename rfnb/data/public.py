"""Public names of data in files."""

from rfnb.data.batching import FrameBatches as FrameBatches
from rfnb.data.dataset import hdf as hdf
from rfnb.data.writing import HdfWriter as HdfWriter
