"""Whether the code of a net computes what the net computes, in this process."""

from pathlib import Path
from tempfile import TemporaryDirectory

from rfnb.netdict.code import to_code, torch_run


def check_code_of(net, batch=None, target="rf"):
    """The code; raises NetworkError if it gives something else than the net, and for a net without a form."""
    writer = to_code.writer_of(net, batch, target)
    tensors = to_code.data_of(net, batch)
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "code.py").write_text(writer.text())
        modes = to_code.write_case(net, writer, tensors, folder)
        (to_code if target == "rf" else torch_run).run(name)
        to_code.compare(net, writer, tensors, modes, folder)
    return writer.text()
