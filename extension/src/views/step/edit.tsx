import * as React from 'react';

import type { StateRow, ValueView } from '../../schema';
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
  const label = held
    ? words.__('Edit %1 after this step; the paused loop goes on with it', row.name)
    : words.__('Edit %1 before this step and continue from here', row.name);
  const hint = held
    ? words.__('Enter: change the state · Esc: cancel')
    : words.__('Enter: continue from here · Esc: cancel');
  return (
    <Edit
      look="rfnb-Small-button rfnb-State-edit"
      face={<Icon name="edit" />}
      label={label}
      hint={aside?.waiting ? words.__('Running …') : hint}
      start={startOf((held ? row.after : row.before).text)}
      locked={locked}
      aside={aside}
      onEdit={onEdit}
    />
  );
}

/** Names the axes of a variable of plain Python code at all steps: Enter names them, Escape cancels. */
export function NameAxes(props: {
  value: ValueView;
  /** The last time that axes were named. */
  aside: Aside<unknown> | undefined;
  onName: (text: string) => Promise<unknown>;
}): JSX.Element {
  const words = useWords();
  const { value, aside, onName } = props;
  const names = value.dims.map(dim => dim.name);
  const isNamed = !names.every(name => /^axis\d+$/.test(name));
  return (
    <Edit
      look="rfnb-Link"
      face={isNamed ? words.__('rename axes') : words.__('name axes')}
      label={words.__('Names of the axes of %1, with commas between them', value.name)}
      hint={words.__(
        'Enter: at all steps, empty for none · Esc: cancel · lengths or labels after a colon, as in batch, time: lengths'
      )}
      placeholder={EXAMPLES[names.length] ?? names.join(', ')}
      start={isNamed ? names.join(', ') : ''}
      aside={aside}
      onEdit={onName}
    />
  );
}

const EXAMPLES = ['', 'feature', 'batch, time', 'batch, time, feature'];

/** A button that becomes a field: Enter sends what was typed and closes it, Escape cancels. */
function Edit(props: {
  /** Classes and content of the button. */
  look: string;
  face: React.ReactNode;
  label: string;
  hint: string;
  placeholder?: string;
  /** What is in the field at first. */
  start: string;
  /** Why the kernel would refuse. */
  locked?: string;
  aside: Aside<unknown> | undefined;
  onEdit: (text: string) => Promise<unknown>;
}): JSX.Element {
  const { label, locked, aside } = props;
  const [text, setText] = React.useState<string | null>(null);
  const [asked, setAsked] = React.useState(false);
  const button = React.useRef<HTMLButtonElement>(null);
  const closes = React.useRef(false);
  React.useLayoutEffect(() => {
    if (closes.current && text === null) {
      closes.current = false;
      if (document.activeElement === document.body) {
        button.current?.focus(); // else it has moved on
      }
    }
  }, [text]);
  const close = () => {
    closes.current = true;
    setText(null);
    setAsked(false);
  };
  if (text === null) {
    return (
      <button
        ref={button}
        className={props.look}
        type="button"
        aria-label={label}
        aria-disabled={locked !== undefined}
        title={locked ?? label}
        onClick={() => locked === undefined && setText(props.start)}
      >
        {props.face}
      </button>
    );
  }
  const onKey = (event: React.KeyboardEvent) => {
    if (event.key === 'Enter' && !aside?.waiting) {
      setAsked(true);
      void Promise.resolve(props.onEdit(text)).then(done => done && close());
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
        placeholder={props.placeholder}
        value={text}
        ref={focusOnce}
        onInput={event => setText(event.currentTarget.value)}
        onChange={() => undefined}
        onKeyDown={onKey}
      />
      <span className="rfnb-quiet">{props.hint}</span>
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
