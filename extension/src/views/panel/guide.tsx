import * as React from 'react';

import { tokens } from '../step/python';
import { useWords } from '../words';

/** What is missing for stepping. */
export type Lack = 'notebook' | 'kernel' | 'rfnb' | 'loops' | 'busy' | 'connecting';

const EXAMPLE = [
  'import rfnb as rf',
  '',
  'loop = rf.Loop(axis=time)',
  'loop.state.total = rf.zeros([batch])',
  'with loop:',
  '    x = loop.unstack(numbers)',
  '    loop.state.total = loop.state.total + x',
  '    sums = loop.stack(loop.state.total)'
];

/** Shown instead of an empty panel: what is missing, and what to do. */
export function Guide({ lack, onRefresh }: { lack: Lack; onRefresh: () => void }): JSX.Element {
  const words = useWords();
  const [title, text] = {
    notebook: [words.__('No notebook'), words.__('Open a notebook to see the loops that it runs.')],
    kernel: [words.__('No kernel'), words.__('Start a kernel for this notebook to see its loops.')],
    rfnb: [
      words.__('rfnb is not imported'),
      words.__('Run a cell with “import rfnb as rf”. The panel then connects automatically.')
    ],
    loops: [
      words.__('No loops yet'),
      words.__(
        'Run a cell that contains a loop. You can then step through each of its runs here, forward and backward.'
      )
    ],
    busy: [words.__('The kernel is busy'), words.__('The panel connects when the cell has finished.')],
    connecting: [words.__('Connecting …'), '']
  }[lack];
  return (
    <div className="rfnb-Guide" role="status">
      <h3>{title}</h3>
      <p>{text}</p>
      {(lack === 'rfnb' || lack === 'loops') && (
        <>
          <pre className="rfnb-Guide-example">
            {EXAMPLE.map((line, i) => (
              <div key={i}>
                {tokens(line).map((token, j) => (
                  <span key={j} data-token={token.kind}>
                    {token.text}
                  </span>
                ))}
                {line === '' && '\u200b'}
              </div>
            ))}
          </pre>
          <button className="rfnb-Button" type="button" onClick={onRefresh}>
            {words.__('Refresh')}
          </button>
        </>
      )}
    </div>
  );
}
