import * as React from 'react';

import { formatNumber } from '../../numbers';
import type { RunView, StateRow, StepView } from '../../schema';
import type { StepperActions } from '../../stepper/actions';
import type { StepperState } from '../../stepper/stepper_state';
import { differing } from '../stepper/comparison';
import { Chips } from '../value/chips';
import { Dims } from '../value/dims';
import { Sparkline } from '../value/sparkline';
import { Stats, Value } from '../value/value';
import { useWords } from '../words';
import { StateEdit } from './edit';

/** The loop states before and after the step, how much each changed, and its course over the whole run. */
export function States(props: { state: StepperState; step: StepView; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const { state, step, actions } = props;
  const { run } = state;
  if (step.states.length === 0) {
    return null;
  }
  const other = differing(state);
  const held = isHeld(state) ? state.held : null;
  const locked = held ? held.locked : step.locked;
  const at = run.steps > 1 ? step.step / (run.steps - 1) : 0;
  return (
    <section className="rfnb-States" aria-label={words.__('States')}>
      <h3>{words.__('States')}</h3>
      <div role="table" aria-label={words.__('States before and after this step')}>
        {step.states.map(row => (
          <State
            key={row.name}
            row={row}
            at={at}
            held={held !== null}
            differs={other.has(row.name)}
            line={lineOf(row.name, step, run)}
            look={actions.look}
          >
            {!state.gone && !state.still && (
              <StateEdit
                row={row}
                held={held !== null}
                locked={locked?.[row.name]}
                aside={held ? state.asides.edit : state.asides.fork}
                onEdit={text => (held ? actions.edit : actions.fork)({ [row.name]: text })}
              />
            )}
          </State>
        ))}
      </div>
    </section>
  );
}

/** Whether the step is the one at which the loop is paused: an edit then changes the running loop. */
function isHeld({ held, run, step }: StepperState): boolean {
  return held !== null && held.can_edit && held.run === run.run && held.step === step?.step;
}

function State(props: {
  row: StateRow;
  at: number;
  /** Whether the loop is paused at this step, so that the state after it can be edited. */
  held: boolean;
  /** Whether the state differs in the run that is compared. */
  differs: boolean;
  /** The line that computes it; null if it is not one of the body. */
  line: number | null;
  look: (line: number) => void;
  children: React.ReactNode;
}): JSX.Element {
  const words = useWords();
  const { row, at, held, differs, line, look } = props;
  return (
    <div className="rfnb-State" role="row" data-state={row.name} data-differs={differs}>
      <div className="rfnb-State-head">
        <span className="rfnb-State-name" role="rowheader">
          {line === null ? (
            row.name
          ) : (
            <button
              className="rfnb-State-look"
              type="button"
              title={words.__('Look at line %1', line)}
              onClick={() => look(line)}
            >
              {row.name}
            </button>
          )}
        </span>
        <span role="cell">
          <Dims dims={row.after.dims} />
        </span>
        <Chips flags={[...new Set([...row.flags, ...row.after.flags])]} alarms={row.after.alarms} />
        <span role="cell" className="rfnb-State-spark">
          <Sparkline values={row.spark} at={at} />
        </span>
      </div>
      <div className="rfnb-State-values">
        <span role="cell" className="rfnb-State-before" aria-label={words.__('before: %1', row.before.text)}>
          <Value value={row.before} />
          {!held && props.children}
        </span>
        <span role="cell" className="rfnb-State-after" aria-label={words.__('after: %1', row.after.text)}>
          <span className="rfnb-State-arrow" aria-hidden="true">
            →
          </span>
          <Value value={row.after} />
          {held && props.children}
        </span>
      </div>
      <div className="rfnb-State-facts">
        {row.change !== null && (
          <span role="cell" className="rfnb-State-change" title={words.__('Largest absolute change in this step')}>
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

/** The line of the body where a state gets its value. A part of a layer's state, such as `lstm.c`, has that of `lstm`. */
function lineOf(name: string, step: StepView, run: RunView): number | null {
  const lines = new Map(step.values.map(item => [item.value.name, item.line]));
  const line = lines.get(name) ?? lines.get(name.slice(0, name.lastIndexOf('.'))) ?? null;
  return line !== null && line >= run.first_line && line < run.first_line + run.body.length ? line : null;
}
