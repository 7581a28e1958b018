import * as React from 'react';

import { Matrix } from '../../pictures/attention/matrix';
import { coloursOf, readPixels } from '../../pictures/attention/weights';
import type { RowsView } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import type { StepperState } from '../../stepper/stepper_state';
import { useWords } from '../words';

/** A value that is a row of weights, such as attention: opens the rows of all steps, in which this step is marked. */
export function Rows(props: { name: string; state: StepperState; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { name, state, actions } = props;
  const aside = state.asides.rows;
  const sequence = state.step?.sequence ?? null;
  const answer = aside?.answer ?? null;
  const isShown = answer?.name === name && (sequence === null || answer.sequence === sequence);
  return (
    <span className="rfnb-Rows">
      <button
        className="rfnb-Link"
        type="button"
        aria-expanded={isShown}
        title={words.__('The rows of all steps, as a matrix')}
        onClick={() => void actions.toggleRows(name)}
      >
        {isShown ? '▾' : '▸'} {words.__('All steps')}
      </button>
      {aside?.error && <span className="rfnb-Watch-error">{aside.error}</span>}
      {isShown && <Heads rows={answer} step={state.step?.step ?? null} />}
    </span>
  );
}

/** The matrix of one head, which can be chosen. */
function Heads({ rows, step }: { rows: RowsView; step: number | null }): JSX.Element {
  const words = useWords();
  const place = React.useRef<HTMLDivElement>(null);
  const matrix = React.useRef<Matrix | null>(null);
  const [head, choose] = React.useState(0);
  const count = rows.pictures.length;
  const chosen = Math.min(head, count - 1);
  React.useEffect(() => {
    const made = new Matrix(rows.scripts, words);
    matrix.current = made;
    place.current?.replaceChildren(made.element);
    return () => made.element.remove();
  }, [rows, words]);
  React.useEffect(() => {
    const { scripts, pictures } = rows;
    const made = matrix.current;
    let isOver = false;
    if (!pictures[chosen].startsWith('data:image/')) {
      return;
    }
    void readPixels(pictures[chosen], coloursOf(scripts.colours), scripts.special).then(pixels => {
      if (!isOver) {
        const pool = count > 1 ? scripts.head_pool : scripts.pool;
        const [down, across] = scripts.shape.map((size, axis) => Math.ceil(size / pool[axis]));
        made?.show({ facts: scripts.heads[chosen], pixels, pool, rows: down, cols: across, path: [] });
      }
    });
    return () => {
      isOver = true;
    };
  }, [rows, words, chosen, count]);
  React.useEffect(() => matrix.current?.markStep(step), [rows, words, step]);
  return (
    <>
      {count > 1 && (
        <span className="rfnb-Rows-heads" role="group" aria-label={words.__('Rows of a step')}>
          {rows.pictures.map((_, i) => (
            <button key={i} className="rfnb-Link" type="button" aria-pressed={i === chosen} onClick={() => choose(i)}>
              {i}
            </button>
          ))}
        </span>
      )}
      <div ref={place} />
    </>
  );
}
