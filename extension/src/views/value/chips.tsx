import * as React from 'react';

/** Flags that are certainly errors. */
export const ALARMS = /nan|inf|failed|not finite|never ended|error/i;

/** Flags of a value or a run, each in its own frame; errors stand out. */
export function Chips({ flags }: { flags: readonly string[] }): JSX.Element | null {
  if (flags.length === 0) {
    return null;
  }
  return (
    <span className="rfnb-Chips">
      {flags.map((flag, i) => (
        <span key={i} className="rfnb-Chip" data-alarm={ALARMS.test(flag)} title={flag}>
          {flag}
        </span>
      ))}
    </span>
  );
}
