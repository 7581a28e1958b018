import * as React from 'react';

/**
 * Keeps the focus of the keyboard in a part of the page when the element that has it disappears.
 *
 * `heir` chooses the element that has it then; null: none yet, so it is asked again when the part is drawn again.
 */
export function useKeptFocus(
  heir: (part: HTMLElement, lost: HTMLElement) => HTMLElement | null
): React.HTMLAttributes<HTMLElement> & React.RefAttributes<HTMLDivElement> {
  const ref = React.useRef<HTMLDivElement>(null);
  const focused = React.useRef<HTMLElement | null>(null);
  React.useLayoutEffect(() => {
    const lost = focused.current;
    if (lost === null || lost.isConnected || ref.current === null) {
      return;
    }
    if (document.activeElement === document.body) {
      heir(ref.current, lost)?.focus({ preventScroll: true });
    } else {
      focused.current = null; // it has moved on
    }
  });
  return {
    ref,
    onFocus: event => (focused.current = event.target),
    onBlur: () => (focused.current = null) // not when the element disappears
  };
}
