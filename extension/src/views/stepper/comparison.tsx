import * as React from 'react';

import type { ComparisonView } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import type { StepperState } from '../../stepper/stepper_state';
import { Icon } from '../icons';
import { useWords } from '../words';

const SHOWN = 6;

/** The differences from another run; a click goes to the step and line where a value first differs. */
export function Comparison({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const aside = state.asides.compare;
  if (!aside) {
    return null;
  }
  return (
    <section className="rfnb-Comparison" aria-label={words.__('Comparison')}>
      <h3>
        {words.__('Comparison')}{' '}
        {aside.answer && <span className="rfnb-place">{words.__('with run %1', `#${aside.answer.other}`)}</span>}
        <button
          className="rfnb-Small-button"
          type="button"
          aria-label={words.__('Close the comparison')}
          onClick={() => actions.dismiss('compare')}
        >
          <Icon name="forget" />
        </button>
      </h3>
      {aside.waiting && <p className="rfnb-quiet">{words.__('Comparing …')}</p>}
      {aside.error && (
        <div className="rfnb-Watch-error" role="alert">
          {aside.error}
        </div>
      )}
      {aside.answer && <Differences view={aside.answer} actions={actions} />}
    </section>
  );
}

function Differences({ view, actions }: { view: ComparisonView; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const [all, setAll] = React.useState(false);
  const shown = all ? view.differences : view.differences.slice(0, SHOWN);
  const go = (step: number | null, line: number | null) => {
    if (step !== null) {
      actions.goto(step);
    }
    if (line !== null) {
      actions.look(line);
    }
  };
  return (
    <>
      <p className="rfnb-Comparison-text">{view.text}</p>
      {shown.length > 0 && (
        <p className="rfnb-quiet">{words.__('The first number is from this run. Click a row to go there.')}</p>
      )}
      {view.notes.map((note, i) => (
        <p key={i} className="rfnb-quiet">
          {note}
        </p>
      ))}
      <ol>
        {shown.map((difference, i) => (
          <li key={i}>
            <button type="button" data-step={difference.step} onClick={() => go(difference.step, difference.line)}>
              <code>{difference.name}</code>
              {difference.step !== null && <span className="rfnb-quiet">{words.__('step %1', difference.step)}</span>}
              <span className="rfnb-Comparison-by">{difference.text}</span>
            </button>
          </li>
        ))}
      </ol>
      {shown.length < view.differences.length && (
        <button className="rfnb-Button" type="button" onClick={() => setAll(true)}>
          {words.__('%1 more', view.differences.length - shown.length)}
        </button>
      )}
    </>
  );
}

/** The names of values that differ at this step or earlier. */
export function differing(state: StepperState): ReadonlySet<string> {
  const at = state.step?.step ?? 0;
  const found = state.asides.compare?.answer?.differences ?? [];
  const there = found.filter(({ step }) => step !== null && step <= at);
  return new Set(there.map(({ name, value }) => value ?? name));
}
