import * as React from 'react';

import type { RunView, StepView } from '../../schema';
import { useWords } from '../words';

const BUTTONS = 12;

/** Chooses one sequence of the batch, or all. Those that have ended before this step are greyed. */
export function Sequences(props: {
  run: RunView;
  step: StepView | null;
  onChoose: (sequence: number | null) => void;
}): JSX.Element | null {
  const words = useWords();
  const { run, step, onChoose } = props;
  const count = run.lengths?.length ?? run.tags?.length ?? 0;
  if (count === 0) {
    return null;
  }
  const chosen = step?.sequence ?? null;
  const indices = Array.from({ length: count }, (_, i) => i);
  const name = (i: number) => run.tags?.[i] ?? words.__('sequence %1', i);
  const ended = (i: number) => step?.ended?.[i] ?? false;
  const about = (i: number) =>
    `${name(i)}${run.lengths ? words.__(': %1 steps', run.lengths[i]) : ''}${ended(i) ? words.__(' (ended)') : ''}`;
  if (count > BUTTONS) {
    return (
      <label className="rfnb-Sequences">
        <span className="rfnb-Sequences-label">{words.__('Sequence')}</span>
        <select
          className="rfnb-Sequences-select"
          value={chosen === null ? '' : String(chosen)}
          onChange={event => onChoose(event.currentTarget.value === '' ? null : Number(event.currentTarget.value))}
        >
          <option value="">{words.__('all %1', count)}</option>
          {indices.map(i => (
            <option key={i} value={i} className={ended(i) ? 'rfnb-mod-ended' : ''}>
              {about(i)}
            </option>
          ))}
        </select>
      </label>
    );
  }
  return (
    <div className="rfnb-Sequences" role="group" aria-label={words.__('Sequence')}>
      <button type="button" aria-pressed={chosen === null} onClick={() => onChoose(null)}>
        {words.__('all')}
      </button>
      {indices.map(i => (
        <button
          key={i}
          type="button"
          aria-pressed={chosen === i}
          aria-label={about(i)}
          title={about(i)}
          className={ended(i) ? 'rfnb-mod-ended' : ''}
          onClick={() => onChoose(i)}
        >
          <span className="rfnb-Sequences-tag">{name(i)}</span>
          {run.lengths && <span className="rfnb-Sequences-length">{run.lengths[i]}</span>}
        </button>
      ))}
    </div>
  );
}
