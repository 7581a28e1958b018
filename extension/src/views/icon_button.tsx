import * as React from 'react';

import { Icon, SHAPES } from './icons';

/** A button with an icon, whose name is its label. One that is off keeps the focus, and does nothing. */
export function IconButton(props: {
  icon: keyof typeof SHAPES;
  label: string;
  onClick: () => void;
  off?: boolean;
  /** `data-…` attributes, by which styles and tests find it. */
  data?: { [name: `data-${string}`]: string };
}): JSX.Element {
  const { icon, label, onClick, off = false, data } = props;
  return (
    <button
      className="rfnb-Transport-button"
      type="button"
      title={label}
      aria-label={label}
      aria-disabled={off}
      onClick={() => !off && onClick()}
      {...data}
    >
      <Icon name={icon} />
    </button>
  );
}
