import * as React from 'react';

import type { WatchRow } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import type { StepperState } from '../../stepper/stepper_state';
import { Icon } from '../icons';
import { Entry } from '../stepper/find';
import { Dims } from '../value/dims';
import { Value } from '../value/value';
import { useWords } from '../words';

/** The user's expressions, evaluated at each step. */
export function Watches({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { watches } = state.notes;
  const rows = new Map(state.step?.watches.map(row => [row.text, row]));
  const add = (text: string) => {
    const wanted = text.trim();
    if (wanted !== '' && !watches.includes(wanted)) {
      actions.note({ watches: [...watches, wanted] });
    }
  };
  return (
    <section className="rfnb-Watches" aria-label={words.__('Watches')}>
      <h3>{words.__('Watches')}</h3>
      {watches.map(text => (
        <Watch
          key={text}
          text={text}
          row={rows.get(text) ?? null}
          onRemove={() => actions.note({ watches: watches.filter(other => other !== text) })}
        />
      ))}
      <Entry
        className="rfnb-Watches-add"
        label={words.__('New watch expression')}
        placeholder={words.__('Expression, such as h - before.h')}
        value=""
        clears
        onEnter={add}
      />
    </section>
  );
}

function Watch({ text, row, onRemove }: { text: string; row: WatchRow | null; onRemove: () => void }): JSX.Element {
  const words = useWords();
  return (
    <div className="rfnb-Watch" data-watch={text}>
      <code className="rfnb-Watch-text" title={text}>
        {text}
      </code>
      <button
        className="rfnb-Small-button"
        type="button"
        aria-label={words.__('Remove the watch expression %1', text)}
        title={words.__('Remove this watch expression')}
        onClick={onRemove}
      >
        <Icon name="forget" />
      </button>
      {row?.value && (
        <span className="rfnb-Watch-value">
          <Value value={row.value} />
          <Dims dims={row.value.dims} />
        </span>
      )}
      {row?.error && (
        <span className="rfnb-Watch-error" role="alert">
          {row.error}
        </span>
      )}
    </div>
  );
}
