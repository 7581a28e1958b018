// Runs the tests of this folder that need no torch on CPython 3.14: `node under_node.mjs PYODIDE ROOT`.
import { pathToFileURL } from 'node:url';

const [pyodide, root] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(pyodide));
const python = await loadPyodide();
python.mountNodeFS('/root', root);
try {
  python.runPython(`
import sys
sys.path.insert(0, "/root")
sys.dont_write_bytecode = True
from tests.trace.plain import without_torch
without_torch.main()
`);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
