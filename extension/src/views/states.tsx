import * as React from 'react';

import type { RunView, StateRow, StepView } from '../schema';
import { useWords } from '../words';
import { Chips } from './chips';
import { Dims } from './dims';
import { formatNumber } from './numbers';
import { Sparkline } from './sparkline';
import { Stats, Value } from './value';

/** The carried states: before and after the step, how much each moved, and how it went over the whole run. */
export function States({ run, step }: { run: RunView; step: StepView }): JSX.Element | null {
  const words = useWords();
  if (step.states.length === 0) {
    return null;
  }
  const at = run.steps > 1 ? step.step / (run.steps - 1) : 0;
  return (
    <section className="rfnb-States" aria-label={words.__('States')}>
      <h3>{words.__('States')}</h3>
      <div role="table" aria-label={words.__('States before and after this step')}>
        {step.states.map(row => (
          <State key={row.name} row={row} at={at} />
        ))}
      </div>
    </section>
  );
}

function State({ row, at }: { row: StateRow; at: number }): JSX.Element {
  const words = useWords();
  return (
    <div className="rfnb-State" role="row" data-state={row.name}>
      <div className="rfnb-State-head">
        <span className="rfnb-State-name" role="rowheader">
          {row.name}
        </span>
        <span role="cell">
          <Dims dims={row.after.dims} />
        </span>
        <Chips flags={[...new Set([...row.flags, ...row.after.flags])]} />
        <span role="cell" className="rfnb-State-spark">
          <Sparkline values={row.spark} at={at} />
        </span>
      </div>
      <div className="rfnb-State-values">
        <span role="cell" className="rfnb-State-before" aria-label={words.__('before: %1', row.before.text)}>
          <Value value={row.before} />
        </span>
        <span role="cell" className="rfnb-State-after" aria-label={words.__('after: %1', row.after.text)}>
          <span className="rfnb-State-arrow" aria-hidden="true">
            →
          </span>
          <Value value={row.after} />
        </span>
      </div>
      <div className="rfnb-State-facts">
        {row.change !== null && (
          <span role="cell" className="rfnb-State-change" title={words.__('largest absolute change in this step')}>
            Δ {formatNumber(row.change)}
          </span>
        )}
        <span role="cell">
          <Stats stats={row.after.stats} />
        </span>
      </div>
    </div>
  );
}
