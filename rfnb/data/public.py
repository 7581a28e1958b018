"""Public names of data in files."""

from rfnb.data import examples as examples
from rfnb.data.dataset import FrameBatches as FrameBatches, HdfWriter as HdfWriter, hdf as hdf
