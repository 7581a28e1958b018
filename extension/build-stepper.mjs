// Bundles what outputs of cells and saved pages carry, the stepper and the scripts of views; read by rfnb/display.
import { build } from 'esbuild';

const common = { bundle: true, minify: true, legalComments: 'none', logLevel: 'info' };
const target = '../rfnb/display/static/stepper';

const script = {
  ...common,
  target: 'es2020',
  define: { 'process.env.NODE_ENV': '"production"' },
  alias: { react: 'preact/compat', 'react-dom/client': 'preact/compat/client', 'react-dom': 'preact/compat' }
};

await build({ ...script, entryPoints: ['src/entry/inline.tsx'], outfile: `${target}.js`, format: 'esm' });
await build({
  ...script,
  entryPoints: ['src/entry/standalone.ts'],
  outfile: '../rfnb/display/static/page.js',
  format: 'iife'
});

await build({
  ...script,
  entryPoints: ['src/entry/views.ts'],
  outfile: '../rfnb/display/static/views.js',
  format: 'esm'
});

await build({ ...common, entryPoints: ['style/inline.css'], outfile: `${target}.css` });
await build({ ...common, entryPoints: ['style/views.css'], outfile: '../rfnb/display/static/views.css' });
