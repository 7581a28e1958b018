import * as React from 'react';

import { useWords, Words } from '../words';

/** Flags of a value or a run, each in its own frame; the alarms among them, which are errors, stand out. */
export function Chips(props: { flags: readonly string[]; alarms?: readonly string[] }): JSX.Element | null {
  const words = useWords();
  const { flags, alarms = [] } = props;
  if (flags.length === 0) {
    return null;
  }
  return (
    <span className="rfnb-Chips">
      {flags.map((flag, i) => (
        <span
          key={i}
          className="rfnb-Chip"
          data-alarm={alarms.includes(flag)}
          title={[flag, ...about(flag, words)].join('\n')}
        >
          {flag}
        </span>
      ))}
    </span>
  );
}

function about(flag: string, words: Words): string[] {
  if (flag === 'constant') {
    return [words.__('All entries are equal.')];
  }
  return flag === 'never changes' ? [words.__('No step of the run changes it.')] : [];
}
