import * as React from 'react';

import { Icon, SHAPES } from './icons';

/** A button with an icon, whose name is its label. One that is off keeps the focus, and does nothing. */
export function IconButton(props: {
  icon: keyof typeof SHAPES;
  label: string;
  onClick: () => void;
  off?: boolean;
  /** Of a button that switches something: whether it is on. */
  pressed?: boolean;
  /** Classes in place of those of a step button. */
  look?: string;
  /** `data-…` attributes, by which styles and tests find it. */
  data?: { [name: `data-${string}`]: string };
}): JSX.Element {
  const { icon, label, onClick, off = false, pressed, look = 'rfnb-Transport-button', data } = props;
  return (
    <button
      className={look}
      type="button"
      title={label}
      aria-label={label}
      aria-pressed={pressed}
      aria-disabled={off}
      onClick={() => !off && onClick()}
      {...data}
    >
      <Icon name={icon} />
    </button>
  );
}
