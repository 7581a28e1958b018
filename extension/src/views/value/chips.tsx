import * as React from 'react';

/** Flags of a value or a run, each in its own frame; the alarms among them, which are errors, stand out. */
export function Chips(props: { flags: readonly string[]; alarms?: readonly string[] }): JSX.Element | null {
  const { flags, alarms = [] } = props;
  if (flags.length === 0) {
    return null;
  }
  return (
    <span className="rfnb-Chips">
      {flags.map((flag, i) => (
        <span key={i} className="rfnb-Chip" data-alarm={alarms.includes(flag)} title={flag}>
          {flag}
        </span>
      ))}
    </span>
  );
}
