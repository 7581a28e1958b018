import * as React from 'react';

import type { StepperActions } from '../../stepper/actions';
import type { StepperState } from '../../stepper/stepper_state';
import { useWords } from '../words';

/** Other functions with loops that ran and were not recorded; a click records those of their file from now on. */
export function Others({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const aside = state.asides.record_too;
  const others = aside?.answer ?? state.run.also ?? [];
  if (others.length === 0) {
    return null;
  }
  return (
    <details className="rfnb-Others">
      <summary>{words._n('%1 other function ran loops', '%1 other functions ran loops', others.length)}</summary>
      <ul>
        {others.map(({ place, added }) => (
          <li key={place}>
            <code>{place}</code>{' '}
            {added ? (
              <span className="rfnb-quiet">{words.__('recorded from the next run on')}</span>
            ) : (
              !state.still && (
                <button className="rfnb-Link" type="button" onClick={() => actions.ask('record_too', { place })}>
                  {words.__('Record too')}
                </button>
              )
            )}
          </li>
        ))}
      </ul>
      {aside?.error && <span className="rfnb-Watch-error">{aside.error}</span>}
    </details>
  );
}
