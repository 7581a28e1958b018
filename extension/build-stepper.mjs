// Bundles the stepper for cells' outputs: one module and one style sheet, read by rfnb/display.
import { build } from 'esbuild';

const common = { bundle: true, minify: true, legalComments: 'none', logLevel: 'info' };
const target = '../rfnb/display/static/stepper';

await build({
  ...common,
  entryPoints: ['src/inline.tsx'],
  outfile: `${target}.js`,
  format: 'esm',
  target: 'es2020',
  define: { 'process.env.NODE_ENV': '"production"' },
  alias: { react: 'preact/compat', 'react-dom/client': 'preact/compat/client', 'react-dom': 'preact/compat' }
});

await build({ ...common, entryPoints: ['style/inline.css'], outfile: `${target}.css` });
