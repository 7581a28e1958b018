import * as React from 'react';

import type { StateRow } from '../../schema';
import type { Aside } from '../../stepper/asides';
import { Icon } from '../icons';
import { useWords } from '../words';

/**
 * Edits a state before this step: Enter continues from here as a new run, Escape cancels.
 *
 * Of a paused loop, the state after this step is edited, with which the loop itself goes on. A button that the kernel
 * would refuse keeps the focus, does nothing, and says why.
 */
export function StateEdit(props: {
  row: StateRow;
  held: boolean;
  /** Why the kernel would refuse an edit. */
  locked: string | undefined;
  /** The last edit. */
  aside: Aside<unknown> | undefined;
  onEdit: (text: string) => Promise<unknown>;
}): JSX.Element {
  const words = useWords();
  const { row, held, locked, aside, onEdit } = props;
  const [text, setText] = React.useState<string | null>(null);
  const [asked, setAsked] = React.useState(false);
  const button = React.useRef<HTMLButtonElement>(null);
  const label = held
    ? words.__('Edit %1 after this step; the paused loop goes on with it', row.name)
    : words.__('Edit %1 before this step and continue from here', row.name);
  const hint = held
    ? words.__('Enter: change the state · Esc: cancel')
    : words.__('Enter: continue from here · Esc: cancel');
  const close = () => {
    setText(null);
    setAsked(false);
    setTimeout(() => button.current?.focus());
  };
  if (text === null) {
    return (
      <button
        ref={button}
        className="rfnb-Small-button rfnb-State-edit"
        type="button"
        aria-label={label}
        aria-disabled={locked !== undefined}
        title={locked ?? label}
        onClick={() => locked === undefined && setText(startOf((held ? row.after : row.before).text))}
      >
        <Icon name="edit" />
      </button>
    );
  }
  const onKey = (event: React.KeyboardEvent) => {
    if (event.key === 'Enter' && !aside?.waiting) {
      setAsked(true);
      void Promise.resolve(onEdit(text)).then(done => held && done && close());
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      close();
    }
  };
  return (
    <span className="rfnb-Edit">
      <input
        type="text"
        spellCheck={false}
        autoComplete="off"
        aria-label={label}
        aria-invalid={asked && aside?.error !== null}
        value={text}
        ref={focusOnce}
        onInput={event => setText(event.currentTarget.value)}
        onChange={() => undefined}
        onKeyDown={onKey}
      />
      <span className="rfnb-quiet">{aside?.waiting ? words.__('Running …') : hint}</span>
      {asked && aside?.error && (
        <span className="rfnb-Watch-error" role="alert">
          {aside.error}
        </span>
      )}
    </span>
  );
}

/** The text of the value, if it is complete. */
function startOf(text: string): string {
  return text.includes('…') || text.startsWith('(') ? '' : text;
}

const focused = new WeakSet<HTMLInputElement>();

function focusOnce(input: HTMLInputElement | null): void {
  if (input && !focused.has(input)) {
    focused.add(input);
    input.focus();
    input.select();
  }
}
