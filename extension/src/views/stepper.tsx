import * as React from 'react';

import type { StepperState } from '../stepper';
import { useWords } from '../words';
import { Body } from './body';
import { Chips } from './chips';
import { Icon } from './icons';
import { formatBytes } from './numbers';
import { Sequences } from './sequences';
import { States } from './states';
import { Transport } from './transport';

/** What a stepper is asked to do. */
export interface StepperActions {
  goto: (step: number) => void;
  first: () => void;
  previous: () => void;
  next: () => void;
  last: () => void;
  choose: (sequence: number | null) => void;
  look: (line: number) => void;
  lookOn: (direction: 1 | -1) => void;
}

/** One run, stepped: the same in the panel and in a cell's output. */
export function StepperView({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { run, step } = state;
  return (
    <div
      className="rfnb-Stepper"
      role="region"
      aria-label={words.__('Steps of %1', run.name)}
      aria-busy={state.waiting !== null}
      data-gone={state.gone}
      tabIndex={0}
      onKeyDown={event => onKey(event, actions)}
    >
      <header className="rfnb-Stepper-head">
        <span className="rfnb-Stepper-name">{run.name}</span>
        <span className="rfnb-place">{run.place}</span>
        <Chips flags={run.flags} />
        {step && <Check check={step.check} />}
      </header>
      <Transport
        state={state}
        onGoto={actions.goto}
        onFirst={actions.first}
        onPrevious={actions.previous}
        onNext={actions.next}
        onLast={actions.last}
      />
      <Sequences run={run} step={step} onChoose={actions.choose} />
      <Note state={state} />
      <div className="rfnb-Stepper-parts">
        {step && <States run={run} step={step} />}
        <Body run={run} step={step} line={state.line} onLine={actions.look} />
      </div>
      <footer className="rfnb-Stepper-foot">
        <span>{words.__('steps along %1', run.axis)}</span>
        <span>{words.__('recording: %1', formatBytes(run.bytes))}</span>
      </footer>
    </div>
  );
}

/** What keeps the picture from being current. */
function Note({ state }: { state: StepperState }): JSX.Element | null {
  const words = useWords();
  if (state.gone) {
    return (
      <div className="rfnb-Note">
        {words.__('The kernel no longer has this run. This is what was last seen of it.')}
      </div>
    );
  }
  if (state.error !== null) {
    return (
      <div className="rfnb-Note" data-kind="error" role="alert">
        {state.error}
      </div>
    );
  }
  return state.waiting !== 'busy' ? null : (
    <div className="rfnb-Note" role="status">
      {words.__('The kernel is running a cell: step %1 comes when the cell is done.', state.target ?? 0)}
    </div>
  );
}

/** Whether the replay came out as the run did. */
function Check({ check }: { check: string }): JSX.Element {
  const agrees = check.includes('agrees');
  return (
    <span className="rfnb-Check" data-agrees={agrees}>
      {agrees && <Icon name="check" />}
      {check}
    </span>
  );
}

/** ←/→ step, Home/End, ↑/↓ another line; keys with Ctrl and the like, and those of a list of choices, are left alone. */
export function onKey(event: React.KeyboardEvent, actions: StepperActions): void {
  const keys: { [key: string]: () => void } = {
    ArrowLeft: actions.previous,
    ArrowRight: actions.next,
    Home: actions.first,
    End: actions.last,
    ArrowUp: () => actions.lookOn(-1),
    ArrowDown: () => actions.lookOn(1)
  };
  const act = keys[event.key];
  const isChoice = (event.target as HTMLElement).tagName === 'SELECT';
  if (act === undefined || isChoice || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
  act();
}
