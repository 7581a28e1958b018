"""The names of checkpoints in `rf`, imported when one of them is first used."""

from rfnb.checkpoint.entries import open_checkpoint as open_checkpoint
from rfnb.checkpoint.load import (
    import_weights as import_weights,
    load as load,
    load_checkpoint as load_checkpoint,
    load_config as load_config,
)
from rfnb.checkpoint.pretrained import load_pretrained as load_pretrained, save_pretrained as save_pretrained
from rfnb.checkpoint.report import LoadReport as LoadReport
from rfnb.checkpoint.save import (
    average_checkpoints as average_checkpoints,
    save as save,
    save_checkpoint as save_checkpoint,
)
