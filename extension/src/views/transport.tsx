import * as React from 'react';

import type { StepperState } from '../stepper';
import { useWords } from '../words';
import { Icon } from './icons';

/** Where the slider and the buttons ask to go. */
export interface TransportProps {
  state: StepperState;
  onGoto: (step: number) => void;
  onFirst: () => void;
  onPrevious: () => void;
  onNext: () => void;
  onLast: () => void;
}

/** ⏮ ◀ ▶ ⏭, the slider with a mark where each sequence ends, and where we are. */
export function Transport(props: TransportProps): JSX.Element {
  const words = useWords();
  const { run, step, target, gone } = props.state;
  const at = target ?? step?.step ?? 0;
  const last = run.steps - 1;
  const still = gone || run.steps === 0;
  const button = (name: 'first' | 'previous' | 'next' | 'last', label: string, off: boolean, act: () => void) => (
    <button
      className="rfnb-Transport-button"
      type="button"
      data-step={name}
      title={label}
      aria-label={label}
      aria-disabled={off || still}
      onClick={act}
    >
      <Icon name={name} />
    </button>
  );
  return (
    <div className="rfnb-Transport" role="group" aria-label={words.__('Steps of the loop')}>
      <div className="rfnb-Transport-buttons">
        {button('first', words.__('First step (Home)'), at <= 0, props.onFirst)}
        {button('previous', words.__('Previous step (←)'), at <= 0, props.onPrevious)}
        {button('next', words.__('Next step (→)'), at >= last, props.onNext)}
        {button('last', words.__('Last step (End)'), at >= last, props.onLast)}
      </div>
      <div className="rfnb-Transport-slider">
        <input
          type="range"
          min={0}
          max={Math.max(last, 0)}
          value={at}
          disabled={still}
          style={{ '--rfnb-at': last > 0 ? at / last : 0 } as React.CSSProperties}
          aria-label={words.__('Step')}
          aria-valuetext={words.__('step %1 of %2', at, run.steps)}
          onInput={event => props.onGoto(Number(event.currentTarget.value))}
          onChange={ignore}
        />
        <EndMarks lengths={run.lengths} steps={run.steps} />
      </div>
      <Where state={props.state} />
    </div>
  );
}

/** React wants to hear of every change of a controlled input; `onInput` has told already. */
function ignore(): void {
  return;
}

function Where({ state }: { state: StepperState }): JSX.Element {
  const words = useWords();
  const { run, step, target } = state;
  if (run.steps === 0) {
    return <div className="rfnb-Transport-where">{words.__('no steps')}</div>;
  }
  const title = words.__('run[%1] in Python: steps count from 0', step?.step ?? 0);
  const away = target !== null && target !== step?.step;
  return (
    <div className="rfnb-Transport-where" aria-live="polite" title={title} data-waiting={away}>
      {words.__('step')} <b className="rfnb-Transport-step">{step ? step.step : '…'}</b> {words.__('of %1', run.steps)}
    </div>
  );
}

/** A tick under the slider behind the last step of each sequence that is shorter than the longest. */
function EndMarks({ lengths, steps }: { lengths: number[] | null; steps: number }): JSX.Element | null {
  const ends = [...new Set(lengths ?? [])].filter(length => length > 0 && length < steps);
  if (steps < 2 || ends.length === 0 || ends.length > 64) {
    return null;
  }
  return (
    <div className="rfnb-Transport-ends" aria-hidden="true">
      {ends.map(length => (
        <span key={length} style={{ left: `${(100 * (length - 1)) / (steps - 1)}%` }} />
      ))}
    </div>
  );
}
