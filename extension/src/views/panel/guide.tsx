import * as React from 'react';

import { tokens } from '../step/python';
import { useWords } from '../words';

/** What is missing for stepping. */
export type Lack = 'notebook' | 'kernel' | 'rfnb' | 'loops' | 'busy' | 'connecting';

const EXAMPLE = [
  'import rfnb as rf',
  '',
  'for t in rf.steps(range(10)):',
  '    h = cell(x[t], h)',
  '',
  'with rf.record_loops():',
  '    y = model(x)'
];

/** Shown instead of an empty panel: what is missing, and what to do. */
export function Guide(props: {
  lack: Lack;
  /** Whether the loops of all cells are recorded; null if that is not known. */
  records: boolean | null;
  onRecord: (on: boolean) => void;
  onRefresh: () => void;
}): JSX.Element {
  const words = useWords();
  const { lack, records, onRecord, onRefresh } = props;
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
        'Record a loop of plain Python by “rf.steps” in its line, by a block around it, or by “%1” in the first line of its cell. You can then step through each of its runs here, forward and backward. An “rf.Loop” is recorded as it is.',
        '%%record_loops'
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
          {records !== null && (
            <label className="rfnb-Guide-record">
              <input type="checkbox" checked={records} onChange={event => onRecord(event.currentTarget.checked)} />
              {words.__('Record loops of this notebook')}
            </label>
          )}
          <button className="rfnb-Button" type="button" onClick={onRefresh}>
            {words.__('Refresh')}
          </button>
        </>
      )}
    </div>
  );
}
