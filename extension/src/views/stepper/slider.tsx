import * as React from 'react';

import { ignore } from './find';

/** A slider over the whole numbers up to `last`. `told`: where it is, for screen readers. `off`: it does nothing. */
export function Slider(props: {
  at: number;
  last: number;
  off: boolean;
  label: string;
  told: string;
  onGoto: (at: number) => void;
  children?: React.ReactNode;
}): JSX.Element {
  const { at, last, off, label, told, onGoto, children } = props;
  return (
    <div className="rfnb-Transport-slider">
      <input
        type="range"
        min={0}
        max={Math.max(last, 0)}
        value={at}
        disabled={last < 0}
        aria-disabled={off}
        style={{ '--rfnb-at': last > 0 ? at / last : 0 } as React.CSSProperties}
        aria-label={label}
        aria-valuetext={told}
        onInput={event => onGoto(Number(event.currentTarget.value))}
        onChange={ignore}
      />
      {children}
    </div>
  );
}
