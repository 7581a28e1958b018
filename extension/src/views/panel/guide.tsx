import * as React from 'react';

import { tokens } from '../step/python';
import { useWords, Words } from '../words';

/** What is missing for stepping. */
export type Lack = 'notebook' | 'kernel' | 'rfnb' | 'loops' | 'busy' | 'connecting';

/** The ways to record a loop: what each is for, and a cell that shows it. */
function ways(words: Words): [string, string][] {
  return [
    [
      words.__('A loop of yours: one word in its line'),
      'import rfnb as rf\n\ntotal = 0\nfor t in rf.steps(range(10)):\n    total = total + t'
    ],
    [
      words.__('Loops that stay as they are, of your code or of a function that you name'),
      'import rfnb as rf\n\nwith rf.record_loops():\n    total = 0\n    for t in range(10):\n        total = total + t'
    ],
    [
      words.__('All loops of a cell: its first line'),
      '%%record_loops\ntotal = 0\nfor t in range(10):\n    total = total + t'
    ]
  ];
}

/** Shown instead of an empty panel: what is missing, and what to do. */
export function Guide(props: {
  lack: Lack;
  /** Whether the loops of all cells are recorded; null if that is not known. */
  records: boolean | null;
  onRecord: (on: boolean) => void;
  /** Inserts a cell with this code. */
  onInsert: (code: string) => void;
  onRefresh: () => void;
}): JSX.Element {
  const words = useWords();
  const { lack, records, onRecord, onInsert, onRefresh } = props;
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
        'Record a loop of plain Python in one of these ways, and step through its runs here, forward and backward. An “rf.Loop” is recorded as it is.'
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
          {ways(words).map(([title, code]) => (
            <section key={title} className="rfnb-Guide-way">
              <h4>{title}</h4>
              <Example code={code} />
              <button
                className="rfnb-Button"
                type="button"
                title={words.__('In a new cell below')}
                onClick={() => onInsert(code)}
              >
                {words.__('Insert')}
              </button>
            </section>
          ))}
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

function Example({ code }: { code: string }): JSX.Element {
  return (
    <pre className="rfnb-Guide-example">
      {code.split('\n').map((line, i) => (
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
  );
}
