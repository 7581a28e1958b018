import * as React from 'react';

import type { StepperActions } from '../../stepper/actions';
import type { StepperState } from '../../stepper/stepper_state';
import { useWords } from '../words';

/** Links to the runs that contain this one, and to the run that it was forked from. */
export function Origin({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const { run, trail } = state;
  if (trail.length === 0 && run.parent === null) {
    return null;
  }
  return (
    <nav className="rfnb-Origin" aria-label={words.__('Where this run comes from')}>
      {trail.map((crumb, depth) => (
        <React.Fragment key={crumb.run}>
          <button className="rfnb-Link" type="button" onClick={() => actions.leaveTo(depth)}>
            {words.__('%1, step %2', crumb.name, crumb.step)}
          </button>
          <span aria-hidden="true">›</span>
        </React.Fragment>
      ))}
      {trail.length > 0 && <span aria-current="page">{run.name}</span>}
      {run.parent !== null && state.still && (
        <span>{words.__('fork of #%1 at step %2', run.parent, run.forked_at ?? 0)}</span>
      )}
      {run.parent !== null && !state.still && (
        <button className="rfnb-Link" type="button" onClick={actions.openParent}>
          {words.__('fork of #%1 at step %2', run.parent, run.forked_at ?? 0)}
        </button>
      )}
    </nav>
  );
}
