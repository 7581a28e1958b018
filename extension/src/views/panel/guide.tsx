import * as React from 'react';

import { tokens } from '../step/python';
import { useWords } from '../words';

/** Why there is nothing to step through yet. */
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

/** Instead of an empty panel: what is missing, and what to do. */
export function Guide({ lack, onRefresh }: { lack: Lack; onRefresh: () => void }): JSX.Element {
  const words = useWords();
  const [title, text] = {
    notebook: [words.__('No notebook'), words.__('Open a notebook: the loops that it runs are shown here.')],
    kernel: [words.__('No kernel'), words.__('Start a kernel for this notebook: its loops are shown here.')],
    rfnb: [
      words.__('rfnb is not imported'),
      words.__('Run a cell with “import rfnb as rf”; the panel connects by itself.')
    ],
    loops: [
      words.__('No loops yet'),
      words.__('Run a cell with a loop. Each run of it can then be stepped here, forward and back.')
    ],
    busy: [words.__('The kernel is busy'), words.__('The panel connects when the cell is done.')],
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
            {words.__('Look again')}
          </button>
        </>
      )}
    </div>
  );
}
