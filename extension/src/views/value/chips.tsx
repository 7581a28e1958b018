import * as React from 'react';

/** What is wrong for sure. */
export const ALARMS = /nan|inf|failed|not finite|never ended|error/i;

/** What should be noticed, each in its own frame; alarms stand out. */
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
