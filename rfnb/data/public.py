"""Public names of data in files."""

from rfnb.data import examples as examples
from rfnb.data.dataset import FrameBatches as FrameBatches, hdf as hdf
from rfnb.data.writing import HdfWriter as HdfWriter
