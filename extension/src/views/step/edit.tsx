import * as React from 'react';

import type { StateRow } from '../../schema';
import type { Aside } from '../../stepper/asides';
import { Icon } from '../icons';
import { useWords } from '../words';

/** Edits a state before this step: Enter continues from here as a new run, Escape cancels. */
export function StateEdit(props: {
  row: StateRow;
  fork: Aside<unknown> | undefined;
  onFork: (text: string) => void;
}): JSX.Element {
  const words = useWords();
  const { row, fork, onFork } = props;
  const [text, setText] = React.useState<string | null>(null);
  const [asked, setAsked] = React.useState(false);
  const button = React.useRef<HTMLButtonElement>(null);
  const label = words.__('Edit %1 before this step and continue from here', row.name);
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
        title={label}
        onClick={() => setText(startOf(row.before.text))}
      >
        <Icon name="edit" />
      </button>
    );
  }
  const onKey = (event: React.KeyboardEvent) => {
    if (event.key === 'Enter' && !fork?.waiting) {
      setAsked(true);
      onFork(text);
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
        aria-invalid={asked && fork?.error !== null}
        value={text}
        ref={focusOnce}
        onInput={event => setText(event.currentTarget.value)}
        onChange={() => undefined}
        onKeyDown={onKey}
      />
      <span className="rfnb-quiet">
        {fork?.waiting ? words.__('Running …') : words.__('Enter: continue from here · Esc: cancel')}
      </span>
      {asked && fork?.error && (
        <span className="rfnb-Watch-error" role="alert">
          {fork.error}
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
