import * as React from 'react';

import { formatBytes } from '../../numbers';
import type { StepperActions } from '../../stepper/actions';
import { STEP_KEYS } from '../../stepper/commands';
import type { StepperState } from '../../stepper/stepper_state';
import { Body } from '../step/body';
import { States } from '../step/states';
import { Watches } from '../step/watches';
import { useKeptFocus } from '../focus';
import { Chips } from '../value/chips';
import { useWords } from '../words';
import { Beam } from './beam';
import { Comparison } from './comparison';
import { Find } from './find';
import { Gradients } from './gradients';
import { Check, Marks } from './marks';
import { Origin } from './origin';
import { Others } from './others';
import { Sequences } from './sequences';
import { Transport } from './transport';

/** The stepper of one run, in the panel and in the output of a cell. */
export function StepperView({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element {
  const words = useWords();
  const { run, step } = state;
  const focus = useKeptFocus(stepper => stepper);
  const flags = run.flags.filter(flag => run.failure === null || !flag.startsWith('failed')); // which has its own box
  return (
    <div
      className="rfnb-Stepper"
      role="region"
      aria-label={words.__('Steps of %1', run.name)}
      aria-busy={state.waiting !== null}
      data-gone={state.gone}
      tabIndex={0}
      onKeyDown={event => onKey(event, actions, state.line)}
      {...focus}
    >
      <header className="rfnb-Stepper-head">
        <span className="rfnb-Stepper-name">{run.name}</span>
        <span className="rfnb-place">{run.place}</span>
        <Chips flags={flags} alarms={flags} />
        {step && <Check step={step} />}
      </header>
      <Origin state={state} actions={actions} />
      <Others state={state} actions={actions} />
      <Transport
        state={state}
        onGoto={actions.goto}
        onFirst={actions.first}
        onPrevious={actions.previous}
        onNext={actions.next}
        onLast={actions.last}
        onTrain={actions.train}
      />
      {!state.still && <Find state={state} actions={actions} />}
      {!state.still && <Sequences run={run} step={step} onChoose={actions.choose} />}
      <Failure state={state} actions={actions} />
      <Note state={state} actions={actions} />
      <Parts state={state} actions={actions} />
      {step && <Marks run={run} step={step} />}
      <footer className="rfnb-Stepper-foot">
        <span>{words.__('steps along %1', run.axis)}</span>
        <span>{words.__('recording: %1', formatBytes(run.bytes))}</span>
      </footer>
    </div>
  );
}

/** The parts that depend on the step; not drawn again while the next step is loading. */
const Parts = React.memo(
  function Parts({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element {
    const { run, step } = state;
    return (
      <div className="rfnb-Stepper-parts">
        {step?.beam && <Beam state={state} beam={step.beam} actions={actions} />}
        <div className="rfnb-Stepper-side">
          <Comparison state={state} actions={actions} />
          {step && <States state={state} step={step} actions={actions} />}
          {step && !state.still && <Watches state={state} actions={actions} />}
          {step && !state.still && run.states.length > 0 && !run.is_plain && (
            <Gradients state={state} actions={actions} />
          )}
        </div>
        <Body state={state} actions={actions} />
      </div>
    );
  },
  (before, after) => before.actions === after.actions && isSameStep(before.state, after.state)
);

function isSameStep(before: StepperState, after: StepperState): boolean {
  const shown = ({ target, trainingTarget, waiting, find, ...rest }: StepperState) => rest;
  const [a, b] = [shown(before), shown(after)];
  return (Object.keys(a) as (keyof typeof a)[]).every(key => a[key] === b[key]);
}

/** Why the step that is shown is not up to date. */
function Note({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const openNewest = (event: React.MouseEvent<HTMLElement>) => {
    event.currentTarget.closest<HTMLElement>('.rfnb-Stepper')?.focus(); // also where a click gives a button no focus
    actions.openNewest();
  };
  if (state.dropped) {
    return (
      <div className="rfnb-Note" role="status">
        {words.__('This run was dropped for newer ones.')}{' '}
        <button className="rfnb-Link" type="button" onClick={openNewest}>
          {words.__('Show the newest run')}
        </button>
      </div>
    );
  }
  if (state.gone) {
    return (
      <div className="rfnb-Note">
        {words.__('The kernel no longer has this run. The last step that was loaded is shown.')}
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
      {words.__('The kernel is running a cell. Step %1 will be shown when the cell has finished.', state.target ?? 0)}
    </div>
  );
}

/** Where the run failed, and the error; a click goes there. */
function Failure({ state, actions }: { state: StepperState; actions: StepperActions }): JSX.Element | null {
  const words = useWords();
  const { failure, raised_in: cell } = state.run;
  if (failure === null) {
    return null;
  }
  const go = () => {
    actions.goto(failure.step);
    if (failure.line !== null) {
      actions.look(failure.line);
    }
  };
  return (
    <div className="rfnb-Note rfnb-Failure" data-kind="error">
      <button className="rfnb-Link" type="button" onClick={go}>
        {cell !== undefined
          ? words.__('raised in line %1', failure.line ?? 0)
          : failure.line === null
            ? words.__('failed in step %1', failure.step)
            : words.__('failed in step %1, line %2', failure.step, failure.line)}
      </button>
      <span>{failure.error}</span>
      {cell !== undefined && (
        <div className="rfnb-Failure-unrecorded">
          <span>
            {words.__('The loop was not recorded. These are the variables of its last iteration, from the traceback.')}
          </span>
          {cell !== '' && state.canPause && (
            <button className="rfnb-Button" type="button" onClick={actions.recordAgain}>
              {words.__('Record and run again')}
            </button>
          )}
        </div>
      )}
    </div>
  );
}

/** Runs the action of a key. Keys with Ctrl and the like, and keys in text fields and lists of choices, are left alone. */
export function onKey(event: React.KeyboardEvent, actions: StepperActions, line: number | null): void {
  const found = STEP_KEYS.find(({ key }) => key === event.key);
  const withShift = event.shiftKey && !/^[A-Z]$/.test(event.key);
  const isTyped = /^[[\]]$/.test(event.key) && event.altKey; // many keyboards have brackets only with AltGr or ⌥
  const withModifier = (!isTyped && (event.ctrlKey || event.altKey)) || event.metaKey || withShift;
  if (found === undefined || withModifier || takesKey(event.target as HTMLElement, event.key)) {
    return;
  }
  event.preventDefault();
  event.stopPropagation();
  found.act(actions, line);
}

/** Lists of choices and text fields use keys themselves; the slider of the steps leaves them to the stepper. */
function takesKey(element: HTMLElement, key: string): boolean {
  if (element.matches('.rfnb-Training input')) {
    return /^(Arrow|Home$|End$)/.test(key);
  }
  const isField = element.tagName === 'INPUT' && (element as HTMLInputElement).type !== 'range';
  return isField || element.tagName === 'SELECT';
}
